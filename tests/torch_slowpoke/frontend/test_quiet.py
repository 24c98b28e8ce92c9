"""Imports leave the process as they found it."""

from __future__ import annotations

import gc
import logging
import warnings

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.frontend import operator_graph
from torch_slowpoke.frontend.quiet import quiet, uncollected


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 5, 8, 8)])
def test_the_collector_runs_again_after_an_import_and_after_a_refusal(
    shape: tuple[int, ...],
) -> None:
    assert gc.isenabled()
    model = nn.Conv2d(3, 4, 3)
    if shape[1] == 3:
        operator_graph(model, torch.zeros(shape))
    else:
        with pytest.raises(SlowpokeError):
            operator_graph(model, torch.zeros(shape))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_waits_for_the_outermost_of_nested_imports() -> None:
    with uncollected():
        with quiet():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_torchs_switches_warnings_and_logs_are_as_before() -> None:
    before = (
        torch.fx.config.do_not_emit_stack_traces,
        torch.backends.mha.get_fastpath_enabled(),
        logging.root.manager.disable,
        list(warnings.filters),
    )
    with pytest.raises(ZeroDivisionError), quiet():
        1 / 0  # noqa: B018
    assert before == (
        torch.fx.config.do_not_emit_stack_traces,
        torch.backends.mha.get_fastpath_enabled(),
        logging.root.manager.disable,
        list(warnings.filters),
    )


def test_graphs_made_afterwards_are_compiled_at_once_and_say_where_they_come_from() -> None:
    with quiet():
        pass
    program = torch.export.export(nn.Conv2d(3, 4, 3), (torch.zeros(1, 3, 8, 8),), strict=False)
    traced = make_fx(torch.relu)(torch.zeros(3))
    assert "Lazy" not in type(traced).__mro__[1].__name__
    assert any(node.stack_trace for node in program.graph.nodes)
