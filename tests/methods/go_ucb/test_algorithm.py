"""One step of GO-UCB: purity, odd data, pending points, constraints, noise, convergence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.acquisition.functions import ConstrainedAcquisition, ConstraintModel
from bbo_plugins.acquisition.maximize import CLOSE, clearance_of, maximize_in_region
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods.go_ucb.algorithm import (
    GOUCBOptions,
    _acquisition,
    _fit,
    acquisition_of,
    suggest,
)
from bbo_plugins.methods.go_ucb.surrogate import NetworkPosterior, NetworkSurrogate, WarmNetwork
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles import normal
from tests.oracles.differences import numeric_gradients
from tests.oracles.problems import mixed_space, observe, random_points, unit_box

if TYPE_CHECKING:
    from bbo_plugins.methods.observations import Observations, Suggestion
    from bbo_plugins.space.dimension import FloatArray


def _step(
    observations: Observations, space: SearchSpace | None = None, *, seed: int = 0, **options: Any
) -> Suggestion:
    """Suggest with a generator of its own and a small network."""
    space = space or unit_box(observations.X.shape[1])
    warm_starts = options.pop("warm_starts", {})
    chosen = GOUCBOptions(**{"n_startup": 5, "hidden_units": 6, **options})
    rng = np.random.default_rng(seed)
    suggestion = suggest(space, observations, chosen, rng=rng, warm_starts=warm_starts)
    x = suggestion.x
    assert x.shape == (len(space),)
    np.testing.assert_array_equal(space.snap(x[None, :])[0], x)
    for fit in suggestion.warm_starts.values():
        assert WarmNetwork.from_json(fit.to_json()) is not None
    return suggestion


def _hill(X: FloatArray, top: float = 0.7) -> FloatArray:
    values: FloatArray = -np.square(X - top).sum(axis=1)
    return values


def test_a_constraint_is_modeled_without_a_power() -> None:
    """One would bend the slack at its border; and it centers on a trial that reports it."""
    X = np.random.default_rng(0).random((25, 2))
    slack = -np.exp(4.0 * X[:, 0]) + 5.0
    constraints = -np.where(np.arange(25) == 7, np.nan, slack)[:, None]
    known = observe(X, _hill(X), constraints=constraints)
    options = GOUCBOptions(n_startup=5, hidden_units=6)
    features = FeatureMap.of(unit_box(2))
    _, model = _fit(known, features, options, np.random.default_rng(0), {}).values()
    assert model.transform.power == 1.0
    best = known.best_feasible
    assert best is not None
    assert model.transform.best == pytest.approx(slack[best])


# ------------------------------------------------------------------------------ the acquisition


def _bound(space: SearchSpace, n_constraints: int) -> ConstrainedAcquisition:
    rng = np.random.default_rng(0)
    features = FeatureMap(tuple(space.n_categories.tolist()))
    X = random_points(space, 15, rng)
    models = [
        NetworkSurrogate.fit(X, rng.standard_normal(15), features, rng=rng, hidden_units=4)
        for _ in range(1 + n_constraints)
    ]
    first, *others = (NetworkPosterior(model.ball, features) for model in models)
    limits = zip(others, (0.2, -0.4), strict=False)
    constraints = tuple(ConstraintModel(model, limit) for model, limit in limits)
    return acquisition_of(first, 1.5, 0.3, constraints)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("n_constraints", [0, 1, 2])
def test_values_and_gradients_agree(n_constraints: int, alone: bool) -> None:
    """Both forms say the same; gradients agree with numeric ones and are zero for categories."""
    space = mixed_space()
    bound = _bound(space, n_constraints)
    acquisition = bound.feasibility if alone else bound
    X = random_points(space, 8, np.random.default_rng(1))
    values, gradients = acquisition.value_and_gradient(X)
    np.testing.assert_allclose(values, acquisition.value(X), rtol=1e-9, atol=1e-12)
    categorical = space.n_categories > 0
    assert not gradients[:, categorical].any()
    numeric = numeric_gradients(acquisition.value, X, 1e-4)
    np.testing.assert_allclose(
        gradients[:, ~categorical], numeric[:, ~categorical], rtol=1e-5, atol=1e-6
    )


def test_pending_points_count_in_all_networks() -> None:
    """The objective's and each constraint's posterior know less variance there than without."""
    rng = np.random.default_rng(3)
    X, pending = rng.random((14, 2)), rng.random((3, 2))
    known = replace(observe(X, _hill(X), constraints=X[:, :1] - 0.6), pending=pending)
    options, features = GOUCBOptions(n_startup=5, hidden_units=6), FeatureMap.of(unit_box(2))
    surrogate, *constraints = _fit(known, features, options, rng, {}).values()
    acquisition = _acquisition(known, surrogate, constraints, 1.0, 0.0, ())
    assert isinstance(acquisition, ConstrainedAcquisition)
    (slack,) = acquisition.feasibility.constraints
    for model, posterior in ((surrogate, acquisition.objective), (constraints[0], slack.process)):
        assert (posterior.predict(pending)[1] < model.predict(pending)[1]).all()


def test_value_is_the_linearized_maximum_over_the_ball() -> None:
    """Without constraints: output plus √β posterior standard deviations."""
    acquisition = _bound(unit_box(2), 0)
    X = np.random.default_rng(1).random((5, 2))
    assert isinstance(acquisition.objective, NetworkPosterior)
    mean, variance = acquisition.objective.ball.predict(2.0 * X - 1.0)
    np.testing.assert_allclose(acquisition.value(X), mean + 1.5 * np.sqrt(variance))


def test_value_under_constraints_is_the_weighed_expected_improvement() -> None:
    """With √β standard deviations; a unit of the objective's would matter otherwise."""
    acquisition, plain = _bound(unit_box(2), 2), _bound(unit_box(2), 0)
    X = np.random.default_rng(1).random((5, 2))
    expected = [
        normal.log_expected_improvement(float(mean), 1.5**2 * float(variance), 0.3)
        for mean, variance in zip(*plain.objective.predict(X), strict=True)
    ]
    for model in acquisition.feasibility.constraints:
        mean, variance = model.process.predict(X)
        for i, z in enumerate((mean - model.limit) / np.sqrt(variance)):
            expected[i] += normal.log_cdf(float(z))[0]
    np.testing.assert_allclose(acquisition.value(X), expected, rtol=1e-9)


# ------------------------------------------------------------------------------------ the method


def test_suggestion_is_a_function_of_its_arguments() -> None:
    """The same arguments and generator give the same point; another generator another one."""
    X = np.random.default_rng(0).random((20, 4))
    first, again, other = (_step(observe(X, _hill(X)), seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_optimum_of_a_mixed_space_is_found() -> None:
    """A category, a level and two numbers at once."""
    space = SearchSpace(
        {
            "a": Dimension.floats(0.0, 1.0),
            "b": Dimension.floats(1e-4, 1.0, log=True),
            "k": Dimension.integers(1, 12),
            "c": Dimension.categorical(["p", "q", "r", "s"]),
        }
    )

    def value(x: FloatArray) -> float:
        p = space.decode(x)
        penalty = {"p": 1.0, "q": 0.5, "r": 0.0, "s": 0.8}[p["c"]]
        rest = (p["a"] - 0.3) ** 2 + (math.log10(p["b"]) + 2.0) ** 2 + 0.02 * (p["k"] - 9) ** 2
        return -penalty - float(rest)

    X = random_points(space, 10, np.random.default_rng(0))
    y = np.array([value(x) for x in X])
    for i in range(30):
        x = _step(observe(X, y), space, seed=i, n_startup=10).x
        X, y = np.concatenate([X, x[None, :]]), np.append(y, value(x))
    best = space.decode(X[y.argmax()])
    assert (best["c"], best["k"]) == ("r", 9)
    assert y.max() > -0.02


@pytest.mark.parametrize("is_noisy", [False, True])
def test_pending_points_repel(is_noisy: bool) -> None:
    """Four points asked for one after another without a value are apart, with noise well apart."""
    space, X = unit_box(3), np.random.default_rng(0).random((15, 3))
    known = np.where(np.arange(15) == 0, 1e-6, np.nan) if is_noisy else None
    pending, gaps = np.empty((0, 3)), []
    for i in range(4):
        x = _step(observe(X, _hill(X), pending=pending, noise_variance=known), seed=i).x
        kept = clearance_of(pending, X, space, noisy=is_noisy)
        gaps.append(np.linalg.norm(pending - x, axis=1))
        assert (gaps[-1] >= kept).all()
        pending = np.concatenate([pending, x[None, :]])
    assert (np.concatenate(gaps).min() >= CLOSE) == is_noisy


def test_workers_at_one_time_have_different_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside pending points √β is drawn by the trial's generator; else it is the given one."""
    seen: list[float] = []

    def watched(acquisition: ConstrainedAcquisition, *arguments: Any, **options: Any) -> FloatArray:
        seen.append(acquisition.beta)
        return maximize_in_region(acquisition, *arguments, **options)

    monkeypatch.setattr("bbo_plugins.methods.go_ucb.algorithm.maximize_in_region", watched)
    X = np.random.default_rng(0).random((8, 2))
    for pending in (X[:0], X[:1] + 0.01):
        for seed in (0, 1, 1):
            _step(observe(X, _hill(X), pending=pending), seed=seed, beta=4.0)
    assert seen[:3] == [2.0] * 3
    assert len({2.0, *seen[3:]}) == 3
    assert seen[4] == seen[5]


def test_beside_pending_points_the_ball_is_small_unless_values_have_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its logarithm has the mean -2, with estimated or known noise 0.5; its spread is 1."""
    drawn: list[float] = []

    def watched(acquisition: ConstrainedAcquisition, *arguments: Any, **options: Any) -> FloatArray:
        drawn.append(math.log(acquisition.beta))
        return maximize_in_region(acquisition, *arguments, **options)

    monkeypatch.setattr("bbo_plugins.methods.go_ucb.algorithm.maximize_in_region", watched)
    X = np.random.default_rng(0).random((30, 2))
    y = _hill(X)
    noise = 0.5 * y.std() * np.random.default_rng(1).standard_normal(30)
    some_known = np.where(np.arange(30) == 0, 0.1, np.nan)
    n_seeds = {"without": 20, "estimated": 3, "stated": 3}
    cases = ((y, None), (y + noise, None), (y, some_known))
    for (values, known), n in zip(cases, n_seeds.values(), strict=True):
        for seed in range(n):
            beside = observe(X, values, pending=X[:1] + 0.01, noise_variance=known)
            _step(beside, seed=seed, beta=1.0)
    without, estimated, stated = np.split(np.array(drawn), np.cumsum([*n_seeds.values()])[:-1])
    np.testing.assert_allclose(estimated - without[:3], 2.5)  # the same numbers, by the seeds
    np.testing.assert_allclose(stated, estimated)
    assert without.mean() == pytest.approx(-2.0, abs=0.45)
    assert without.std() == pytest.approx(1.0, abs=0.3)


def test_known_points_are_not_repeated_without_noise() -> None:
    """In a finite space a deterministic objective is never evaluated twice at a point."""
    space = SearchSpace({"a": Dimension.integers(0, 4), "b": Dimension.categorical(["u", "v"])})
    X = random_points(space, 2, np.random.default_rng(1))
    y = X[:, 0].copy()
    for i in range(8):
        x = _step(observe(X, y), space, seed=i, deterministic=True).x
        X, y = np.concatenate([X, x[None, :]]), np.append(y, x[0])
    assert len(np.unique(X, axis=0)) == 10


def test_feasible_points_are_looked_for_first() -> None:
    """As long as no point is feasible, suggestions go where the constraint falls."""
    X = np.random.default_rng(0).uniform(0.5, 1.0, (12, 3))
    constraints = X.sum(axis=1, keepdims=True) - 0.6
    x = _step(observe(X, _hill(X, top=0.9), constraints=constraints), n_startup=12).x
    assert x.sum() < X.sum(axis=1).min()


def test_warm_start_is_continued() -> None:
    """The state changes the fit, hence the point; after a round trip through JSON nothing does."""
    X = np.random.default_rng(0).random((30, 3))
    state = _step(observe(X[:25], _hill(X[:25]))).warm_starts
    stored = {name: WarmNetwork.from_json(one.to_json()) for name, one in state.items()}
    warm, again = (_step(observe(X, _hill(X)), warm_starts=stored) for _ in range(2))
    np.testing.assert_array_equal(warm.x, again.x)
    assert warm.warm_starts["GO-UCB"].n_cold == 25


def test_each_network_starts_from_its_own_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objective's, and those of the constraints, in whatever order these come."""
    X = np.random.default_rng(0).random((20, 2))
    known = replace(observe(X, _hill(X), constraints=X - 0.8), constraint_names=("b", "a"))
    options, features = GOUCBOptions(n_startup=5, hidden_units=6), FeatureMap.of(unit_box(2))
    networks = _fit(known, features, options, np.random.default_rng(0), {})
    fits = {name: network.warm_start for name, network in reversed(networks.items())}
    starts: list[WarmNetwork | None] = []
    fit = NetworkSurrogate.fit

    def watched(*data: Any, **given: Any) -> NetworkSurrogate:
        starts.append(given["warm_start"])
        return fit(*data, **given)

    monkeypatch.setattr(NetworkSurrogate, "fit", watched)
    _fit(known, features, options, np.random.default_rng(0), fits)
    assert starts == [fits[name] for name in ("GO-UCB", "GO-UCB b", "GO-UCB a")]


def test_what_cannot_be_fitted_is_said() -> None:
    """A failure of the linear algebra gives a random point and a note, not an exception."""
    X = np.random.default_rng(0).random((5, 2))
    suggestion = _step(observe(X, _hill(X)), regularization=-1.0)
    assert suggestion.warm_starts == {}
    assert "random" in suggestion.notes[0]
