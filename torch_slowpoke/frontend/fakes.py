"""Models and inputs without memory: shapes and dtypes of the user's tensors, none of their data."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from slowpoke_mapping.errors import SlowpokeError


def fake_mode() -> FakeTensorMode:
    """A fresh mode in which tensors have shapes and no storage."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # imports sympy, 0.3 s

    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())


def faked(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A tensor of the same shape, strides and dtype on the CPU, without storage."""
    if isinstance(tensor, FakeTensor) and tensor.fake_mode is mode:
        return tensor
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout)
        raise SlowpokeError(
            f"a tensor is {kind}: only dense tensors can be mapped; give a padded or dense one"
        )
    shape = tuple(int(s) for s in tensor.shape)
    with mode, torch.no_grad():
        if not tensor.is_quantized:
            fake = torch.empty_strided(shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
        else:
            fake = torch.empty(shape, dtype=tensor.dtype, device="cpu")
        if isinstance(tensor, nn.Parameter):
            fake = nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake


def faked_tree(value: Any, mode: FakeTensorMode) -> Any:
    """Every tensor of a nested structure replaced by a fake one."""
    return tree_map(lambda v: faked(v, mode) if isinstance(v, torch.Tensor) else v, value)


def faked_copy(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """A copy in evaluation mode whose tensors are fake; the model itself is not touched.

    Costs no memory for weights. Shared parameters and submodules stay shared.

    Raises:
        Exception: Whatever copying an attribute of the user's raises.
    """
    memo: dict[int, Any] = {}
    for tensor in _tensors(model):
        if id(tensor) not in memo:
            memo[id(tensor)] = faked(tensor, mode)
    twin = copy.deepcopy(model, memo)
    return twin.eval()


def _tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    """Parameters, buffers and tensors in other attributes, shared ones more than once."""
    for module in model.modules():
        for value in tree_leaves(list(vars(module).values())):
            if isinstance(value, torch.Tensor):
                yield value


class RealArithmetic(TorchFunctionMode):
    """Lets constructors compute schedules (`linspace(...).tolist()`) while weights stay fake."""

    FACTORIES = (torch.linspace, torch.arange, torch.tensor, torch.logspace)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        values: Any = (*args, *kwargs.values()) if kwargs else args
        if any(isinstance(v, list | tuple | dict) for v in values):
            values = tree_leaves(values)
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        real = tensors and not any(isinstance(t, FakeTensor) for t in tensors)
        if real or (not tensors and func in self.FACTORIES):
            with unset_fake_temporarily():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def without_initialisation() -> Iterator[None]:
    """Weights are never looked at, so filling them is left out."""
    names = [n for n in dir(nn.init) if n.endswith("_") and not n.startswith("_")]
    kept = {name: getattr(nn.init, name) for name in names}

    def leave(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return tensor

    try:
        for name in names:
            setattr(nn.init, name, leave)
        yield
    finally:
        for name, function in kept.items():
            setattr(nn.init, name, function)


def built(make: Callable[[], nn.Module], mode: FakeTensorMode) -> nn.Module:
    """A model constructed without memory for its weights, in evaluation mode.

    Made on the meta device, whose operations are a tenth of the fake mode's price, and made fake
    afterwards; a constructor that needs tensors of the CPU is run again in the fake mode.
    """
    try:
        with torch.device("meta"), without_initialisation(), RealArithmetic():
            model = make()
    except SlowpokeError:
        raise
    except Exception:
        with mode, without_initialisation(), RealArithmetic():
            model = make()
    memo: dict[int, torch.Tensor] = {}
    for module in model.modules():  # nobody else has it: its tensors are replaced in place
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and not isinstance(tensor, FakeTensor):
                    if id(tensor) not in memo:
                        memo[id(tensor)] = _on_cpu(tensor, mode)
                    tensors[name] = memo[id(tensor)]  # type: ignore[assignment]
    if all(isinstance(tensor, FakeTensor) for tensor in _tensors(model)):
        return model.eval()
    return faked_copy(model, mode)


def _on_cpu(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """`faked`, without going through the dispatcher where the tensor is meta already."""
    if tensor.device.type != "meta":
        return faked(tensor, mode)
    fake = FakeTensor(mode, tensor.detach(), torch.device("cpu"))
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake
