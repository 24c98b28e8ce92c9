"""Times of a job on the command line, in node-hours."""

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cli.failslow.inputs import check_nodes
from torch_slowpoke.efficiency.units import parse_hours


def usage_of(nodes: int, text: str, what: str) -> float:
    """Node-hours that all nodes of a job use in a time like `12h`; may be zero."""
    return check_nodes(nodes) * parse_hours(text, what)


def positive_usage_of(nodes: int, text: str, what: str) -> float:
    """The same, above zero.

    Raises:
        SlowpokeError: A time of zero, or one without a unit.
    """
    usage = usage_of(nodes, text, what)
    if usage <= 0:
        raise SlowpokeError(f"{what} {text!r} must be above zero: write it like 1h")
    return usage
