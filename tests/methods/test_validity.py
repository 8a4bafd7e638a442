"""The probability that a point is valid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import norm

from bbo_plugins.acquisition import validity
from bbo_plugins.acquisition.functions import (
    ConstrainedAcquisition,
    Feasibility,
    expected_improvement,
)
from bbo_plugins.acquisition.validity import Validity, fit_completion, fit_validity
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods import bilbo, go_ucb, gp_bo
from tests.oracles.bilbo_runs import observations
from tests.oracles.bilevel import box_problem, data_of
from tests.oracles.problems import observe, random_process, unit_box

FEATURES = FeatureMap((0, 0))


def _halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the valid half and of the one in which evaluations fail."""
    points = np.random.default_rng(0).random((n, 2))
    return points[points[:, 0] > 0.5], points[points[:, 0] <= 0.5]


def test_probability_is_that_of_the_label() -> None:
    """It follows from the posterior of the labels by its formula."""
    model = Validity.of(*_halves(20), FEATURES)
    at = np.random.default_rng(1).random((6, 2))
    mean, variance = model.process.predict(at)
    expected = norm.logcdf((mean + model.label_mean) / np.sqrt(variance + model.label_noise))
    np.testing.assert_allclose(model.log_probability(at), expected, rtol=1e-10)


def test_gradient() -> None:
    """The gradient is the slope of the value, which both functions agree on."""
    model = Validity.of(*_halves(20), FEATURES)
    at, h = np.random.default_rng(2).random((5, 2)), 1e-6
    value, gradient = model.log_probability_and_gradient(at)
    np.testing.assert_allclose(value, model.log_probability(at))
    for i in range(2):
        step = h * np.eye(2)[i]
        slope = (model.log_probability(at + step) - model.log_probability(at - step)) / (2 * h)
        np.testing.assert_allclose(gradient[:, i], slope, rtol=1e-4, atol=1e-6)


def test_a_border_is_learned() -> None:
    """On either side of the border the probability is near what it should be."""
    model = Validity.of(*_halves(40), FEATURES)
    low, high = np.exp(model.log_probability(np.array([[0.2, 0.5], [0.8, 0.5]])))
    assert low < 0.1
    assert high > 0.9


def test_an_accident_among_successes_stays_small() -> None:
    """One failure among many successes costs its surroundings little."""
    X = np.random.default_rng(3).random((40, 2))
    model = Validity.of(X, np.array([[0.5, 0.5]]), FEATURES)
    near, far = np.exp(model.log_probability(np.array([[0.53, 0.5], [0.65, 0.5]])))
    assert near > 0.2
    assert far > 0.8


@pytest.mark.parametrize("n", [1, 30, 300])
def test_failures_alone(n: int) -> None:
    """They have a model too, and the penalty is bounded."""
    failed = np.random.default_rng(4).random((n, 2))
    lowest = Validity.of(np.empty((0, 2)), failed, FEATURES).log_probability(failed).min()
    assert -12.0 < lowest < math.log(0.6)


def test_of_very_many_points_the_nearest_to_failures_are_modeled() -> None:
    """As many of either label, and the latest of those that failed."""
    rng = np.random.default_rng(0)
    valid, failed = rng.random((320, 2)) * [0.8, 1.0], 0.8 + 0.2 * rng.random((210, 2))
    nearest = np.linalg.norm(valid[:, None] - failed[-200:], axis=2).min(axis=1)
    kept = valid[np.sort(np.argsort(nearest)[:200])]
    model = Validity.of(valid, failed, FEATURES)
    np.testing.assert_array_equal(model.process.X, np.concatenate([kept, failed[-200:]]))


@pytest.mark.parametrize("kind", ["logei", "ei", "ucb"])
def test_expected_gain_has_the_probability_and_not_its_power(
    kind: Literal["logei", "ei", "ucb"],
) -> None:
    """Near a border of many failures the power would say that next to nothing can be gained."""
    model = Validity.of(*_halves(40), FEATURES)
    assert model.exponent > 10
    process = random_process(unit_box(2), 15, 0)
    at, feasibility = np.array([[0.5, 0.4]]), Feasibility(weights=(model,))
    probability = math.exp(model.log_probability(at)[0])
    assert feasibility.expected_gain(at[0]) == pytest.approx(probability, rel=1e-9)
    mean, variance = process.predict(at)
    gain = float(expected_improvement(mean, variance, 0.3).value[0])
    acquisition = ConstrainedAcquisition(kind, process, 0.3, 2.0, feasibility)
    assert acquisition.expected_gain(at[0]) == pytest.approx(gain * probability, rel=1e-9)


# ----------------------------------------------------------------------- regions and accidents


def _accidents(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of which about a fifth failed, wherever they are, the others first."""
    rng = np.random.default_rng(seed)
    points, is_failed = rng.random((n, 2)), rng.random(n) < 0.2
    return points[~is_failed], points[is_failed]


def test_predictive_gain_leaves_each_label_out() -> None:
    """It is what models of the other labels alone say of each, less what their proportion says."""
    model = Validity.of(*_halves(15), FEATURES)
    process, labels = model.process, model.process.y + model.label_mean
    n, expected = len(labels), 0.0
    for i in range(n):
        others = np.arange(n) != i
        without = GaussianProcess.from_data(
            process.X[others], process.y[others], process.hyperparameters, FEATURES
        )
        mean, variance = without.predict(process.X[[i]])
        z = labels[i] * (mean[0] + model.label_mean) / math.sqrt(variance[0] + model.label_noise)
        n_alike = (labels[others] == labels[i]).sum()
        expected += norm.logcdf(z) - math.log((n_alike + 1) / (n - 1 + 2))
    assert model.predictive_gain == pytest.approx(expected, rel=1e-6)


def test_a_region_is_told_from_accidents() -> None:
    """Where place says nothing of what fails there is no model: accidents hide no optimum."""
    found = [
        fit_validity(*_accidents(40, seed), FEATURES, mostly_failed=False).model
        for seed in range(20)
    ]
    assert sum(model is None for model in found) >= 10  # the others look like a region by chance
    for n in (10, 20, 40):
        assert fit_validity(*_halves(n), FEATURES, mostly_failed=False).model is not None


def test_a_warm_fit_comes_to_where_a_cold_one_does() -> None:
    """Where labels are plain; what the useless model of accidents left is passed on, too."""
    X, failed = _halves(40)
    before = Validity.of(X[:-1], failed, FEATURES).warm_start
    warm, cold = (Validity.of(X, failed, FEATURES, warm_start=one) for one in (before, None))
    assert not np.array_equal(warm.warm_start.theta, cold.warm_start.theta)  # it began elsewhere
    heights = [one.warm_start.log_posterior_per_point * len(X) for one in (warm, cold)]
    assert heights[0] == pytest.approx(heights[1], abs=5e-3)
    X, failed = next(
        points
        for points in (_accidents(40, seed) for seed in range(20))
        if fit_validity(*points, FEATURES, mostly_failed=False).model is None
    )
    known = replace(observe(X, X.sum(axis=1)), failed=failed)
    assert not known.validities(FEATURES, {}).weights
    assert known.validities(FEATURES, {}).warm_starts["Failures"].n_points == len(X) + len(failed)


def test_where_most_points_fail_they_are_no_accidents() -> None:
    """With a single value nothing can be predicted, and the search has to leave the failures."""
    points = np.random.default_rng(0).random((8, 2))
    known = replace(observe(points[:1], np.zeros(1)), failed=points[1:])
    assert known.validities(FEATURES, {}).predicts_failures
    single = replace(observe(points[1:], np.zeros(7)), failed=points[:1])
    assert not single.validities(FEATURES, {}).predicts_failures
    # Whether most fail does not depend on how many of the others are modeled.
    assert not replace(known, n_left_out=20).validities(FEATURES, {}).predicts_failures


@pytest.mark.parametrize("name", ["gp_bo", "go_ucb"])
def test_what_looks_like_an_accident_is_not_tried_next_to_at_once(name: str) -> None:
    """The point that would be suggested fails; the next one is not where it would fail again."""
    failed = _suggestion(name, np.empty((0, 2))).x
    assert np.linalg.norm(_suggestion(name, failed[None]).x - failed) > 0.01


# --------------------------------------------------------------------- where it cannot be fitted


def _suggestion(name: str, failed: np.ndarray, progress: np.ndarray | None = None) -> Any:
    """Return what a method suggests after eight values and some failures."""
    rng, X = np.random.default_rng(0), np.random.default_rng(7).random((8, 2))
    if name == "bilbo":
        problem = box_problem(1, 1)
        succeeded = observations(problem, 8)
        data = {n: data_of(of.X, of.y, failed=failed) for n, of in succeeded.items()}
        return bilbo.suggest(problem, data, rng=rng)
    known = replace(observe(X, X.sum(axis=1)), failed=failed, progress=progress)
    if name == "go_ucb":
        return go_ucb.suggest(
            unit_box(2), known, go_ucb.GOUCBOptions(n_startup=5, hidden_units=6), rng=rng
        )
    return gp_bo.suggest(unit_box(2), known, rng=rng)


@pytest.mark.parametrize("name", ["gp_bo", "go_ucb", "bilbo"])
def test_without_a_model_of_failures_the_others_suggest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The point is the models', not a random one, and a note says what is missing."""
    failed = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert not _suggestion(name, failed).notes

    def impossible(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(validity, "fit_map", impossible)
    suggestion = _suggestion(name, failed)
    (note,) = suggestion.notes
    assert note.startswith("no model of where evaluations fail could be fitted (not positive def")
    assert suggestion.warm_starts


@pytest.mark.parametrize("name", ["gp_bo", "go_ucb"])
def test_without_a_model_of_pruned_trials_the_others_suggest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, and either note is there if both are missing."""
    progress, failed = np.array([1.0] * 6 + [0.0, 0.1]), np.array([[0.9, 0.1]])
    assert not _suggestion(name, failed, progress).notes

    def impossible(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(validity, "fit_map", impossible)
    suggestion = _suggestion(name, failed, progress)
    assert len(suggestion.notes) == 2
    assert suggestion.notes[1].startswith("no model of where trials are pruned could be fitted (")
    assert suggestion.warm_starts


# ---------------------------------------------------------------------------------- pruned trials


def test_what_comes_further_is_likelier_to_come_to_the_end() -> None:
    """Nothing ended; from left to right trials came further, and the model says where to look."""
    X = np.random.default_rng(3).random((30, 2))
    order = np.argsort(np.argsort(X[:, 0]))
    fit = fit_completion(X, order / 30.0, FEATURES)
    assert fit.model is not None
    assert not fit.notes
    at = np.column_stack([np.linspace(0.1, 0.9, 5), np.full(5, 0.5)])
    assert (np.diff(fit.model.log_probability(at)) > 0.1).all()


def test_completion_is_validity_of_two_labels() -> None:
    """Where all were cut off at the first step or ended, it is the same but for the power."""
    ended, stopped = _halves(20)
    expected = Validity.of(ended, stopped, FEATURES)
    progress = np.repeat([1.0, 0.0], [len(ended), len(stopped)])
    model = fit_completion(np.concatenate([ended, stopped]), progress, FEATURES).model
    assert model is not None
    at = np.random.default_rng(1).random((6, 2))
    np.testing.assert_allclose(model.log_probability(at), expected.log_probability(at))
    assert model.exponent < expected.exponent


def test_completion_has_the_latest_points_only() -> None:
    """Of very many, so that a suggestion does not become slow."""
    X = np.random.default_rng(5).random((900, 2))
    model = fit_completion(X, np.linspace(0.0, 1.0, 900), FEATURES).model
    assert model is not None
    np.testing.assert_array_equal(model.process.X, X[-len(model.process.X) :])
    assert len(model.process.X) == 200


def test_failed_and_pruned_points_are_two_kinds() -> None:
    """Each has a model of its own: a few accidents do not make a power of the other's."""
    X = np.random.default_rng(7).random((12, 2))
    known = replace(
        observe(X, X.sum(axis=1)), failed=X[:1] + 0.01, progress=np.linspace(0.0, 1.0, 12)
    )
    found = known.validities(FEATURES, {})
    assert not found.predicts_failures  # a single failure among twelve values
    assert len(found.weights) == 1
    left, right = X[X[:, 0] < 0.5], X[X[:, 0] >= 0.5]
    known = replace(
        observe(right, right.sum(axis=1)), failed=left, progress=np.linspace(0.0, 1.0, len(right))
    )
    found = known.validities(FEATURES, {})
    region, _ = found.weights
    assert region.exponent == len(left)
