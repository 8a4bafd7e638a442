"""Are hyperparameters recovered? Paths of a known Gaussian process, i.i.d. and biased histories.

Each estimate sees the first n observations of the same histories: n points drawn uniformly; half of
them drawn near the path's maximum instead; real runs of our sampler (MAP estimate, log EI and
GP-UCB) on the path.  What is reported is the estimated length-scale over the true one.  Ours are
the criteria of ``bbo_plugins.methods.uhe_bo.criteria`` with the default prior and, as
``literal-gamma``, the paper's with its own priors; the peer is scikit-learn's maximum likelihood,
without a prior.

The prediction error of the paper's Fig. 4 is part of ``python -m benchmarks papers uhe_bo``.
"""

import argparse
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.options import add_names
from benchmarks.common.report import Report
from benchmarks.common.tables import quartiles, verdict
from benchmarks.estimation.estimators import LOSSES, PEER, estimate
from benchmarks.problems.gp_samples import BIASED, DESIGNS, LENGTH_SCALES, draw

DESCRIPTION = "Hyperparameters recovered from i.i.d. and biased samples of a known process."
SIZES = {
    "estimates": (*LOSSES, PEER),
    "sizes": (25, 50, 100),
    "dimensions": tuple(LENGTH_SCALES),
    "seeds": 20,
}
QUICK = {"sizes": (12, 15), "dimensions": (2,), "seeds": 1}
GOAL = (0.8, 1.25)  # of the median length-scale ratio, on biased histories of the largest size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--estimates", (*LOSSES, PEER))


def run(options: argparse.Namespace, report: Report) -> None:
    """Draw every history, estimate from every prefix of it, and report."""
    report.restart()
    estimates, records = list(dict.fromkeys(options.estimates)), []
    for seed, dimension, design in itertools.product(
        range(options.seeds), options.dimensions, DESIGNS
    ):
        report.progress(f"{design}, d = {dimension}, seed {seed}")
        X, y = draw(design, dimension, max(options.sizes), seed)
        for n, name in itertools.product(options.sizes, estimates):
            ratios = estimate(name, X[:n], y[:n]).length_scales / LENGTH_SCALES[dimension]
            record = {
                "design": design,
                "dimension": dimension,
                "n": n,
                "seed": seed,
                "estimate": name,
                "length_scale_ratios": ratios.tolist(),
            }
            report.record(**record)
            records.append(record)
    add_tables(report, records, estimates)


def add_tables(
    report: Report, records: Sequence[Mapping[str, Any]], estimates: Sequence[str]
) -> None:
    """Add the table of length-scales to the report, and which goals are met."""
    ratios: dict[tuple[int, str, int], dict[str, list[float]]] = {}
    for record in records:
        cell = ratios.setdefault((record["dimension"], record["design"], record["n"]), {})
        cell.setdefault(record["estimate"], []).extend(record["length_scale_ratios"])
    n_seeds = len({record["seed"] for record in records})
    report.table(
        f"Estimated / true length-scale: median [quartiles] over {n_seeds} seeds and all axes",
        ["d", "history", "n", *estimates],
        [
            [*cell, *(quartiles(found[name]) for name in estimates)]
            for cell, found in ratios.items()
        ],
    )
    longest = max(n for _, _, n in ratios)
    rows = []
    for name in estimates:
        biased = {
            design: [
                ratio
                for cell, found in ratios.items()
                if cell[1:] == (design, longest)
                for ratio in found[name]
            ]
            for design in BIASED
        }
        medians = [float(np.median(found)) for found in biased.values()]
        pooled = np.concatenate(list(biased.values()))
        met = all(GOAL[0] <= median <= GOAL[1] for median in medians)
        spread = np.exp(np.abs(np.log(pooled)).mean())
        figures = (*medians, float(np.median(pooled)), spread)
        rows.append([name, *(f"{figure:.3g}" for figure in figures), verdict(met)])
    report.table(
        f"Median length-scale ratio on biased histories, n = {longest}, all d; goal: "
        f"{GOAL[0]:g} to {GOAL[1]:g} in each",
        ["estimate", *BIASED, "all biased", "typical factor", "goal"],
        rows,
    )
    report.note(
        "The typical factor by which an estimate is off, the exponential of the mean |log ratio|: "
        "a median near one does not say that single estimates are near the truth."
    )
