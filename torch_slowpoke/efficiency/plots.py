"""Pictures of efficiencies; matplotlib is imported only when one is drawn, and never pyplot."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slowpoke_mapping.errors import SlowpokeError

# Okabe and Ito: told apart with any kind of colour vision.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_GREY = "#666666"

Values = Sequence[float | None]


def _figure(n_columns: int, n_rows: int = 1) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * n_columns, 3.6 * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def save(figure: Any, path: str | Path) -> None:
    """Write a picture; the ending of the name says which kind.

    Raises:
        SlowpokeError: An unknown ending, or a folder that cannot be written to.
    """
    try:
        figure.savefig(path, dpi=130)
    except ValueError as error:
        raise SlowpokeError(f"{path} cannot be drawn: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise SlowpokeError(f"{path} cannot be written: {error.strerror}") from None


def _array(values: Values) -> Any:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _band(axis: Any, x: Values, low: Values, high: Values, colour: str, label: str | None) -> None:
    axis.fill_between(
        _array(x), _array(low), _array(high), color=colour, alpha=0.2, linewidth=0, label=label
    )


def _share_axis(axis: Any, *curves: Values) -> None:
    """An axis from just below what is shown up to 1, and never from below 0."""
    shown = np.concatenate([_array(c) for c in curves])
    shown = shown[np.isfinite(shown)]
    low = float(shown.min()) if shown.size else 0.0
    axis.set_ylim(max(0.0, low - 0.05 * (1.0 - low)), 1.0)
    axis.set_ylabel("efficiency")


def draw_3_1(data: dict[str, Any]) -> Any:
    """Figure 3.1: optimal checkpointing."""
    figure, (left, right) = _figure(2)
    left.plot(data["z_c"], data["left_hand_side"], color="black", label="1 - z_c")
    for colour, (z, curve) in zip(_COLOURS, data["right_hand_sides"].items(), strict=False):
        left.plot(data["z_c"], curve, ":", color=colour, label=f"exp(-z_c - {z})")
    right.loglog(data["z_chk"], data["z_c_of_z_chk"], color="black", label="exact")
    right.loglog(data["z_chk"], data["young"], "--", color=_GREY, label="Young")
    for colour, (z, c) in zip(_COLOURS, data["marks"], strict=False):
        left.plot(c, 1.0 - c, "*", color=colour, markersize=11)
        right.plot(z, c, "*", color=colour, markersize=11)
    left.set_xlabel("z_c = R0 u_c")
    right.set_xlabel("z_chk = R0 u_chk")
    right.set_ylabel("z_c")
    left.legend(frameon=False)
    right.legend(frameon=False)
    return figure


def draw_7_1(data: dict[str, Any]) -> Any:
    """Figure 7.1: sizes and durations of the jobs."""
    figure, axes = _figure(3)
    for axis, key, label in zip(
        axes,
        ("n_nodes", "requested_hours", "actual_hours"),
        ("nodes", "requested hours", "actual hours"),
        strict=True,
    ):
        if data[key]["edges"]:
            axis.stairs(data[key]["jobs"], data[key]["edges"], fill=True, color=_COLOURS[0])
            axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.set_ylabel("jobs")
    axes[0].set_xscale("log")
    return figure


def draw_7_2(data: dict[str, Any]) -> Any:
    """Figure 7.2: efficiency and losses against the cadence."""
    figure, (left, right) = _figure(2)
    x = data["cadence_factor"]
    _band(left, x, data["low"], data["high"], _COLOURS[0], "interval of R0")
    left.semilogx(x, data["efficiency"], color=_COLOURS[0], label="efficiency")
    left.semilogx(x, data["as_printed"], ":", color=_GREY, label="as printed in the paper")
    left.axhline(data["never_checkpoint"], ls="--", color=_COLOURS[1], label="never checkpoint")
    best = data["best"]
    left.plot(best["cadence_factor"], best["efficiency"], "*", color="black", markersize=10)
    _share_axis(left, data["efficiency"], data["low"], data["as_printed"])
    for colour, key in zip(_COLOURS, ("l_F", "l_chk", "l_R"), strict=False):
        right.loglog(x, np.maximum(_array(data[key]), 1e-9), color=colour, label=key)
    right.set_ylabel("share lost")
    for axis in (left, right):
        axis.set_xlabel("cadence / best cadence")
        axis.legend(frameon=False)
    return figure


def draw_7_3(data: dict[str, Any]) -> Any:
    """Figure 7.3: efficiency and losses against the duration of jobs."""
    figure, axes = _figure(2, 2)
    for axis, key in zip(axes, ("efficiency", "l_F", "l_chk", "l_R"), strict=True):
        for colour, (n, curve) in zip(_COLOURS, data[key].items(), strict=False):
            axis.plot(data["hours"], curve, color=colour, label=f"{n} nodes")
        axis.set_xlabel("hours")
        axis.set_ylabel(key)
    axes[0].legend(frameon=False)
    return figure


def draw_7_4(data: dict[str, Any]) -> Any:
    """Figure 7.4: efficiency against the failure rate."""
    figure, (axis,) = _figure(1)
    x = data["rate"]
    axis.axvspan(*data["interval"], color=_COLOURS[0], alpha=0.2, label="interval of R0")
    axis.semilogx(x, _array(data["efficiency"]), color=_COLOURS[0], label="efficiency")
    axis.semilogx(x, _array(data["as_printed"]), ":", color=_GREY, label="as printed")
    axis.semilogx(
        x, _array(data["never_checkpoint"]), "--", color=_COLOURS[1], label="never checkpoint"
    )
    for rate, e in data["marks"]:
        if e is not None:
            axis.plot(rate, e, "*", color="black", markersize=10)
            axis.annotate(f" {e:.3f}", (rate, e), va="bottom")
    _share_axis(axis, data["efficiency"], data["never_checkpoint"])
    axis.set_xlabel("failures per node-hour")
    axis.legend(frameon=False)
    return figure


def draw_7_5(data: dict[str, Any]) -> Any:
    """Figure 7.5: efficiency against the bandwidth to storage."""
    figure, (axis,) = _figure(1)
    x = data["bandwidth_ratio"]
    for colour, (rate, c) in zip(_COLOURS, data["curves"].items(), strict=False):
        _band(axis, x, c["low"], c["high"], colour, None)
        axis.semilogx(x, _array(c["efficiency"]), color=colour, label=f"R0 = {rate}")
        axis.semilogx(x, _array(c["never_checkpoint"]), "--", color=colour, linewidth=0.9)
        axis.semilogx(x, _array(c["as_printed"]), ":", color=colour, linewidth=0.9)
    axis.plot([], [], "--", color=_GREY, label="never checkpoint")
    axis.plot([], [], ":", color=_GREY, label="as printed (may be below 0)")
    axis.set_ylim(0.0, 1.0)
    axis.set_xlabel("bandwidth / the machine's")
    axis.set_ylabel("efficiency")
    axis.legend(frameon=False, fontsize="small")
    return figure


DRAW: dict[str, Callable[[dict[str, Any]], Any]] = {
    "3.1": draw_3_1,
    "7.1": draw_7_1,
    "7.2": draw_7_2,
    "7.3": draw_7_3,
    "7.4": draw_7_4,
    "7.5": draw_7_5,
}


def draw_bars(
    names: Sequence[str],
    values: Sequence[float],
    label: str,
    errors: Sequence[float] | None = None,
) -> Any:
    """Named values side by side, with their standard errors if there are any."""
    figure, (axis,) = _figure(1)
    at = np.arange(len(names))
    axis.bar(at, values, color=[_COLOURS[i % len(_COLOURS)] for i in range(len(names))], width=0.6)
    if errors is not None:
        axis.errorbar(at, values, yerr=errors, fmt="none", ecolor="black", capsize=4)
    for i, value in enumerate(values):
        axis.annotate(f"{value:.4g}", (i, value), ha="center", va="bottom")
    axis.set_xticks(at, names)
    axis.set_ylabel(label)
    return figure


def draw_intervals(
    names: Sequence[str], middles: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> Any:
    """Rates with their intervals, one below the other."""
    figure, (axis,) = _figure(1)
    at = np.arange(len(names))
    middle = np.array(middles)
    axis.errorbar(
        middle, at, xerr=[middle - np.array(lows), np.array(highs) - middle], fmt="o", capsize=4
    )
    axis.set_yticks(at, names)
    axis.set_ylim(-0.5, len(names) - 0.5)
    axis.set_xlabel("failures per node-hour")
    return figure


def draw_cadence(
    factors: Sequence[float], efficiencies: Sequence[float], marks: dict[str, tuple[float, float]]
) -> Any:
    """Long-run efficiency of one job against its cadence, with the named choices marked."""
    figure, (axis,) = _figure(1)
    axis.semilogx(factors, efficiencies, color=_COLOURS[0])
    for colour, (name, (x, y)) in zip(_COLOURS[1:], marks.items(), strict=False):
        axis.plot(x, y, "*", color=colour, markersize=11, label=name)
    axis.set_xlabel("cadence / best cadence")
    _share_axis(axis, list(efficiencies))
    axis.legend(frameon=False)
    return figure
