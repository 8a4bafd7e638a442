"""One step of Bayesian optimization: purity, odd data, pending points, constraints, convergence."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import (
    AcquisitionName,
    ConstrainedAcquisition,
    ConstraintModel,
    Suggestion,
    suggest,
)
from bbo_plugins.space import CLOSE, Dimension, SearchSpace
from tests.oracles import dense, normal
from tests.oracles.differences import numeric_gradients
from tests.oracles.problems import (
    BRANIN_MINIMUM,
    branin,
    categories_of,
    mixed_space,
    observe,
    random_points,
    random_process,
    unit_box,
)

if TYPE_CHECKING:
    from bbo_plugins.methods.observations import Observations

NAMES: tuple[AcquisitionName, ...] = get_args(AcquisitionName)


def _step(
    observations: Observations, space: SearchSpace | None = None, *, seed: int = 0, **options: Any
) -> Suggestion:
    """Suggest with a generator of its own, in the unit box unless told otherwise."""
    space = space or unit_box(observations.X.shape[1])
    suggestion = suggest(space, observations, rng=np.random.default_rng(seed), **options)
    _assert_valid(suggestion, space)
    return suggestion


def _assert_valid(suggestion: Suggestion, space: SearchSpace) -> None:
    x = suggestion.x
    assert x.shape == (len(space),)
    assert np.array_equal(space.snap(x[None, :])[0], x)
    space.decode(x)
    for warm_start in suggestion.warm_starts:
        assert WarmStart.from_json(json.loads(json.dumps(warm_start.to_json()))) is not None


def _smooth(X: FloatArray) -> FloatArray:
    values: FloatArray = np.sin(4.0 * X[:, 0]) - np.square(X[:, -1] - 0.4)
    return values


# ------------------------------------------------------------------------- the acquisition itself


def _constrained(
    kind: AcquisitionName | None, space: SearchSpace, n_constraints: int, seed: int = 0
) -> ConstrainedAcquisition:
    processes = [random_process(space, 15, seed + i) for i in range(1 + n_constraints)]
    limits = (0.3, -0.5, 1.5)
    return ConstrainedAcquisition(
        kind,
        processes[0],
        0.8,
        1.5,
        tuple(
            ConstraintModel(process, limit)
            for process, limit in zip(processes[1:], limits, strict=False)
        ),
    )


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
    for model in acquisition.constraints:
        mean, variance = model.process.predict(X)
        log_feasibility += [normal.log_cdf(z)[0] for z in (mean - model.limit) / np.sqrt(variance)]
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
    elif kind is None:
        expected = log_feasibility
    elif n_constraints:
        expected = np.array([normal.log_softplus(value)[0] for value in bound - 0.8])
        expected += log_feasibility
    else:
        expected = bound
    np.testing.assert_allclose(acquisition.value(X), expected, rtol=1e-9, atol=1e-12)


def test_constrained_bound_increases_in_the_bound() -> None:
    """Where the constraints say the same, the replacement of the UCB ranks points as the UCB."""
    acquisition = _constrained("ucb", unit_box(2), 0)
    certain = ConstraintModel(random_process(unit_box(2), 3, 9), -1e3)
    constrained = ConstrainedAcquisition(
        "ucb", acquisition.objective, acquisition.incumbent, acquisition.beta, (certain,)
    )
    X = np.random.default_rng(3).random((200, 2))
    order = np.argsort(acquisition.value(X))
    assert (np.diff(constrained.value(X)[order]) >= -1e-12).all()


# ------------------------------------------------------------------------------------- incumbent


def _bound_acquisition(
    observations: Observations, kind: AcquisitionName = "logei"
) -> tuple[ConstrainedAcquisition, Surrogate]:
    """Return the acquisition that :func:`suggest` would maximize, and its surrogate."""
    features = FeatureMap((0,) * observations.X.shape[1])
    surrogate = Surrogate.fit(
        observations.X, observations.y, features, noise_variance=observations.noise_variance
    )
    n_models = len(gp_bo._constraint_columns(observations))
    constraints = gp_bo._fit_constraints(observations, features, [None] * n_models)
    mean = surrogate.process.predict_mean(observations.X)
    acquisition = gp_bo._acquisition(
        surrogate,
        constraints,
        observations,
        np.empty((0, observations.X.shape[1])),
        incumbents=mean[gp_bo._eligible(observations, observations.X, constraints)],
        kind=kind,
        beta=1.96,
    )
    return acquisition, surrogate


def _dense_mean(surrogate: Surrogate, X: FloatArray) -> FloatArray:
    """Return the posterior mean at ``X`` from the dense formula."""
    process = surrogate.process
    scales, signal = process.hyperparameters.length_scales, process.hyperparameters.signal_variance
    K = dense.covariance(process.X, process.X, scales, signal)
    K += process.hyperparameters.noise_variance * np.eye(len(K))
    return dense.covariance(X, process.X, scales, signal) @ np.linalg.solve(K, process.y)


def test_incumbent_is_the_best_predictive_mean() -> None:
    """Fu et al. (2024), Algorithm 1: the largest posterior mean over the evaluated points."""
    rng = np.random.default_rng(0)
    X = rng.random((20, 2))
    observations = observe(X, _smooth(X) + 0.3 * rng.standard_normal(20))
    acquisition, surrogate = _bound_acquisition(observations)
    assert acquisition.incumbent == pytest.approx(_dense_mean(surrogate, X).max(), abs=1e-8)
    assert acquisition.incumbent < surrogate.process.y.max()


def test_lucky_outlier_is_not_the_incumbent() -> None:
    """The best noisy value, at a poor place, is not believed; the best mean, elsewhere, is."""
    places = np.repeat(np.linspace(0.0, 1.0, 8), 5)
    y = -4.0 * np.square(places - 0.7) + 0.3 * np.random.default_rng(1).standard_normal(40)
    y[7] = y.max() + 0.2  # one of five results at 1/7
    X = places[:, None]
    acquisition, surrogate = _bound_acquisition(observe(X, y))
    mean = _dense_mean(surrogate, X)
    assert np.argmax(y) == 7
    assert abs(places[np.argmax(mean)] - 0.7) < 0.2
    assert acquisition.incumbent == pytest.approx(mean.max(), abs=1e-8)
    assert acquisition.incumbent < surrogate.process.y[7]


def test_incomplete_trials_inform_but_are_no_incumbent() -> None:
    """A pruned trial's value is in the model, and its mean does not count."""
    rng = np.random.default_rng(2)
    X = rng.random((15, 2))
    y = _smooth(X)
    complete = np.ones(15, dtype=bool)
    complete[np.argmax(y)] = False
    acquisition, surrogate = _bound_acquisition(observe(X, y, complete=complete))
    mean = _dense_mean(surrogate, X)
    assert len(surrogate.process.y) == 15
    assert acquisition.incumbent == pytest.approx(mean[complete].max(), abs=1e-8)
    assert acquisition.incumbent < mean.max()
    nothing, surrogate = _bound_acquisition(observe(X, y, complete=np.zeros(15, dtype=bool)))
    assert nothing.incumbent == pytest.approx(_dense_mean(surrogate, X).max(), abs=1e-8)


def test_infeasible_points_are_no_incumbent() -> None:
    """Nor are those whose feasibility is unknown."""
    rng = np.random.default_rng(3)
    X = rng.random((15, 2))
    y = _smooth(X)
    constraints = np.full((15, 1), -1.0)
    order = np.argsort(-y)
    constraints[order[0]], constraints[order[1]] = 1.0, math.nan
    acquisition, surrogate = _bound_acquisition(observe(X, y, constraints=constraints))
    mean = _dense_mean(surrogate, X)
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
    alone, _ = _bound_acquisition(observe(X, X[:, 0], constraints=constraints))
    pending = np.array([[0.95, 0.5]])
    beside, _ = _bound_acquisition(observe(X, X[:, 0], constraints=constraints, pending=pending))
    assert beside.incumbent == pytest.approx(alone.incumbent, abs=0.05)


def test_pending_points_count_with_their_believed_mean() -> None:
    """Without constraints the running trial's expected result is what has to be improved upon."""
    X = np.random.default_rng(6).random((20, 2))
    X = X[X[:, 0] < 0.7]
    pending = np.array([[0.9, 0.5]])
    acquisition, surrogate = _bound_acquisition(observe(X, X[:, 0], pending=pending))
    believed = _dense_mean(surrogate, pending)[0]
    assert believed > _dense_mean(surrogate, X).max()
    assert acquisition.incumbent == pytest.approx(believed, abs=1e-6)


def test_limit_of_a_constraint_is_zero_slack() -> None:
    """The modeled slack is -c in transformed units, feasible from transform(0) upwards."""
    rng = np.random.default_rng(4)
    X = rng.random((20, 2))
    c = X[:, 0] - 0.3
    acquisition, _ = _bound_acquisition(observe(X, _smooth(X), constraints=c[:, None]))
    (model,) = acquisition.constraints
    feasible = model.process.y >= model.limit
    assert np.array_equal(feasible, c <= 0.0)
    new = np.array([[0.05, 0.5], [0.9, 0.5]])
    mean, _ = model.process.predict(new)
    assert (mean > model.limit).tolist() == [True, False]


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
        X, _smooth(X), pending=pending, noise_variance=noise, constraints=X[:, :1] - 0.6
    )
    arrays = {k: v for k, v in vars(observations).items() if v is not None}
    before = {name: array.copy() for name, array in arrays.items()}
    options: dict[str, Any] = {"acquisition": acquisition, "deterministic": deterministic}
    cold = [_step(observations, space, seed=5, **options) for _ in range(2)]
    warm = [
        _step(observations, space, seed=5, warm_starts=cold[0].warm_starts, **options)
        for _ in range(2)
    ]
    for one, other in (cold, warm):
        assert np.array_equal(one.x, other.x)
        assert one.notes == other.notes
        for a, b in zip(one.warm_starts, other.warm_starts, strict=True):
            assert a.to_json() == b.to_json()
    for name, array in before.items():
        assert np.array_equal(arrays[name], array, equal_nan=array.dtype.kind == "f"), name
    assert len(cold[0].warm_starts) == 2


def test_only_the_candidates_depend_on_the_generator() -> None:
    """Another seed leads to nearly the same maximum of a benign acquisition function."""
    X = np.random.default_rng(1).random((12, 2))
    observations = observe(X, _smooth(X))
    suggestions = [_step(observations, seed=seed, deterministic=True) for seed in range(4)]
    assert np.ptp([s.x for s in suggestions], axis=0).max() < 0.05
    assert len({s.warm_starts[0].theta.tobytes() for s in suggestions}) == 1


def test_warm_starts_are_optional_and_interchangeable_with_json() -> None:
    """None, too few and too many warm starts are fine, and stored ones work like live ones."""
    rng = np.random.default_rng(2)
    X = rng.random((14, 2))
    observations = observe(X, _smooth(X), constraints=X[:, :1] - 0.5)
    first = _step(observations)
    stored = [WarmStart.from_json(json.loads(json.dumps(w.to_json()))) for w in first.warm_starts]
    for warm_starts in ((), (None,), (None, None), stored, stored[:1], [*stored, *stored]):
        assert len(_step(observations, warm_starts=warm_starts).warm_starts) == 2
    wrong = WarmStart(np.zeros(9), np.eye(9), -1.0, 14)
    ignored = _step(observations, warm_starts=(wrong, wrong))
    assert np.array_equal(ignored.x, first.x)


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("a, b", [(3.0, 10.0), (1e-9, 0.0), (1e9, -1e9), (0.5, 1e3)])
def test_units_of_the_objective_do_not_matter(
    acquisition: AcquisitionName, a: float, b: float
) -> None:
    """Targets a·y + b, a > 0, lead to the same suggestion up to rounding."""
    X = np.random.default_rng(3).random((15, 2))
    y = _smooth(X)
    expected = _step(observe(X, y), acquisition=acquisition)
    moved = _step(observe(X, a * y + b), acquisition=acquisition)
    np.testing.assert_allclose(moved.x, expected.x, atol=1e-3)


def test_units_of_constraints_and_noise_do_not_matter() -> None:
    """Constraint values times a positive factor, and noise variances in the objective's units."""
    rng = np.random.default_rng(4)
    X = rng.random((15, 2))
    y, c, noise = _smooth(X), X[:, :1] - 0.5, np.full(15, 0.02)
    expected = _step(observe(X, y, noise_variance=noise, constraints=c))
    moved = _step(observe(X, 50.0 * y, noise_variance=2500.0 * noise, constraints=1e-4 * c))
    np.testing.assert_allclose(moved.x, expected.x, atol=1e-3)


# -------------------------------------------------------------------------------------- odd data

ODD: dict[str, list[float]] = {
    "constant": [4.0] * 8,
    "zero": [0.0] * 8,
    "tiny": [k * 1e-300 for k in range(8)],
    "huge": [k * 1e300 for k in range(8)],
    "opposite": [1e308, -1e308, 1e300, -1e300, 0.0, 1.0, -1.0, 1e-300],
    "subnormal": [5e-324 * k for k in range(8)],
    "scale 1e-9": [1e-9 * k for k in range(8)],
    "scale 1e9": [1e9 * k for k in range(8)],
    "offset": [1e15 + k for k in range(8)],
    "one different": [0.0] * 7 + [1.0],
    "diverged": [0.1, 0.3, 0.2, -1e5, 0.0, -1e30, 0.15, -1e250],
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("acquisition", NAMES)
def test_odd_targets_give_a_suggestion(name: str, acquisition: AcquisitionName) -> None:
    """A model of whatever finite values there are, without exception, warning or fallback."""
    X = np.random.default_rng(0).random((8, 2))
    for deterministic in (True, False):
        suggestion = _step(
            observe(X, ODD[name]), acquisition=acquisition, deterministic=deterministic
        )
        assert suggestion.notes == ()
        assert len(suggestion.warm_starts) == 1


@pytest.mark.parametrize("name", ODD)
def test_odd_targets_with_noise_and_constraints(name: str) -> None:
    """The same values as objective with known noise, and as a constraint."""
    X = np.random.default_rng(0).random((8, 2))
    y = np.array(ODD[name])
    noise = np.full(8, 0.01)
    noise[::2] = math.nan
    _step(observe(X, y, noise_variance=noise))
    for acquisition in NAMES:
        for sign in (1.0, -1.0):
            _step(observe(X, _smooth(X), constraints=sign * y[:, None]), acquisition=acquisition)


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_one_observation(acquisition: AcquisitionName, deterministic: bool) -> None:
    """With n = 1, away from the only point."""
    X = np.array([[0.5, 0.5]])
    suggestion = _step(observe(X, [3.0]), acquisition=acquisition, deterministic=deterministic)
    assert np.abs(suggestion.x - 0.5).max() > 0.1


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("equal", [True, False])
def test_ten_identical_points(deterministic: bool, equal: bool) -> None:
    """Repeats, with equal or with different values, do not break the factorization."""
    X = np.full((10, 3), 0.3)
    y = np.ones(10) if equal else np.random.default_rng(0).standard_normal(10)
    suggestion = _step(observe(X, y), deterministic=deterministic)
    assert np.abs(suggestion.x - 0.3).max() > 0.05


@given(
    y=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
    acquisition=st.sampled_from(NAMES),
    deterministic=st.booleans(),
)
@settings(max_examples=40)
def test_any_finite_targets_give_a_suggestion(
    y: list[float], seed: int, acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Whatever hypothesis finds, in a mixed space with repeated points."""
    space = mixed_space()
    X = random_points(space, len(y), np.random.default_rng(seed))
    X[-1] = X[0]
    _step(observe(X, y), space, acquisition=acquisition, deterministic=deterministic)


def test_constant_targets_explore() -> None:
    """Nothing distinguishes the points, so the next one is far from all of them."""
    X = np.array([[0.1, 0.1], [0.2, 0.1], [0.1, 0.25], [0.15, 0.2]])
    suggestion = _step(observe(X, [2.0] * 4))
    assert np.linalg.norm(X - suggestion.x, axis=1).min() > 0.4


def test_points_without_a_model_give_a_random_one_and_a_note() -> None:
    """The fallback is visible, valid, and depends on the generator."""
    X = np.random.default_rng(0).random((5, 2))
    X[2, 1] = math.nan
    one, other = (_step(observe(X, np.arange(5.0)), seed=seed) for seed in (0, 1))
    for suggestion in (one, other):
        assert len(suggestion.notes) == 1
        assert "random" in suggestion.notes[0]
        assert suggestion.warm_starts == ()
    assert not np.array_equal(one.x, other.x)


@pytest.mark.parametrize("acquisition", NAMES)
def test_known_noise_is_believed(acquisition: AcquisitionName) -> None:
    """A single spike declared exact attracts the search, declared worthless it does not."""
    X = np.linspace(0.0, 1.0, 21)[:, None]
    y = -np.square(X[:, 0] - 0.8)
    y[4] += 1.5
    noise = np.full(21, 1e-4)
    exact = _step(observe(X, y, noise_variance=noise), acquisition=acquisition)
    noise[4] = 1e4
    doubted = _step(observe(X, y, noise_variance=noise), acquisition=acquisition)
    assert abs(exact.x[0] - 0.2) < 0.1
    assert abs(doubted.x[0] - 0.8) < 0.25


# --------------------------------------------------------------------------------------- pending


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_successive_suggestions_without_results_are_apart(
    acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Four asks in a row, each seeing the earlier ones as pending."""
    X = np.random.default_rng(0).random((10, 2))
    pending = np.empty((0, 2))
    for seed in range(4):
        observations = observe(X, _smooth(X), pending=pending)
        x = _step(observations, seed=seed, acquisition=acquisition, deterministic=deterministic).x
        pending = np.vstack([pending, x])
    gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(pending, 2)]
    assert min(gaps) > 0.02


def test_believed_points_shrink_the_variance_and_keep_the_mean() -> None:
    """Conditioning on the own mean (Kriging believer) leaves the mean where it was, everywhere."""
    process = random_process(unit_box(2), 12, seed=0)
    pending, new = np.random.default_rng(1).random((3, 2)), np.random.default_rng(2).random((30, 2))
    believed = gp_bo._believe(process, pending)
    np.testing.assert_allclose(believed.predict_mean(new), process.predict_mean(new), atol=1e-8)
    assert (believed.predict(new)[1] <= process.predict(new)[1] + 1e-12).all()
    assert (believed.predict(pending)[1] < process.predict(pending)[1]).all()
    assert gp_bo._believe(process, np.empty((0, 2))) is process


@pytest.mark.parametrize("deterministic", [True, False])
def test_pending_points_are_not_suggested_again(deterministic: bool) -> None:
    """In a finite space with two points left, one of them pending, the other is chosen."""
    space = SearchSpace({"a": Dimension.int(1, 2), "b": Dimension.categorical("xy")})
    everything = space.enumerate()
    observations = observe(everything[:2], [1.0, 2.0], pending=everything[3:])
    suggestion = _step(observations, space, deterministic=deterministic)
    assert not np.array_equal(suggestion.x, everything[3])
    if deterministic:
        assert np.array_equal(suggestion.x, everything[2])


def test_the_best_mean_is_not_suggested_while_it_is_pending() -> None:
    """Not even of a noisy objective and by the greedy UCB with β = 0, until it has finished."""
    space = SearchSpace({"a": Dimension.int(1, 9)})
    everything = space.enumerate()
    observed, best = everything[:8], everything[8:]
    y = observed[:, 0]
    options: dict[str, Any] = {"acquisition": "ucb", "beta": 0.0}
    assert np.array_equal(_step(observe(observed, y), space, **options).x, best[0])
    waiting = _step(observe(observed, y, pending=best), space, **options)
    assert np.array_equal(waiting.x, everything[7])


def test_pending_points_may_repeat_and_coincide_with_observations() -> None:
    """Workers may be sent to the same point; the model still stands."""
    X = np.random.default_rng(0).random((8, 2))
    pending = np.vstack([X[:2], X[:2], np.full((4, 2), 0.5)])
    for deterministic in (True, False):
        for acquisition in NAMES:
            suggestion = _step(
                observe(X, _smooth(X), pending=pending),
                deterministic=deterministic,
                acquisition=acquisition,
            )
            assert suggestion.notes == ()
            assert np.linalg.norm(suggestion.x - 0.5) > 0.01


# ----------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize("acquisition", NAMES)
def test_suggestions_are_feasible_where_feasibility_is_clear(acquisition: AcquisitionName) -> None:
    """The unconstrained maximum is at x = 1, feasible is x <= 0.5."""
    X = np.random.default_rng(0).random((20, 2))
    constraints = (X[:, 0] - 0.5)[:, None]
    observations = observe(X, 2.0 * X[:, 0] - np.square(X[:, 1] - 0.5), constraints=constraints)
    assert 0.3 < _step(observations, acquisition=acquisition).x[0] < 0.55
    free = observe(X, observations.y)
    assert _step(free, acquisition=acquisition).x[0] > 0.9


@pytest.mark.parametrize("acquisition", NAMES)
def test_without_any_feasible_point_feasibility_is_maximized(acquisition: AcquisitionName) -> None:
    """All of x >= 0.5 was infeasible and x <= 0.2 would be feasible: go left, whatever y is."""
    rng = np.random.default_rng(1)
    X = rng.random((15, 2))
    X[:, 0] = 0.5 + 0.5 * X[:, 0]
    constraints = (X[:, 0] - 0.2)[:, None]
    observations = observe(X, 10.0 * X[:, 0], constraints=constraints)
    bound, _ = _bound_acquisition(observations, acquisition)
    assert bound.kind is None
    suggestion = _step(observations, acquisition=acquisition)
    assert suggestion.x[0] < 0.3
    value = bound.value(suggestion.x[None, :])[0]
    assert value >= bound.value(rng.random((2000, 2))).max() - 1e-2


def test_missing_constraint_values_are_unknown() -> None:
    """Trials without them inform the objective, not the constraint, and are no incumbent."""
    rng = np.random.default_rng(2)
    X = rng.random((20, 2))
    constraints = (X[:, 0] - 0.5)[:, None]
    constraints[::3] = math.nan
    observations = observe(X, X[:, 0], constraints=constraints)
    acquisition, _ = _bound_acquisition(observations)
    assert len(acquisition.constraints[0].process.y) == int(np.isfinite(constraints).sum())
    assert len(acquisition.objective.y) == 20
    assert 0.3 < _step(observations).x[0] < 0.6


def test_infinite_constraint_values_are_tolerated() -> None:
    """They say feasible or not, and are left out of the model."""
    X = np.random.default_rng(3).random((12, 2))
    constraints = (X[:, 0] - 0.5)[:, None]
    constraints[0], constraints[1] = math.inf, -math.inf
    assert len(_step(observe(X, X[:, 0], constraints=constraints)).warm_starts) == 2


@pytest.mark.parametrize("acquisition", NAMES)
def test_constraint_that_nobody_reports_changes_nothing(acquisition: AcquisitionName) -> None:
    """A column of NaN alone, or beside a reported one, is as good as no column."""
    X = np.random.default_rng(4).random((15, 2))
    y = -np.square(X - 0.3).sum(axis=1)
    unknown, reported = np.full((15, 1), math.nan), X[:, :1] - 0.8
    for without, with_column in (
        (None, unknown),
        (None, np.hstack([unknown, unknown])),
        (reported, np.hstack([reported, unknown])),
        (reported, np.hstack([unknown, reported])),
    ):
        plain = _step(observe(X, y, constraints=without), acquisition=acquisition)
        padded = _step(observe(X, y, constraints=with_column), acquisition=acquisition)
        np.testing.assert_allclose(padded.x, plain.x, atol=1e-12)


def test_no_constraint_columns_is_no_constraint() -> None:
    """An array without columns is the same as None."""
    X = np.random.default_rng(4).random((10, 2))
    empty = _step(observe(X, _smooth(X), constraints=np.empty((10, 0))))
    assert np.array_equal(empty.x, _step(observe(X, _smooth(X))).x)


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("level", [1.0, -1.0])
@pytest.mark.parametrize("spread", [0.0, 1e-15, 1e-12, 1e-6])
def test_nearly_constant_constraints_far_from_their_limit(
    acquisition: AcquisitionName, level: float, spread: float
) -> None:
    """Slack of 1 with a spread of 1e-15 puts the limit 1e15 spreads away: no overflow, no NaN."""
    rng = np.random.default_rng(5)
    X = rng.random((12, 2))
    constraints = level + spread * rng.standard_normal((12, 1))
    observations = observe(X, -np.square(X - 0.3).sum(axis=1), constraints=constraints)
    suggestion = _step(observations, acquisition=acquisition)
    if level < 0.0:  # surely feasible: as if there were no constraint
        plain = _step(observe(X, observations.y), acquisition=acquisition)
        np.testing.assert_allclose(suggestion.x, plain.x, atol=0.02)


# ----------------------------------------------------------------------------------- convergence


@pytest.mark.parametrize("acquisition", NAMES)
def test_finite_space_of_a_deterministic_objective_is_not_repeated(
    acquisition: AcquisitionName,
) -> None:
    """All 24 points are visited once before any is visited again; then the search goes on."""
    space = SearchSpace(
        {
            "a": Dimension.int(1, 4),
            "b": Dimension.categorical("xyz"),
            "c": Dimension.float(0.0, 0.5, step=0.5),
        }
    )
    X = space.enumerate()[:1]
    warm: tuple[WarmStart, ...] = ()
    for seed in range(25):
        suggestion = _step(
            observe(X, _smooth(X)),
            space,
            seed=seed,
            acquisition=acquisition,
            deterministic=True,
            warm_starts=warm,
        )
        warm = suggestion.warm_starts
        X = np.vstack([X, suggestion.x])
        assert len(np.unique(X, axis=0)) == min(len(X), 24)


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_every_acquisition_finds_the_minimum_of_branin(
    acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Regret below 0.05 after 36 trials, 6 of them random, from at least 4 of 5 seeds."""
    space = unit_box(2)
    n_found = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.random((6, 2))
        y = np.array([-branin(x) for x in X])
        warm: tuple[WarmStart, ...] = ()
        for _ in range(30):
            suggestion = suggest(
                space,
                observe(X, y),
                rng=rng,
                acquisition=acquisition,
                deterministic=deterministic,
                warm_starts=warm,
            )
            warm = suggestion.warm_starts
            X = np.vstack([X, suggestion.x])
            y = np.append(y, -branin(suggestion.x))
        n_found += -y.max() - BRANIN_MINIMUM < 0.05
    assert n_found >= 4


def test_mixed_optimum_is_found() -> None:
    """A quadratic over a float, an integer and a category: the exact discrete part in 30 trials."""
    space = SearchSpace(
        {
            "a": Dimension.float(-1.0, 1.0),
            "b": Dimension.int(1, 64, log=True),
            "c": Dimension.categorical(["p", "q", "r", "s"]),
        }
    )

    def value(x: FloatArray) -> float:
        params = space.decode(x)
        trap = 0.0 if params["c"] == "r" else 0.3
        loss: float = (params["a"] - 0.3) ** 2 + math.log(params["b"] / 11.0) ** 2 + trap
        return -loss

    n_found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = random_points(space, 8, rng)
        y = np.array([value(x) for x in X])
        for _ in range(22):
            x = suggest(space, observe(X, y), rng=rng, deterministic=True).x
            X, y = np.vstack([X, x]), np.append(y, value(x))
        best = space.decode(X[np.argmax(y)])
        n_found += best["b"] in {10, 11, 12} and best["c"] == "r" and abs(best["a"] - 0.3) < 0.1
    assert n_found >= 2


def test_noise_does_not_stop_the_search() -> None:
    """With noise of a fifth of the range the *mean* of the best region is found."""
    n_found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((6, 1))

        def noisy(X: FloatArray, rng: np.random.Generator = rng) -> FloatArray:
            return -3.0 * np.square(X[:, 0] - 0.65) + 0.2 * rng.standard_normal(len(X))

        y = noisy(X)
        for _ in range(20):
            x = suggest(unit_box(1), observe(X, y), rng=rng).x
            X, y = np.vstack([X, x]), np.append(y, noisy(x[None, :]))
        process = Surrogate.fit(X, y, FeatureMap((0,))).process
        best = X[np.argmax(process.predict_mean(X)), 0]
        n_found += abs(best - 0.65) < 0.15
    assert n_found >= 2


def test_larger_beta_explores_more() -> None:
    """UCB with β = 0 stays with the best mean, a large one goes where the variance is."""
    X = np.random.default_rng(0).random((15, 2))
    observations = observe(X, _smooth(X))
    process = Surrogate.fit(X, _smooth(X), FeatureMap((0, 0))).process
    deviations = [
        float(process.predict(_step(observations, acquisition="ucb", beta=beta).x[None, :])[1][0])
        for beta in (0.0, 1.96, 100.0)
    ]
    assert deviations == sorted(deviations)
    grid = np.random.default_rng(1).random((2000, 2))
    greedy = _step(observations, acquisition="ucb", beta=0.0).x
    assert process.predict_mean(greedy[None, :])[0] >= process.predict_mean(grid).max() - 1e-2
    assert deviations[-1] >= 0.9 * process.predict(grid)[1].max()


def test_categories_reach_the_kernel() -> None:
    """The model sees categories as categories: the best one is chosen, not the one between."""
    space = SearchSpace({"a": Dimension.categorical("pqrst"), "b": Dimension.float(0.0, 1.0)})
    assert categories_of(space) == (5, 0)
    X = random_points(space, 40, np.random.default_rng(0))
    good = np.array([1.0, -5.0, 0.9, -5.0, 0.95])
    y = good[np.floor(X[:, 0] * 5).astype(int)] - 0.1 * np.square(X[:, 1] - 0.5)
    assert space.decode(_step(observe(X, y), space).x)["a"] in {"p", "r", "t"}


# ------------------------------------------------------- partly reported constraints, held spaces


def test_trials_are_judged_by_the_constraints_they_report() -> None:
    """Branches that report different constraints are eligible; violating one disqualifies."""
    rng = np.random.default_rng(8)
    X = rng.random((16, 2))
    constraints = np.full((16, 2), math.nan)
    constraints[:8, 0] = -1.0
    constraints[8:, 1] = -1.0
    constraints[3, 0] = constraints[12, 1] = 1.0
    observations = observe(X, _smooth(X), constraints=constraints)
    acquisition, surrogate = _bound_acquisition(observations)
    feasible = ~np.isin(np.arange(16), (3, 12))
    assert acquisition.kind == "logei"
    expected = _dense_mean(surrogate, X)[feasible].max()
    assert acquisition.incumbent == pytest.approx(expected, abs=1e-8)


def test_optimization_goes_on_where_branches_report_different_constraints() -> None:
    """Minimum of a sphere on the feasible half, reported under one of two names per trial."""
    rng = np.random.default_rng(9)
    X = rng.random((8, 2))

    def value(points: FloatArray) -> FloatArray:
        distances: FloatArray = np.square(points - 0.3).sum(axis=1)
        return -distances

    def constraints(points: FloatArray) -> FloatArray:
        table = np.full((len(points), 2), math.nan)
        table[np.arange(len(points)), np.arange(len(points)) % 2] = points[:, 0] - 0.6
        return table

    for seed in range(20):
        step = _step(observe(X, value(X), constraints=constraints(X)), seed=seed)
        X = np.vstack([X, step.x])
    assert value(X).max() > -1e-4


def test_held_slice_is_judged_by_the_constraint_models_there() -> None:
    """x0 <= x1 is asked for and x1 is held at 0.3: no point with x0 > 0.3 counts as incumbent."""
    rng = np.random.default_rng(10)
    X = rng.random((30, 2))
    constraints = (X[:, 0] - X[:, 1])[:, None]
    space = unit_box(2).held({"x1": 0.3})
    found = []
    for seed in range(8):
        step = _step(observe(X, X[:, 0], constraints=constraints), space, seed=seed)
        found.append(step.x)
        X = np.vstack([X, step.x])
        constraints = (X[:, 0] - X[:, 1])[:, None]
    feasible = [x[0] for x in found if x[0] <= 0.3]
    assert max(feasible) > 0.28


def test_points_evaluated_outside_the_slice_are_not_taken_inside() -> None:
    """Deterministic, a = 0..7 with b held at another value: every point of the slice is free."""
    space = SearchSpace({"a": Dimension.int(0, 7), "b": Dimension.categorical(("p", "q"))})
    params: list[dict[str, Any]] = [{"a": a, "b": "p"} for a in range(8)]
    held = space.held({"b": "q"})
    for seed in range(3):
        y = [-((p["a"] - 5.0) ** 2) for p in params]
        step = _step(observe(space.encode(params), y), held, seed=seed, deterministic=True)
        params.append(held.decode(step.x))
    suggested = [p["a"] for p in params[8:]]
    assert all(p["b"] == "q" for p in params[8:])
    assert 5 in suggested
    assert len(set(suggested)) == 3


# ----------------------------------------------------------------------- failures, parallel asks


def test_failures_drive_the_search_away() -> None:
    """The model's optimum fails every time; after a few failures the search is elsewhere."""
    X = np.random.default_rng(11).random((20, 2)) * np.array([0.7, 1.0])
    observations = observe(X, X[:, 0] - np.square(X[:, 1] - 0.5))
    failed = np.empty((0, 2))
    for seed in range(12):
        step = _step(dataclasses.replace(observations, failed=failed), seed=seed)
        if step.x[0] > 0.75:
            failed = np.vstack([failed, step.x])
    assert 1 <= len(failed) <= 8


def test_failed_points_are_not_suggested_again() -> None:
    """On a finite space the point that fails is left for good, noise or not."""
    space = SearchSpace({"a": Dimension.int(0, 9)})
    X = space.encode([{"a": a} for a in (0, 2, 4, 6)])
    failed = np.empty((0, 1))
    for seed in range(6):
        observations = observe(X, np.array([0.0, 2.0, 4.0, 6.0]), failed=failed)
        step = _step(observations, space, seed=seed)
        assert not np.isclose(failed, step.x).any()
        if not np.isclose(X, step.x).any():
            failed = np.vstack([failed, step.x])
    assert len(failed) >= 2


def test_a_failure_that_was_repeated_with_success_is_forgotten() -> None:
    """A point that failed once and was evaluated later says what its value says, no more."""
    X = np.random.default_rng(12).random((15, 2))
    observations = observe(X, _smooth(X))
    expected = _step(observations).x
    again = _step(dataclasses.replace(observations, failed=X[[np.argmax(_smooth(X))]])).x
    assert np.array_equal(again, expected)


@pytest.mark.parametrize("n", [10, 30, 60])
@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("kind", ["logei", "ucb"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_four_pending_suggestions_are_well_apart(
    n: int, d: int, kind: AcquisitionName, noise: float
) -> None:
    """Also when the model is good: a sphere, half of whose history is close to its optimum."""
    rng = np.random.default_rng([n, d])
    X = rng.random((n, d))
    X[n // 2 :] = np.clip(0.4 + 0.05 * rng.standard_normal((n - n // 2, d)), 0.0, 1.0)
    y = -np.square(X - 0.4).sum(axis=1) + noise * rng.standard_normal(n)
    pending = np.empty((0, d))
    for seed in range(4):
        step = _step(observe(X, y, pending=pending), seed=seed, acquisition=kind)
        pending = np.vstack([pending, step.x])
    gaps = np.linalg.norm(pending[:, None] - pending[None], axis=2)
    assert gaps[~np.eye(4, dtype=bool)].min() >= CLOSE
