"""Torch at work without warnings, logs and stack traces, and without pauses to collect garbage."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import warnings
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without torch's warnings and logs, and without the fused encoder that hides its parts.

    What torch logs of a failed trace is a page; the error raised in its place is a sentence. Inside
    no garbage is collected either: an export makes millions of objects that live until its end,
    and looking through them again and again takes a third of its time. Nor does torch note for each
    node of a graph the lines of Python that made it, nor write Python for every graph that one of
    its passes has changed: nobody reads that here.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    level = logging.root.manager.disable
    try:
        logging.disable(logging.CRITICAL)
        torch.backends.mha.set_fastpath_enabled(False)
        with (
            uncollected(),
            without_stack_traces(),
            without_source(),
            warnings.catch_warnings(),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Cyclic garbage waits for the next full collection; a collector that was off stays off.

    What was made meanwhile becomes old: else all of it would be gone through at once, as young,
    as soon as the collector is back.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if gc.get_freeze_count() == 0:  # what somebody else has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextlib.contextmanager
def without_stack_traces() -> Iterator[None]:
    """Traced nodes carry no stack traces (torch versions without that switch keep them)."""
    config = getattr(torch.fx, "config", None)
    kept = getattr(config, "do_not_emit_stack_traces", None)
    if config is None or kept is None:
        yield
        return
    config.do_not_emit_stack_traces = True
    try:
        yield
    finally:
        config.do_not_emit_stack_traces = kept


@contextlib.contextmanager
def without_source() -> Iterator[None]:
    """Graphs are compiled to Python when they are run, not whenever they change.

    torch.compile works so; it has no public switch. Without it everything is as before, slower.
    """
    try:
        from torch.fx._lazy_graph_module import _use_lazy_graph_module as lazily
    except ImportError:
        yield
        return
    with lazily(True):
        yield
