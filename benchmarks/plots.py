"""Draws the result rows: how many times faster than the loop, and the effect of the size of batches."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from measure import Row


def draw(rows: list[Row], out: Path) -> None:
    draw_ratios([row for row in rows if "ratio" in row.numbers], out / "query7.png")
    draw_batches([row for row in rows if "batch_rows" in row.numbers], out / "batches.png")


def draw_ratios(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    labels = [f"{row.numbers['n_names']:,} {row.numbers['kind']} names" for row in rows]
    bars = axes.barh(labels, [row.numbers["ratio"] for row in rows], color="#4c72b0")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.axvline(1, color="0.4", lw=1)
    axes.invert_yaxis()
    axes.set_xlabel("times the plain-Python loop (CPU time)")
    axes.set_title("Query 7, 2M events, Arrow in and Arrow out")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_batches(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot([row.numbers["batch_rows"] for row in rows], [row.numbers["rate"] for row in rows], "o-", color="#4c72b0")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows in a batch")
    axes.set_ylabel("M events per CPU second")
    axes.set_title("Query 7 through a reader, 100 names")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
