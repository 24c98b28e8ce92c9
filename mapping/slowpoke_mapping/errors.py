"""The one error a user can cause, and its kinds."""


class SlowpokeError(ValueError):
    """What the user gave cannot be used; the message names the value, the rule and a way out."""


class CapacityError(SlowpokeError):
    """Data does not fit where it must: says which tensor, how much, the bound, and what would do.

    Attributes:
        demand_bytes: What the named tensor (with its companions) needs on one core.
        bound_bytes: What one core has.
        tensor: Name of the tensor or operator in question.
    """

    def __init__(self, message: str, *, demand_bytes: float, bound_bytes: float, tensor: str):
        super().__init__(message)
        self.demand_bytes = demand_bytes
        self.bound_bytes = bound_bytes
        self.tensor = tensor
