"""What the commands about one job take and how they print times."""

import math

from slowpoke_mapping.errors import SlowpokeError

_LARGEST = 10**12


def check_nodes(n_nodes: int) -> int:
    """A number of nodes.

    Raises:
        SlowpokeError: Below 1, or more than any machine has.
    """
    if not 1 <= n_nodes <= _LARGEST:
        raise SlowpokeError(f"a job of {n_nodes} nodes: give from 1 to {_LARGEST:g}")
    return n_nodes


def clock(seconds: float) -> str:
    """A time as people say it.

    >>> clock(10013.8), clock(90.0), clock(float("inf"))
    ('2.78 h', '90 s', 'never')
    """
    if math.isinf(seconds):
        return "never"
    if seconds >= 3600.0:
        return f"{seconds / 3600.0:,.2f} h"
    return f"{seconds:,.0f} s" if seconds >= 100.0 else f"{seconds:.3g} s"
