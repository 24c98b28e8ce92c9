"""A mapping as a table, as JSON and as a picture."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import DimWindow, Edge, Operator, OperatorGraph, OpKind
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import Mapping
from torch_slowpoke.report.map_plot import save_map
from torch_slowpoke.report.map_table import map_json, map_table


@pytest.fixture(scope="module")
def mapping() -> Mapping:
    windows = (DimWindow(0), DimWindow(), DimWindow(2), DimWindow(3))
    box = (1, 16, 8, 8)
    operators = tuple(
        Operator(f"conv{i}", OpKind.CONV, box, (Edge(i - 1, box, windows),), macs=16_384,
                 weight_elements=256)
        for i in range(3)
    )  # fmt: skip
    return map_graph(OperatorGraph("three", operators), ChipConfig(topology="mesh:2x2"))


def test_the_table_names_every_layer_and_the_bound_of_every_group(mapping: Mapping) -> None:
    text = io.StringIO()
    Console(file=text, width=140).print(map_table(mapping))
    for word in ("conv0", "conv1", "conv2", "three on mesh 2x2", "byte-hops"):
        assert word in text.getvalue()


def test_the_json_is_a_mapping_with_its_costs(mapping: Mapping) -> None:
    data = json.loads(json.dumps(map_json(mapping)))
    assert Mapping.from_json(json.dumps(data), mapping.graph) == mapping
    assert data["byte_hops"] == sum(group["byte_hops"] for group in data["estimates"])
    assert data["n_groups"] == len(mapping.groups) == len(data["groups"])


def test_the_picture_is_written_and_draws_every_core(mapping: Mapping, tmp_path: Path) -> None:
    save_map(mapping, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    figure = mapping.plot(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size > 0
    assert len(figure.axes) == len(mapping.groups) + 1  # and the colour bar
    assert len(figure.axes[0].patches) >= 4


def test_what_cannot_be_drawn_is_refused(mapping: Mapping, tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="groups 0 to"):
        mapping.plot(groups=[99])
    with pytest.raises(SlowpokeError, match="ends in"):
        save_map(mapping, tmp_path / "map.doc")
