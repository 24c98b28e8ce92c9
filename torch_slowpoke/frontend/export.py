"""torch.export on fake tensors, torch.fx as the way out, and words where both fail."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.fakes import fake_mode, faked_copy, faked_tree
from torch_slowpoke.frontend.quiet import quiet
from torch_slowpoke.frontend.reading import import_program
from torch_slowpoke.frontend.refusal import explained, refuse_quantised
from torch_slowpoke.frontend.symbolic import import_symbolic


def import_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> OperatorGraph:
    """The operator graph of a module; the module is neither changed nor moved.

    Args:
        model: Any module, on any device, in any mode; it is analysed in evaluation mode.
        args: Example inputs.
        kwargs: Example keyword inputs.
        name: Name of the graph.

    Raises:
        SlowpokeError: It cannot be exported; the sentence says why.
    """
    refuse_quantised(model)
    mode = fake_mode()
    with quiet():
        try:
            twin = faked_copy(model, mode)
        except SlowpokeError:
            raise
        except Exception:  # an attribute that cannot be copied: export the module itself
            return _import_uncopied(model, args, kwargs, name)
        return import_twin(twin, faked_tree(args, mode), faked_tree(kwargs, mode), name, mode)


def _import_uncopied(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> OperatorGraph:
    flags = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        program = torch.export.export(model, args, kwargs, strict=False)
    except Exception as error:
        raise explained(error, name, args, kwargs) from error
    finally:
        for module, training in flags:
            module.training = training
    return import_program(program, name)


def import_twin(
    twin: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    mode: FakeTensorMode,
) -> OperatorGraph:
    """The operator graph of a module that is already fake and in evaluation mode."""
    with quiet():
        try:
            with mode:
                program = _exported(twin, args, kwargs)
        except Exception as error:
            try:
                return import_symbolic(twin, args, kwargs, name, mode)
            except SlowpokeError:
                raise
            except Exception:
                raise explained(error, name, args, kwargs) from error
        n_parameters = sum(p.numel() for p in twin.parameters())
        return import_program(program, name, n_parameters=n_parameters)


def _exported(twin: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Exports; outputs that torch's trees do not know (dataclasses) are taken apart and retried."""
    try:
        return torch.export.export(twin, args, kwargs, strict=False)
    except Exception as error:
        if "in output, which is not a known type" not in str(error):
            raise
    forward = twin.forward

    @functools.wraps(forward)
    def plain_forward(*inputs: Any, **keywords: Any) -> Any:
        return plain(forward(*inputs, **keywords))

    twin.forward = plain_forward
    return torch.export.export(twin, args, kwargs, strict=False)


def plain(output: Any) -> Any:
    """Nested tuples of the tensors in an output of any class."""
    if isinstance(output, torch.Tensor | int | float | str | bool | None):
        return output
    if isinstance(output, Mapping):
        return tuple(plain(v) for v in output.values())
    if isinstance(output, list | tuple | set):
        return tuple(plain(v) for v in output)
    return tuple(plain(v) for v in vars(output).values()) if hasattr(output, "__dict__") else None
