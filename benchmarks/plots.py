"""Draws the result rows: next to the loop and to other engines, the effect of sizes (batches, streams, domains, windows), memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from measure import Row

OURS, OTHERS = "#2a6f97", "#b0b7bd"


def draw(rows: list[Row], out: Path) -> None:
    draw_loop([row for row in rows if "times_loop" in row.numbers], out / "query7.png")
    draw_batches([row for row in rows if "batch_rows" in row.numbers], out / "batches.png")
    for row in rows:
        if "lengths" in row.numbers:
            draw_lengths(row, out / "lengths.png")
        if "w1_rates" in row.numbers:
            draw_peers(row, out / "w1.png")
        if "domain_sizes" in row.numbers:
            draw_domains(row, out / "domains.png")
        if "window_sizes" in row.numbers:
            draw_windows(row, out / "windows.png")
    draw_joins([row for row in rows if "join_rates" in row.numbers], out)


def draw_loop(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    labels = [f"{row.numbers['n_names']:,} {row.numbers['kind']} names" for row in rows]
    ratios = [row.numbers["times_loop"] for row in rows]
    bars(axes, [*labels, "the loop"], [*ratios, 1.0], [*[OURS] * len(rows), OTHERS])
    axes.set_xlabel("times a loop in plain Python, CPU time")
    finish(figure, axes, "Query 7, 2M events, Arrow in and Arrow out", path)


def draw_peers(row: Row, path: Path) -> None:
    rates: dict[str, float] = row.numbers["w1_rates"]
    figure, axes = plt.subplots(figsize=(7, 1.9), layout="constrained")
    bars(axes, list(rates), list(rates.values()), [OURS, *[OTHERS] * (len(rates) - 1)])
    axes.set_xlabel("M events per second of CPU time, one thread")
    finish(figure, axes, "W1: a large trade, three or more falls, a rebound", path)


def draw_batches(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    curve(axes, [row.numbers["batch_rows"] for row in rows], [row.numbers["rate"] for row in rows])
    axes.set_xlabel("rows in a batch")
    finish(figure, axes, "Query 7 through a reader, 100 names", path)


def draw_lengths(row: Row, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    curve(axes, row.numbers["lengths"], row.numbers["rates"])
    axes.set_xlabel("events in the stream")
    finish(figure, axes, "Query 7, 100 names, planning not counted", path)


def draw_domains(row: Row, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    two_curves(axes, row.numbers["domain_sizes"], row.numbers["rates"])
    axes.set_xlabel("values of attr1")
    finish(figure, axes, "SEQ(A, B, C) on attr1, window of 10,000", path)


def draw_windows(row: Row, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    two_curves(axes, row.numbers["window_sizes"], row.numbers["rates"])
    axes.set_xlabel("window in ticks, one event a tick")
    finish(figure, axes, "SEQ(A, B, C) on attr1, 10,000 values", path)


def draw_joins(rows: list[Row], out: Path) -> None:
    for name in dict.fromkeys(row.numbers["duckdb_workload"] for row in rows):
        measured = [row.numbers for row in rows if row.numbers["duckdb_workload"] == name]
        sizes = [numbers["n_events"] for numbers in measured]
        figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
        curve(axes, sizes, [numbers["rate"] for numbers in measured], "Keuka")
        for kind, line in (("bucketed", "s--"), ("plain", "o:")):
            axes.plot(sizes, [numbers["join_rates"][kind] for numbers in measured], line, color=OTHERS, label=f"DuckDB, {kind} join")
        axes.set_ylim(0, 1.2 * max(max(numbers["rate"], *numbers["join_rates"].values()) for numbers in measured))
        axes.legend(frameon=False)
        axes.set_xlabel("events")
        finish(figure, axes, f"{name} on one thread", out / f"{name.lower()}_duckdb.png")


def bars(axes: Any, labels: list[str], values: list[float], colors: list[str]) -> None:
    drawn = axes.barh(labels, values, color=colors, height=0.7)
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    axes.margins(x=0.08)
    axes.invert_yaxis()


def two_curves(axes: Any, sizes: list[int], rates: dict[str, list[float]]) -> None:
    curve(axes, sizes, rates["as planned"])
    axes.plot(sizes, rates["no stacks"], marker="o", color=OTHERS)
    axes.annotate("without active instance stacks", (sizes[-1], rates["no stacks"][-1]), (-4, -24), textcoords="offset points", ha="right")


def curve(axes: Any, sizes: list[int], rates: list[float], label: str | None = None) -> None:
    axes.plot(sizes, rates, "o-", color=OURS, label=label)
    for size, rate in zip(sizes, rates, strict=True):
        axes.annotate(f"{rate:.1f}", (size, rate), (0, 7), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.margins(x=0.1)
    axes.set_ylim(0, 1.2 * max(rates))
    axes.set_ylabel("M events per CPU second")


def finish(figure: Any, axes: Any, title: str, path: Path) -> None:
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_soak(runs: dict[str, Any], growth: float, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for (kind, found), color in zip(runs.items(), ("#4c72b0", "#c44e52"), strict=True):
        events = [sample["n_events"] / 1e6 for sample in found["samples"]]
        axes.plot(events, [sample["rss_mb"] for sample in found["samples"]], "-", color=color, label=f"{kind} keys, the process")
        axes.plot(events, [sample["kernel_mb"] for sample in found["samples"]], ":", color=color, label=f"{kind} keys, the kernel in it")
        axes.axhline(growth * found["first_mb"], color=color, lw=0.6, label=f"{growth} times its first windows")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("M events, two for each key")
    axes.set_ylabel("MB, the most in each interval")
    axes.set_title("Memory while keys come and go")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
