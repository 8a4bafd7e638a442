"""Tests of learning from the trials where each parameter exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.study.parameters import ParameterLearner, space_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

    from bbo_plugins.space import SearchSpace

UNIT = FloatDistribution(0.0, 1.0)


def rows_of(objective: Callable[[Trial], Any], n: int, seed: int = 0) -> list[FrozenTrial]:
    """Return the rows of random trials."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))

    def evaluated(trial: Trial) -> float:
        objective(trial)
        return 0.0

    study.optimize(evaluated, n_trials=n)
    return study.trials


def learned(rows: list[FrozenTrial]) -> SearchSpace:
    """Return the space that these trials show."""
    learner = ParameterLearner()
    for row in rows:
        learner.add(row)
    found = learner.parameters()
    return space_of(found.distributions, found.conditions)


def agreement(objective: Callable[[Trial], Any], space: SearchSpace) -> float:
    """Return the share of new random trials whose parameters the space foretells exactly."""
    rows = rows_of(objective, 200, seed=7)
    foretold = [set(space.decode(space.encode([row.params])[0])) for row in rows]
    return float(
        np.mean([set(row.params) == names for row, names in zip(rows, foretold, strict=True)])
    )


def category(trial: Trial) -> None:
    """A parameter of its own behind each category."""
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    trial.suggest_float("always", 0.0, 1.0)
    trial.suggest_float(f"own_{kind}", 0.0, 1.0)


def size(trial: Trial) -> None:
    """Parameters behind some of the sizes, which are listed in no order."""
    size = trial.suggest_categorical("size", [64, 8, 32, 16])
    if size in {8, 32}:
        trial.suggest_float("own", 0.0, 1.0)


def integer(trial: Trial) -> None:
    """A parameter per level."""
    for i in range(trial.suggest_int("n", 0, 4)):
        trial.suggest_float(f"x{i}", 0.0, 1.0)


def large_integer(trial: Trial) -> None:
    """A parameter above a threshold of an integer with many levels."""
    if trial.suggest_int("n", 0, 1000) >= 400:
        trial.suggest_categorical("x", ["p", "q"])


def nested(trial: Trial) -> None:
    """Three levels."""
    if trial.suggest_categorical("a", [True, False]):
        if trial.suggest_categorical("b", ["p", "q"]) == "q":
            trial.suggest_float("c", 0.0, 1.0)
    else:
        trial.suggest_int("d", 1, 3)


def conjunction(trial: Trial) -> None:
    """A parameter that needs two others."""
    a = trial.suggest_categorical("a", ["p", "q", "r"])
    b = trial.suggest_categorical("b", [True, False])
    if a == "q" and b:
        trial.suggest_float("x", 0.0, 1.0)


def twins(trial: Trial) -> None:
    """Two parameters that need two others: each of them decides about the other."""
    use = trial.suggest_categorical("use", [True, False])
    if trial.suggest_float("size", 0.1, 10.0, log=True) > 1.0 and use:
        trial.suggest_float("share", 0.0, 1.0)
        trial.suggest_int("order", 1, 6)


def late_parent(trial: Trial) -> None:
    """The parent has an early place in one branch and a late one in the other."""
    kind = trial.suggest_categorical("kind", ["short", "long"])
    if kind == "long":
        for i in range(6):
            trial.suggest_float(f"x{i}", 0.0, 1.0)
    if trial.suggest_categorical("switch", [True, False]):
        trial.suggest_float("child", 0.0, 1.0)


def moving(trial: Trial) -> None:
    """A range that depends on another parameter."""
    high = trial.suggest_int("high", 2, 5)
    if trial.suggest_int("low", 1, high) > 1:
        trial.suggest_float("z", 0.0, 1.0)


def interval(trial: Trial) -> None:
    """A parameter between two thresholds of one other."""
    if 0.3 < trial.suggest_float("x", 0.0, 1.0) < 0.6:
        trial.suggest_float("z", 0.0, 1.0)


@pytest.mark.parametrize(
    "objective, n, least",
    [
        (category, 60, 1.0),
        (size, 60, 1.0),
        (integer, 60, 1.0),
        (nested, 60, 1.0),
        (conjunction, 60, 1.0),
        (late_parent, 60, 1.0),
        (large_integer, 200, 0.98),
        (interval, 100, 0.95),
        (twins, 80, 0.95),
    ],
)
def test_rules_are_found(objective: Callable[[Trial], Any], n: int, least: float) -> None:
    """So many random trials are enough to foretell this share of the later ones."""
    assert agreement(objective, learned(rows_of(objective, n))) >= least


def test_threshold_of_a_float() -> None:
    """It lies in the middle between the values on its sides, on the parameter's own scale."""

    def objective(trial: Trial) -> None:
        if trial.suggest_float("x", 1.0, 100.0, log=True) > 20.0:
            trial.suggest_float("z", 0.0, 1.0)

    rows = rows_of(objective, 40)
    space = learned(rows)
    below = max(row.params["x"] for row in rows if "z" not in row.params)
    above = min(row.params["x"] for row in rows if "z" in row.params)
    middle = (below * above) ** 0.5
    xs = [1.0, below, 0.999 * middle, 1.001 * middle, above, 100.0]
    active = space.active(space.encode([{"x": x} for x in xs]))[:, 1]
    assert active.tolist() == [False, False, False, True, True, True]


@pytest.mark.parametrize("latest", [(0, 20), (0, 8), (0, 5), (14, 20), (11, 20), (3, 12)])
@pytest.mark.parametrize("has_kind", [False, True])
@pytest.mark.parametrize("least", range(8, 14))
def test_threshold_of_an_integer_is_between_two_levels(
    least: int, has_kind: bool, latest: tuple[int, int]
) -> None:
    """Also behind another parent, and where the range has moved to one side of it or to both."""
    rows = []
    # Each kind has each of the 21 levels twice; the latest twenty trials are of kind "a".
    for number in range(104):
        low, high = (0, 20) if number < 84 else latest
        params: dict[str, Any] = {"n": low + number % (high - low + 1)}
        distributions: dict[str, BaseDistribution] = {"n": IntDistribution(low, high)}
        if has_kind:
            params["kind"] = "ab"[number // 21 % 2]
            distributions["kind"] = CategoricalDistribution(["a", "b"])
        if params["n"] >= least and params.get("kind", "a") == "a":
            params["z"], distributions["z"] = 0.5, UNIT
        rows.append(optuna.create_trial(value=0.0, params=params, distributions=distributions))
        rows[-1].number = number
    space = learned(rows)
    levels = range(latest[0], latest[1] + 1)
    points = space.encode([{"kind": "a", "n": n} if has_kind else {"n": n} for n in levels])
    active = space.active(points)[:, space.names.index("z")]
    assert active.tolist() == [n >= least for n in levels]


def test_order_of_trials_does_not_matter() -> None:
    """One by one, all at once or backwards: the same conditions."""
    for objective in (category, nested, conjunction, large_integer, moving):
        rows = rows_of(objective, 40)
        backwards = learned(rows[::-1])
        learner = ParameterLearner()
        for row in rows:
            learner.add(row)
            found = learner.parameters()
        assert space_of(found.distributions, found.conditions) == backwards == learned(rows)


def test_what_cannot_be_decided_is_active() -> None:
    """A parameter that comes and goes for no reason, and a category that no trial had."""

    def objective(trial: Trial) -> None:
        kind = trial.suggest_categorical("kind", ["a", "b", "never"])
        if kind == "a":
            trial.suggest_float("x", 0.0, 1.0)
        if trial.number % 2:
            trial.suggest_float("odd", 0.0, 1.0)

    rows = [row for row in rows_of(objective, 60) if row.params["kind"] != "never"]
    space = learned(rows)
    new = space.encode([{"kind": "never"}])
    assert space.active(new)[0, space.names.index("x")]
    odd = space.active(space.snap(np.random.default_rng(0).random((100, len(space)))))
    assert space.conditions["odd"] is True
    assert odd[:, space.names.index("odd")].all()


def test_pruned_trials_say_only_what_they_have() -> None:
    """One cut off before its last parameter is no evidence of its absence."""

    def trial(number: int, state: TrialState, params: dict[str, float]) -> FrozenTrial:
        frozen = optuna.create_trial(
            state=state,
            value=0.0 if state is TrialState.COMPLETE else None,
            params=params,
            distributions=dict.fromkeys(params, UNIT),
        )
        frozen.number = number
        return frozen

    whole = [trial(i, TrialState.COMPLETE, {"x": 0.1 * i, "y": 0.5}) for i in range(5)]
    assert not learned([*whole, trial(5, TrialState.PRUNED, {"x": 0.9})]).conditions
    more = learned([*whole, trial(5, TrialState.PRUNED, {"x": 0.9, "y": 0.5, "z": 0.5})])
    assert set(more.conditions) == {"z"}


def test_a_pruned_trial_does_not_hide_a_parent() -> None:
    """It had the child, but was cut off before it asked for one of two parents."""
    rows = rows_of(conjunction, 60)[1:]
    cut_off = next(row for row in rows_of(conjunction, 60, seed=1) if "x" in row.params)
    cut_off.number, cut_off.state = 0, TrialState.PRUNED
    cut_off.params = {name: cut_off.params[name] for name in ("a", "x")}
    cut_off.distributions = {name: cut_off.distributions[name] for name in ("a", "x")}
    assert agreement(conjunction, learned([*rows, cut_off])) == 1.0


@pytest.mark.parametrize("range_", [(-1.7e308, 1.7e308, False), (1e-300, 1e10, True)])
def test_ranges_that_overflow_are_no_parameters(range_: tuple[float, float, bool]) -> None:
    """A trial that another program added does not end the study."""
    low, high, log = range_
    frozen = optuna.create_trial(
        value=0.0,
        params={"x": 1.0, "y": 0.5},
        distributions={"x": FloatDistribution(low, high, log=log), "y": UNIT},
    )
    assert learned([frozen]).names == ("y",)
