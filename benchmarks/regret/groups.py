"""Tables of the ``regret`` benchmark by group of problems: an entrant against its baseline, ranks.

An entrant and its baseline differ in the estimation of hyperparameters only (``ours-uhe`` against
``ours-map``, with the same acquisition function), and their runs in a problem and seed share the
start-up points and the noise.  What is reported is the geometric mean of the ratio of their final
regrets: per problem with a bootstrap interval over seeds; per group, where the claim is about
problems like these, with a bootstrap over problems and, within each, over seeds.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.tables import ALL, Comparison, log_ratios, mean_ranks, verdict
from benchmarks.problems.problem import GROUPS

# The largest geometric mean of the ratio, per group, that counts as success.
GOALS = {"deceptive": 0.7, "smooth": 1.2}
_RESAMPLES = 4000
_LEVELS = (0.025, 0.975)


def geometric_mean_interval(log_ratios: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the geometric mean and its 95% bootstrap interval.

    Args:
        log_ratios: Logarithms of the ratios, shape (n_problems, n_seeds). Problems are drawn with
            replacement, and seeds anew for each problem drawn; of one problem, only seeds are.
    """
    n_problems, n_seeds = log_ratios.shape
    rng = np.random.default_rng(0)
    problems = rng.integers(n_problems, size=(_RESAMPLES, n_problems, 1))
    seeds = rng.integers(n_seeds, size=(_RESAMPLES, n_problems, n_seeds))
    low, high = np.quantile(log_ratios[problems, seeds].mean(axis=(1, 2)), _LEVELS)
    return math.exp(float(log_ratios.mean())), math.exp(float(low)), math.exp(float(high))


def add_group_tables(report: Report, comparison: Comparison) -> None:
    """Add the mean ranks by group and the comparisons with the baselines to the report."""
    if comparison.curves:
        groups = [group for group in GROUPS if comparison.cells(group=group)]
        _add_ranks(report, comparison, [*groups, ALL])
        _add_baselines(report, comparison, groups)


def _add_ranks(report: Report, comparison: Comparison, groups: Sequence[str]) -> None:
    """Add the mean rank of each sampler in each group."""
    columns, headers = [], ["sampler"]
    for group in groups:
        cells = comparison.cells(group=group)
        ranks, _ = mean_ranks(cells, comparison.entrants)
        if ranks is not None:
            columns.append(ranks)
            headers.append(f"{group} ({len({problem for problem, _seed in cells})})")
    rows = [
        [sampler, *(f"{ranks[i]:.2f}" for ranks in columns)]
        for i, sampler in enumerate(comparison.entrants)
    ]
    report.table("Mean rank per seed, by group (number of problems); 1 is best", headers, rows)


def _add_baselines(report: Report, comparison: Comparison, groups: Sequence[str]) -> None:
    """Add the ratios of every entrant to its baseline, a column each, where both have run."""
    pairs = [
        (name, baseline)
        for name in comparison.entrants
        if (baseline := SAMPLERS[name].baseline) is not None and baseline in comparison.entrants
    ]
    if not pairs:
        return
    rows = []
    for group in groups:
        cells = comparison.cells(group=group)
        columns = [log_ratios(cells, *pair) for pair in pairs]
        for problem in columns[0]:
            ratios = [_cell(np.array([column[problem]])) for column in columns]
            rows.append([group, problem, *ratios])
        all_ratios = [np.array(list(column.values())) for column in columns]
        rows.append([group, "**all**", *(f"**{_cell(ratios)}**" for ratios in all_ratios)])
        goal = GOALS.get(group)
        if goal is not None:
            met = (math.exp(float(ratios.mean())) <= goal for ratios in all_ratios)
            rows.append([group, f"<= {goal:g}", *map(verdict, met)])
    report.table(
        "Ratio of final regrets to the baseline (below 1: better than it), geometric mean "
        "[95% bootstrap]",
        ["group", "problem", *(f"{name} / {baseline}" for name, baseline in pairs)],
        rows,
    )


def _cell(log_ratios: NDArray[np.float64]) -> str:
    ratio, low, high = geometric_mean_interval(log_ratios)
    return f"{ratio:.3g} [{low:.2g}, {high:.2g}]"
