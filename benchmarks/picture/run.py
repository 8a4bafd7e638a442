"""The README's picture: regret over trials in three kinds of study, from stored results.

Reads what ``regret``, ``conditional`` and ``constrained`` have stored under ``--out`` and writes
``regret-light.svg`` and ``regret-dark.svg`` there. Every panel has the geometric mean over problems
of the median over seeds, in units of a random point's median regret, of the runs that all drawn
entrants have. What has a real objective, whose minimum nobody knows, is left out.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.report import Report, read_records
from benchmarks.common.tables import Comparison, Floats
from benchmarks.problems import conditional, constrained, functions
from benchmarks.problems.problem import StudyProblem

DESCRIPTION = "Draw regret over trials of three kinds of study, from stored results."
KINDS: dict[str, tuple[str, Callable[[], Mapping[str, StudyProblem]]]] = {
    "regret": ("fixed space", lambda: functions.PROBLEMS),
    "conditional": ("conditional parameters", lambda: conditional.SYNTHETIC),
    "constrained": ("constraints", lambda: constrained.PROBLEMS),
}
DRAWN = {
    "bbo": ("BBOSampler", "#D55E00"),
    "gpsampler": ("GPSampler", "#0072B2"),
    "tpe": ("TPE", "#009E73"),
    "random": ("random", "#888888"),
}
INKS = {"light": "#222222", "dark": "#DDDDDD"}
N_TRIALS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: ``--out`` is where the results are."""
    del parser


def run(options: argparse.Namespace, report: Report) -> None:
    """Draw the panels of the kinds that have results."""
    panels = {}
    for name, (title, problems) in KINDS.items():
        curves, n_problems = curves_of(Path(options.out) / f"{name}.jsonl", problems())
        if n_problems:
            panels[f"{title} ({n_problems} problems)"] = curves
    if not panels:
        report.note("No stored results of " + ", ".join(KINDS) + " that all entrants have.")
        return
    for theme, ink in INKS.items():
        draw(panels, Path(options.out) / f"regret-{theme}.svg", ink=ink)
    report.note("Drawn: " + ", ".join(panels) + ".")


def curves_of(
    results: Path, problems: Mapping[str, StudyProblem], entrants: Sequence[str] = tuple(DRAWN)
) -> tuple[dict[str, Floats], int]:
    """Return the regret after each trial by entrant, (N_TRIALS,), and over how many problems."""
    comparison = Comparison.of(read_records(results), entrants, problems)
    rows: dict[str, list[Floats]] = {entrant: [] for entrant in entrants}
    for problem, runs in comparison.curves.items():
        long = [
            {seed: c[:N_TRIALS] for seed, c in runs.get(entrant, {}).items() if len(c) >= N_TRIALS}
            for entrant in entrants
        ]
        if seeds := set.intersection(*map(set, long)):
            for entrant, curves in zip(entrants, long, strict=True):
                median = np.median([curves[seed] for seed in seeds], axis=0)
                rows[entrant].append(np.log(median / comparison.scales[problem]))
    n_problems = len(rows[entrants[0]])
    if not n_problems:
        return {}, 0
    return {entrant: np.exp(np.mean(logs, axis=0)) for entrant, logs in rows.items()}, n_problems


def draw(panels: Mapping[str, Mapping[str, Floats]], path: Path, *, ink: str) -> None:
    """Write the panels side by side to a file, with lines and letters in the color ``ink``."""
    import matplotlib as mpl  # noqa: PLC0415 - only this needs it
    from matplotlib.figure import Figure  # noqa: PLC0415

    looks: dict[Any, Any] = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), ink)
    looks |= {"xtick.color": ink, "ytick.color": ink, "svg.hashsalt": "bbo_plugins"}
    with mpl.rc_context(looks):
        figure = Figure(figsize=(3.4 * len(panels), 2.9), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels.items(), strict=True):
            ax.set_facecolor("none")
            for entrant, curve in curves.items():
                label, color = DRAWN[entrant]
                width = 2.4 if entrant == "bbo" else 1.4
                ax.plot(np.arange(1, len(curve) + 1), curve, color=color, lw=width, label=label)
            ax.set(title=title, xlabel="trial", yscale="log")
            ax.title.set_size("medium")
            ax.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel("regret (random point = 1)")
        axes[0].legend(frameon=False, fontsize="small")
        figure.savefig(path, transparent=True, metadata={"Date": None})
