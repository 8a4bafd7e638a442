"""Which trials are feasible, and what counts where they report no constraint, branch by branch."""

from __future__ import annotations

import math
import sys

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.study.constraints import are_feasible, constraint_table
from bbo_plugins.optuna.study.trials import TrialRow

NAN = math.nan


def rows(*trials: tuple[str, dict[str, float]], pruned: tuple[int, ...] = ()) -> list[TrialRow]:
    """Return trials with these parameters, one letter each, and constraints, in this order."""
    study = optuna.create_study()
    for number, (names, constraints) in enumerate(trials):
        is_pruned = number in pruned
        study.add_trial(
            optuna.create_trial(
                state=TrialState.PRUNED if is_pruned else TrialState.COMPLETE,
                value=None if is_pruned else 1.0,
                params=dict.fromkeys(names, 0.5),
                distributions={name: FloatDistribution(0.0, 1.0) for name in names},
                system_attrs={f"constraints:{key}": value for key, value in constraints.items()},
            )
        )
    return [TrialRow.read(trial) for trial in study.trials]


@pytest.mark.parametrize(
    "trials, pruned, feasible",
    [
        ([("x", {}), ("x", {"c": 1.0}), ("x", {})], (), "yny"),  # where it is violated only
        ([("x", {}), ("x", {"c": 1.0})], (), "nn"),  # or may have been added in the middle
        ([("x", {}), ("x", {"c": -1.0})], (), "ny"),  # then one without it is not known
        ([("xy", {"c": -1.0}), ("x", {})], (), "yy"),  # another branch has none
        ([("xy", {"c": -1.0}), ("x", {}), ("x", {"d": 1.0})], (), "yyn"),  # reports it if violated
        ([("x", {}), ("xy", {"c": -1.0}), ("x", {"d": 1.0})], (), "nyn"),
        ([("xy", {"c": -1.0}), ("x", {}), ("x", {"c": -1.0})], (), "yny"),
        # Pruned before it asked for y:
        ([("xy", {"c": -1.0}), ("x", {}), ("x", {"c": -1.0})], (2,), "yyn"),
        # Parameter and constraint are added in the middle of a study, with x alone in one trial:
        ([("x", {}), ("x", {}), ("xy", {"c": -1.0})], (), "nny"),
        ([("x", {}), ("xy", {"c": -1.0}), ("x", {})], (), "yyy"),
        ([("x", {}), ("xy", {"c": -1.0}), ("x", {})], (2,), "nyn"),
        ([], (), ""),
    ],
)
def test_feasible_trials(
    trials: list[tuple[str, dict[str, float]]], pruned: tuple[int, ...], feasible: str
) -> None:
    """A branch, that is a set of parameters, need not report what others do."""
    found = are_feasible(rows(*trials, pruned=pruned))
    assert "".join("ny"[is_feasible] for is_feasible in found) == feasible


def test_values_of_constraints_that_a_branch_does_not_have() -> None:
    """The median of those that meet it elsewhere; nothing where a trial is not feasible."""
    met = [("xy", {"c": -value, "d": value - 2.5}) for value in (1.0, 3.0, 2.0)]
    others = [("x", {}), ("x", {}), ("x", {"d": 1.0}), ("xy", {"d": -4.0})]
    names, table = constraint_table(rows(*met, *others, pruned=(4,)))
    assert names == ("c", "d")
    expected = [
        *([-1.0, -1.5], [-3.0, 0.5], [-2.0, -0.5]),
        *([-2.0, -1.5], [NAN, NAN], [NAN, 1.0], [NAN, -4.0]),
    ]
    np.testing.assert_array_equal(table, expected)


def test_the_median_of_the_largest_floats_is_one_of_them() -> None:
    """Their sum would be infinite."""
    largest = sys.float_info.max
    met = [("xy", {"c": -largest}), ("xy", {"c": -largest})]
    _, table = constraint_table(rows(*met, ("x", {})))
    np.testing.assert_array_equal(table, [[-largest]] * 3)
