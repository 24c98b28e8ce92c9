"""Models that can be analysed by name, and the example inputs they are published with."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.frontend.workloads.binary_tree import BinaryTree
from torch_slowpoke.frontend.workloads.darknet19 import DarkNet19
from torch_slowpoke.frontend.workloads.early_exit import EarlyExitResNet

UNEXPORTABLE = ("rcnn", "retinanet", "ssd", "fcos")
"""Parts of the names of detection models: their shapes depend on the boxes found."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """How to build a model and what to feed it.

    Attributes:
        make: Builds the module (no download, no pretrained weights).
        inputs: Makes example inputs; called in the same mode as `make`.
        kwargs: Makes example keyword inputs.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]] = field(default=dict)


def _images(batch: int = 1, size: int = 224) -> tuple[torch.Tensor]:
    return (torch.empty(batch, 3, size, size),)


OWN: dict[str, NamedModel] = {
    "darknet19": NamedModel(DarkNet19, _images),
    "binary_tree": NamedModel(BinaryTree, lambda: (torch.empty(1, 64, 256),)),
    "early_exit_resnet": NamedModel(EarlyExitResNet, lambda: _images(4)),
}
"""The project's own workloads."""

LANGUAGE = ("qwen2.5-0.5b", "qwen2.5-0.5b:decode")
"""Language models, from their published configurations; they need the extra `llm`."""


def torchvision_names() -> list[str]:
    """Names of torchvision's registry that can be exported."""
    from torchvision.models import list_models

    return [
        name
        for name in list_models()
        if not name.startswith("quantized_") and not any(part in name for part in UNEXPORTABLE)
    ]


def model_names() -> tuple[str, ...]:
    """Names that can be analysed; nothing is built.

    `hf:CONFIG.json` names a model of transformers by its configuration file besides these, and a
    language model takes `:prefill=S` or `:decode=S` for S tokens (default 128).
    """
    return (*OWN, *LANGUAGE, *torchvision_names())


def named(name: str) -> NamedModel:
    """The model of a name.

    Raises:
        SlowpokeError: Unknown (with close matches), or known and not exportable.
    """
    if name in OWN:
        return OWN[name]
    if name.startswith("hf:") or name.split(":")[0] in LANGUAGE:
        from torch_slowpoke.frontend.language import language_model

        return language_model(name)
    from torchvision.models import list_models

    known = list_models()
    if name in known and name.startswith("quantized_"):
        raise SlowpokeError(
            f"{name!r} is quantised and opaque to torch.export; analyse "
            f"{name.removeprefix('quantized_')!r}, the chip's bytes_per_element says how wide an "
            "element is"
        )
    if name in known and any(part in name for part in UNEXPORTABLE):
        raise SlowpokeError(
            f"{name!r} is a detection model: its shapes depend on the boxes found, so it has no "
            "static graph; analyse its backbone, for example 'resnet50'"
        )
    if name not in known:
        close = difflib.get_close_matches(name.lower(), model_names(), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else "see `slowpoke models`"
        raise SlowpokeError(f"unknown model {name!r}: {hint}")
    return _torchvision(name)


def _torchvision(name: str) -> NamedModel:
    from torchvision.models import get_model, get_model_weights

    weights = next(iter(get_model_weights(name)))
    options: dict[str, Any] = {"weights": None}
    if name == "googlenet":
        options |= {"init_weights": False, "aux_logits": False}  # published without them
    elif name == "inception_v3":
        options |= {"init_weights": False}
    elif name.startswith(("fcn", "deeplabv3")):
        options |= {"weights_backbone": None, "aux_loss": True}
    elif name.startswith("lraspp"):
        options |= {"weights_backbone": None}
    elif name.startswith("vit"):
        options |= {"image_size": weights.transforms().crop_size[-1]}
    return NamedModel(lambda: get_model(name, **options), lambda: _published_inputs(name, weights))


VIDEO_FRAMES = 16
"""Frames of a clip, as published figures of work assume."""


def _published_inputs(name: str, weights: Any) -> tuple[torch.Tensor, ...]:
    """Example inputs of the size that the weights' own transforms make."""
    if name.startswith("raft"):
        return torch.empty(1, 3, 520, 960), torch.empty(1, 3, 520, 960)
    transforms = weights.transforms()
    size = list(getattr(transforms, "crop_size", None) or transforms.resize_size)
    height, width = size[0], size[-1]
    if "video" in type(transforms).__name__.lower():
        return (torch.empty(1, 3, VIDEO_FRAMES, height, width),)
    return (torch.empty(1, 3, height, width),)
