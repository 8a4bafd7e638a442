"""MAP estimation against multi-start L-BFGS-B, and what a stored warm start may contain."""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

import bbo_plugins.gp.fit
from bbo_plugins.gp.fit import TailedPrior, WarmStart, default_prior, fit_map
from bbo_plugins.gp.kernels import FeatureMap, Trend
from bbo_plugins.gp.likelihood import MarginalLikelihood
from tests.oracles.differences import numeric_gradient
from tests.oracles.problems import branin, sample_prior
from tests.oracles.search import multi_start_maximum

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.space.dimension import FloatArray


def _ackley(X: FloatArray) -> FloatArray:
    Z = 40.0 * (X - 0.37)
    radius = np.sqrt(np.mean(Z * Z, axis=1))
    ripples: FloatArray = np.exp(np.cos(2.0 * np.pi * Z).mean(axis=1))
    bowl: FloatArray = 20.0 * np.exp(-0.2 * radius)
    return bowl + ripples


def _rosenbrock(X: FloatArray) -> FloatArray:
    Z = 4.0 * X - 2.0
    valley = 100.0 * np.square(Z[:, 1:] - Z[:, :-1] ** 2) + np.square(1.0 - Z[:, :-1])
    total: FloatArray = -np.asarray(valley.sum(axis=1))
    return total


FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "ackley": _ackley,
    "branin": lambda X: np.array([-branin(x) for x in X]),
    "rosenbrock": _rosenbrock,
    "sphere": lambda X: -np.square(X - 0.3).sum(axis=1),
    "steps": lambda X: np.floor(5.0 * X).sum(axis=1),
    "waves": lambda X: np.sin(25.0 * X).sum(axis=1) - np.square(X - 0.3).sum(axis=1),
}


def _problem(
    name: str, n: int, d: int, seed: int = 0
) -> tuple[FloatArray, FloatArray, tuple[int, ...]]:
    """Return points, standardized targets and the kinds of the dimensions."""
    rng = np.random.default_rng([seed, n, d])
    counts = tuple(3 if name == "mixed" and i % 2 == 0 else 0 for i in range(d))
    X = rng.random((n, d))
    if name in FUNCTIONS:
        y = FUNCTIONS[name](X)
    elif name == "noise":
        y = rng.standard_normal(n)
    else:
        length_scales = rng.uniform(0.1, 1.5, d) * math.sqrt(d)
        noise = 0.05 if name == "noisy" else 0.0
        y = sample_prior(X, length_scales, rng, noise=noise, n_categories=counts)
    return X, (y - y.mean()) / y.std(), counts


def _prior(features: FeatureMap) -> TailedPrior:
    n = features.n_categories.count(0) if features.trend else None
    return default_prior(len(features.n_categories), n_in_trend=n, cosines=features.cosines)


def _log_posterior(
    X: FloatArray, y: FloatArray, features: FeatureMap, *, fit_noise: bool
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return likelihood plus prior, each with an oracle of its own elsewhere."""
    likelihood = MarginalLikelihood(X, y, features, fit_noise=fit_noise)
    p, prior = likelihood.n_parameters, _prior(features)
    truncated = TailedPrior(prior.location[:p], prior.scale[:p], prior.has_tail[:p])

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood(theta)
        log_prior, prior_gradient = truncated.value_and_gradient(theta)
        return value + log_prior, gradient + prior_gradient

    return value_and_gradient


PROBLEMS = [
    ("sample", 5, 1), ("sample", 40, 3), ("sample", 150, 10), ("noisy", 40, 2), ("noisy", 100, 4),
    ("mixed", 15, 3), ("mixed", 60, 6), ("ackley", 40, 3), ("branin", 20, 2), ("branin", 80, 2),
    ("rosenbrock", 30, 2), ("sphere", 30, 10), ("steps", 40, 2),
]  # fmt: skip


def _best_of_many_starts(
    objective: Callable[[FloatArray], tuple[float, FloatArray]], prior: TailedPrior, p: int
) -> float:
    """Return what L-BFGS-B finds from the prior's location and five draws from the prior."""
    location, scale = prior.location[:p], prior.scale[:p]
    rng = np.random.default_rng(1)
    starts = [location, *(location + scale * rng.standard_normal((5, p)))]
    bounds = list(zip(location - 8.0 * scale, location + 8.0 * scale, strict=True))
    return multi_start_maximum(objective, starts, bounds)


@pytest.mark.parametrize(
    "name, n, d, trend",
    [(*problem, None) for problem in PROBLEMS]
    + [("sample", 40, 3, "squares"), ("mixed", 60, 6, "squares"), ("sphere", 30, 10, "squares")]
    + [("sample", 40, 3, "cosines"), ("mixed", 60, 6, "cosines"), ("waves", 60, 3, "cosines")],
)
@pytest.mark.parametrize("fit_noise", [True, False])
def test_fit_reaches_the_optimum_of_many_starts(
    name: str, n: int, d: int, trend: str | None, fit_noise: bool
) -> None:
    """Within 1e-3 nats of the best of six runs of L-BFGS-B, where the posterior is benign."""
    X, y, counts = _problem(name, n, d)
    features = FeatureMap(counts, trend=trend is not None, cosines=trend == "cosines")
    fit = fit_map(X, y, features, fit_noise=fit_noise)
    objective = _log_posterior(X, y, features, fit_noise=fit_noise)
    assert fit.log_posterior == pytest.approx(objective(fit.warm_start.theta)[0], rel=1e-10)
    likelihood = MarginalLikelihood(X, y, features, fit_noise=fit_noise)
    alone = likelihood(fit.warm_start.theta)[0]
    assert fit.criterion_value == pytest.approx(alone, rel=1e-9, abs=1e-9)
    p = len(fit.warm_start.theta)
    assert p == d + 1 + 3 * features.trend + int(fit_noise)
    assert fit.log_posterior > _best_of_many_starts(objective, _prior(features), p) - 1e-3
    assert fit.note is None
    stored = WarmStart.from_json(json.loads(json.dumps(fit.warm_start.to_json())))
    assert stored is not None
    read = stored.hyperparameters(d)
    assert read is not None
    assert read.trend == fit.hyperparameters.trend
    assert np.array_equal(read.length_scales, fit.hyperparameters.length_scales)
    again = fit_map(X, y, features, fit_noise=fit_noise, warm_start=stored)
    assert again.n_evaluations <= 3
    assert again.log_posterior >= fit.log_posterior - 1e-9


def _quadratic_with_waves(seed: int) -> tuple[FloatArray, FloatArray, FeatureMap]:
    """Return points, targets and features with a trend; the posterior may have several modes."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 70)), int(rng.integers(2, 9))
    X, turn = rng.random((n, d)), rng.standard_normal((d, d))
    waves = rng.choice([0.0, 0.5, 2.0]) * np.cos(6.0 * X).sum(axis=1)
    y = waves - np.square((X - 0.4) @ turn).sum(axis=1)
    if seed % 2:
        y = y + 0.3 * y.std() * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std(), FeatureMap((0,) * d, trend=True)


def test_searches_that_end_early_lose_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cold fits reach the optimum of all starts searched to their ends, in fewer evaluations.

    Of 120 such posteriors, the last six are those of which a laxer limit loses an optimum.
    """
    data = [_quadratic_with_waves(seed) for seed in (*range(6), 11, 36, 75, 85, 94, 97)]
    early = [fit_map(*one) for one in data]
    monkeypatch.setattr(bbo_plugins.gp.fit, "_FAR_BELOW", math.inf)
    by_distance = [fit_map(*one) for one in data]
    monkeypatch.setattr(bbo_plugins.gp.fit, "_SAME_OPTIMUM", 0.0)
    whole = [fit_map(*one) for one in data]
    losses = [b.log_posterior - a.log_posterior for a, b in zip(early, whole, strict=True)]
    assert max(losses) < 5e-3
    n_early, n_by_distance, n_whole = (
        sum(fit.n_evaluations for fit in found) for found in (early, by_distance, whole)
    )
    assert n_early < 0.95 * n_by_distance
    assert n_by_distance < 0.9 * n_whole


@pytest.mark.parametrize("seed", range(8))
def test_a_search_that_ended_beside_the_optimum_does_not_hide_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored inverse Hessian that is far too small ends the warm search where it begins."""
    monkeypatch.setattr(bbo_plugins.gp.fit, "_FAR_BELOW", math.inf)  # the other limit alone
    X, y, features = _quadratic_with_waves(seed)
    cold = fit_map(X, y, features)
    p = len(cold.warm_start.theta)
    beside = cold.warm_start.theta + 0.1 * np.random.default_rng(seed).standard_normal(p)
    stuck = WarmStart(beside, 1e-6 * np.eye(p), -1e3, 1)
    assert fit_map(X, y, features, warm_start=stuck).log_posterior > cold.log_posterior - 0.05


@pytest.mark.parametrize("d", [1, 3])
def test_length_scales_of_the_generating_process_are_recovered(d: int) -> None:
    """On samples of the model the estimate has the right magnitude: a factor of two in the median.

    Length-scales are drawn from 0.15 to 0.6, away from what the prior would say by itself.
    """
    ratios: list[float] = []
    for seed in range(6):
        rng = np.random.default_rng([seed, d])
        X = rng.random((40 * d, d))
        truth = rng.uniform(0.15, 0.6, d)
        y = sample_prior(X, truth, rng, noise=1e-3)
        fit = fit_map(X, y, FeatureMap((0,) * d))
        ratios.extend((fit.hyperparameters.length_scales / truth).tolist())
        assert fit.hyperparameters.noise_variance < 0.05
    assert np.median(np.abs(np.log(ratios))) < math.log(2.0)
    assert np.abs(np.log(ratios)).max() < math.log(5.0)


def test_known_noise_is_not_estimated_again() -> None:
    """With all noise known θ has no entry for it; with some of it, one for the rest."""
    X, y, counts = _problem("noisy", 30, 2)
    features = FeatureMap(counts)
    known = np.full(30, 0.05)
    all_known = fit_map(X, y, features, known_noise=known)
    assert len(all_known.warm_start.theta) == 3
    known[3] = np.nan
    assert len(fit_map(X, y, features, known_noise=known).warm_start.theta) == 4
    much = fit_map(X, y, features, known_noise=np.full(30, 100.0))
    assert much.log_posterior < all_known.log_posterior


@pytest.mark.parametrize(
    "name, d", [("sample", 2), ("sample", 6), ("mixed", 4), ("rosenbrock", 5), ("branin", 2)]
)
@pytest.mark.parametrize("fit_noise", [True, False])
def test_warm_fits_are_short_and_as_good(name: str, d: int, fit_noise: bool) -> None:
    """One more observation at a time: the cold optimum within 1e-2 nats, few evaluations."""
    X, y, counts = _problem(name, 40, d)
    features = FeatureMap(counts)
    warm: WarmStart | None = None
    n_evaluations, losses = [], []
    for n in range(12, 41, 2):
        z = (y[:n] - y[:n].mean()) / y[:n].std()
        cold = fit_map(X[:n], z, features, fit_noise=fit_noise)
        if warm is not None:
            fit = fit_map(X[:n], z, features, fit_noise=fit_noise, warm_start=warm)
            n_evaluations.append(fit.n_evaluations)
            losses.append(cold.log_posterior - fit.log_posterior)
        warm = cold.warm_start
    assert np.median(n_evaluations) <= 10
    # Another mode may win when one point comes in, with more noise or less; a cold fit is due from
    # time to time, not always.
    assert np.mean(np.array(losses) < 1e-2) >= 0.85
    assert max(losses) < 1.0


@pytest.mark.parametrize("promised, n_points", [(None, 40), (-1e3, 1), (-1e3, 11), (-1e3, 100_000)])
def test_a_poor_warm_start_is_found_out(promised: float | None, n_points: int) -> None:
    """It promises more per point than it keeps, or the number of observations has changed much."""
    X, y, counts = _problem("sample", 40, 3)
    cold = fit_map(X, y, FeatureMap(counts))
    per_point = cold.log_posterior / 40 if promised is None else promised
    poor = WarmStart(np.log([1e-3, 1e-3, 1e-3, 1.0, 1.0]), 1e-9 * np.eye(5), per_point, n_points)
    fit = fit_map(X, y, FeatureMap(counts), warm_start=poor)
    assert fit.log_posterior >= cold.log_posterior - 1e-6


# A low value per point, so that a fit has no reason of its own to distrust it.
VALID = WarmStart(np.array([0.1, -0.2, -3.0]), np.eye(3), -100.0, 9).to_json()


@pytest.mark.parametrize("n_entries", range(2, 10))
def test_a_stored_fit_is_an_estimate_of_as_many_dimensions_as_it_has(n_entries: int) -> None:
    """Of two: 3 and 4 entries without a trend, 6 and 7 with one; others are of another space."""
    fit = WarmStart(np.zeros(n_entries), np.eye(n_entries), -1.0, 9)
    assert (fit.hyperparameters(2) is not None) == (n_entries in {3, 4, 6, 7})


def test_a_fit_of_an_earlier_layout_is_not_read() -> None:
    """Its trend had two entries, so it might be taken for one of today without noise."""
    stored = VALID | {"theta": VALID["log_hyperparameters"]}
    del stored["log_hyperparameters"]
    assert WarmStart.from_json(VALID) is not None
    assert WarmStart.from_json(stored) is None


@pytest.mark.parametrize("damage", [math.nan, math.inf])
def test_fit_without_any_finite_likelihood_is_reported(damage: float) -> None:
    """The prior's location is used, the note says so, and nothing is raised."""
    rng = np.random.default_rng(1)
    X, y = rng.random((6, 2)), rng.standard_normal(6)
    y[3] = damage
    warm = fit_map(X, rng.standard_normal(6), FeatureMap((0, 0))).warm_start
    for warm_start in (None, warm):
        fit = fit_map(X, y, FeatureMap((0, 0)), warm_start=warm_start)
        assert fit.note is not None
        assert "prior" in fit.note
        np.testing.assert_allclose(fit.warm_start.theta, default_prior(2).location)
        assert fit.log_posterior == -math.inf  # no other fit is worse
        assert np.isfinite(fit.warm_start.inverse_hessian).all()
        stored = json.dumps(fit.warm_start.to_json())
        assert WarmStart.from_json(json.loads(stored)) is not None


def test_length_scales_of_any_size_are_read_back() -> None:
    """That of a parameter without any effect may grow without bound; no such fit is damage."""
    fit = WarmStart(np.array([90.0, 400.0, -3.0]), np.eye(3), -1.0, 9)
    stored = WarmStart.from_json(json.loads(json.dumps(fit.to_json())))
    assert stored is not None
    assert stored.theta.tolist() == [50.0, 50.0, -3.0]


@pytest.mark.parametrize("cosines, weight, scale", [(False, 3.75, 1.5), (True, 1 / 15, 3.0)])
def test_prior_of_a_trend_has_the_documented_constants(
    cosines: bool, weight: float, scale: float
) -> None:
    """0.3/c, 0.9/c² and 45/4c, or 1/5c for cosines, before the noise; all else as without."""
    prior, plain = default_prior(4, n_in_trend=3, cosines=cosines), default_prior(4)
    np.testing.assert_allclose(np.exp(prior.location[5:8]), [0.1, 0.1, weight])
    np.testing.assert_allclose(prior.scale[5:8], [1.5, 1.5, scale])
    np.testing.assert_array_equal(np.delete(prior.location, [5, 6, 7]), plain.location)  # d < 5
    np.testing.assert_array_equal(np.delete(prior.scale, [5, 6, 7]), plain.scale)


@pytest.mark.parametrize("c", [1, 7, 60])
@pytest.mark.parametrize("cosines, separable", [(False, 1.0), (True, 0.1)])
def test_parts_of_a_trend_keep_their_size_in_any_number_of_dimensions(
    c: int, cosines: bool, separable: float
) -> None:
    """At the prior's location, over the cube: as documented where each part is a mean."""
    weights = np.exp(default_prior(c, n_in_trend=c, cosines=cosines).location[c + 1 : c + 4])
    features = FeatureMap((0,) * c, trend=True, cosines=cosines)
    T = features.trend_columns(np.random.default_rng(c).random((5_000, c)))
    parts = [float(Trend(*row).variance(T).mean()) for row in np.diag(weights)]
    assert parts[0] == pytest.approx(0.1, rel=0.05)
    assert 0.1 * 0.95 < parts[1] < 0.2  # E|t|⁴ is 9/5 of (E|t|²)² at most
    assert parts[2] == pytest.approx(separable, rel=0.05)


def test_prior_of_a_trend_without_numeric_dimensions_is_proper() -> None:
    """A space of categories only: the trend is 0, and its weights stay where the prior has them."""
    X = np.array([[0.1, 0.9], [0.4, 0.2], [0.8, 0.6]])
    fit = fit_map(X, np.array([-1.0, 0.0, 1.0]), FeatureMap((3, 2), trend=True))
    expected = default_prior(2, n_in_trend=0).location[3:6]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(fit.warm_start.theta[3:6], expected, atol=1e-6)


def test_many_observations_are_fitted_through_a_subset() -> None:
    """Beyond 200 observations the starts compete on a part of the data, the winner on all of it."""
    X, y, counts = _problem("noisy", 260, 3)
    fit = fit_map(X, y, FeatureMap(counts))
    objective = _log_posterior(X, y, FeatureMap(counts), fit_noise=True)
    assert fit.log_posterior == pytest.approx(objective(fit.warm_start.theta)[0])
    polished = multi_start_maximum(objective, [fit.warm_start.theta], [(-20.0, 20.0)] * 5)
    assert fit.log_posterior > polished - 1e-2
    assert fit.n_evaluations < 40


@pytest.mark.parametrize(
    "change",
    [
        {"log_hyperparameters": [0.1, -0.2]},
        {"log_hyperparameters": [0.1, 1e3, -3.0]},
        {"inverse_hessian": "not base64!"},
        {"inverse_hessian": base64.b64encode(np.full(6, math.nan, "<f4").tobytes()).decode()},
        {"log_posterior_per_point": math.nan},
        {"n_points": 0},
    ],
    ids=str,
)
def test_damaged_states_are_refused(change: dict[str, Any]) -> None:
    """Each part that can be damaged, alone."""
    assert WarmStart.from_json(VALID | change) is None
    assert WarmStart.from_json([change]) is None


@pytest.mark.parametrize("d", [1, 2, 30])
def test_default_prior_has_the_documented_constants(d: int) -> None:
    """As decided: log ℓ ~ N(log(0.35 √d), 1), log s² ~ N(0, 1), log σ_n² ~ N(log 1e-3, 3²)."""
    prior = default_prior(d)
    length_scale = math.log(0.35 * math.sqrt(d))
    np.testing.assert_allclose(prior.location, [length_scale] * d + [0.0, math.log(1e-3)])
    np.testing.assert_allclose(prior.scale, [1.0] * d + [1.0, 3.0])
    assert not prior.has_tail.any()


@pytest.mark.parametrize("d, relevant", [(1, 1.0), (4, 4.0), (25, 10.0)])
def test_prior_beside_a_trend_has_tails_and_fewer_that_matter(d: int, relevant: float) -> None:
    """The mode is that of 2 √d parameters, at most d; only length-scales have a tail."""
    prior = default_prior(d, n_in_trend=d)
    np.testing.assert_allclose(prior.location[:d], math.log(0.35 * math.sqrt(relevant)))
    np.testing.assert_array_equal(prior.has_tail, [True] * d + [False] * 5)


def test_prior_of_conditional_parameters_goes_by_the_number_that_exist_together() -> None:
    """A parameter of a branch with few others has the prior of a small space, also in a fit."""
    expected = [default_prior(2).location[0]] * 2 + [default_prior(25).location[0]]
    together = (2.0, 2.0, 25.0)
    np.testing.assert_allclose(default_prior(3, together).location[:3], expected)
    fit = fit_map(np.full((1, 3), 0.5), np.zeros(1), FeatureMap((0, 0, 0), together))
    np.testing.assert_allclose(np.log(fit.hyperparameters.length_scales), expected, atol=1e-6)


def test_parameters_without_effect_get_long_length_scales() -> None:
    """Two of twelve parameters matter; the others' length-scales are made long from few values."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 12))
    y = np.sin(5.0 * X[:, 3]) + np.square(X[:, 7] - 0.4)
    fit = fit_map(X, (y - y.mean()) / y.std(), FeatureMap((0,) * 12, trend=True))
    length_scales = fit.hyperparameters.length_scales
    without_effect = np.delete(length_scales, [3, 7])
    assert without_effect.min() > 10.0 * length_scales[3]


@pytest.mark.parametrize("seed", range(6))
def test_a_fit_that_is_singular_with_all_observations_starts_anew(seed: int) -> None:
    """Tails without a trend: the optimum of 100 points is no start for 140, others are."""
    rng = np.random.default_rng(seed)
    X = rng.random((140, 3))
    y = X[:, 0] * X[:, 1]
    plain = default_prior(3)
    prior = TailedPrior(plain.location, plain.scale, np.array([True] * 3 + [False] * 2))
    fit = fit_map(X, (y - y.mean()) / y.std(), FeatureMap((0,) * 3), prior=prior)
    assert fit.note is None


def test_log_density_is_normal_and_in_the_tail_that_of_cauchy() -> None:
    """Differences of log densities agree with SciPy's; the gradient with a numeric one."""
    location, scale = np.array([0.5, -2.0, 3.0, 0.2]), np.array([1.0, 0.3, 2.0, 0.7])
    prior = TailedPrior(location, scale, np.array([True, False, True, False]))
    rng = np.random.default_rng(0)
    for theta in location + 3.0 * rng.standard_normal((20, 4)):
        value, gradient = prior.value_and_gradient(theta)
        expected = 0.0
        for i, family in enumerate([stats.cauchy, stats.norm, stats.cauchy, stats.norm]):
            kind = family if theta[i] > location[i] else stats.norm
            expected += kind.logpdf(theta[i], location[i], scale[i])
            expected -= kind.logpdf(location[i], location[i], scale[i])
        assert value == pytest.approx(expected, rel=1e-12)
        numeric = numeric_gradient(lambda t: prior.value_and_gradient(t)[0], theta)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-8, atol=1e-8)
