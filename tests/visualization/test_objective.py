"""What plots read from a study: the stored estimates, and a posterior that is the model's own."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial
from scipy import stats

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import NOISE_FLOOR, Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.study.storage import PREFIX, Proposal
from bbo_plugins.visualization._data.objective import StudyPosterior, posterior_of, suggestions_of
from tests.oracles import dense
from tests.visualization.studies import MIXED, N_STARTUP, N_TRIALS, loss, modeled_study, sampler

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

PLANE: dict[str, BaseDistribution] = {
    "b": FloatDistribution(0.0, 1.0),
    "a": FloatDistribution(0.0, 1.0),
}


def _stored_theta(trial: FrozenTrial) -> list[float]:
    """Return the log hyperparameters in the attributes of ``trial``, read by hand."""
    chunks = [trial.system_attrs[key] for key in sorted(trial.system_attrs) if PREFIX in key]
    theta: list[float] = json.loads("".join(chunks))["fits"]["Marginal"]["log_hyperparameters"]
    return theta


def _fit(theta: list[float], n_points: int = 8) -> dict[str, Any]:
    return WarmStart(np.array(theta), np.eye(len(theta)), -1.0, n_points).to_json()


def _told(study: Study, params: dict[str, Any], value: float, **attributes: Any) -> None:
    study.add_trial(
        create_trial(
            params=params,
            distributions={name: {**MIXED, **PLANE}[name] for name in params},
            value=value,
            system_attrs=attributes,
        )
    )


def _plane(n: int = 8, **study: Any) -> Study:
    """Return a study of ``n`` random points of the plane, which no model suggested."""
    made = optuna.create_study(**study)
    rng = np.random.default_rng(0)
    for a, b in rng.random((n, 2)).tolist():
        _told(made, {"b": b, "a": a}, math.sin(6.0 * a) + 0.1 * b)
    return made


def _posterior(study: Study) -> StudyPosterior:
    posterior = posterior_of(study)
    assert posterior is not None
    return posterior


def _process(posterior: StudyPosterior) -> GaussianProcess:
    assert isinstance(posterior.model, GaussianProcess)
    return posterior.model


def test_stored_estimates_are_read() -> None:
    """Each modeled trial has the length-scales of its stored θ by sorted name, start-up none."""
    study = modeled_study()
    records = suggestions_of(study)
    numbers = [record.number for record in records]
    assert numbers == list(range(1, N_TRIALS))  # nothing is known when trial 0 is suggested
    for record, trial in zip(records, study.trials[1:], strict=True):
        if record.number < N_STARTUP:
            assert record.length_scales == {}
        else:
            expected = np.exp(_stored_theta(trial)[: len(MIXED)])
            assert list(record.length_scales) == sorted(MIXED)
            np.testing.assert_allclose(list(record.length_scales.values()), expected)
        assert record.arm is None
        assert (record.criterion is None) == (record.number < N_STARTUP)
        assert record.distributions == MIXED


def test_posterior_is_that_of_the_stored_estimate() -> None:
    """No refit: the dense formulas, with the θ stored last and all values, transformed by hand."""
    study = modeled_study()
    posterior = _posterior(study)
    theta, d = _stored_theta(study.trials[-1]), len(MIXED)
    counts = [int(n) for n in posterior.space.n_categories]
    z = posterior.transform.forward(-np.array([trial.value for trial in study.trials]))
    scales, signal, noise = np.exp(theta[:d]), math.exp(theta[d]), NOISE_FLOOR + math.exp(theta[-1])
    trend = np.exp(theta[d + 1 : d + 4]).tolist()
    X = posterior.space.encode([trial.params for trial in study.trials])
    new = posterior.space.snap(np.random.default_rng(0).random((20, d)))
    mean, covariance = dense.posterior(
        dense.covariance(X, X, scales, signal, counts, trend) + noise * np.eye(len(X)),
        dense.covariance(new, X, scales, signal, counts, trend),
        dense.covariance(new, new, scales, signal, counts, trend),
        z,
    )
    low, median, high = posterior.quantiles(new)
    forward = posterior.transform.forward
    sd = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(forward(-median), mean, atol=1e-8)
    np.testing.assert_allclose(forward(-low), mean + stats.norm.ppf(0.975) * sd, atol=1e-8)
    np.testing.assert_allclose(forward(-high), mean - stats.norm.ppf(0.975) * sd, atol=1e-8)


def test_posterior_after_a_kernel_with_cosines_has_them() -> None:
    """The dense formulas with the θ stored last, though one without cosines is stored, too."""
    study, theta, params = _plane(), [-1.0, -0.5, 0.3, -2.0, -1.5, 0.1, -6.0], {"b": 0.5, "a": 0.5}
    fits = {"Marginal": _fit([0.0] * 7), "Cosines": _fit(theta)}
    proposal = Proposal(params, fits, criterion="MarginalCosinesUsed")
    _told(study, params, -0.4, **proposal.to_attributes())
    posterior = _posterior(study)
    X, new = posterior.X, np.random.default_rng(1).random((9, 2))
    z = posterior.transform.forward(-posterior.values)
    K = dense.noisy_covariance(X, np.array(theta), n_cosines=20)
    trend = np.exp(theta[3:6]).tolist()
    cross, prior = (
        dense.covariance(new, at, np.exp(theta[:2]), math.exp(theta[2]), None, trend, 20)
        for at in (X, new)
    )
    mean, covariance = dense.posterior(K, cross, prior, z)
    actual = _process(posterior).predict(new)
    np.testing.assert_allclose(actual, [mean, covariance.diagonal()], atol=1e-8)


@pytest.mark.parametrize(
    "stored, criterion",
    [
        ({}, None),
        ({"Marginal": _fit([0.0] * 4)}, "Marginal"),
        ({"Marginal": {"log_hyperparameters": "?"}}, "Marginal"),
        ({"Marginal": _fit([0.0] * 4), "Cosines": _fit([0.0] * 7)}, "MarginalCosinesNotUsed"),
    ],
)
def test_one_fit_where_none_is_stored(stored: dict[str, Any], criterion: str | None) -> None:
    """Without a θ that can be read, a fit to the same data.

    One of a kernel with cosines that was not used is not.
    """
    posterior = _with_fits(_plane(), stored, criterion)
    if stored.get("Marginal") == _fit([0.0] * 4):
        expected = Hyperparameters.from_theta(np.zeros(4), 2)
    else:
        surrogate = Surrogate.fit(posterior.X, -posterior.values, FeatureMap((0, 0)))
        expected = surrogate.process.hyperparameters
    _assert_alike(posterior, expected)


@pytest.mark.parametrize(
    "options, is_used",
    [
        ({}, False),
        ({"deterministic_objective": True}, True),
        ({"noise_func": lambda _: 0.01}, True),
    ],
)
def test_an_estimate_without_noise_is_used_where_the_sampler_states_it(
    options: dict[str, Any], is_used: bool
) -> None:
    """A study that is loaded without its sampler has noise that nobody states, so a fit."""
    study = _plane()
    study.sampler = UHEBOSampler(**options)
    posterior = _with_fits(study, {"Marginal": _fit([0.0] * 3)}, "Marginal")
    if is_used:
        _assert_alike(posterior, Hyperparameters.from_theta(np.zeros(3), 2))
    else:
        noise = _process(posterior).hyperparameters.noise_variance
        assert noise > 2.0 * Hyperparameters.from_theta(np.zeros(3), 2).noise_variance


def _with_fits(study: Study, stored: dict[str, Any], criterion: str | None) -> StudyPosterior:
    """Return the posterior of the study with one more trial, which stores these fits."""
    params = {"b": 0.5, "a": 0.5}
    proposal = Proposal(params, stored, criterion=criterion)
    _told(study, params, -0.4, **proposal.to_attributes())
    return _posterior(study)


def _assert_alike(posterior: StudyPosterior, expected: Hyperparameters) -> None:
    actual = _process(posterior).hyperparameters
    np.testing.assert_allclose(actual.length_scales, expected.length_scales)
    assert actual.signal_variance == pytest.approx(expected.signal_variance)
    assert actual.noise_variance == pytest.approx(expected.noise_variance)


def test_a_long_study_is_listed_in_full_and_modeled_in_part() -> None:
    """The posterior is that of the trials the sampler would model, the best of all among them."""
    study = _plane(MAX_MODELED + 50)
    params = {"b": 0.5, "a": 0.5}
    fits = {"Marginal": _fit([-1.0, 0.0, 0.0, -5.0])}
    _told(study, params, 0.0, **Proposal(params, fits, criterion="Marginal").to_attributes())
    posterior = _posterior(study)
    assert len(posterior.values) == len(posterior.X) == MAX_MODELED + 51
    assert 0.9 * MAX_MODELED <= len(_process(posterior).y) <= MAX_MODELED
    assert posterior.X[posterior.best].tolist() in _process(posterior).X.tolist()


def test_best_is_the_best_feasible_trial() -> None:
    """A violated constraint disqualifies, as does none at all where others report some."""
    study = _plane(n=0)
    for value, constraints in ((1.0, [1.0]), (2.0, [0.0]), (3.0, [-1.0]), (0.5, None)):
        attributes = {} if constraints is None else {"constraints": constraints}
        _told(study, {"b": value / 5.0, "a": 0.2}, value, **attributes)
    posterior = _posterior(study)
    assert posterior.values[posterior.best] == 2.0


def test_closeness_is_the_share_of_uncertainty_removed() -> None:
    """Against the posterior sd at the projected point after one noise-free value at each trial."""
    posterior = _posterior(modeled_study())
    estimate = _process(posterior).hyperparameters
    assert estimate.trend is not None
    parts = estimate.trend
    trend = (parts.linear, parts.quadratic, parts.separable)
    counts = [int(n) for n in posterior.space.n_categories]
    x = posterior.X[posterior.best]
    for column in range(len(MIXED)):
        expected = []
        for point in posterior.X:
            moved = x.copy()
            moved[column] = point[column]
            both = np.array([point, moved])
            C = dense.covariance(both, both, estimate.length_scales, 1.0, counts, trend)
            _, left = dense.posterior(C[:1, :1], C[1:, :1], C[1:, 1:], np.zeros(1))
            expected.append(1.0 - math.sqrt(max(left[0, 0], 0.0) / C[1, 1]))
        actual = posterior.closeness(x, column)
        np.testing.assert_allclose(actual, expected, atol=1e-6)
        assert actual[posterior.best] == pytest.approx(1.0, abs=1e-6)
        assert actual.min() < 0.5


@pytest.mark.parametrize("trials", ["none", "pruned", "infinite", "single"])
def test_no_posterior(trials: str) -> None:
    """Without a usable complete trial or a parameter there is none, and no error."""
    study = optuna.create_study()
    if trials == "pruned":
        study.add_trial(create_trial(state=TrialState.PRUNED, params={}, distributions={}))
    elif trials == "infinite":
        _told(study, {"a": 0.5}, math.inf)
    elif trials == "single":
        only: dict[str, BaseDistribution] = {"p": FloatDistribution(1.0, 1.0)}
        study.add_trial(create_trial(params={"p": 1.0}, distributions=only, value=1.0))
    assert posterior_of(study) is None


def test_conditional_estimates_are_those_of_all_parameters() -> None:
    """A proposal has the active ones only; the model's names follow from the trials before it."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))

    def objective(trial: optuna.Trial) -> float:
        if trial.suggest_categorical("k", ["a", "b"]) == "a":
            return 0.5 + (trial.suggest_float("ax", 0.0, 1.0) - 0.2) ** 2
        return (trial.suggest_float("bx", 0.0, 1.0) - 0.7) ** 2

    study.optimize(objective, n_trials=14)
    study.add_trial(
        create_trial(
            params={"new": 0.5}, distributions={"new": FloatDistribution(0.0, 1.0)}, value=9.0
        )
    )
    fitted = [record for record in suggestions_of(study) if record.fit is not None]
    assert len(fitted) >= 8
    for record in fitted:
        assert record.names == ("ax", "bx", "k")
        assert record.length_scales.keys() == {"ax", "bx", "k"}
        assert len(study.trials[record.number].params) == 2
    posterior = posterior_of(study)
    assert posterior is not None
    assert posterior.space.names == ("ax", "bx", "k", "new")
    assert set(posterior.space.conditions) >= {"ax", "bx"}


def test_nothing_is_written() -> None:
    """Reading leaves the trials as they were, and the next suggestion too."""
    study, twin = (optuna.create_study(sampler=sampler()) for _ in range(2))
    for one in (study, twin):
        for _ in range(N_STARTUP + 1):
            trial = one.ask(MIXED)
            one.tell(trial, loss(trial.params))
    before = study.get_trials()
    posterior_of(study)
    suggestions_of(study)
    assert study.get_trials() == before
    assert study.ask(MIXED).params == twin.ask(MIXED).params
