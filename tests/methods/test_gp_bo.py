"""One step of Bayesian optimization: purity, odd data, pending points, constraints, convergence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.acquisition.functions import (
    AcquisitionName,
    ConstrainedAcquisition,
    ConstraintModel,
    Feasibility,
)
from bbo_plugins.acquisition.maximize import length_after
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import Models, Options
from bbo_plugins.space import Dimension, SearchSpace, Split
from tests.oracles import normal
from tests.oracles.differences import numeric_gradients
from tests.oracles.problems import mixed_space, observe, random_points, random_process, unit_box

if TYPE_CHECKING:
    from bbo_plugins.acquisition.maximize import Exclusions
    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.space.dimension import FloatArray
from tests.oracles.steps import NAMES, bound_acquisition, dense_mean, smooth, step

# ------------------------------------------------------------------------- the acquisition itself


def test_a_misspelled_acquisition_function_is_no_other_one() -> None:
    """Nor is it taken for odd data, with a random point."""
    X = random_points(unit_box(2), 8, np.random.default_rng(0))
    with pytest.raises(AssertionError, match="logEI"):
        step(observe(X, smooth(X)), acquisition="logEI")


def _constrained(
    kind: AcquisitionName | None, space: SearchSpace, n_constraints: int, seed: int = 0
) -> Feasibility | ConstrainedAcquisition:
    """Return an acquisition function, for None the feasibility alone."""
    processes = [random_process(space, 15, seed + i) for i in range(1 + n_constraints)]
    limits = (0.3, -0.5, 1.5)
    feasibility = Feasibility(
        tuple(
            ConstraintModel(process, limit)
            for process, limit in zip(processes[1:], limits, strict=False)
        )
    )
    if kind is None:
        return feasibility
    return ConstrainedAcquisition(kind, processes[0], 0.8, 1.5, feasibility)


@pytest.mark.parametrize("kind", [*NAMES, None])
@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_values_and_gradients_agree(kind: AcquisitionName | None, n_constraints: int) -> None:
    """``value`` and ``value_and_gradient`` say the same; gradients agree with numeric ones."""
    space = mixed_space()
    acquisition = _constrained(kind, space, n_constraints)
    X = random_points(space, 12, np.random.default_rng(1))
    X[:, :2] = np.clip(X[:, :2], 0.05, 0.95)
    values, gradients = acquisition.value_and_gradient(X)
    assert values.shape == (12,)
    assert gradients.shape == X.shape
    np.testing.assert_allclose(values, acquisition.value(X), rtol=1e-9, atol=1e-12)
    numeric = numeric_gradients(acquisition.value, X, 1e-4)
    categorical = space.n_categories > 0
    assert not gradients[:, categorical].any()
    scale = max(1e-3, float(np.abs(numeric).max()))
    np.testing.assert_allclose(
        gradients[:, ~categorical], numeric[:, ~categorical], rtol=1e-5, atol=1e-7 * scale
    )


@pytest.mark.parametrize("kind", [*NAMES, None])
@pytest.mark.parametrize("n_constraints", [0, 2])
def test_value_is_the_documented_formula(kind: AcquisitionName | None, n_constraints: int) -> None:
    """In turn log EI + Σ log PoF, EI · Π PoF, UCB or log softplus(UCB - μ⁺) + Σ log PoF."""
    acquisition = _constrained(kind, unit_box(2), n_constraints)
    X = np.random.default_rng(2).random((6, 2))
    log_feasibility = np.zeros(6)
    alone = _constrained(None, unit_box(2), n_constraints)
    assert isinstance(alone, Feasibility)
    for model in alone.constraints:
        mean, variance = model.process.predict(X)
        log_feasibility += [normal.log_cdf(z)[0] for z in (mean - model.limit) / np.sqrt(variance)]
    if isinstance(acquisition, Feasibility):
        np.testing.assert_allclose(acquisition.value(X), log_feasibility, rtol=1e-9, atol=1e-12)
        return
    mean, variance = acquisition.objective.predict(X)
    pairs = list(zip(mean.tolist(), variance.tolist(), strict=True))
    bound = mean + 1.5 * np.sqrt(variance)
    expected: FloatArray
    if kind == "logei":
        expected = np.array([normal.log_expected_improvement(m, v, 0.8) for m, v in pairs])
        expected += log_feasibility
    elif kind == "ei":
        expected = np.array([normal.expected_improvement(m, v, 0.8) for m, v in pairs])
        expected *= np.exp(log_feasibility)
    elif n_constraints:
        expected = np.array([normal.log_softplus(value)[0] for value in bound - 0.8])
        expected += log_feasibility
    else:
        expected = bound
    np.testing.assert_allclose(acquisition.value(X), expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------- incumbent


def test_incumbent_is_the_best_predictive_mean() -> None:
    """Fu et al. (2024), Algorithm 1: the largest posterior mean over the evaluated points."""
    rng = np.random.default_rng(0)
    X = rng.random((20, 2))
    observations = observe(X, smooth(X) + 0.3 * rng.standard_normal(20))
    acquisition, surrogate = bound_acquisition(observations)
    assert acquisition.incumbent == pytest.approx(dense_mean(surrogate, X).max(), abs=1e-8)
    assert acquisition.incumbent < surrogate.process.y.max()


def test_incomplete_trials_inform_but_are_no_incumbent() -> None:
    """A pruned trial's value is in the model, and its mean does not count."""
    rng = np.random.default_rng(2)
    X = rng.random((15, 2))
    y = smooth(X)
    complete = np.ones(15, dtype=bool)
    complete[np.argmax(y)] = False
    acquisition, surrogate = bound_acquisition(observe(X, y, complete=complete))
    mean = dense_mean(surrogate, X)
    assert len(surrogate.process.y) == 15
    assert acquisition.incumbent == pytest.approx(mean[complete].max(), abs=1e-8)
    assert acquisition.incumbent < mean.max()
    nothing, surrogate = bound_acquisition(observe(X, y, complete=np.zeros(15, dtype=bool)))
    assert nothing.incumbent == pytest.approx(dense_mean(surrogate, X).max(), abs=1e-8)


def test_infeasible_points_are_no_incumbent() -> None:
    """Nor are those whose feasibility is unknown."""
    rng = np.random.default_rng(3)
    X = rng.random((15, 2))
    y = smooth(X)
    constraints = np.full((15, 1), -1.0)
    order = np.argsort(-y)
    constraints[order[0]], constraints[order[1]] = 1.0, math.nan
    acquisition, surrogate = bound_acquisition(observe(X, y, constraints=constraints))
    mean = dense_mean(surrogate, X)
    feasible = (constraints <= 0.0).all(axis=1)
    assert acquisition.kind == "logei"
    assert acquisition.incumbent == pytest.approx(mean[feasible].max(), abs=1e-8)
    assert acquisition.incumbent < mean.max()


def test_pending_points_beyond_the_constraint_are_no_incumbent() -> None:
    """A pending point counts with its believed mean only where it may turn out feasible.

    Here the objective grows to the right, the right half is infeasible, and one more trial runs
    there: what is known of the feasible half has not changed.
    """
    X = np.random.default_rng(5).random((20, 2))
    constraints = X[:, :1] - 0.5
    alone, _ = bound_acquisition(observe(X, X[:, 0], constraints=constraints))
    pending = np.array([[0.95, 0.5]])
    beside, _ = bound_acquisition(observe(X, X[:, 0], constraints=constraints, pending=pending))
    assert beside.incumbent == pytest.approx(alone.incumbent, abs=0.05)


def test_pending_points_count_with_their_believed_mean() -> None:
    """Without constraints the running trial's expected result is what has to be improved upon."""
    X = np.random.default_rng(6).random((20, 2))
    X = X[X[:, 0] < 0.7]
    pending = np.array([[0.9, 0.5]])
    acquisition, surrogate = bound_acquisition(observe(X, X[:, 0], pending=pending))
    believed = dense_mean(surrogate, pending)[0]
    assert believed > dense_mean(surrogate, X).max()
    assert acquisition.incumbent == pytest.approx(believed, abs=1e-6)


# ---------------------------------------------------------------------------------------- purity


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_suggest_is_a_pure_function(acquisition: AcquisitionName, deterministic: bool) -> None:
    """Same arguments, same suggestion, bit by bit; and nothing that went in is changed."""
    space = mixed_space()
    rng = np.random.default_rng(0)
    X, pending = random_points(space, 15, rng), random_points(space, 2, rng)
    noise = np.full(15, 0.1)
    noise[3] = math.nan
    observations = observe(
        X, smooth(X), pending=pending, noise_variance=noise, constraints=X[:, :1] - 0.6
    )
    arrays = {k: v for k, v in vars(observations).items() if isinstance(v, np.ndarray)}
    before = {name: array.copy() for name, array in arrays.items()}
    options: dict[str, Any] = {"acquisition": acquisition, "deterministic": deterministic}
    cold = [step(observations, space, seed=5, **options) for _ in range(2)]
    warm = [
        step(observations, space, seed=5, warm_starts=cold[0].warm_starts, **options)
        for _ in range(2)
    ]
    for one, other in (cold, warm):
        assert np.array_equal(one.x, other.x)
        assert one.notes == other.notes
        for name, fit in one.warm_starts.items():
            assert fit.to_json() == other.warm_starts[name].to_json()
    for name, array in before.items():
        assert np.array_equal(arrays[name], array, equal_nan=array.dtype.kind == "f"), name
    assert cold[0].warm_starts.keys() == warm[0].warm_starts.keys() == {"Marginal", "Constraint 0"}


def test_the_best_point_of_each_branch_is_an_anchor() -> None:
    """However many points of another branch are better; in a plain space only these count."""
    unit = Dimension.floats(0.0, 1.0)
    branches = SearchSpace(
        {"kind": Dimension.categorical(["a", "b", "c"]), "x": unit, "y": unit},
        {"x": Split("kind", (0.3,), (True, False)), "y": Split("kind", (0.7,), (False, True))},
    )
    rows: list[dict[str, Any]] = [{"kind": "a", "x": 0.1 * i} for i in range(6)]
    rows += [{"kind": "b"}, {"kind": "c", "y": 0.2}, {"kind": "c", "y": 0.7}]
    X = branches.encode(rows)
    known = observe(X, np.arange(9.0))
    models = Models.fit(branches, [known], [None], FeatureMap.of(branches), Options())
    worth = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 1.0, 2.0, 3.0])
    anchors = models.anchors(branches, worth, 2)
    np.testing.assert_array_equal(anchors, X[[0, 1, 0, 8, 6]])
    plain = unit_box(3)
    models = Models.fit(plain, [known], [None], FeatureMap.of(plain), Options())
    np.testing.assert_array_equal(models.anchors(plain, worth, 2), X[[0, 1]])


def test_cosines_are_used_if_the_values_speak_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the log likelihood rises by more than two; both fits are stored in any case."""
    space, X = unit_box(3), np.random.default_rng(5).random((50, 3))
    bowl = -np.square(X - 0.4).sum(axis=1)
    waves, trend = bowl + 0.2 * np.cos(20.0 * X).sum(axis=1), FeatureMap.of(space, trend=True)
    for y, speak in (bowl, False), (waves, True):
        transform = OutputTransform.fit(y)
        without, of_cosines = (
            Surrogate.fit(X, y, replace(trend, cosines=cosines), transform=transform)
            for cosines in (False, True)
        )
        gain = of_cosines.criterion_value - without.criterion_value
        assert (gain > 2.0) is speak
        for least, used in ((2.0, speak), (gain - 1e-6, True), (gain + 1e-6, False)):
            monkeypatch.setattr(gp_bo, "_LEAST_GAIN", least)
            options = Options(trend=True, cosines=True)
            models = Models.fit(space, [observe(X, y)], [None], trend, options)
            assert models.have_cosines is used
            chosen = of_cosines if used else without
            np.testing.assert_allclose(models.means[:, 0], chosen.process.mean_at_observations)
            stored = {name: fit.to_json() for name, fit in models.warm_starts.items()}
            fits = {"Marginal": without, "Cosines": of_cosines}
            assert stored == {name: fit.warm_start.to_json() for name, fit in fits.items()}


def test_each_kernel_starts_from_its_own_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two fits that a step with cosines makes."""
    starts: dict[bool, WarmStart | None] = {}
    fit = Surrogate.fit

    def watched(X: FloatArray, y: FloatArray, features: FeatureMap, **known: Any) -> Surrogate:
        starts[features.cosines] = known["warm_start"]
        return fit(X, y, features, **known)

    monkeypatch.setattr(Surrogate, "fit", watched)
    X = np.random.default_rng(5).random((20, 3))
    first, second = (WarmStart(np.full(8, at), np.eye(8), -1.0, 20) for at in (-1.0, -2.0))
    fits = {"Marginal": first, "Cosines": second}
    step(observe(X, smooth(X)), trend=True, cosines=True, warm_starts=fits)
    assert starts == {False: first, True: second}


def test_each_model_starts_from_its_own_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two objectives and two constraints, in whatever order these come."""
    starts: list[WarmStart | None] = []
    fit = Surrogate.fit

    def watched(*data: Any, **known: Any) -> Surrogate:
        starts.append(known["warm_start"])
        return fit(*data, **known)

    monkeypatch.setattr(Surrogate, "fit", watched)
    X, space = np.random.default_rng(5).random((20, 3)), unit_box(3)
    known = replace(observe(X, smooth(X), constraints=X[:, :2] - 0.6), constraint_names=("b", "a"))
    names = ("Constraint a", "Constraint b", "Marginal 1", "Marginal", "another")
    fits = {name: WarmStart(np.full(5, -i), np.eye(5), -1.0, 20) for i, name in enumerate(names)}
    objectives = [known, replace(known, y=-known.y)]
    options = Options(warm_starts=fits)
    models = Models.fit(space, objectives, [None, None], FeatureMap.of(space), options)
    order = ["Marginal", "Marginal 1", "Constraint b", "Constraint a"]
    assert starts == [fits[name] for name in order]
    assert [*models.warm_starts] == order


def test_a_kernel_with_cosines_that_cannot_be_fitted_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step is that of the other model."""
    fit = Surrogate.fit

    def failing(X: FloatArray, y: FloatArray, features: FeatureMap, **known: Any) -> Surrogate:
        if features.cosines:
            raise np.linalg.LinAlgError("no")
        return fit(X, y, features, **known)

    X = np.random.default_rng(5).random((20, 3))
    expected = step(observe(X, smooth(X)), trend=True)
    monkeypatch.setattr(Surrogate, "fit", failing)
    actual = step(observe(X, smooth(X)), trend=True, cosines=True)
    np.testing.assert_array_equal(actual.x, expected.x)
    assert actual.criterion == "MarginalCosinesNotUsed"
    assert actual.warm_starts.keys() == {"Marginal"}


def test_a_step_that_uses_no_cosines_is_as_without() -> None:
    """The same point, bit for bit, and the same fits for the next one, and one more."""
    X = np.random.default_rng(5).random((50, 3))
    known = observe(X, -np.square(X - 0.4).sum(axis=1))
    tried, without = step(known, trend=True, cosines=True), step(known, trend=True)
    np.testing.assert_array_equal(tried.x, without.x)
    assert tried.expected_gain == without.expected_gain
    assert (tried.criterion, without.criterion) == ("MarginalCosinesNotUsed", "Marginal")
    assert tried.warm_starts.keys() == {"Marginal", "Cosines"}
    fits = [one.warm_starts["Marginal"].to_json() for one in (tried, without)]
    assert fits[0] == fits[1]


def test_a_local_step_with_cosines_leaves_the_region_where_a_parameter_has_a_better_minimum() -> (
    None
):
    """Each of five coordinates has a peak at 0.2, where the best point is, and a higher one.

    Four coordinates are changed, one after another.
    """
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.random((80, 5)), np.full((1, 5), 0.2)])
    peaks = np.exp(-60.0 * (X - 0.2) ** 2) + 1.3 * np.exp(-60.0 * (X - 0.7) ** 2)
    known, best = observe(X, peaks.sum(axis=1)), X[-1]
    assert np.argmax(known.y) == 80
    options: dict[str, Any] = {"trend": True, "local_after": 81}  # so the length is the first one
    within = step(known, **options).x
    assert np.abs(within - best).max() <= 0.5 * length_after(known.y, 81)
    tried = step(known, cosines=True, **options)
    across = tried.x
    assert tried.criterion == "MarginalCosinesUsed"
    np.testing.assert_allclose(np.sort(across), [0.2, 0.7, 0.7, 0.7, 0.7], atol=0.05)


def test_trend_is_a_choice_and_the_objective_s() -> None:
    """Three more hyperparameters where it is asked for; constraints and conditions have none."""
    X = np.random.default_rng(5).random((20, 3))
    free = observe(X, smooth(X))
    plain, trend = step(free), step(free, trend=True)
    assert _sizes(plain) == {"Marginal": 5}
    assert _sizes(trend) == {"Marginal": 8}
    again = step(free, trend=True, warm_starts=trend.warm_starts)
    np.testing.assert_allclose(again.x, trend.x, atol=1e-2)
    bounded = observe(X, smooth(X), constraints=X[:, :1] - 0.5)
    assert _sizes(step(bounded, trend=True)) == {"Marginal": 8, "Constraint 0": 5}
    unit = Dimension.floats(0.0, 1.0)
    branch = SearchSpace(
        {"kind": Dimension.categorical(["a", "b"]), "x": unit, "z": unit},
        {"x": Split("kind", (0.5,), (False, True))},
    )
    conditional = step(observe(branch.snap(X), smooth(X)), branch, trend=True)
    assert _sizes(conditional) == {"Marginal": 5}


def _sizes(suggestion: Suggestion) -> dict[str, int]:
    """Return how many hyperparameters each model has."""
    return {name: len(fit.theta) for name, fit in suggestion.warm_starts.items()}


def test_a_local_step_stays_around_the_best_mean() -> None:
    """In the box that the values lead to."""
    X = np.random.default_rng(5).random((40, 5))
    y = np.concatenate([[9.0], smooth(X[1:])])  # failures in a row have shortened the box
    far = observe(X, y)
    half = 0.5 * length_after(y, 10)
    assert half < 0.1
    for options in ({}, {"by_bound": True}, {"acquisition": "ucb", "beta": 1e3}):
        local = step(far, local_after=10, **options)
        assert np.abs(local.x - X[0]).max() <= half + 1e-12
        assert np.abs(step(far, **options).x - X[0]).max() > half
    beside = np.full(40, 3)  # running trials excuse failures, so the box is longer
    wide = step(replace(far, n_beside=beside), local_after=10, acquisition="ucb", beta=1e3)
    assert half < np.abs(wide.x - X[0]).max() <= 0.5 * length_after(y, 10, beside) + 1e-12
    complete = np.arange(40) > 0
    half = 0.5 * length_after(np.where(complete, y, -np.inf), 10)
    pruned = step(observe(X, y, complete=complete), local_after=10)
    assert np.abs(pruned.x - X[1 + np.argmax(y[1:])]).max() <= half + 1e-12


def test_a_local_step_is_taken_with_five_numbers_or_conditions() -> None:
    """With constraints around the best feasible point; else the whole space is searched."""
    X = np.random.default_rng(5).random((40, 5))
    y = np.concatenate([[9.0], smooth(X[1:])])
    unit, kind = Dimension.floats(0.0, 1.0), Dimension.categorical(["a", "b"])
    box = {f"x{i}": unit for i in range(5)}
    kinds = SearchSpace({**box, "kind": kind})
    branch = SearchSpace(
        {"kind": kind, "x": unit, "z": unit}, {"x": Split("kind", (0.5,), (False, True))}
    )
    slack = X[:, 1:2] - X[0, 1] + 0.1  # the best point is not feasible
    feasible = observe(X, y, constraints=slack)
    best = np.argmax(np.where(slack[:, 0] <= 0.0, y, -np.inf))
    for known, space, center in (
        (feasible, unit_box(5), X[best]),
        (observe(kinds.snap(np.column_stack([X, X[:, 0]])), y), kinds, X[0]),
        (observe(branch.snap(X[:, :3]), y), branch, X[0, 1:3]),
    ):
        half = 0.5 * length_after(np.where(known.eligible, y, -np.inf), 10)
        numbers = ~np.array([axis.is_categorical for axis in space.dimensions])
        for seed in range(3):
            found = gp_bo.suggest(
                space, known, rng=np.random.default_rng(seed), options=Options(local_after=10)
            )
            moved = np.abs(found.x[numbers] - center)[space.active(found.x[None, :])[0][numbers]]
            assert moved.max() <= half + 1e-12
    levels = SearchSpace({f"x{i}": Dimension.integers(1, 99) for i in range(5)})
    held = SearchSpace({**box, "x0": Dimension.floats(0.0, 1.0).held(0.3)})
    few = SearchSpace({**{f"x{i}": unit for i in range(4)}, "kind": kind})
    for known, space in (
        (observe(X[:, :4], y), unit_box(4)),
        (observe(few.snap(X), y), few),
        (observe(X, y, constraints=X[:, :1] + 2.0), unit_box(5)),
        (observe(levels.snap(X), y), levels),
        (observe(held.snap(X), y), held),
        (observe(X, y, complete=np.zeros(40, dtype=bool)), unit_box(5)),
    ):
        for pending in (known.pending, space.snap(known.X[:2] + 0.02)):
            case = replace(known, pending=pending)
            assert np.array_equal(step(case, space, local_after=10).x, step(case, space).x)


@pytest.mark.parametrize("local_after", [None, 10])
def test_without_noise_a_step_may_come_closer_to_pending_points(
    local_after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the distance to the nearest evaluated point is kept from them, else half of it."""
    kept: list[FloatArray | float] = []

    def watched(*arguments: Any, exclusions: Exclusions, **options: Any) -> Any:
        kept.append(exclusions.clearance)
        return real(*arguments, exclusions=exclusions, **options)

    name = "maximize" if local_after is None else "maximize_in_region"
    real = getattr(gp_bo, name)
    monkeypatch.setattr(gp_bo, name, watched)
    X = np.random.default_rng(5).random((40, 5))
    noise = np.random.default_rng(6).standard_normal(40)
    pending = X[:3] + 0.02
    for y, known in ((smooth(X), None), (smooth(X) + noise, None), (smooth(X), np.full(40, 0.1))):
        beside = observe(X, y, pending=pending, noise_variance=known)
        x = step(beside, local_after=local_after).x
        assert (np.linalg.norm(pending - x, axis=1) >= kept[-1]).all()
    distance = math.sqrt(5 * 0.02**2)
    for clearance, share in zip(kept, (0.1, 0.5, 0.5), strict=True):
        np.testing.assert_allclose(clearance, share * distance)


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("a, b", [(1e-9, 0.0), (0.5, 1e3)])
def test_units_of_the_objective_do_not_matter(
    acquisition: AcquisitionName, a: float, b: float
) -> None:
    """Targets a·y + b, a > 0, lead to the same suggestion up to rounding."""
    X = np.random.default_rng(3).random((15, 2))
    y = smooth(X)
    expected = step(observe(X, y), acquisition=acquisition)
    moved = step(observe(X, a * y + b), acquisition=acquisition)
    np.testing.assert_allclose(moved.x, expected.x, atol=1e-3)


# -------------------------------------------------------------------------------------- odd data


@given(
    y=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
    acquisition=st.sampled_from(NAMES),
    deterministic=st.booleans(),
)
@settings(max_examples=20)
def test_any_finite_targets_give_a_suggestion(
    y: list[float], seed: int, acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Whatever hypothesis finds, in a mixed space with repeated points."""
    space = mixed_space()
    X = random_points(space, len(y), np.random.default_rng(seed))
    X[-1] = X[0]
    made = step(observe(X, y), space, acquisition=acquisition, deterministic=deterministic)
    assert len(made.warm_starts) == 1  # a model was used, not the random fallback


def test_points_without_a_model_give_a_random_one_and_a_note() -> None:
    """The fallback is visible, valid, and depends on the generator."""
    X = np.random.default_rng(0).random((5, 2))
    X[2, 1] = math.nan
    one, other = (step(observe(X, np.arange(5.0)), seed=seed) for seed in (0, 1))
    for suggestion in (one, other):
        assert len(suggestion.notes) == 1
        assert "random" in suggestion.notes[0]
        assert suggestion.warm_starts == {}
    assert not np.array_equal(one.x, other.x)


@pytest.mark.parametrize("acquisition", NAMES)
def test_known_noise_is_believed(acquisition: AcquisitionName) -> None:
    """A single spike declared exact attracts the search, declared worthless it does not."""
    X = np.linspace(0.0, 1.0, 21)[:, None]
    y = -np.square(X[:, 0] - 0.8)
    y[4] += 1.5
    noise = np.full(21, 1e-4)
    exact = step(observe(X, y, noise_variance=noise), acquisition=acquisition)
    noise[4] = 1e4
    doubted = step(observe(X, y, noise_variance=noise), acquisition=acquisition)
    assert abs(exact.x[0] - 0.2) < 0.1
    assert abs(doubted.x[0] - 0.8) < 0.25


def test_steps_by_the_bound_are_wider_with_noise() -> None:
    """Known noise of zero is none. In a finite space there are none with noise."""
    X = np.random.default_rng(0).random((25, 2))
    y = -np.square(X - [0.3, 0.6]).sum(axis=1)
    for variance, beta in ((0.0, 0.5), (1e-3, 2.0)):
        known = observe(X, y, noise_variance=np.full(25, variance))
        by_bound = step(known, by_bound=True).x
        assert not np.array_equal(by_bound, step(known).x)
        assert np.array_equal(by_bound, step(known, acquisition="ucb", beta=beta).x)
    levels = SearchSpace({name: Dimension.integers(0, 1000) for name in "xy"})
    noisy = observe(levels.snap(X), y, noise_variance=np.full(25, 1e-3))
    by_bound = step(noisy, space=levels, by_bound=True).x
    assert np.array_equal(by_bound, step(noisy, space=levels).x)
    wide = step(noisy, space=levels, acquisition="ucb", beta=2.0).x
    assert not np.array_equal(by_bound, wide)


def test_no_step_goes_by_the_bound_beside_constraints_categories_or_conditions() -> None:
    """Each of the three is enough."""
    X = np.random.default_rng(0).random((25, 2))
    y = -np.square(X - [0.3, 0.6]).sum(axis=1)
    unit = Dimension.floats(0.0, 1.0)
    box = unit_box(2)
    kinds = SearchSpace({"x": unit, "kind": Dimension.categorical(["a", "b"])})
    branch = SearchSpace({"x": unit, "y": unit}, {"y": Split("x", (0.5,), (False, True))})
    assert branch.is_conditional
    for space, constraints in ((box, X[:, :1] - 0.9), (kinds, None), (branch, None)):
        known = observe(space.snap(X), y, constraints=constraints)
        assert np.array_equal(step(known, space, by_bound=True).x, step(known, space).x)
    plain = observe(X, y)
    assert not np.array_equal(step(plain, box, by_bound=True).x, step(plain, box).x)
