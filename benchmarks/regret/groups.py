"""Tables of the ``regret`` benchmark by group of problems: an entrant against its baseline, ranks.

An entrant and its baseline differ in the estimation of hyperparameters only (``ours-uhe`` against
``ours-map``, with the same acquisition function), and their runs in a problem and seed share the
start-up points and the noise.  What is reported is the geometric mean of the ratio of their final
regrets: per problem with a bootstrap interval over seeds; per group, where the claim is about
problems like these, with a bootstrap over problems and, within each, over seeds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.problems.problem import GROUPS
from benchmarks.regret.problems import problem_named
from benchmarks.regret.tables import Regrets, collect, ranks_by_seed

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


def add_group_tables(
    report: Report, records: Iterable[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add the mean ranks by group and the comparisons with the baselines to the report."""
    regrets = collect(records, samplers, report.directory)
    if not regrets or not samplers:
        return
    groups = {name: problem_named(name, report.directory).group for name in regrets}
    by_group: dict[str, Regrets] = {
        group: chosen
        for group in GROUPS
        if (chosen := {name: regrets[name] for name in regrets if groups[name] == group})
    }
    _add_ranks(report, {**by_group, "all": regrets}, samplers)
    _add_comparison(report, by_group, samplers)


def _add_ranks(report: Report, by_group: Mapping[str, Regrets], samplers: Sequence[str]) -> None:
    """Add the mean rank of each sampler in each group."""
    ranks = [ranks_by_seed(regrets, samplers).mean(axis=0) for regrets in by_group.values()]
    rows = [
        [sampler, *(f"{rank:.2f}" for rank in column)]
        for sampler, column in zip(samplers, np.transpose(ranks), strict=True)
    ]
    headers = ["sampler", *(f"{group} ({len(regrets)})" for group, regrets in by_group.items())]
    report.table("Mean rank per seed, by group (number of problems); 1 is best", headers, rows)


def _add_comparison(
    report: Report, by_group: Mapping[str, Regrets], samplers: Sequence[str]
) -> None:
    """Add the ratios of every entrant to its baseline, a column each, where both have run."""
    pairs = [
        (name, baseline)
        for name in samplers
        if (baseline := SAMPLERS[name].baseline) is not None and baseline in samplers
    ]
    if not pairs:
        return
    rows = []
    for group, regrets in by_group.items():
        columns = [_log_ratios(regrets, *pair) for pair in pairs]
        for i, problem in enumerate(regrets):
            cells = [_cell(log_ratios[i : i + 1]) for log_ratios in columns]
            rows.append([group, problem, *cells])
        rows.append([group, "**all**", *(f"**{_cell(log_ratios)}**" for log_ratios in columns)])
        goal = GOALS.get(group)
        if goal is not None:
            rows.append([group, f"<= {goal:g}", *(_verdict(column, goal) for column in columns)])
    report.table(
        "Ratio of final regrets to the baseline (below 1: better than it), geometric mean "
        "[95% bootstrap]",
        ["group", "problem", *(f"{name} / {baseline}" for name, baseline in pairs)],
        rows,
    )


def _log_ratios(regrets: Regrets, name: str, baseline: str) -> NDArray[np.float64]:
    """Return log(regret / baseline's regret), shape (n_problems, n_seeds)."""
    return np.array([np.log(values[name] / values[baseline]) for values in regrets.values()])


def _cell(log_ratios: NDArray[np.float64]) -> str:
    ratio, low, high = geometric_mean_interval(log_ratios)
    return f"{ratio:.3g} [{low:.2g}, {high:.2g}]"


def _verdict(log_ratios: NDArray[np.float64], goal: float) -> str:
    return "met" if math.exp(float(log_ratios.mean())) <= goal else "MISSED"
