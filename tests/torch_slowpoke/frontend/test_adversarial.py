"""Inputs that cannot be analysed end in one sentence; odd ones that can, are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend import operator_graph


class Body(nn.Module):
    """A convolution followed by whatever the test wants."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


IMAGE = torch.zeros(1, 3, 8, 8)


@dataclasses.dataclass
class Result:
    scores: torch.Tensor
    count: int


def scripted() -> nn.Module:
    return torch.jit.trace(nn.Conv2d(3, 4, 3), IMAGE)  # type: ignore[no-any-return,no-untyped-call]


def quantised() -> nn.Module:
    from torch.ao.nn.quantized.dynamic import Linear

    return nn.Sequential(Linear(3, 4))  # type: ignore[no-untyped-call]


REFUSED: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "control flow on data": (
        lambda: Body(lambda m, x: m.conv(x) if x.sum() > 0 else x), IMAGE, "depend on the data"),
    "a number read from data": (
        lambda: Body(lambda m, x: m.conv(x)[:, : int(x.sum().item())]), IMAGE,
        "depend on the data"),
    "shapes from data": (lambda: Body(lambda m, x: torch.nonzero(m.conv(x)) * 2), IMAGE,
                         "data-dependent size"),
    "a boolean mask": (lambda: Body(lambda m, x: x[x > 0] * 2), IMAGE, "data-dependent size"),
    "torch.cond": (
        lambda: Body(lambda m, x: torch.cond(
            x.sum() > 0, lambda y: m.conv(y), lambda y: m.conv(y) * 2, (x,))),
        IMAGE, "uses cond"),
    "wrong channels": (lambda: nn.Conv2d(3, 4, 3), torch.zeros(1, 5, 8, 8),
                       "cannot be run on example inputs of shapes"),
    "wrong rank": (lambda: nn.Conv2d(3, 4, 3), torch.zeros(5), "cannot be run on example inputs"),
    "no samples": (lambda: nn.Conv2d(3, 4, 3), torch.zeros(0, 3, 8, 8), "empty tensor"),
    "too many inputs": (lambda: nn.Conv2d(3, 4, 3), (IMAGE, IMAGE), "does not take"),
    "unknown keyword": (lambda: nn.Conv2d(3, 4, 3), {"x": IMAGE}, "does not take"),
    "text": (lambda: nn.Conv2d(3, 4, 3), "hello", "does not take"),
    "empty sequential": (nn.Sequential, IMAGE, "has no operator"),
    "identity": (nn.Identity, IMAGE, "has no operator"),
    "constant": (lambda: Body(lambda m, x: torch.ones(3)), IMAGE, "has no operator"),
    "no inputs and no layer that tells": (nn.ReLU, None, "give example_inputs"),
    "complex weights": (lambda: nn.Linear(3, 4, dtype=torch.complex64),
                        torch.zeros(2, 3, dtype=torch.complex64), "complex64"),
    "a Fourier transform": (lambda: Body(lambda m, x: torch.fft.fft2(m.conv(x)).abs()), IMAGE,
                            "complex64"),
    "quantised layers": (quantised, torch.zeros(1, 3), "quantised"),
    "sparse input": (lambda: nn.Linear(3, 4), torch.eye(3).to_sparse(), "only dense tensors"),
    "sparse inside": (lambda: Body(lambda m, x: torch.sparse.mm(torch.eye(8).to_sparse(), x[0, 0])),
                      IMAGE, "sparse_coo"),
    "lazy layers": (lambda: nn.LazyLinear(4), torch.zeros(1, 3), "run it once on real data"),
    "TorchScript": (scripted, IMAGE, "ScriptModule"),
    "an error of its own": (lambda: Body(lambda m, x: 1 / 0), IMAGE, "division by zero"),
    "a missing key": (lambda: Body(lambda m, x: vars(m)["weights"]), IMAGE, "KeyError: 'weights'"),
    "numpy": (lambda: Body(lambda m, x: torch.from_numpy(m.conv(x).numpy())), IMAGE,
              "numpy cannot be traced"),
    "a gradient inside": (
        lambda: Body(lambda m, x: torch.func.grad(lambda y: m.conv(y).sum())(x)), IMAGE,
        r"torch\.func inside a forward"),
    "no forward": (nn.Module, IMAGE, "give a module that has a forward"),
    "an endless recursion": (lambda: Body(lambda m, x: m(x)), IMAGE, "recursion"),
    "not a model": (lambda: 42, None, "is not a model"),
    "a class": (lambda: nn.Conv2d, IMAGE, "is not a model"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_analysed_ends_in_one_sentence(
    case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make, inputs, words = REFUSED[case]
    with pytest.raises(SlowpokeError, match=words) as caught:
        operator_graph(make(), inputs)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    assert capfd.readouterr() == ("", "")


def test_files_that_are_no_programs_end_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="is not a file"):
        operator_graph(tmp_path / "none.pt2")
    bad = tmp_path / "bad.pt2"
    bad.write_text("hello", encoding="utf-8")
    with pytest.raises(SlowpokeError, match=r"torch\.export\.save"):
        operator_graph(str(bad))


def in_place(m: Body, x: torch.Tensor) -> torch.Tensor:
    y = m.conv(x)
    y += 1
    y[:, 0] = 0
    y[:, 1].add_(y[:, 2])
    return y.relu_()  # type: ignore[no-any-return]


READ: dict[str, tuple[Callable[..., Any], list[OpKind]]] = {
    "dictionary": (lambda m, x: {"a": m.conv(x), "b": [x * 2, None, 3]},
                   [OpKind.CONV, OpKind.ELEMENTWISE]),
    "dataclass": (lambda m, x: Result(m.conv(x), 3), [OpKind.CONV]),
    "bare numbers": (lambda m, x: (m.conv(x), 3, "text"), [OpKind.CONV]),
    "no gradient": (torch.no_grad()(lambda m, x: m.conv(x)), [OpKind.CONV]),
    "autocast": (torch.autocast("cpu", dtype=torch.bfloat16)(lambda m, x: m.conv(x)),
                 [OpKind.CONV]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_outputs_of_any_class_are_read(case: str) -> None:
    function, kinds = READ[case]
    assert [o.kind for o in operator_graph(Body(function), IMAGE)] == kinds


def test_in_place_writes_are_seen_by_later_readers() -> None:
    graph = operator_graph(Body(in_place), IMAGE)
    (output,) = graph.outputs
    reached, todo = set(), [output]
    while todo:
        index = todo.pop()
        reached.add(index)
        todo += [e.producer for e in graph[index].inputs if e.producer >= 0]
    assert reached == set(range(len(graph)))
    assert graph[0].folded[0].startswith("add")
    assert any(o.kind is OpKind.MOVE for o in graph)


def test_a_changed_input_is_seen_by_later_readers() -> None:
    def function(m: Body, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return m.conv(x)  # type: ignore[no-any-return]

    graph = operator_graph(Body(function), IMAGE)
    assert [o.kind for o in graph] == [OpKind.ELEMENTWISE, OpKind.CONV]
    assert graph[1].inputs[0].producer == 0


def test_dynamic_shapes_count_as_the_example() -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        nn.Conv2d(3, 4, 3), (torch.zeros(4, 3, 8, 8),), dynamic_shapes=({0: batch},)
    )
    (conv,) = operator_graph(program)
    assert conv.box == (4, 4, 6, 6)
    assert conv.macs == 4 * 4 * 36 * 27


def test_tensors_of_any_rank_have_a_box() -> None:
    linear = nn.Linear(3, 4)
    boxes = {
        (3,): (1, 4, 1, 1), (2, 3): (2, 4, 1, 1), (2, 5, 3): (2, 4, 5, 1),
        (2, 5, 6, 3): (2, 4, 6, 5), (1, 2, 2, 2, 2, 3): (1, 4, 2, 8),
    }  # fmt: skip
    for shape, box in boxes.items():
        assert operator_graph(linear, torch.zeros(shape))[0].box == box
    assert operator_graph(nn.ReLU(), torch.tensor(3.0))[0].box == (1, 1, 1, 1)


def test_a_model_on_the_meta_device_imports() -> None:
    conv = nn.Conv2d(3, 4, 3, device="meta")
    assert operator_graph(conv, IMAGE).fingerprint == operator_graph(
        conv, IMAGE.to("meta")
    ).fingerprint  # fmt: skip


def test_a_mapped_function_has_the_work_of_all_its_calls() -> None:
    mapped = Body(lambda m, x: torch.vmap(m.conv, in_dims=1, out_dims=1)(x))
    graph = operator_graph(mapped, torch.zeros(1, 5, 3, 8, 8))
    assert graph.macs == 5 * 4 * 36 * 27
    assert graph.n_parameters == 4 * 27 + 4


def test_checks_of_values_are_no_work() -> None:
    graph = operator_graph(Body(lambda m, x: m.conv(torch.linalg.inv(x))), IMAGE)
    assert graph[graph.outputs[0]].kind is OpKind.CONV
    assert [note for note in graph.notes if "linalg_inv_ex" in note]


def test_every_way_to_transpose_is_a_view() -> None:
    def function(m: Body, x: torch.Tensor) -> torch.Tensor:
        return m.conv(x.mT) + m.conv(x.mH) + m.conv(x.adjoint())  # type: ignore[no-any-return]

    graph = operator_graph(Body(function), IMAGE)
    assert not [note for note in graph.notes if "operator table" in note]
    assert sum(o.kind is OpKind.CONV for o in graph) == 3
    assert all(o.kind in (OpKind.CONV, OpKind.ELEMENTWISE) for o in graph)


def test_index_arithmetic_alone_is_the_work() -> None:
    class Indices(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 1

    (only,) = operator_graph(Indices(), torch.zeros(4, 4, dtype=torch.long))
    assert only.kind is OpKind.ELEMENTWISE
    assert only.vector_ops == 32


def test_the_fused_encoder_layer_shows_its_parts() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    graph = operator_graph(layer, torch.zeros(1, 5, 8))
    assert sum(o.kind is OpKind.LINEAR for o in graph) == 4
    assert torch.backends.mha.get_fastpath_enabled()


def test_weights_computed_from_weights_are_weights() -> None:
    model = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)))
    (linear,) = operator_graph(model, torch.zeros(1, 3))
    assert linear.name == "0"
    assert linear.weight_elements == 16


def test_a_convolution_without_a_batch_has_its_work() -> None:
    (conv,) = operator_graph(nn.Conv2d(3, 4, 3), torch.zeros(3, 8, 8))
    assert conv.macs == 4 * 36 * 27
    assert F.conv2d(torch.zeros(3, 8, 8), torch.zeros(4, 3, 3, 3)).numel() == conv.elements
