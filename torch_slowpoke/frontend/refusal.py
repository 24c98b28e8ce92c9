"""What is refused, in one sentence each."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from slowpoke_mapping.errors import SlowpokeError


def refuse_quantised(model: nn.Module) -> None:
    """Raises for modules of torch.ao's quantised kind, whose weights are opaque."""
    for path, module in model.named_modules():
        kind = type(module).__module__
        if ".quantized" in kind and "qat" not in kind:
            raise SlowpokeError(
                f"{path or 'the model'} is a quantised {type(module).__name__}: its weights are "
                "opaque to torch.export; analyse the floating-point model, the chip's "
                "bytes_per_element says how wide an element is"
            )


def explained(
    error: Exception, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SlowpokeError:
    """One sentence for an export that failed."""
    if isinstance(error, SlowpokeError):
        return error
    text = str(error)
    kind = type(error).__name__
    first = next((line.strip() for line in text.splitlines() if line.strip()), kind)
    first = first if len(first) <= 160 else first[:157] + "..."
    shapes = [tuple(v.shape) for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
    depends = ("DataDependent", "GuardOnData", "data-dependent", "Data dependent", "unbacked",
               "control flow", "_local_scalar_dense", "nonzero", "Could not guard",
               "aten::equal", "symbolically traced variables")  # fmt: skip
    if any(word in kind or word in text for word in depends):
        return SlowpokeError(
            f"{name} cannot be exported: its control flow or its shapes depend on the data "
            f"({first}); analyse the part with fixed shapes, or trace one branch of it"
        )
    if isinstance(error, TypeError) and "argument" in text:
        return SlowpokeError(
            f"{name} was called with {len(args)} inputs and keywords {sorted(kwargs)}, which its "
            f"forward does not take ({first}); give example_inputs as its forward wants them"
        )
    if "uninitialized parameter" in text:
        return SlowpokeError(
            f"{name} has lazy layers without weights: run it once on real data, then analyse it"
        )
    return SlowpokeError(
        f"{name} cannot be run on example inputs of shapes {shapes} ({first}); give "
        "example_inputs that its forward accepts"
    )
