"""Random numbers that depend on who draws, never on when: hashed counters, shared by both engines.

A draw is a hash (the finaliser of SplitMix64; Steele et al., OOPSLA 2014) of a key and a counter,
turned into a factor by interpolation between quantiles of equally probable cells. In the outermost
cells, where quantiles bend, it is first turned into a standard normal by Wichura's AS 241 (Applied
Statistics 37, 1988) and then into a factor by a table over the normal's range. Two engines that
serve in another order still draw the same numbers, and a healthy and a faulty run share them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slowpoke_sim.jit import hot

Z_MAX = 8.25
"""Normals are cut here; the largest that 52 random bits can give is 8.21."""
N_CELLS = 4096
"""Of both tables: over the normal's range, and of equal probability (the hash's first 12 bits)."""
N_TAIL = 32
"""Cells of equal probability at either end whose draws go by the normal: 1.6 % of them. Inside,
interpolation is off by at most 4e-5 standard deviations of a normal."""
Z_PER_CELL = 2 * Z_MAX / N_CELLS
CELLS_PER_Z = N_CELLS / (2 * Z_MAX)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S12 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(12)
_S52, _LOW52 = np.uint64(52), np.uint64((1 << 52) - 1)
_HOP = np.uint64(1 << 32)


@hot
def mix(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits of a key and a counter."""
    x = key + (counter + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@hot
def instance_key(run_key: np.uint64, batch: int, task: int, unit: int) -> np.uint64:
    """The key of a task instance: a function of the run's key, batch, task and unit."""
    key = mix(run_key, np.uint64(batch))
    return mix(mix(key, np.uint64(task)), np.uint64(unit))


@hot
def normal_of_bits(bits: np.uint64) -> float:
    """Standard normal quantile of 64 random bits (AS 241; relative error about 1e-16).

    >>> float(normal_of_bits(np.uint64(1 << 63))) < 1e-14
    True
    """
    u = (float(bits >> _S12) + 0.5) * 2.0**-52
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = 2.5090809287301226727e3
        num = num * r + 3.3430575583588128105e4
        num = num * r + 6.7265770927008700853e4
        num = num * r + 4.5921953931549871457e4
        num = num * r + 1.3731693765509461125e4
        num = num * r + 1.9715909503065514427e3
        num = num * r + 1.3314166789178437745e2
        num = num * r + 3.3871328727963666080e0
        den = 5.2264952788528545610e3
        den = den * r + 2.8729085735721942674e4
        den = den * r + 3.9307895800092710610e4
        den = den * r + 2.1213794301586595867e4
        den = den * r + 5.3941960214247511077e3
        den = den * r + 6.8718700749205790830e2
        den = den * r + 4.2313330701600911252e1
        den = den * r + 1.0
        return q * num / den
    r = math.sqrt(-math.log(min(u, 1.0 - u)))
    if r <= 5.0:
        r -= 1.6
        num = 7.74545014278341407640e-4
        num = num * r + 2.27238449892691845833e-2
        num = num * r + 2.41780725177450611770e-1
        num = num * r + 1.27045825245236838258e0
        num = num * r + 3.64784832476320460504e0
        num = num * r + 5.76949722146069140550e0
        num = num * r + 4.63033784615654529590e0
        num = num * r + 1.42343711074968357734e0
        den = 1.05075007164441684324e-9
        den = den * r + 5.47593808499534494600e-4
        den = den * r + 1.51986665636164571966e-2
        den = den * r + 1.48103976427480074590e-1
        den = den * r + 6.89767334985100004550e-1
        den = den * r + 1.67638483018380384940e0
        den = den * r + 2.05319162663775882187e0
        den = den * r + 1.0
    else:
        r -= 5.0
        num = 2.01033439929228813265e-7
        num = num * r + 2.71155556874348757815e-5
        num = num * r + 1.24266094738807843860e-3
        num = num * r + 2.65321895265761230930e-2
        num = num * r + 2.96560571828504891230e-1
        num = num * r + 1.78482653991729133580e0
        num = num * r + 5.46378491116411436990e0
        num = num * r + 6.65790464350110377720e0
        den = 2.04426310338993978564e-15
        den = den * r + 1.42151175831644588870e-7
        den = den * r + 1.84631831751005468180e-5
        den = den * r + 7.86869131145613259100e-4
        den = den * r + 1.48753612908506148525e-2
        den = den * r + 1.36929880922735805310e-1
        den = den * r + 5.99832206555887937690e-1
        den = den * r + 1.0
    return num / den if q > 0 else -num / den


@hot
def factor_at(table: NDArray[np.float64], z: float) -> float:
    """The factor at a standard normal z, by interpolation in a table's first N_CELLS cells."""
    x = (z + Z_MAX) * CELLS_PER_Z
    if x <= 0.0:
        return float(table[0])
    if x >= N_CELLS:
        return float(table[N_CELLS])
    i = int(x)
    return float(table[i] + (x - i) * (table[i + 1] - table[i]))


@hot
def draw(table: NDArray[np.float64], key: np.uint64, hop: int, packet: int) -> float:
    """The factor of one service: a function of the instance's key, hop and packet.

    Args:
        table: (2 * (N_CELLS + 1),) factors over the normal's range, then at equal steps of
            probability; empty for 1.
        key: `instance_key`.
        hop: Number of the hop in its message.
        packet: Number of the packet.
    """
    if len(table) == 0:
        return 1.0
    bits = mix(key, np.uint64(hop) * _HOP + np.uint64(packet))
    cell = np.int64(bits >> _S52)
    if N_TAIL <= cell < N_CELLS - N_TAIL:
        low = table[N_CELLS + 1 + cell]
        share = float(np.int64(bits & _LOW52)) * 2.0**-52
        return float(low + share * (table[N_CELLS + 2 + cell] - low))
    return factor_at(table, normal_of_bits(bits))


@hot
def drift_factor(
    server: int,
    time_cycles: float,
    key: np.uint64,
    sigma: float,
    rho: float,
    window_cycles: float,
    windows: NDArray[np.int64],
    levels: NDArray[np.float64],
) -> float:
    """exp(sigma x), x a stationary AR(1) over time windows of one server; 1 if sigma is 0.

    `windows` and `levels` hold the last window of each server and its x; times do not go back.
    Cost: one normal for each window that has passed.
    """
    if sigma == 0.0:
        return 1.0
    window = int(time_cycles / window_cycles)
    while windows[server] < window:
        k = windows[server] + 1
        shock = normal_of_bits(mix(mix(key, np.uint64(server)), np.uint64(k)))
        if k == 0:
            levels[server] = shock
        else:
            levels[server] = rho * levels[server] + math.sqrt(1.0 - rho * rho) * shock
        windows[server] = k
    return math.exp(sigma * levels[server])


@njit(cache=True)
def normals(key: np.uint64, n: int) -> NDArray[np.float64]:
    """(n,) standard normals of counters 0 to n - 1."""
    out = np.empty(n)
    for i in range(n):
        out[i] = normal_of_bits(mix(key, np.uint64(i)))
    return out
