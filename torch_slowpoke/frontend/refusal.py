"""What is refused, in one sentence each."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from slowpoke_mapping.errors import SlowpokeError

WAYS = (
    (
        ("no fake impl", "fake_impl"),
        "register a fake kernel for it with torch.library.register_fake, which says what shape "
        "comes out",
    ),
    (("numpy",), "write that part with torch's own functions: numpy cannot be traced"),
    (
        ("same device", "two devices"),
        "let its forward make its tensors on the device of its input",
    ),
    (
        ("functorch", "TensorWrapper"),
        "torch.func inside a forward cannot be traced: analyse what it transforms",
    ),
    (('required "forward"',), "give a module that has a forward"),
)
"""What can be done about a failure, by words of torch's message."""


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
    first = _first_line(error)
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
    if isinstance(error, LookupError) and text:  # "'weight'" alone says little
        first = f"{kind}: {first}"
    way = _way(error, "give example_inputs that its forward accepts")
    return SlowpokeError(
        f"{name} cannot be run on example inputs of shapes {shapes} ({first}); {way}"
    )


def unlowered(error: Exception, name: str) -> SlowpokeError:
    """One sentence for an exported program that torch cannot take apart into ATen operators."""
    way = _way(error, "write that part with torch's own functions")
    return SlowpokeError(
        f"{name} cannot be taken apart into operators ({_first_line(error)}); {way}"
    )


def _first_line(error: Exception) -> str:
    lines = (line.strip() for line in str(error).splitlines())
    first = next((line for line in lines if line), type(error).__name__)
    return first if len(first) <= 160 else first[:157] + "..."


def _way(error: Exception, otherwise: str) -> str:
    text = str(error)
    return next((way for words, way in WAYS if any(word in text for word in words)), otherwise)
