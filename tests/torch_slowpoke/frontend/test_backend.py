"""torch.compile with the slowpoke backend: the same results, one analysis a graph."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch
from torch import nn

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph, OpKind
from torch_slowpoke.frontend import backend, operator_graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[OperatorGraph, dict[str, Any]]]]:
    calls: list[tuple[OperatorGraph, dict[str, Any]]] = []

    def analyse(graph: OperatorGraph, options: dict[str, Any]) -> str:
        calls.append((graph, options))
        return f"analysis {len(calls)}"

    monkeypatch.setattr(backend, "analyze_graph", analyse)
    torch._dynamo.reset()
    backend.clear_analyses()
    yield calls
    torch._dynamo.reset()
    backend.clear_analyses()


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stem(x).mean((2, 3)))  # type: ignore[no-any-return]


def test_results_are_the_models_own_and_the_graph_is_the_importers(
    seen: list[tuple[OperatorGraph, dict[str, Any]]],
) -> None:
    model, image = Small().eval(), torch.rand(2, 3, 8, 8)
    compiled = torch.compile(model, backend=backend.backend, options={"mesh": "4x4"})
    with torch.no_grad():
        assert torch.equal(compiled(image), model(image))
        assert torch.equal(compiled(image), model(image))
    ((graph, options),) = seen
    assert options == {"mesh": "4x4"}
    imported = operator_graph(model, image)
    assert [(o.name, o.kind, o.box, o.macs, o.folded) for o in graph] == [
        (o.name, o.kind, o.box, o.macs, o.folded) for o in imported
    ]
    assert graph.n_parameters == imported.n_parameters
    assert graph.weight_elements == imported.weight_elements
    analyses = backend.last_analyses()
    assert list(analyses) == ["analysis 1"]
    assert "GMAC" in str(analyses)
    assert analyses.breaks == ()


def test_graph_breaks_make_several_graphs_and_are_shown(
    seen: list[tuple[OperatorGraph, dict[str, Any]]],
) -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            torch._dynamo.graph_break()
            return self.second(y)  # type: ignore[no-any-return]

    model, x = Broken(), torch.rand(2, 4)
    compiled = torch.compile(model, backend=backend.backend)
    assert torch.equal(compiled(x), model(x))
    assert [g[0].name for g, _ in seen] == ["first", "second"]
    analyses = backend.last_analyses()
    assert [c.compile_id for c in analyses.compiled] == ["0/0", "1/0"]
    assert len(analyses.breaks) == 1
    assert "graph break: " in str(analyses)


def test_a_recompilation_is_one_more_analysis_and_training_goes_on(
    seen: list[tuple[OperatorGraph, dict[str, Any]]],
) -> None:
    model = Small().train()
    compiled = torch.compile(model, backend=backend.backend, dynamic=False)
    compiled(torch.rand(2, 3, 8, 8)).sum().backward()
    compiled(torch.rand(3, 3, 8, 8)).sum().backward()
    assert [g[0].box[0] for g, _ in seen] == [2, 3]
    assert all(p.grad is not None for p in model.parameters())
    # batch statistics need the whole batch: the norm stands alone
    assert [o.kind for o in seen[0][0]][:2] == [OpKind.CONV, OpKind.NORM]


def test_a_graph_that_cannot_be_read_does_not_stop_the_model(
    seen: list[tuple[OperatorGraph, dict[str, Any]]],
) -> None:
    def transform(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).real  # type: ignore[no-any-return]

    compiled = torch.compile(transform, backend=backend.backend)
    x = torch.rand(4, 4)
    with pytest.warns(UserWarning, match="is not analysed"):
        result = compiled(x)
    assert torch.equal(result, transform(x))
    assert seen == []
    analyses = backend.last_analyses()
    assert list(analyses) == []
    assert "complex" in str(analyses)


def test_a_misspelt_option_is_told_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "analyze_graph", None)
    torch._dynamo.reset()
    compiled = torch.compile(nn.Linear(3, 4), backend=backend.backend, options={"mehs": "4x4"})
    with pytest.raises(Exception, match="did you mean 'mesh'") as caught:
        compiled(torch.rand(2, 3))
    causes = {type(caught.value), type(caught.value.__cause__)}
    assert SlowpokeError in causes or "SlowpokeError" in str(caught.value)
    torch._dynamo.reset()


def test_the_entry_point_names_the_backend() -> None:
    found = [e for e in entry_points(group="torch_dynamo_backends") if e.name == "slowpoke"]
    if not found:
        pytest.skip("the wheel is not installed here")
    assert found[0].load() is backend.backend
