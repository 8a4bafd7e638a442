"""What a model is told about a study: signs, states, odd values, constraints, noise."""

from __future__ import annotations

import math
from copy import deepcopy
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.points import PlacedTrials
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import TrialReader
from bbo_plugins.space import Split
from tests.optuna.snapshots import MIXED, SPACE, Direction, X, ask, finished, look, study_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

KIND = CategoricalDistribution(["a", "b"])


@pytest.mark.parametrize("direction, sign", [("maximize", 1.0), ("minimize", -1.0)])
def test_values_are_maximized(direction: Direction, sign: float) -> None:
    """The sign is flipped for minimization, and only then."""
    study = study_of(finished(1.0, 3.0), finished(2.0, -5.0), direction=direction)
    seen = look(study).observations
    np.testing.assert_array_equal(seen.y, [sign * 3.0, sign * -5.0])
    np.testing.assert_allclose(seen.X, [[0.1], [0.2]])
    assert seen.complete.all()
    assert seen.noise_variance is None
    assert seen.constraints is None


def test_only_trials_with_a_value_count() -> None:
    """FAIL, WAITING and RUNNING trials, and pruned ones without a value, are no observations."""
    study = study_of(
        finished(1.0, 1.0),
        finished(2.0, None, TrialState.FAIL),
        finished(3.0, None, TrialState.PRUNED),
        finished(4.0, None, TrialState.PRUNED, {0: math.nan}),
        finished(5.0, None, TrialState.PRUNED, {0: math.inf}),
    )
    study.enqueue_trial({"x": 6.0})
    ask(study)
    np.testing.assert_allclose(look(study).observations.X, [[0.1]])


def test_pruned_trial_counts_with_its_last_value() -> None:
    """The last reported value counts, up to the median of the complete ones, as not complete."""
    study = study_of(
        finished(1.0, 1.0),
        finished(2.0, 2.0),
        finished(3.0, 6.0),
        finished(4.0, None, TrialState.PRUNED, {0: 9.0, 3: -4.0, 1: 9.0}),
        finished(5.0, None, TrialState.PRUNED, {0: 5.0}),
    )
    seen = look(study).observations
    np.testing.assert_array_equal(seen.y, [1.0, 2.0, 6.0, -4.0, 2.0])
    np.testing.assert_array_equal(seen.complete, [True, True, True, False, False])


@pytest.mark.parametrize(
    "values, expected, failed",
    [
        ([1.0, math.inf, 3.0, -math.inf], [1.0, 3.0, 3.0], [[0.3]]),
        ([math.inf, -math.inf], [1.0], [[0.1]]),
        ([-math.inf], [], [[0.0]]),
    ],
)
def test_infinite_values(
    values: list[float], expected: list[float], failed: list[list[float]]
) -> None:
    """A good one counts as the best finite one, a bad one as a failure; how many is reported."""
    snapshot = look(study_of(*[finished(float(i), value) for i, value in enumerate(values)]))
    np.testing.assert_array_equal(snapshot.observations.y, expected)
    np.testing.assert_allclose(snapshot.observations.failed, failed)
    n_infinite = sum(math.isinf(value) for value in values)
    assert snapshot.notes["infinite"].startswith(f"{n_infinite} infinite value")


@pytest.mark.parametrize("penalty", [-math.inf, -1e6])
def test_a_penalty_is_read_as_a_failure(penalty: float) -> None:
    """A study whose objective returns one is the same as a study in which these trials fail."""
    values = np.random.default_rng(0).normal(size=24)
    rejected = range(0, 24, 5)

    def study_with(state: TrialState, value: float | None) -> Study:
        return study_of(
            *[
                finished(i / 4, value, state) if i in rejected else finished(i / 4, values[i])
                for i in range(24)
            ]
        )

    seen = look(study_with(TrialState.COMPLETE, penalty)).observations
    expected = look(study_with(TrialState.FAIL, None)).observations
    for name in ("X", "y", "complete", "failed", "n_beside"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(expected, name), err_msg=name)
    assert len(seen.still_failed) == len(rejected)


def test_a_penalty_where_a_constraint_is_violated_teaches_the_constraint_only() -> None:
    """Its value is no value of the objective's; where none is violated it is a failure."""
    values = np.random.default_rng(0).normal(size=12).tolist()
    trials = [
        finished(i / 2, value, attributes={"constraints": [constraint]})
        for i, (value, constraint) in enumerate(
            [*zip(values, np.arange(-6.0, 6.0), strict=True), (-1e6, 7.0), (-math.inf, 8.0)]
        )
    ]
    last = finished(9.0, -1e6, attributes={"constraints": [-1.0]})
    seen = look(study_of(*trials, last)).observations
    np.testing.assert_array_equal(seen.y, [*values, min(values), min(values)])
    assert seen.constraints is not None
    np.testing.assert_array_equal(seen.constraints[:, 0], [*np.arange(-6.0, 6.0), 7.0, 8.0])
    np.testing.assert_array_equal(seen.valued.X, seen.X[:12])
    assert seen.valued.y.tolist() == values
    np.testing.assert_array_equal(seen.still_failed, look(study_of(last)).observations.X)


@pytest.mark.parametrize("value", [-math.inf, math.inf])
def test_infinite_values_that_all_violate_a_constraint(value: float) -> None:
    """As of a study's first trial: it teaches the constraint, and nothing else is known."""
    seen = look(study_of(finished(1.0, value, attributes={"constraints": [2.0]}))).observations
    np.testing.assert_array_equal(seen.constraints, [[2.0]])
    assert seen.lacks_direction
    assert not len(seen.still_failed)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_penalties_beside_constraints_may_be_of_any_size(size: float) -> None:
    """Nor do the usual values have to be near one."""
    values = size * np.random.default_rng(0).normal(size=12)
    usual = [finished(i / 2, y, attributes={"constraints": [-1.0]}) for i, y in enumerate(values)]
    violating = finished(9.0, -math.inf, attributes={"constraints": [1.0]})
    seen = look(study_of(*usual, violating)).observations
    np.testing.assert_array_equal(seen.valued.y, values)
    assert len(seen.y) == 13


def test_a_branch_may_be_far_worse_until_it_is_tuned() -> None:
    """In a branch with fewer than ten usual values only infinitely bad ones are failures."""
    a, b = {"k": KIND, "x": X}, {"k": KIND, "y": X}
    values = [*np.random.default_rng(0).normal(size=14).tolist(), -1e6, -math.inf]
    study = study_of(
        *[
            optuna.create_trial(
                value=value,
                params={"k": "a", "x": i / 2} if i < 8 else {"k": "b", "y": i / 2},
                distributions=a if i < 8 else b,
            )
            for i, value in enumerate(values)
        ]
    )
    reader = StudyReader(outliers_from=None)  # an outlier is left out by another rule
    snapshot = reader.snapshot(study, ask(study), reader.distributions(study), {})
    assert snapshot.space.is_conditional
    np.testing.assert_array_equal(snapshot.observations.y, values[:15])
    assert len(snapshot.observations.still_failed) == 1


def test_pruned_values_are_no_better_than_those_that_count() -> None:
    """The median that they are held to is not that of penalties."""
    values = np.random.default_rng(0).normal(size=11)
    study = study_of(
        *[finished(i / 4, value) for i, value in enumerate(values)],
        *[finished(i / 4, -1e6) for i in range(11, 26)],
        finished(9.0, None, TrialState.PRUNED, {0: 5.0}),
    )
    seen = look(study).observations
    assert seen.y[-1] == np.median(values)
    assert len(seen.still_failed) == 15
    feasible, violated = {"constraints": [-1.0]}, {"constraints": [1.0]}
    constrained = study_of(
        *[finished(i / 4, value, attributes=feasible) for i, value in enumerate(values)],
        *[finished(i / 4, -1e6, attributes=violated) for i in range(11, 26)],
        finished(9.0, None, TrialState.PRUNED, {0: 5.0}, attributes=feasible),
    )
    seen = look(constrained).observations
    assert seen.y[-1] == np.median(values)
    assert len(seen.valued.y) == 12


def test_trials_without_a_place_in_the_space_are_left_out() -> None:
    """A trial that lacks a parameter, or has it in another kind of space, cannot be placed."""
    study = study_of(
        finished(1.0, 1.0),
        optuna.create_trial(
            value=2.0, params={"x": 2.0, "n": 3, "c": "a"}, distributions=dict(MIXED)
        ),
        optuna.create_trial(
            value=3.0,
            params={"x": 2.0, "n": 3, "c": "z"},
            distributions={**MIXED, "c": CategoricalDistribution(["a", "z"])},
        ),
    )
    seen = look(study, MIXED).observations
    # Columns are sorted by name: c, n, x.
    np.testing.assert_allclose(seen.X, [[0.25, 0.625, 0.2]])
    np.testing.assert_array_equal(seen.y, [2.0])


# ----------------------------------------------------------------------------------------- failed


def test_failed_trials_are_failed_points() -> None:
    """A failed trial is told with its parameters, finite value or not, and is no observation."""
    study = study_of(
        finished(1.0, None, TrialState.FAIL),
        finished(2.0, 1.0),
        finished(3.0, None, TrialState.FAIL, {0: 4.0}),
    )
    snapshot = look(study)
    np.testing.assert_allclose(snapshot.observations.failed, [[0.1], [0.3]])
    np.testing.assert_allclose(snapshot.observations.X, [[0.2]])


def test_failures_with_further_parameters_leave_a_finite_space_whole() -> None:
    """Those may be what failed; in an infinite space the point counts as failed all the same."""
    further = optuna.create_trial(
        state=TrialState.FAIL, params={"n": 2, "x": 1.0}, distributions={"n": MIXED["n"], "x": X}
    )
    study = study_of(finished(1.0, 1.0), further)
    for space, n_failed in (({"n": MIXED["n"]}, 0), (SPACE, 1)):
        failed = look(study, space).observations.failed
        assert len(failed) == n_failed


def test_what_a_dependent_range_refused_is_a_failed_point() -> None:
    """Beside the trial, which counts where it was evaluated; of a model's proposals only."""
    odd = CategoricalDistribution([math.nan, "a"])

    def trial(high: float, x: float, proposed: float, criterion: str | None) -> FrozenTrial:
        proposal = Proposal({"c": 0, "x": proposed}, criterion=criterion)
        return optuna.create_trial(
            params={"c": math.nan, "x": x},
            distributions={"c": odd, "x": FloatDistribution(0.0, high)},
            value=1.0,
            system_attrs=proposal.to_attributes(),
        )

    study = study_of(
        trial(10.0, 1.0, 1.0, "map"),
        trial(4.0, 4.0, 8.0, "map"),
        trial(10.0, 9.0, 9.0, "map"),
        trial(2.0, 1.0, 7.0, None),
    )
    snapshot = look(study, {"c": odd, "x": X})
    np.testing.assert_allclose(snapshot.observations.X[:, 1], [0.1, 0.4, 0.9, 0.1])
    np.testing.assert_allclose(snapshot.observations.failed, [[0.25, 0.8]])


@pytest.mark.parametrize("thresholds", [(0.5, 0.8), (0.8, 0.5)])
def test_what_was_refused_follows_from_the_conditions_of_now(thresholds: Sequence[float]) -> None:
    """As in a new process: a point counts unless it lacks a parameter that exists there."""
    proposal = Proposal({"x": 7.0}, criterion="map", inactive=("z",))
    trial = optuna.create_trial(
        params={"x": 4.0},
        distributions={"x": FloatDistribution(0.0, 4.0)},
        value=1.0,
        system_attrs=proposal.to_attributes(),
    )
    rows = TrialReader().read(study_of(trial)).rows
    placed = PlacedTrials({})
    found = []
    for threshold in thresholds:
        condition = {"z": Split("x", (threshold,), (False, True))}
        ranges = {"x": X, "z": FloatDistribution(0.0, 1.0)}
        placed = placed.over(ranges, condition)
        found.append(len(placed.refused(rows)))
    assert found == [threshold > 0.7 for threshold in thresholds]


def test_trials_outside_the_latest_range_have_no_place() -> None:
    """It makes no difference whether the places were asked for before."""
    rows = TrialReader().read(study_of(finished(1.0, 1.0), finished(9.0, 1.0))).rows
    placed = PlacedTrials({"x": FloatDistribution(0.0, 5.0)})
    assert placed.unplaced(rows) == rows[1:]
    assert placed.place(rows)[0] == rows[:1]
    assert placed.unplaced(rows) == rows[1:]


@pytest.mark.parametrize("reported", [{}, {1: math.nan}, {1: 2.0, 2: math.nan}, {1: math.inf}])
def test_pruned_trials_without_a_value_are_failed_points(reported: dict[int, float]) -> None:
    """One that reports nothing, or at last nothing finite, is where an evaluation failed."""
    study = study_of(
        finished(1.0, None, TrialState.PRUNED, reported),
        finished(2.0, 1.0),
        finished(3.0, None, TrialState.PRUNED, {0: 4.0}),
    )
    snapshot = look(study)
    np.testing.assert_allclose(snapshot.observations.failed, [[0.1]])
    np.testing.assert_allclose(snapshot.observations.X, [[0.2], [0.3]])


# ---------------------------------------------------------------------------- shared search space


def test_parameters_are_those_of_any_complete_trial() -> None:
    """Each with its latest range; single-valued ones are left out."""
    common = {"z": X, "a": CategoricalDistribution(["p", "q"]), "one": IntDistribution(3, 3)}
    first = {**common, "conditional": X, "range": FloatDistribution(0.0, 1.0)}
    second = {**common, "range": FloatDistribution(0.0, 2.0)}
    values = {"z": 1.0, "a": "p", "one": 3, "conditional": 1.0, "range": 0.5}
    study = study_of(
        *[
            optuna.create_trial(
                value=1.0, params={name: values[name] for name in space}, distributions=space
            )
            for space in (first, second)
        ]
    )
    found = StudyReader().distributions(study)
    assert list(found) == ["a", "conditional", "range", "z"]
    assert found["range"] == second["range"]


def test_before_a_trial_is_complete_parameters_are_those_that_all_have() -> None:
    """Each with the same range, of several values."""
    single = FloatDistribution(1.0, 1.0)
    spaces: list[dict[str, BaseDistribution]] = [
        {"same": X, "moves": X, "single": single, "rare": X},
        {"same": X, "moves": FloatDistribution(0.0, 2.0), "single": single},
    ]
    study = study_of(
        *[
            optuna.create_trial(
                state=TrialState.FAIL, params=dict.fromkeys(space, 1.0), distributions=space
            )
            for space in spaces
        ]
    )
    assert StudyReader().distributions(study) == {"same": X}


# ------------------------------------------------------------------------------------ constraints


def test_constraints_are_read_in_both_forms() -> None:
    """Optuna's list and its values by name become columns; NaN where a trial lacks one."""
    study = study_of(
        finished(1.0, 1.0, attributes={"constraints": [0.5, -1.0]}),
        finished(2.0, 1.0, attributes={"constraints:memory": 2.0, "constraints:0": -3.0}),
        finished(3.0, 1.0),
        finished(4.0, 1.0, attributes={"constraints": None}),
    )
    snapshot = look(study)
    assert snapshot.observations.constraint_names == ("0", "1", "memory")
    nan = math.nan
    expected = [[0.5, -1.0, nan], [-3.0, nan, 2.0], [nan] * 3, [nan] * 3]
    np.testing.assert_array_equal(snapshot.observations.constraints, expected)


def test_stored_constraints_may_be_integers_and_no_numbers() -> None:
    """As other samplers store what a function returns."""
    study = study_of(
        *[
            finished(1.0, 1.0, attributes={"constraints": constraints})
            for constraints in ([1, -2], [-1, math.nan], ["far", 10**400])
        ]
    )
    found = [row.constraints for row in TrialReader().read(study).rows]
    assert found == [{"0": 1.0, "1": -2.0}, {"0": -1.0}, {}]


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_stored_constraints_may_be_numbers_of_numpy(kind: type) -> None:
    """In memory other samplers of Optuna keep what a function returns as it is."""
    study = study_of(*[finished(1.0, 1.0, attributes={"constraints": (kind(c),)}) for c in (0, 1)])
    assert [row.constraints for row in TrialReader().read(study).rows] == [{"0": 0.0}, {"0": 1.0}]


def test_stored_constraints_beyond_the_floats_are_none() -> None:
    """In memory they may be of any type."""
    huge = [finished(1.0, 1.0, attributes={"constraints": (c, 1.0)}) for c in (10**400, -(10**400))]
    huge.append(finished(1.0, 1.0, attributes={"constraints": (Fraction(10**400), 1.0)}))
    assert [row.constraints for row in TrialReader().read(study_of(*huge)).rows] == [{"1": 1.0}] * 3


def test_a_constraint_that_only_a_failure_reports_is_none() -> None:
    """No model is fitted to it."""
    known = [finished(v, v, attributes={"constraints": [-v]}) for v in (1.0, 2.0, 3.0)]
    failure = finished(4.0, -math.inf, attributes={"constraints": [-1.0, -1.0]})
    snapshot = look(study_of(*known, failure))
    reported = snapshot.observations.reported_constraints
    assert {name: values.tolist() for name, values in reported.items()} == {"0": [-1.0, -2.0, -3.0]}
    assert look(study_of(failure)).observations.reported_constraints == {}


def test_infinite_constraints_keep_their_sign() -> None:
    """An infinite value counts as the largest finite magnitude, at least 1."""
    values = (-0.1, math.inf, -math.inf)
    study = study_of(*[finished(1.0, 1.0, attributes={"constraints": [v]}) for v in values])
    np.testing.assert_array_equal(look(study).observations.constraints, [[-0.1], [1.0], [-1.0]])


# ------------------------------------------------------------------------------------------ noise


@pytest.mark.parametrize("copies", [False, True])
def test_known_noise_is_asked_once_per_trial(
    monkeypatch: pytest.MonkeyPatch, *, copies: bool
) -> None:
    """The function sees each finished trial once, for however many spaces; storages may copy it."""
    calls = []

    def noise_func(trial: FrozenTrial) -> float:
        calls.append(trial.number)
        return 0.25 if trial.number else 0.5

    study = study_of(finished(1.0, 1.0), finished(2.0, 1.0), finished(3.0, None, TrialState.FAIL))
    stored: Any = study._storage.get_all_trials
    if copies:
        monkeypatch.setattr(
            study._storage,
            "get_all_trials",
            lambda *args, **kwargs: deepcopy(stored(*args, **kwargs)),
        )
    reader = StudyReader(noise_func)
    for space in (SPACE, {"x": FloatDistribution(0.0, 20.0)}, SPACE):
        snapshot = look(study, space, reader=reader)
        np.testing.assert_array_equal(snapshot.observations.noise_variance, [0.5, 0.25])
        assert not snapshot.notes
    assert calls == [0, 1]
