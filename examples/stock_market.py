"""Half a made-up year of stock ticks, and a picture of a match over them. Used by `demo.py`.

The prices are random walks with quiet and nervous days. Because real markets show the two patterns now and then and random
walks almost never do, a few forced sales and a few double tops are worked into the returns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NAMES = tuple(f"{tree}{kind}" for tree in ("ALD", "BRC", "ELM", "FIR", "HAZ", "LIN", "MAP", "OAK", "PIN", "TEK") for kind in "AB")
N_DAYS = 120
MINUTES = 390  # 9:30 to 16:00
SEED = 20240102
N_FORCED_SALES, N_DOUBLE_TOPS = 40, 15

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def work_in_forced_sales(rng: np.random.Generator, returns: Floats, volume: Integers, n_episodes: int) -> None:
    """Somebody must sell: a large trade, a slide without a pause, and buyers who come back at once."""
    for _ in range(n_episodes):
        name = rng.integers(returns.shape[0])
        length = rng.integers(11, 26)
        at = rng.integers(N_DAYS) * MINUTES + rng.integers(5, MINUTES - 40)
        volume[name, at] = rng.integers(15_000, 60_000)
        returns[name, at + 1 : at + 1 + length] = -rng.uniform(0.001, 0.006, length)
        returns[name, at + 1 + length] = rng.uniform(0.055, 0.09)


def work_in_double_tops(rng: np.random.Generator, returns: Floats, n_episodes: int) -> None:
    """Up by a quarter, back, up again to about the same price, and down below the beginning."""
    for _ in range(n_episodes):
        name = rng.integers(returns.shape[0])
        at = rng.integers(N_DAYS) * MINUTES + rng.integers(5, 200)
        returns[name, at] = -0.002  # makes the beginning a minimum
        for total in rng.normal([0.24, -0.23, 0.22, -0.27], 0.01):
            length = rng.integers(12, 30)
            shares = rng.uniform(0.5, 1.5, length)
            returns[name, at + 1 : at + 1 + length] = total * shares / shares.sum()
            at += length


def generate_ticks(seed: int = SEED) -> pa.Table:
    """One tick per name and minute, in the order of time: Time, Name, Price, Volume."""
    rng = np.random.default_rng(seed)
    shape = (len(NAMES), N_DAYS, MINUTES)
    busy_hours = 0.6 + 1.6 * np.linspace(-1, 1, MINUTES) ** 2  # mornings and closings are busier than noon
    yearly = rng.uniform(0.2, 0.5, (len(NAMES), 1, 1))
    nervousness = np.exp(rng.normal(0, 0.4, (len(NAMES), N_DAYS, 1)))
    scale = yearly / np.sqrt(252 * MINUTES) * nervousness * busy_hours
    returns = (scale * rng.standard_t(5, shape)).reshape(len(NAMES), -1)
    returns[:, ::MINUTES] *= 8  # the news of a night

    usual = rng.uniform(800, 2500, (len(NAMES), 1, 1))
    volume = (usual * busy_hours * nervousness * rng.lognormal(0, 0.8, shape)).astype(np.int64).reshape(len(NAMES), -1) + 1
    work_in_forced_sales(rng, returns, volume, n_episodes=N_FORCED_SALES)
    work_in_double_tops(rng, returns, n_episodes=N_DOUBLE_TOPS)
    price = np.round(rng.uniform(40, 400, (len(NAMES), 1)) * np.exp(np.cumsum(returns, axis=1)), 2)

    days = np.busday_offset(np.datetime64("2024-01-02"), np.arange(N_DAYS), roll="forward").astype("datetime64[us]").astype(np.int64)
    opening_us, minute_us = 9 * 3_600_000_000 + 30 * 60_000_000, 60_000_000
    minutes = (days[:, None] + opening_us + np.arange(MINUTES) * minute_us).reshape(1, -1)
    at_us = (minutes + rng.integers(0, 60, price.shape) * 1_000_000).ravel()
    order = np.argsort(at_us, kind="stable")
    names = pa.DictionaryArray.from_arrays(np.repeat(np.arange(len(NAMES), dtype=np.int32), price.shape[1])[order], list(NAMES))
    return pa.table(
        {
            "Time": pa.array(at_us[order], pa.timestamp("us")),
            "Name": names.cast(pa.string()),
            "Price": price.ravel()[order],
            "Volume": volume.ravel()[order],
        }
    )


def draw_rebound(ticks: pa.Table, match: dict[str, object], path: Path) -> None:
    """The match over the prices of its stock, from half an hour before to half an hour after."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.dates as mdates
    import matplotlib.pyplot as plt

    start, end = np.datetime64(str(match["_start"])), np.datetime64(str(match["_end"]))
    own = ticks.filter(pc.equal(ticks["Name"], match["Name"]))
    when, price, volume = (own[c].to_numpy() for c in ("Time", "Price", "Volume"))
    margin = np.timedelta64(30, "m")
    near = (when >= start - margin) & (when <= end + margin)
    when, price, volume = when[near], price[near], volume[near]
    first, last = int(np.searchsorted(when, start)), int(np.searchsorted(when, end))

    figure, (prices, volumes) = plt.subplots(2, 1, figsize=(10, 6), sharex=True, height_ratios=(4, 1), layout="constrained")
    prices.axvspan(when[first], when[last], color="#4c72b0", alpha=0.08, lw=0)
    prices.plot(when, price, color="0.55", lw=1.2, marker=".", ms=4)
    prices.plot(when[first : last + 1], price[first : last + 1], color="#4c72b0", lw=2.2)
    for i, label, color, side in (
        (first, "large trade", "#dd8452", "right"),
        (last - 1, "bottom", "#c44e52", "right"),
        (last, "rebound", "#55a868", "left"),
    ):
        prices.plot(when[i], price[i], "o", color=color, ms=9, zorder=3)
        prices.annotate(
            f"{label} {price[i]:.2f}",
            (when[i], price[i]),
            (12 if side == "left" else -12, -4),
            textcoords="offset points",
            ha=side,
            va="top",
            color=color,
            weight="bold",
        )
    volumes.bar(when, volume, width=0.0005, color=["#dd8452" if i == first else "0.7" for i in range(len(when))])
    prices.margins(y=0.1)
    minutes = (when[last - 1] - when[first]) / np.timedelta64(1, "m")
    rebound = 100 * (price[last] / price[last - 1] - 1)
    day = np.datetime_as_string(start, "D")
    prices.set_title(f"{match['Name']} on {day}: a large trade, {minutes:.0f} minutes of falling prices, then {rebound:+.1f} % at once")
    prices.set_ylabel("price")
    volumes.set_ylabel("volume")
    volumes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    for axes in (prices, volumes):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
