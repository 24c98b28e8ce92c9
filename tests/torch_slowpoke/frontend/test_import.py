"""Modules become graphs with exact work and stable names; the modules stay as they are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend import operator_graph
from torch_slowpoke.frontend.fakes import built, fake_mode


def counted_macs(model: nn.Module, *inputs: Any) -> int:
    """MACs by torch's own counter, with attention decomposed."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fused encoder layer counts as nothing
    try:
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            model.eval()(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return int(counter.get_total_flops()) // 2


MODELS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "convolutions": (
        nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4),
                      nn.ConvTranspose2d(8, 4, 3, 2), nn.Flatten(), nn.Linear(4 * 13 * 13, 5)),
        (torch.zeros(2, 3, 16, 16),)),
    "conv1d and 3d": (nn.Sequential(nn.Conv1d(3, 4, 3), nn.Unflatten(2, (2, 2, 2)),
                                    nn.Conv3d(4, 2, 2, padding=1)), (torch.zeros(1, 3, 10),)),
    "grouped transposed": (nn.ConvTranspose2d(4, 6, 3, 2, groups=2), (torch.zeros(2, 4, 5, 5),)),
    "attention": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
                  (torch.zeros(2, 5, 16),)),
    "encoder and decoder": (nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
                            (torch.zeros(1, 5, 16), torch.zeros(1, 4, 16))),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_macs_equal_torchs_own_counter(name: str) -> None:
    model, inputs = MODELS[name]
    assert operator_graph(model, inputs).macs == counted_macs(model, *inputs) > 0


def test_a_recurrent_layer_multiplies_each_weight_once_a_step() -> None:
    lstm = nn.LSTM(3, 5, num_layers=2, batch_first=True)
    graph = operator_graph(lstm, torch.zeros(2, 7, 3))
    # 14 steps; layer 1 has 20 x 3 and 20 x 5, layer 2 twice 20 x 5
    assert graph.macs == 14 * (20 * 3 + 3 * 20 * 5)


def test_a_bilinear_layer_contracts_one_side_then_the_other() -> None:
    graph = operator_graph(nn.Bilinear(3, 4, 2), (torch.zeros(5, 3), torch.zeros(5, 4)))
    assert graph.macs == 5 * 2 * (3 * 4 + 4)


def test_darknet19_has_the_published_work() -> None:
    graph = operator_graph("darknet19")
    assert 2 * graph.macs / 1e9 == pytest.approx(5.58, abs=0.01)  # billion operations, YOLO9000
    assert sum(o.kind is OpKind.CONV for o in graph) == 19


def test_a_tree_of_depth_4_has_31_products_and_15_sums() -> None:
    graph = operator_graph("binary_tree")
    assert sum(o.kind is OpKind.LINEAR for o in graph) == 31
    assert sum(o.kind is OpKind.ELEMENTWISE for o in graph) == 15
    assert graph.macs == 31 * 64 * 256 * 256
    assert len(graph.outputs) == 1


def test_a_quarter_of_the_batch_leaves_at_each_exit() -> None:
    graph = operator_graph("early_exit_resnet")
    assert [graph[i].name for i in graph.outputs] == [
        "exits.0.fc", "exits.1.fc", "exits.2.fc", "fc"
    ]  # fmt: skip
    boxes = {o.name: o.box[0] for o in graph}
    assert [boxes[f"stages.{i}.0.conv1"] for i in range(4)] == [4, 3, 2, 1]


def test_folding_follows_an_inference_compiler() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU())
    (conv,) = operator_graph(model, torch.zeros(1, 3, 6, 6))
    assert conv.folded == ("1", "2")
    assert conv.weight_elements == 8 * 3 * 9 + 8  # the norm becomes a bias
    assert conv.vector_ops == 8 * 16  # and costs nothing, the activation one operation each


def test_what_two_operators_read_does_not_fold() -> None:
    class Fork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.conv(x)
            return F.relu(y) + y

    graph = operator_graph(Fork(), torch.zeros(1, 3, 4, 4))
    assert [o.name for o in graph] == ["conv", "relu", "add"]


def test_a_norm_after_a_nonlinearity_does_not_vanish_into_weights() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4))
    graph = operator_graph(model, torch.zeros(1, 3, 4, 4))
    assert [o.kind for o in graph] == [OpKind.CONV, OpKind.NORM]
    assert graph[1].vector_ops == 2 * 4 * 16


def test_a_hand_written_rms_norm_is_one_operator() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    model = nn.Sequential(nn.Linear(3, 4), Norm(), nn.Linear(4, 2))
    graph = operator_graph(model, torch.zeros(2, 5, 3))
    assert [(o.name, o.kind) for o in graph] == [
        ("0", OpKind.LINEAR), ("1", OpKind.NORM), ("2", OpKind.LINEAR),
    ]  # fmt: skip
    assert graph[1].weight_elements == 4
    assert 1 not in graph[1].partitionable


def test_operators_keep_the_users_names() -> None:
    names = [o.name for o in operator_graph("resnet50")]
    assert "layer3.0.conv2" in names
    assert "layer3.0.downsample.0" in names
    assert "layer3.0.add" in names
    assert names[-1] == "fc"


def test_a_shared_layer_is_counted_once_and_named_twice() -> None:
    layer = nn.Linear(8, 8)
    graph = operator_graph(nn.Sequential(layer, nn.ReLU(), layer), torch.zeros(1, 8))
    assert graph.n_parameters == graph.weight_elements == 72
    assert graph.macs == 128
    assert len({o.weights_key for o in graph}) == 1
    assert len({o.name for o in graph}) == 2


def test_tied_parameters_are_counted_once() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    graph = operator_graph(model, torch.zeros(1, 3, dtype=torch.long))
    assert graph.n_parameters == 40
    assert graph[0].weight_elements == 3 * 4  # only the rows read


def test_half_precision_halves_the_bytes() -> None:
    image = torch.zeros(1, 3, 8, 8)
    conv = nn.Conv2d(3, 4, 3)
    full = operator_graph(conv, image)
    for dtype in (torch.half, torch.bfloat16):
        half = operator_graph(nn.Conv2d(3, 4, 3, dtype=dtype), image.to(dtype))
        assert 2 * half.weight_bytes == full.weight_bytes
        assert 2 * half[0].element_bytes == full[0].element_bytes
        assert 2 * half[0].inputs[0].element_bytes == full[0].inputs[0].element_bytes


class Mixed(nn.Module):
    """Dropout, batch-norm, a buffer and a plain tensor: everything that could be disturbed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
        self.frozen = nn.BatchNorm2d(4).eval()
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.plain = torch.ones(1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.frozen(self.body(x)) * self.scale + self.plain
        return {"y": y.relu_()}


def test_the_users_module_is_untouched_and_calls_repeat() -> None:
    model = Mixed().train()
    model.frozen.eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    flags = [m.training for m in model.modules()]
    image = torch.rand(2, 3, 8, 8, requires_grad=True)
    kept = image.detach().clone()
    first = operator_graph(model, image)
    second = operator_graph(model, image)
    assert first == second
    assert first.fingerprint == second.fingerprint
    assert flags == [m.training for m in model.modules()]
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert torch.equal(image, kept)
    assert "forward" not in vars(model)


def test_a_module_that_cannot_be_copied_is_untouched_too() -> None:
    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.lock = threading.Lock()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(x))  # type: ignore[no-any-return]

    model = Locked().train()
    running = model.norm.running_mean.clone()  # type: ignore[union-attr]
    (conv,) = operator_graph(model, torch.rand(2, 3, 8, 8))
    assert conv.folded == ("norm",)
    assert model.training
    assert model.norm.training
    assert torch.equal(running, model.norm.running_mean)  # type: ignore[arg-type]


def test_every_form_of_a_model_gives_the_same_graph(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    image = torch.rand(1, 3, 8, 8)
    program = torch.export.export(model, (image,))
    path = tmp_path / "model.pt2"
    torch.export.save(program, path)
    forms = [
        operator_graph(model, image), operator_graph(program), operator_graph(path),
        operator_graph(str(path)), operator_graph(torch.fx.symbolic_trace(model), image),
    ]  # fmt: skip
    assert len({g.fingerprint for g in forms}) == 1
    assert {g.n_parameters for g in forms} == {3 * 4 * 9 + 4 + 8}


def test_symbolic_tracing_is_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(1),
                          nn.Linear(144, 2))  # fmt: skip
    image = torch.rand(1, 3, 8, 8)
    exported = operator_graph(model, image)

    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no export today")

    monkeypatch.setattr(torch.export, "export", refuse)
    traced = operator_graph(model, image)
    assert [o.name for o in traced] == [o.name for o in exported]
    assert traced.macs == exported.macs
    assert traced.n_parameters == exported.n_parameters


def test_inputs_come_as_tensor_tuple_or_dictionary() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            out: torch.Tensor = self.fc(x)
            return out if y is None else out + y

    x, y = torch.zeros(2, 3), torch.zeros(2, 4)
    model = Two()
    assert len(operator_graph(model, x)) == 1
    both = [
        operator_graph(model, (x, y)), operator_graph(model, {"x": x, "y": y}),
        operator_graph(model, x, kwargs={"y": y}), operator_graph(model, kwargs={"x": x, "y": y}),
    ]  # fmt: skip
    assert {g.fingerprint for g in both} == {both[0].fingerprint}
    assert len(both[0]) == 2


def test_without_example_inputs_the_first_layer_tells() -> None:
    assert operator_graph(nn.Sequential(nn.Conv2d(3, 4, 3)))[0].box == (1, 4, 222, 222)
    assert operator_graph(nn.Linear(5, 2))[0].box == (1, 2, 1, 1)


def test_an_unknown_operator_is_named_with_its_share_of_the_work() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.matrix_exp(self.fc(x))  # type: ignore[no-any-return]

    graph = operator_graph(Strange(), torch.zeros(1, 3, 3))
    assert [o.kind for o in graph] == [OpKind.LINEAR, OpKind.ELEMENTWISE]
    (note,) = [n for n in graph.notes if "matrix_exp" in n]
    assert "25.0% of the work" in note  # 9 elements beside 27 MACs
    assert all(w.dim == -1 for w in graph[1].inputs[0].windows)


def test_index_plumbing_disappears() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.place = nn.Embedding(8, 4)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x = self.table(ids) + self.place(torch.arange(ids.shape[1]))
            bias = (1.0 - mask[:, None, :].float()) * -1e9
            return (x @ x.transpose(1, 2) + bias).softmax(-1)  # type: ignore[no-any-return]

    ids = torch.zeros(1, 5, dtype=torch.long)
    graph = operator_graph(Masked(), (ids, torch.ones_like(ids)))
    assert [o.kind for o in graph] == [OpKind.EMBEDDING, OpKind.MATMUL, OpKind.SOFTMAX]


def test_a_training_graph_normalises_over_the_batch() -> None:
    class Trained(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(x, None, None, training=True)

    (norm,) = operator_graph(Trained(), torch.zeros(2, 3, 4, 4))
    assert norm.kind is OpKind.NORM
    assert norm.partitionable == (1,)


def test_a_constructor_that_needs_the_cpu_is_run_again_with_fake_tensors() -> None:
    places = []

    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(3))
            self.tied = self.weight
            places.append(self.weight.device.type)
            if self.weight.is_meta:
                raise RuntimeError("no data")

    for make, expected in ((Picky, ["meta", "cpu"]), (lambda: nn.Linear(2, 3), [])):
        places.clear()
        mode = fake_mode()
        model = built(make, mode)
        assert places == expected
        for tensor in model.parameters():
            assert isinstance(tensor, FakeTensor) and tensor.fake_mode is mode
            assert isinstance(tensor, nn.Parameter) and tensor.device.type == "cpu"
    assert [p.shape for p in built(Picky, fake_mode()).parameters()] == [(3,)]
