"""The benchmarks of long studies: the rules it compares, its tables, and the memory it reads."""

import numpy as np

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods.observations import Observations
from benchmarks.common.report import Report
from benchmarks.scale import run as scale
from benchmarks.scale.rules import ALL, CHOSEN, RULES

PLANE = FeatureMap((0, 0))


def study(n: int) -> Observations:
    """Return random observations whose values tell them apart; the best of them is an early one."""
    rng = np.random.default_rng(0)
    y = rng.permutation(n).astype(float)
    y[3] = 1000.0
    return Observations(
        X=rng.random((n, 2)), y=y, complete=np.ones(n, bool), pending=np.empty((0, 2))
    )


def test_the_variance_rule_spreads_out() -> None:
    """The greedy choice by conditional variance leaves no pair as close as random ones are."""
    whole = study(300)
    gaps = {}
    for name in ("random", "variance"):
        X = RULES[name](whole, PLANE, 30).X
        distances = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(len(X), 1)]
        gaps[name] = distances.min()
    assert gaps["variance"] > 3.0 * gaps["random"]


def test_the_table_has_medians_ranks_and_differences(report: Report) -> None:
    """Made-up regrets come out as they should: ties share a rank, negligible regrets are equal."""
    records = [
        {"problem": "f", "seed": s, "rule": r, "regret": x, "scale": 1.0, "seconds": [1.5, 0.5]}
        for s, r, x in [(0, ALL, 1e-9), (0, CHOSEN, 1e-8), (1, ALL, 0.01), (1, CHOSEN, 0.1)]
    ]
    scale.add_regret_table(report, "title", records, (ALL, CHOSEN))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.text().split("\n")]
    assert ["f", "-4.0", "-3.5"] in [line for line in lines if line] or ["f", "-4", "-3.5"] in lines
    assert ["mean rank", "1.25", "1.75"] in lines
    assert ["mean, less all", "0.00 ± 0.00", "0.50 ± 0.35"] in lines
