"""Tables by group and those of the paper's figures, against hand calculations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.common.report import Report
from benchmarks.common.tables import Comparison
from benchmarks.problems.functions import PROBLEMS
from benchmarks.regret import groups as regret_groups
from benchmarks.regret import paper as regret_paper


def records_of(regrets: Mapping[tuple[str, str], Sequence[float]]) -> list[dict[str, Any]]:
    """Return records with the given final regrets, (problem, sampler) -> one per seed."""
    return [
        {"problem": problem, "entrant": entrant, "seed": seed, "regrets": [value]}
        for (problem, entrant), values in regrets.items()
        for seed, value in enumerate(values)
    ]


def rows_of(report: Report, title: str) -> list[list[str]]:
    """Return the cells of the table whose title begins so."""
    section = next(text for text in report.sections if text.startswith(f"## {title}"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()[4:]]


def test_interval_of_equal_ratios_is_a_point() -> None:
    """Without spread there is no uncertainty."""
    log_ratios = np.full((3, 5), math.log(0.5))
    assert regret_groups.geometric_mean_interval(log_ratios) == pytest.approx((0.5, 0.5, 0.5))


def test_interval_over_seeds_has_the_standard_error() -> None:
    """For one problem the interval is about the mean ± 1.96 standard errors over seeds."""
    sample = np.random.default_rng(0).normal(0.3, 1.0, size=400)
    ratio, low, high = regret_groups.geometric_mean_interval(sample[None])
    assert math.log(ratio) == pytest.approx(sample.mean())
    half = 1.96 * sample.std() / 20.0
    assert math.log(low) == pytest.approx(sample.mean() - half, abs=0.02)
    assert math.log(high) == pytest.approx(sample.mean() + half, abs=0.02)


def test_interval_over_problems_counts_problems_not_runs() -> None:
    """Problems that disagree leave the group's mean open, however many seeds each has."""
    disagreeing = np.repeat([[-1.0], [1.0], [-1.0], [1.0]], 100, axis=1)
    _, low, high = regret_groups.geometric_mean_interval(disagreeing)
    assert math.log(low) == pytest.approx(-1.0, abs=0.26)
    assert math.log(high) == pytest.approx(1.0, abs=0.26)


def test_group_tables(report: Report) -> None:
    """Ratios per problem and group, goals, and ranks equal the hand calculation."""
    names = ["ours-uhe", "ours-map", "ours-uhe-ucb", "ours-map-ucb", "tpe"]
    per_problem = {
        "branin": ([2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [9.0, 9.0]),
        "schwefel4": ([100.0, 400.0], [400.0, 400.0], [50.0, 50.0], [800.0, 800.0], [900.0, 9e2]),
        "deceptive2": ([0.1, 0.1], [0.4, 0.4], [0.6, 0.6], [0.3, 0.3], [0.2, 0.05]),
    }
    regrets = {
        (problem, name): values
        for problem, columns in per_problem.items()
        for name, values in zip(names, columns, strict=True)
    }
    problems = {name: PROBLEMS[name] for name in per_problem}
    groups = {name: problem.group for name, problem in problems.items()}
    comparison = Comparison.of(records_of(regrets), names, problems, groups)
    regret_groups.add_group_tables(report, comparison)

    baselines = rows_of(report, "Ratio of final regrets")
    ratios = {(row[0], row[1]): [cell.split(" ")[0] for cell in row[2:]] for row in baselines}
    assert ratios["smooth", "branin"] == ["2", "1"]
    assert ratios["deceptive", "schwefel4"] == ["0.5", "0.0625"]
    assert ratios["deceptive", "deceptive2"] == ["0.25", "2"]
    assert ratios["deceptive", "**all**"] == ["**0.354", "**0.354"]
    assert ratios["deceptive", "<= 0.7"] == ["met", "met"]
    assert ratios["smooth", "<= 1.2"] == ["MISSED", "met"]

    ranks = {row[0]: row[1:] for row in rows_of(report, "Mean rank per seed")}
    assert list(ranks) == names
    # branin: 5 and 2 (shared by three); schwefel4: 5 and 4; deceptive2: 2 or 1 by seed, and 3.
    assert ranks["tpe"] == ["3.25", "5.00", "3.83"]
    assert ranks["ours-map-ucb"] == ["3.50", "2.00", "3.00"]


def test_prediction_error_goes_from_one_to_zero() -> None:
    """Many spread-out points predict nearly all of a smooth function, two points about nothing."""
    points = np.random.default_rng(0).random((60, 2))
    assert regret_paper.prediction_error("paper_branin", points, "marginal") < 0.01
    assert 0.3 < regret_paper.prediction_error("paper_branin", points[:2], "marginal") < 3.0
