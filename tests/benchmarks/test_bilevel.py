"""The bilevel benchmark: same start for everyone, budgets kept, resuming, tables."""

import pytest

from benchmarks.bilevel import run as bilevel
from benchmarks.bilevel.entrants import N_INITIAL, STRATEGIES, Campaign
from benchmarks.bilevel.problems import TASKS
from benchmarks.bilevel.task import LOWER, UPPER

BRANIN = TASKS["branin-goldstein"]


def test_everyone_starts_alike() -> None:
    """Two campaigns of a seed have the same first observations, of another seed others."""
    first, again, other = (Campaign(BRANIN, seed) for seed in (0, 0, 1))
    assert first.values == again.values
    assert first.values != other.values
    assert first.n_queries == N_INITIAL * 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_nobody_exceeds_the_budget(name: str) -> None:
    """A strategy stops at the number of queries it is given, and uses nearly all of it."""
    campaign = Campaign(BRANIN, 0)
    for n in (13, 25):
        STRATEGIES[name](campaign, n)
        assert n - 2 <= campaign.n_queries <= n


def test_regret_of_each_function_over_queries() -> None:
    """F, f and the sum of the constraints' violations are told apart, and averaged over seeds."""
    curves: list[list[dict[str, float]]] = [
        [{"n_queries": 8, UPPER: 0.5, LOWER: 0.25, "a": 1.0, "b": 0.5}],
        [{"n_queries": 8, UPPER: 0.0, LOWER: 0.25, "a": 0.0, "b": 0.5}, {"n_queries": 9}],
    ]
    assert bilevel.by_function(curves[0][0]) == (0.5, 0.25, 1.5)
    rows = bilevel.regret_rows([{"curve": curve[:1]} for curve in curves])
    assert rows == [["8", "0.25", "0.25", "1", "1.5", "2.25"]]
