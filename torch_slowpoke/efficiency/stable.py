"""The three small functions on which every formula of this package rests, without cancellation.

All closed forms of Graziani, Lusch and Messer (papers/002, sections 2-4) are products of these
with a usage. None of them divides by the failure rate, so that a rate of zero is an ordinary value.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_LARGEST = 700.0  # beyond, x/(e^x - 1) is no more than 1e-301
_TINY = 1e-300  # for which the limit at 0 is reached to the last digit


def survived_share(x: npt.ArrayLike) -> FloatArray:
    """Expected share of a stretch that is run before an exponential failure: (1 - e^-x)/x.

    Args:
        x: Failure rate times length of the stretch, any shape; below 0 only where the paper's
            formulas are continued to a number of segments below one.

    Returns:
        Same shape, in (0, 1]; 1 at x = 0. Relative error a few 1e-16.
    """
    x = np.asarray(x, dtype=np.float64)
    safe = np.where(np.abs(x) < _TINY, _TINY, x)
    return np.asarray(-np.expm1(-safe) / safe)


def lost_share(x: npt.ArrayLike) -> FloatArray:
    """Expected loss per failure, in units of the mean usage between failures: 1 - x/(e^x - 1).

    papers/002, section 2.2. As printed it loses eps/x to cancellation; below 0.05 it is summed.

    Args:
        x: Failure rate times length of a segment, >= 0, any shape.

    Returns:
        Same shape, in [0, 1); x/2 for small x.
    """
    x = np.asarray(x, dtype=np.float64)
    y = np.minimum(x, _LARGEST)
    # Bernoulli numbers B2/2! .. B10/10!; the next term is below 1e-17 relative at 0.05.
    y2 = y * y
    series = 0.5 - y / 12.0 * (
        1.0 - y2 / 60.0 * (1.0 - y2 / 42.0 * (1.0 - y2 / 40.0 * (1.0 - y2 * (5.0 / 198.0))))
    )
    share = np.asarray(y * series)
    large = y >= 0.05
    if large.any():
        share[large] = 1.0 - y[large] / np.expm1(y[large])
    return share


def repeated_share(x: npt.ArrayLike) -> FloatArray:
    """Usage of a step that is tried until it succeeds, in units of the step: (e^x - 1)/x.

    papers/002, section 2.3 (a restart that can fail itself).

    Args:
        x: Failure rate times length of the step, >= 0, any shape.

    Returns:
        Same shape, >= 1; infinite once e^x is.
    """
    safe = np.maximum(np.asarray(x, dtype=np.float64), _TINY)
    with np.errstate(over="ignore"):
        return np.asarray(np.expm1(safe) / safe)
