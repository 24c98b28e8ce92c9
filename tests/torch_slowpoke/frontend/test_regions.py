"""Regions against brute force: perturb one input element and see which outputs change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn
from torchvision.ops import DeformConv2d

from slowpoke_mapping.graph import GRAPH_INPUT, OperatorGraph
from torch_slowpoke.frontend.quiet import quiet
from torch_slowpoke.frontend.reading import read_program
from torch_slowpoke.frontend.view import View

torch.set_num_threads(1)


class Function(nn.Module):
    """A module that is one function, with whatever modules it uses."""

    def __init__(self, function: Callable[..., torch.Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def needed_inputs(
    graph: OperatorGraph, producer: int, region: NDArray[np.int64], scale_b: int
) -> dict[str, list[NDArray[np.int64]]]:
    """The regions of every graph input that a region of one operator's output needs."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    todo = [(producer, region)]
    seen: set[tuple[int, bytes]] = set()
    while todo:
        index, wanted = todo.pop()
        if (index, wanted.tobytes()) in seen:
            continue
        seen.add((index, wanted.tobytes()))
        for edge in graph[index].inputs:
            part = edge.needed(wanted, scale_b)
            if (part[:, 0] >= part[:, 1]).any():
                continue
            if edge.producer == GRAPH_INPUT:
                found.setdefault(edge.name, []).append(part)
            else:
                todo.append((edge.producer, part))
    return found


def inside(positions: NDArray[np.int64], regions: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
    result = np.zeros(len(positions), dtype=bool)
    for region in regions:
        result |= ((positions >= region[:, 0]) & (positions < region[:, 1])).all(axis=1)
    return result


def dependence(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], which: int
) -> NDArray[np.bool_]:
    """(inputs, outputs): whether changing that input element changes that output element."""
    with torch.no_grad():
        base = module(*inputs).flatten()
        flat = inputs[which].flatten()
        result = np.zeros((flat.numel(), base.numel()), dtype=bool)
        for i in range(flat.numel()):
            for change in (1000.0, -1000.0, 0.37):
                changed = flat.clone()
                changed[i] += change
                given_ = list(inputs)
                given_[which] = changed.view_as(inputs[which])
                result[i] |= (module(*given_).flatten() != base).numpy()
    return result


def check(
    module: nn.Module,
    *inputs: torch.Tensor,
    batch: int | None = None,
    tight: bool = False,
    seed: int = 0,
) -> OperatorGraph:
    """Every input element that matters to a region of the output is in the region declared.

    Args:
        module: Computes one tensor from `inputs`.
        inputs: Float64 tensors, a batch of 1 if `batch` is given.
        batch: Check with this many samples, regions scaled from the graph of one.
        tight: Also check that single elements need no more than the hull of what matters.
        seed: Of the regions tried.
    """
    module = module.double().eval()
    rng = np.random.default_rng(seed)
    with quiet():
        reading = read_program(torch.export.export(module, inputs, strict=False), "test")
        scale = batch or 1
        if batch:
            generator = torch.Generator().manual_seed(seed)
            inputs = tuple(
                torch.randn((batch * x.shape[0], *x.shape[1:]), generator=generator).double()
                for x in inputs
            )
            placed = read_program(torch.export.export(module, inputs, strict=False), "test")
        else:
            placed = reading
    out = placed.outputs[0]
    assert isinstance(out, View)
    graph = reading.graph
    views = [v for v in placed.inputs if isinstance(v, View)]
    assert len(views) == len(inputs)
    where_out = out.positions()
    box = np.array(graph[out.producer].box) * [scale, 1, 1, 1]
    assert tuple(box) == placed.graph[out.producer].box
    singles = [np.stack([p, p + 1], axis=1) for p in where_out]
    if len(singles) > 40:
        singles = [singles[i] for i in rng.choice(len(singles), 40, replace=False)]
    ranges = []
    for _ in range(20):
        ends = np.sort(rng.integers(0, box + 1, size=(2, 4)), axis=0).T
        ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
        ranges.append(np.minimum(ends, box[:, None]))
    for which, view in enumerate(views):
        depends = dependence(module, inputs, which)
        where_in = view.positions()
        for region in [*singles, *ranges]:
            if (region[:, 0] >= region[:, 1]).any():
                continue
            declared = needed_inputs(graph, out.producer, region.astype(np.int64), scale)
            covered = inside(where_in, declared.get(view.name, []))
            wanted = depends[:, inside(where_out, [region])].any(axis=1)
            missing = wanted & ~covered
            assert not missing.any(), (
                f"output region {region.tolist()} needs {where_in[missing][:3].tolist()} of "
                f"{view.name}, outside {[r.tolist() for r in declared.get(view.name, [])]}"
            )
        if tight:
            for region in singles:
                declared = needed_inputs(graph, out.producer, region.astype(np.int64), scale)
                wanted = depends[:, inside(where_out, [region])].any(axis=1)
                if not wanted.any():
                    continue
                hull = where_in[wanted]
                (only,) = declared[view.name]
                assert only.tolist() == list(
                    map(list, zip(hull.min(axis=0), hull.max(axis=0) + 1, strict=True))
                )
    return graph


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).double()


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.sampled_from([1, 2, 4]),
    size=st.tuples(st.integers(5, 8), st.integers(5, 8)),
)
def test_a_convolution_needs_its_halo(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    size: tuple[int, int],
) -> None:
    conv = nn.Conv2d(4, 4, kernel, stride, padding, dilation, groups)
    check(conv, randn(1, 4, *size))


def test_a_convolution_needs_exactly_its_halo() -> None:
    check(nn.Conv2d(2, 4, 3, stride=2, padding=1), randn(1, 2, 7, 8), tight=True)
    check(nn.Conv2d(4, 8, 3, dilation=2, groups=2), randn(1, 4, 7, 6), tight=True)


@settings(max_examples=20, deadline=None)
@given(
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
)
def test_a_transposed_convolution_needs_its_halo(
    kernel: int, stride: int, padding: int, dilation: int, groups: int
) -> None:
    padding = min(padding, dilation * (kernel - 1))
    conv = nn.ConvTranspose2d(
        2, 4, kernel, stride, padding, groups=groups, dilation=dilation,
        output_padding=min(stride, dilation) - 1 if stride > 1 or dilation > 1 else 0,
    )  # fmt: skip
    check(conv, randn(1, 2, 5, 4))


@settings(max_examples=20, deadline=None)
@given(
    kind=st.sampled_from(["max", "avg"]),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    ceil=st.booleans(),
    size=st.integers(5, 8),
)
def test_pooling_needs_its_window(
    kind: str, kernel: int, stride: int, ceil: bool, size: int
) -> None:
    pool = nn.MaxPool2d if kind == "max" else nn.AvgPool2d
    check(pool(kernel, stride, kernel // 2, ceil_mode=ceil), randn(1, 2, size, 6))


@settings(max_examples=15, deadline=None)
@given(inputs=st.integers(3, 9), outputs=st.integers(1, 9))
def test_adaptive_pooling_needs_its_window(inputs: int, outputs: int) -> None:
    check(nn.AdaptiveAvgPool2d((outputs, 2)), randn(1, 2, inputs, 4))


RESIZES: list[dict[str, Any]] = [
    dict(size=(7, 3), mode="nearest"),
    dict(size=(7, 9), mode="nearest-exact"),
    dict(scale_factor=2, mode="bilinear"),
    dict(size=(3, 4), mode="bilinear"),
    dict(size=(11, 7), mode="bilinear", align_corners=True),
    dict(size=(9, 4), mode="bicubic"),
    dict(size=(3, 3), mode="bilinear", antialias=True),
    dict(size=(2, 9), mode="bicubic", antialias=True),
    dict(scale_factor=1.7, mode="bilinear"),
    dict(scale_factor=0.6, mode="nearest"),
    dict(size=(1, 12), mode="bilinear", align_corners=True),
]


@pytest.mark.parametrize("options", RESIZES, ids=lambda o: "-".join(map(str, o.values())))
def test_interpolation_needs_its_neighbours(options: dict[str, Any]) -> None:
    check(Function(lambda m, x: F.interpolate(x, **options)), randn(1, 2, 5, 6))


def heads(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], n, -1).transpose(1, 2)


def self_attention(m: Any, x: torch.Tensor) -> Any:
    q, k, v = m.qkv(x).chunk(3, dim=-1)
    y = F.scaled_dot_product_attention(heads(q, 2), heads(k, 2), heads(v, 2))
    return y.transpose(1, 2).reshape(x.shape)


def grouped_attention(m: Any, x: torch.Tensor) -> Any:
    q, k, v = heads(m.q(x), 4), heads(m.k(x), 2), heads(m.v(x), 2)
    k = k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape)
    v = v[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def native_grouped_attention(m: Any, x: torch.Tensor) -> Any:
    q, k, v = heads(m.q(x), 4), heads(m.k(x), 2), heads(m.v(x), 2)
    y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def written_attention(m: Any, x: torch.Tensor) -> Any:
    b, s, e = x.shape
    qkv = m.qkv(x).reshape(b, s, 3, 2, e // 2).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    weights = (q @ k.transpose(-2, -1) * 0.5).softmax(dim=-1)
    return m.out((weights @ v).transpose(1, 2).reshape(b, s, e))


def rotary(m: Any, x: torch.Tensor) -> Any:
    q = heads(m.q(x), 2)
    half = q.shape[-1] // 2
    turned = torch.cat((-q[..., half:], q[..., :half]), dim=-1)
    return (q * 0.3 + turned * 0.7).transpose(1, 2).flatten(2)


def windows(m: Any, x: torch.Tensor) -> Any:
    b, h, w, c = x.shape
    y = x.view(b, h // 2, 2, w // 3, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 6, c)
    y = m.fc(y)
    y = y.view(b, h // 2, w // 3, 2, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
    return y


def shuffled(m: Any, x: torch.Tensor) -> Any:
    b, c, h, w = x.shape
    y = m.conv(x).view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, c, h, w)
    left, right = y.chunk(2, dim=1)
    return torch.cat((left, m.small(right)), dim=1)


def squeeze_excite(m: Any, x: torch.Tensor) -> Any:
    y = m.conv(x)
    return y * torch.sigmoid(m.fc(y.mean((2, 3), keepdim=True)))


def tokens_mixed(m: Any, x: torch.Tensor) -> Any:
    return x + m.mix(x.transpose(1, 2)).transpose(1, 2) + m.fc(x)


def patches(m: Any, x: torch.Tensor) -> Any:
    y = m.conv(x).flatten(2).transpose(1, 2)
    y = torch.cat([m.fc.bias.expand(x.shape[0], 1, -1), y], dim=1)
    return m.norm(m.fc(y))[:, 1:3]


def merging(m: Any, x: torch.Tensor) -> Any:
    parts = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
    return m.fc(torch.cat(parts, -1))


def padded(m: Any, x: torch.Tensor) -> Any:
    y = F.pad(x, (1, 0, 2, 1))
    return m.conv(y[:, :, 1:, :-1])


def sequence_first(m: Any, x: torch.Tensor) -> Any:
    y = x.transpose(0, 1)
    s, b, e = y.shape
    y = m.fc(y).reshape(s, b * 2, e // 2).transpose(0, 1)
    y = torch.bmm(y, y.transpose(1, 2)).softmax(-1) @ y
    return y.transpose(0, 1).reshape(s, b, e).transpose(0, 1)


def frames_as_batch(m: Any, x: torch.Tensor) -> Any:
    b, t, c, h, w = x.shape
    y = m.conv(x.reshape(b * t, c, h, w))
    return y.reshape(b, t, -1).mean(1)


def unfolded(m: Any, x: torch.Tensor) -> Any:
    return m.fc(x.unfold(2, 3, 2).flatten(2))


def hand_written_norm(m: Any, x: torch.Tensor) -> Any:
    y = m.f(x)
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
    return m.g(m.scale.weight[0] * y)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3, 5), (1, 4, 3)),
    "linear of images": (lambda: nn.Linear(3, 5), (1, 2, 4, 3)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, 2, 1), (1, 2, 9)),
    "conv3d": (lambda: nn.Conv3d(2, 2, (3, 2, 3), (2, 1, 2), (1, 0, 1)), (1, 2, 4, 3, 4)),
    "maxpool3d": (lambda: nn.MaxPool3d(2, 2), (1, 2, 4, 4, 4)),
    "conv bn relu": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()),
        (1, 2, 5, 5),
    ),
    "two convs": (
        lambda: nn.Sequential(nn.Conv2d(2, 2, 3, 2, 1), nn.GELU(), nn.Conv2d(2, 2, 3, 1, 1)),
        (1, 2, 8, 7),
    ),
    "hand-written norm": (
        lambda: Function(
            hand_written_norm, f=nn.Linear(3, 4), g=nn.Linear(4, 2), scale=nn.Linear(4, 1)
        ),
        (1, 4, 3),
    ),
    "layer norm": (lambda: nn.LayerNorm(4), (1, 3, 4)),
    "layer norm of two": (lambda: nn.LayerNorm([3, 4]), (1, 2, 3, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (1, 4, 2, 3)),
    "one group": (lambda: nn.GroupNorm(1, 4), (1, 4, 2, 3)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (1, 3, 3, 2)),
    "rms norm": (lambda: nn.RMSNorm(4), (1, 3, 4)),
    "batch norm": (lambda: nn.BatchNorm2d(3), (1, 3, 2, 2)),
    "softmax": (lambda: nn.Softmax(1), (1, 4, 3)),
    "log softmax": (lambda: nn.LogSoftmax(-1), (1, 2, 3, 4)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (1, 8, 2, 3)),
    "pixel unshuffle": (lambda: nn.PixelUnshuffle(2), (1, 2, 4, 6)),
    "channel shuffle": (lambda: nn.ChannelShuffle(2), (1, 4, 2, 2)),
    "reflection": (lambda: nn.ReflectionPad2d((1, 2, 0, 1)), (1, 2, 4, 4)),
    "replication": (lambda: nn.ReplicationPad2d(1), (1, 2, 3, 3)),
    "zero pad": (
        lambda: nn.Sequential(nn.ZeroPad2d((1, 2, 0, 3)), nn.Conv2d(2, 2, 3)),
        (1, 2, 4, 4),
    ),
    "lstm": (
        lambda: Function(lambda m, x: m.rnn(x)[0], rnn=nn.LSTM(3, 4, 2, batch_first=True)),
        (1, 4, 3),
    ),
    "gru state": (
        lambda: Function(
            lambda m, x: m.rnn(x)[1][0], rnn=nn.GRU(3, 2, batch_first=True, bidirectional=True)
        ),
        (1, 3, 3),
    ),
    "multihead attention": (
        lambda: Function(
            lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(4, 2, batch_first=True)
        ),
        (1, 3, 4),
    ),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation="gelu"),
        (1, 3, 4),
    ),
    "self attention": (lambda: Function(self_attention, qkv=nn.Linear(4, 12)), (1, 3, 4)),
    "grouped attention": (
        lambda: Function(
            grouped_attention, q=nn.Linear(4, 8), k=nn.Linear(4, 4), v=nn.Linear(4, 4)
        ),
        (1, 3, 4),
    ),
    "native grouped attention": (
        lambda: Function(
            native_grouped_attention, q=nn.Linear(4, 8), k=nn.Linear(4, 4), v=nn.Linear(4, 4)
        ),
        (1, 3, 4),
    ),
    "written attention": (
        lambda: Function(written_attention, qkv=nn.Linear(4, 12), out=nn.Linear(4, 4)),
        (1, 3, 4),
    ),
    "rotary": (lambda: Function(rotary, q=nn.Linear(3, 8)), (1, 3, 3)),
    "windows": (lambda: Function(windows, fc=nn.Linear(2, 2)), (1, 4, 6, 2)),
    "shuffled": (
        lambda: Function(shuffled, conv=nn.Conv2d(4, 4, 1), small=nn.Conv2d(2, 3, 3, 1, 1)),
        (1, 4, 4, 3),
    ),
    "squeeze and excite": (
        lambda: Function(squeeze_excite, conv=nn.Conv2d(2, 3, 1), fc=nn.Conv2d(3, 3, 1)),
        (1, 2, 3, 3),
    ),
    "mixer": (lambda: Function(tokens_mixed, mix=nn.Linear(5, 5), fc=nn.Linear(3, 3)), (1, 5, 3)),
    "patches": (
        lambda: Function(
            patches, conv=nn.Conv2d(2, 4, 2, 2), fc=nn.Linear(4, 4), norm=nn.LayerNorm(4)
        ),
        (1, 2, 4, 6),
    ),
    "merging": (lambda: Function(merging, fc=nn.Linear(8, 3)), (1, 4, 6, 2)),
    "padded": (lambda: Function(padded, conv=nn.Conv2d(2, 2, 3)), (1, 2, 5, 5)),
    "sequence first": (lambda: Function(sequence_first, fc=nn.Linear(4, 4)), (1, 3, 4)),
    "frames": (lambda: Function(frames_as_batch, conv=nn.Conv2d(2, 2, 3)), (1, 2, 2, 4, 4)),
    "unfolded": (lambda: Function(unfolded, fc=nn.Linear(9, 2)), (1, 3, 7)),
    "roll": (
        lambda: Function(lambda m, x: m.fc(torch.roll(x, (1, -1), (1, 2))), fc=nn.Linear(2, 2)),
        (1, 4, 3, 2),
    ),
    "flip": (lambda: Function(lambda m, x: m.c(x.flip(-1)), c=nn.Conv2d(2, 2, 3)), (1, 2, 4, 5)),
    "repeat": (
        lambda: Function(lambda m, x: m.c(x.repeat(1, 2, 1, 3)), c=nn.Conv2d(4, 2, 2)),
        (1, 2, 3, 2),
    ),
    "interleaved": (
        lambda: Function(lambda m, x: m.c(x.repeat_interleave(2, dim=2)), c=nn.Conv2d(2, 2, 2)),
        (1, 2, 3, 3),
    ),
    "stack": (
        lambda: Function(
            lambda m, x: torch.stack([m.f(x), x * 2], dim=2).flatten(1), f=nn.Linear(3, 3)
        ),
        (1, 4, 3),
    ),
    "cat along rows": (
        lambda: Function(lambda m, x: m.c(torch.cat([x, m.c(x)], 2)), c=nn.Conv2d(2, 2, 3, 1, 1)),
        (1, 2, 3, 3),
    ),
    "cat of flat parts": (
        lambda: Function(
            lambda m, x: m.f(torch.cat([x.flatten(1), m.g(x.flatten(1))], 1)),
            f=nn.Linear(14, 3),
            g=nn.Linear(12, 2),
        ),
        (1, 3, 2, 2),
    ),
    "sliced tokens": (
        lambda: Function(lambda m, x: m.f(x[:, 1:]) + x[:, :-1], f=nn.Linear(3, 3)),
        (1, 5, 3),
    ),
    "strided tokens": (
        lambda: Function(lambda m, x: m.f(x[:, 1::2]), f=nn.Linear(3, 3)),
        (1, 6, 3),
    ),
    "sum over channels": (
        lambda: Function(lambda m, x: m.c(x).sum(1, keepdim=True) + x, c=nn.Conv2d(2, 3, 3, 1, 1)),
        (1, 2, 4, 3),
    ),
    "maximum over rows": (
        lambda: Function(lambda m, x: m.c(x).amax(2), c=nn.Conv2d(2, 3, 1)),
        (1, 2, 4, 3),
    ),
    "running sum": (
        lambda: Function(lambda m, x: torch.cumsum(m.f(x), 1), f=nn.Linear(3, 2)),
        (1, 4, 3),
    ),
    "sorted": (
        lambda: Function(lambda m, x: torch.sort(m.f(x), 1)[0], f=nn.Linear(3, 2)),
        (1, 4, 3),
    ),
    "best": (
        lambda: Function(lambda m, x: torch.topk(m.f(x), 2, dim=-1)[0], f=nn.Linear(3, 4)),
        (1, 4, 3),
    ),
    "glu": (lambda: nn.Sequential(nn.Linear(3, 8), nn.GLU()), (1, 4, 3)),
    "gated": (
        lambda: Function(
            lambda m, x: F.silu(m.f(x)) * m.g(x), f=nn.Linear(3, 4), g=nn.Linear(3, 4)
        ),
        (1, 2, 3),
    ),
    "outer product": (
        lambda: Function(lambda m, x: m.f(x).unsqueeze(-1) * x.unsqueeze(-2), f=nn.Linear(3, 4)),
        (1, 2, 3),
    ),
    "einsum": (
        lambda: Function(lambda m, x: torch.einsum("bsk,btk->bst", m.f(x), x), f=nn.Linear(3, 3)),
        (1, 4, 3),
    ),
    "bilinear": (lambda: Function(lambda m, x: m.b(x, x * 2), b=nn.Bilinear(3, 3, 2)), (1, 4, 3)),
    "weights on the left": (
        lambda: Function(lambda m, x: m.f.weight @ x, f=nn.Linear(4, 5)),
        (1, 4, 3),
    ),
    "not divisible": (
        lambda: Function(lambda m, x: m.f(x.reshape(x.shape[0], 4, 6)), f=nn.Linear(6, 2)),
        (1, 3, 8),
    ),
    "written part": (lambda: Function(written_part, f=nn.Linear(3, 3)), (1, 4, 3)),
    "in-place view": (lambda: Function(changed_view, f=nn.Linear(3, 3)), (1, 4, 3)),
    "gathered": (
        lambda: Function(lambda m, x: m.f(x)[:, torch.tensor([2, 0, 3])], f=nn.Linear(3, 3)),
        (1, 4, 3),
    ),
    "selected rows": (
        lambda: Function(
            lambda m, x: torch.index_select(m.f(x), 1, torch.tensor([2, 0])), f=nn.Linear(3, 3)
        ),
        (1, 4, 3),
    ),
    "im2col": (
        lambda: Function(
            lambda m, x: m.f(F.unfold(x, 2, stride=2).transpose(1, 2)), f=nn.Linear(8, 3)
        ),
        (1, 2, 4, 4),
    ),
    "flattened": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 2)),
        (1, 2, 4, 4),
    ),
    "diagonal": (
        lambda: Function(lambda m, x: torch.diagonal(m.f(x), dim1=1, dim2=2), f=nn.Linear(3, 3)),
        (1, 3, 3),
    ),
    "local response": (lambda: nn.LocalResponseNorm(3), (1, 5, 2, 2)),
    "cosine": (
        lambda: Function(lambda m, x: F.normalize(m.f(x), dim=-1), f=nn.Linear(3, 4)),
        (1, 2, 3),
    ),
    "conv same even k": (
        lambda: nn.Conv2d(2, 2, (4, 3), padding="same", dilation=(1, 2)),
        (1, 2, 6, 7),
    ),
    "circular conv": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), (1, 2, 5, 5)),
    "negative pad": (
        lambda: Function(lambda m, x: m.c(F.pad(x, (-1, 2, 1, -2))), c=nn.Conv2d(2, 2, 2)),
        (1, 2, 6, 6),
    ),
    "pad then reshape": (
        lambda: Function(
            lambda m, x: m.f(
                F.pad(x, (0, 0, 1, 2))
                .reshape(x.shape[0], 2, 4, 3)
                .transpose(1, 2)
                .reshape(x.shape[0], 4, 6)
            ),
            f=nn.Linear(6, 2),
        ),
        (1, 5, 3),
    ),
    "lstm seq first": (
        lambda: Function(lambda m, x: m.r(x.transpose(0, 1))[0].transpose(0, 1), r=nn.LSTM(3, 4)),
        (1, 4, 3),
    ),
    "adaptive max": (lambda: nn.AdaptiveMaxPool2d((3, 2)), (1, 2, 7, 5)),
    "space to depth": (
        lambda: Function(
            lambda m, x: m.f(
                x.view(x.shape[0], 2, 3, 2, 2, 2)
                .permute(0, 2, 4, 1, 3, 5)
                .reshape(x.shape[0], 6, 8)
            ),
            f=nn.Linear(8, 2),
        ),
        (1, 2, 6, 4),
    ),
    "ellipsis stride": (
        lambda: Function(lambda m, x: m.f(x)[..., ::2] + x[..., 1:], f=nn.Linear(3, 4)),
        (1, 4, 3),
    ),
    "meshcat": (
        lambda: Function(
            lambda m, x: torch.cat([m.f(x), x[:, 1:], m.f(x)[:, :2]], 1)[:, 2:7].flatten(1),
            f=nn.Linear(3, 3),
        ),
        (1, 4, 3),
    ),
    "group on tokens": (
        lambda: Function(
            lambda m, x: nn.functional.group_norm(m.f(x).transpose(1, 2), 2).transpose(1, 2),
            f=nn.Linear(3, 4),
        ),
        (1, 4, 3),
    ),
    "expand mul": (
        lambda: Function(
            lambda m, x: (m.f(x)[:, None].expand(-1, 2, -1, -1).reshape(x.shape[0], 8, 3)) * 2,
            f=nn.Linear(3, 3),
        ),
        (1, 4, 3),
    ),
    "tile merge": (
        lambda: Function(
            lambda m, x: m.f(x).repeat(1, 2, 2).view(x.shape[0], 4, 2, 6).mean(2), f=nn.Linear(3, 3)
        ),
        (1, 4, 3),
    ),
    "masked softmax": (
        lambda: Function(
            lambda m, x: m.f(x).masked_fill(torch.eye(4, 3).bool(), -9.0).softmax(1),
            f=nn.Linear(3, 3),
        ),
        (1, 4, 3),
    ),
    "sdpa 3d": (
        lambda: Function(
            lambda m, x: F.scaled_dot_product_attention(m.f(x), x, m.g(x)),
            f=nn.Linear(3, 3),
            g=nn.Linear(3, 5),
        ),
        (1, 4, 3),
    ),
    "trilinear": (lambda: nn.Upsample(size=(3, 5, 2), mode="trilinear"), (1, 1, 2, 3, 4)),
    "fold": (
        lambda: Function(lambda m, x: F.fold(F.unfold(x, 2, stride=1), (4, 4), 2)),
        (1, 1, 4, 4),
    ),
    "cdist": (lambda: Function(lambda m, x: torch.cdist(m.f(x), x), f=nn.Linear(3, 3)), (1, 4, 3)),
    "scatter": (
        lambda: Function(
            lambda m, x: torch.zeros_like(x).index_copy(1, torch.tensor([2, 0]), m.f(x)[:, :2]),
            f=nn.Linear(3, 3),
        ),
        (1, 4, 3),
    ),
    "gather": (
        lambda: Function(
            lambda m, x: torch.gather(m.f(x), 1, torch.zeros(x.shape[0], 2, 3, dtype=torch.long)),
            f=nn.Linear(3, 3),
        ),
        (1, 4, 3),
    ),
    "unfold overlap": (
        lambda: Function(lambda m, x: m.c(x).unfold(3, 2, 1).sum(-1), c=nn.Conv2d(2, 2, 1)),
        (1, 2, 3, 4),
    ),
    "swapped batchwise": (
        lambda: Function(lambda m, x: m.f(x.permute(2, 0, 1)).permute(1, 2, 0), f=nn.Linear(4, 5)),
        (1, 4, 3),
    ),
    "split uneven": (
        lambda: Function(
            lambda m, x: torch.cat(m.f(x).split([1, 3, 2], -1)[::-1], -1), f=nn.Linear(3, 6)
        ),
        (1, 4, 3),
    ),
    "triangle": (lambda: Function(lambda m, x: torch.tril(m.f(x)), f=nn.Linear(3, 3)), (1, 3, 3)),
}


def written_part(m: Any, x: torch.Tensor) -> Any:
    y = torch.zeros_like(x)
    y[:, 1:3] = m.f(x)[:, 0:2]
    return y + x


def changed_view(m: Any, x: torch.Tensor) -> Any:
    y = m.f(x)
    part = y[:, 1:]
    part.mul_(x[:, :-1])
    return y * 2


@pytest.mark.parametrize("name", MODULES)
def test_no_region_is_too_small_and_all_scale_with_the_batch(name: str) -> None:
    make, shape = MODULES[name]
    torch.manual_seed(0)
    check(make(), randn(*shape), batch=2)


def test_two_inputs_meet_by_broadcasting() -> None:
    module = Function(lambda m, x, y: m.f(x).unsqueeze(2) + y.unsqueeze(1), f=nn.Linear(2, 3))
    check(module, randn(1, 4, 2), randn(1, 5, 3))


def test_sampling_on_a_grid_needs_the_whole_picture_and_its_own_grid() -> None:
    module = Function(lambda m, x, g: F.grid_sample(x, torch.tanh(g), align_corners=False))
    check(module, randn(1, 2, 4, 4), randn(1, 3, 2, 2) * 0.3)


def test_a_deformable_convolution_needs_the_whole_picture_and_its_own_offsets() -> None:
    torch.manual_seed(0)
    module = Function(
        lambda m, x, o: m.conv(x, torch.tanh(o)), conv=DeformConv2d(4, 6, 3, padding=1, groups=2)
    )
    graph = check(module, randn(1, 4, 3, 3), randn(1, 18, 3, 3))
    assert graph[-1].macs == 6 * 9 * 2 * 9
    assert graph[-1].weight_elements == 6 * 2 * 9 + 6


def test_cross_attention_needs_all_keys() -> None:
    module = Function(
        lambda m, x, y: m.a(x, y, y)[0], a=nn.MultiheadAttention(4, 2, batch_first=True)
    )
    check(module, randn(1, 3, 4), randn(1, 5, 4))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_chains_of_views_never_lose_an_element(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.sampled_from(["permute", "merge", "split", "slice", "expand"]),
                               min_size=1, max_size=5))  # fmt: skip
    shape = [1, 4, 3, 6]
    plan: list[tuple[str, tuple[int, ...]]] = []
    for step in steps:
        if step == "permute":
            order = [0, *data.draw(st.permutations(range(1, len(shape))))]
            plan.append((step, tuple(order)))
            shape = [shape[i] for i in order]
        elif step == "merge" and len(shape) > 2:
            at = data.draw(st.integers(1, len(shape) - 2))
            plan.append((step, (at,)))
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif step == "split":
            at = data.draw(st.integers(1, len(shape) - 1))
            factors = [f for f in (2, 3) if shape[at] % f == 0]
            if factors and len(shape) < 6:
                factor = data.draw(st.sampled_from(factors))
                plan.append((step, (at, factor)))
                shape[at : at + 1] = [factor, shape[at] // factor]
        elif step == "slice":
            at = data.draw(st.integers(1, len(shape) - 1))
            if shape[at] > 1:
                start = data.draw(st.integers(0, shape[at] - 1))
                plan.append((step, (at, start)))
                shape[at] -= start
        elif step == "expand" and len(shape) < 6:
            at = data.draw(st.integers(1, len(shape)))
            plan.append((step, (at,)))
            shape.insert(at, 2)
    last = shape[-1]
    fc = nn.Linear(last, 2)

    def chain(m: Any, x: torch.Tensor) -> Any:
        x = m.conv(x)
        for name, values in plan:
            if name == "permute":
                x = x.permute(values)
            elif name == "merge":
                x = x.flatten(values[0], values[0] + 1)
            elif name == "split":
                x = x.unflatten(values[0], (values[1], -1))  # type: ignore[no-untyped-call]
            elif name == "slice":
                x = x.narrow(values[0], values[1], x.shape[values[0]] - values[1])
            else:
                x = x.unsqueeze(values[0])
                x = x.expand(*[2 if i == values[0] else -1 for i in range(x.dim())])
        return m.fc(x)

    torch.manual_seed(0)
    module = Function(chain, conv=nn.Conv2d(2, 4, (2, 1), 1, (1, 0)), fc=fc)
    check(module, randn(1, 2, 2, 6), batch=data.draw(st.sampled_from([None, 2])))
