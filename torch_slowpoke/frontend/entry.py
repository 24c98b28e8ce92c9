"""One function for whatever a user brings: a name, a module, a program, a file, a graph."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.export import import_module, import_twin
from torch_slowpoke.frontend.fakes import built, fake_mode, faked_tree
from torch_slowpoke.frontend.models import named
from torch_slowpoke.frontend.quiet import quiet, uncollected
from torch_slowpoke.frontend.reading import import_program


@uncollected()
def operator_graph(
    model_or_name: str | os.PathLike[str] | nn.Module | ExportedProgram,
    example_inputs: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
) -> OperatorGraph:
    """The operator graph of a model.

    Args:
        model_or_name: A name of `model_names()`, `hf:CONFIG.json`, a module (also an
            `fx.GraphModule`) on any device, an exported program, or the path of a `.pt2` file.
        example_inputs: A tensor, a tuple of inputs, or a dictionary of keyword inputs. Named models
            have their own; for a module without example inputs they are guessed from its first
            layer. The first dimension of every input counts samples.
        kwargs: Keyword inputs besides `example_inputs`.

    Returns:
        Operators with exact MACs and with regions that are never too small.

    Raises:
        SlowpokeError: The model is unknown or cannot be exported; one sentence says why.
    """
    if isinstance(model_or_name, ExportedProgram):
        return import_program(model_or_name, _program_name(model_or_name))
    if isinstance(model_or_name, os.PathLike) or str(model_or_name).endswith(".pt2"):
        return _from_file(Path(os.fspath(model_or_name)))  # type: ignore[arg-type]
    if isinstance(model_or_name, str):
        return _from_name(model_or_name, example_inputs, kwargs)
    if not isinstance(model_or_name, nn.Module):
        raise SlowpokeError(
            f"{type(model_or_name).__name__} is not a model: give a name, a torch.nn.Module, a "
            "torch.export.ExportedProgram or the path of a .pt2 file"
        )
    model = model_or_name
    args, keywords = split_inputs(example_inputs, kwargs)
    if not args and not keywords:
        args = guessed_inputs(model)
    name = type(model).__name__
    return import_module(model, args, keywords, name)


def split_inputs(
    example_inputs: Any, kwargs: dict[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs."""
    keywords = dict(kwargs or {})
    if example_inputs is None:
        return (), keywords
    if isinstance(example_inputs, dict):
        return (), {**example_inputs, **keywords}
    if hasattr(example_inputs, "keys") and not isinstance(example_inputs, torch.Tensor):
        return (), {**{k: example_inputs[k] for k in example_inputs.keys()}, **keywords}
    if isinstance(example_inputs, list | tuple):
        return tuple(example_inputs), keywords
    return (example_inputs,), keywords


def guessed_inputs(model: nn.Module) -> tuple[torch.Tensor, ...]:
    """An input that the first layer with weights would take.

    Raises:
        SlowpokeError: No layer tells.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            return (torch.empty(1, module.in_channels, 224, 224, dtype=module.weight.dtype),)
        if isinstance(module, nn.Conv3d):
            return (torch.empty(1, module.in_channels, 16, 112, 112, dtype=module.weight.dtype),)
        if isinstance(module, nn.Conv1d):
            return (torch.empty(1, module.in_channels, 1024, dtype=module.weight.dtype),)
        if isinstance(module, nn.Linear):
            return (torch.empty(1, module.in_features, dtype=module.weight.dtype),)
        if isinstance(module, nn.Embedding):
            return (torch.zeros(1, 128, dtype=torch.long),)
    raise SlowpokeError(
        f"{type(model).__name__} does not tell what its input looks like; give example_inputs"
    )


def _from_name(name: str, example_inputs: Any, kwargs: dict[str, Any] | None) -> OperatorGraph:
    entry = named(name)
    mode = fake_mode()
    with quiet():
        twin = built(entry.make, mode)
        if example_inputs is None and not kwargs:
            with mode:
                args, keywords = entry.inputs(), entry.kwargs()
        else:
            args, keywords = split_inputs(example_inputs, kwargs)
            args, keywords = faked_tree(args, mode), faked_tree(keywords, mode)
    label = Path(name.removeprefix("hf:")).stem if name.startswith("hf:") else name
    return import_twin(twin, args, keywords, label, mode)


def _from_file(path: Path) -> OperatorGraph:
    if not path.is_file():
        raise SlowpokeError(f"{path} is not a file; give the path of a .pt2 archive")
    try:
        with quiet():
            program = torch.export.load(path)
    except Exception as error:
        raise SlowpokeError(
            f"{path} cannot be read as an exported program ({type(error).__name__}); "
            "write it with torch.export.save"
        ) from error
    return import_program(program, path.stem)


def _program_name(program: ExportedProgram) -> str:
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            kind = next(iter(stack.values()))[1]
            return (kind if isinstance(kind, str) else kind.__qualname__).rsplit(".", 1)[-1]
    return "ExportedProgram"
