"""Are hyperparameters recovered? Paths of a known Gaussian process, i.i.d. and biased histories.

Each estimate sees the first n observations of the same histories: n points drawn uniformly; half of
them drawn near the path's maximum instead; real runs of our sampler (MAP estimate, log EI and
GP-UCB) on the path.  What is reported is the estimated length-scale over the true one.  Ours are
the losses of ``bbo_plugins.methods.uhe_bo.losses`` with the default prior and, as
``literal-gamma``, the paper's with its own priors; the peer is scikit-learn's maximum likelihood,
without a prior.

The prediction error of the paper's Fig. 4 is part of ``python -m benchmarks papers uhe_bo``.
"""

import argparse
import math
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
QUICK = {"sizes": (15, 25), "dimensions": (2,), "seeds": 2}
GOAL = (0.8, 1.25)  # of the median length-scale ratio, on biased histories of the largest size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--estimates", (*LOSSES, PEER))


def measure(
    design: str, dimension: int, sizes: Sequence[int], estimates: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    """Estimate from every prefix of one history; returns a record for each."""
    X, y = draw(design, dimension, max(sizes), seed)
    records = []
    for n in sizes:
        for name in estimates:
            found = estimate(name, X[:n], y[:n])
            ratios = found.length_scales / LENGTH_SCALES[dimension]
            records.append(
                {
                    "design": design,
                    "dimension": dimension,
                    "n": n,
                    "seed": seed,
                    "estimate": name,
                    "length_scale_ratios": ratios.tolist(),
                }
            )
    return records


def run(options: argparse.Namespace, report: Report) -> None:
    """Draw every history, estimate from it, and report."""
    report.restart()
    estimates = list(dict.fromkeys(options.estimates))
    records = []
    for seed in range(options.seeds):
        for dimension in options.dimensions:
            for design in DESIGNS:
                report.progress(f"{design}, d = {dimension}, seed {seed}")
                fresh = measure(design, dimension, options.sizes, estimates, seed)
                for record in fresh:
                    report.record(**record)
                records += fresh
    add_tables(report, records, estimates)


def add_tables(
    report: Report, records: Sequence[Mapping[str, Any]], estimates: Sequence[str]
) -> None:
    """Add the table of length-scales to the report, and which goals are met."""
    if not records:
        report.note("Nothing was measured.")
        return
    settings = sorted({(r["dimension"], list(DESIGNS).index(r["design"]), r["n"]) for r in records})
    length_rows = []
    for dimension, design_index, n in settings:
        design = list(DESIGNS)[design_index]
        chosen = [r for r in records if _setting(r) == (dimension, design, n)]
        head = [dimension, design, n]
        length_rows.append(
            [*head, *(quartiles(_length_ratios(chosen, name)) for name in estimates)]
        )
    n_seeds = len({record["seed"] for record in records})
    headers = ["d", "history", "n", *estimates]
    report.table(
        f"Estimated / true length-scale: median [quartiles] over {n_seeds} seeds and all axes",
        headers,
        length_rows,
    )
    _add_goal(report, records, estimates)


def _add_goal(
    report: Report, records: Sequence[Mapping[str, Any]], estimates: Sequence[str]
) -> None:
    """Say which estimates are near the truth on the longest biased histories."""
    n = max(record["n"] for record in records)
    biased = [r for r in records if r["design"] in BIASED and r["n"] == n]
    rows = []
    for name in estimates:
        cells, met = [], True
        for design in BIASED:
            ratios = _length_ratios([r for r in biased if r["design"] == design], name)
            median = float(np.median(ratios))
            met &= GOAL[0] <= median <= GOAL[1]
            cells.append(f"{median:.3g}")
        spread = math.exp(float(np.abs(np.log(_length_ratios(biased, name))).mean()))
        pooled = float(np.median(_length_ratios(biased, name)))
        rows.append([name, *cells, f"{pooled:.3g}", f"{spread:.3g}", verdict(met)])
    headers = ["estimate", *BIASED, "all biased", "typical factor", "goal"]
    report.table(
        f"Median length-scale ratio on biased histories, n = {n}, all d; goal: "
        f"{GOAL[0]:g} to {GOAL[1]:g} in each",
        headers,
        rows,
    )
    report.note(
        "The typical factor by which an estimate is off, the exponential of the mean |log ratio|: "
        "a median near one does not say that single estimates are near the truth."
    )


def _setting(record: Mapping[str, Any]) -> tuple[int, str, int]:
    return record["dimension"], record["design"], record["n"]


def _length_ratios(records: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [ratio for r in records if r["estimate"] == name for ratio in r["length_scale_ratios"]]
