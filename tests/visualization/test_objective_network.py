"""The model behind a GO-UCB study's plots: a network, where a network made the suggestions."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from scipy import stats

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods.go_ucb.surrogate import NetworkSurrogate, WarmNetwork, inputs
from bbo_plugins.optuna import GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.visualization._data.objective import StudyPosterior, posterior_of
from tests.oracles.ball import jacobian
from tests.visualization.studies import modeled_study

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study

SPACE: dict[str, BaseDistribution] = {
    "a": FloatDistribution(-1.0, 1.0),
    "b": FloatDistribution(-1.0, 1.0),
    "kind": CategoricalDistribution(["p", "q", "r"]),
}
N_STARTUP, N_TRIALS, HIDDEN = 6, 12, 5


def _go_ucb(**options: Any) -> GOUCBSampler:
    return GOUCBSampler(n_startup_trials=N_STARTUP, hidden_units=HIDDEN, seed=0, **options)


def _tell(study: Study, n: int) -> None:
    for _ in range(n):
        trial = study.ask(SPACE)
        a, b, kind = (trial.params[name] for name in SPACE)
        study.tell(trial, (a - 0.3) ** 2 + 2.0 * (b + 0.2) ** 2 + 0.5 * (kind == "q"))


@functools.cache
def _suggested() -> Study:
    """Return a study whose latest trials a network suggested; not to be changed."""
    study = optuna.create_study(sampler=_go_ucb())
    _tell(study, N_TRIALS)
    return study


def _posterior(study: Study) -> StudyPosterior:
    posterior = posterior_of(study)
    assert posterior is not None
    return posterior


def _network(study: Study) -> NetworkSurrogate:
    model = _posterior(study).model
    assert isinstance(model, NetworkSurrogate)
    return model


def _copied(study: Study, sampler: BaseSampler) -> Study:
    copy = optuna.create_study(sampler=sampler)
    copy.add_trials(study.get_trials())
    return copy


def test_quantiles_are_the_networks_in_the_objectives_units() -> None:
    """The latest network, fitted further: its mean and deviations, of values that are minimized."""
    study = _suggested()
    posterior = _posterior(study)
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    stored = WarmNetwork.from_json(proposal.fits["GO-UCB"])
    assert stored is not None
    values = np.array([trial.value for trial in study.trials])
    expected = NetworkSurrogate.fit(
        posterior.space.encode([trial.params for trial in study.trials]),
        -values,
        FeatureMap((0, 0, 3)),
        rng=np.random.default_rng(0),
        hidden_units=HIDDEN,
        warm_start=stored,
    )
    X = posterior.space.snap(np.random.default_rng(1).random((20, 3)))
    mean, variance = expected.predict(X)
    low, median, high = posterior.quantiles(X)
    half = stats.norm.ppf(0.975) * np.sqrt(variance)
    forward = expected.transform.forward
    np.testing.assert_allclose(forward(-median), mean, atol=1e-8)
    np.testing.assert_allclose(forward(-low), mean + half, atol=1e-8)
    np.testing.assert_allclose(forward(-high), mean - half, atol=1e-8)
    at_trials = posterior.quantiles(posterior.X)[1]
    assert np.abs(at_trials - values).max() < 0.1 * np.ptp(values)  # it has learned a bowl


@pytest.mark.parametrize("made", [_suggested, modeled_study])
def test_any_sampler_or_process_sees_the_same_model(made: Callable[[], Study]) -> None:
    """Opening the storage anew, with Optuna's default sampler, changes nothing."""
    study = made()
    again = optuna.load_study(study_name=study.study_name, storage=study._storage)
    X = _posterior(study).X
    np.testing.assert_array_equal(_posterior(again).quantiles(X), _posterior(study).quantiles(X))


def test_the_latest_suggestion_decides_which_model_it_is() -> None:
    """A study that two samplers share has the model of the one that suggested last."""
    study = _copied(_suggested(), UHEBOSampler(estimation="map", n_startup_trials=2, seed=0))
    assert isinstance(_posterior(study).model, NetworkSurrogate)
    _tell(study, 1)
    assert isinstance(_posterior(study).model, GaussianProcess)
    study.sampler = _go_ucb()
    assert isinstance(_posterior(study).model, GaussianProcess)
    _tell(study, 1)
    assert isinstance(_posterior(study).model, NetworkSurrogate)


def test_before_the_first_suggestion_it_is_the_samplers_model() -> None:
    """Of its size and with its regularization; of a study of another sampler, a process."""
    study = optuna.create_study(sampler=_go_ucb(regularization=0.25))
    _tell(study, N_STARTUP - 1)
    network = _network(study)
    assert network.noise_variance == pytest.approx(0.25)
    assert len(network.warm_start.hidden) == HIDDEN * (5 + 2)
    study.sampler = optuna.samplers.RandomSampler()
    assert isinstance(_posterior(study).model, GaussianProcess)


def test_closeness_is_by_the_differences_from_the_average() -> None:
    """Cosines of Jacobian rows less their mean, by Monte Carlo, for more pairs than fit at once."""
    rng = np.random.default_rng(0)
    posterior = _posterior(_suggested())
    X = posterior.space.snap(rng.random((300, 3)))
    posterior = replace(posterior, X=X)
    network = _network(_suggested())

    def gradients(at: Any) -> Any:
        return jacobian(network.ball.linear, inputs(at, network.features))

    average = gradients(posterior.space.snap(rng.random((20_000, 3)))).mean(axis=0)
    moved = posterior.slice_at(X[0], 1, X[:, 1])
    J, K = gradients(X) - average, gradients(moved) - average
    cosine = (J * K).sum(axis=1) / np.linalg.norm(J, axis=1) / np.linalg.norm(K, axis=1)
    closeness = posterior.closeness(X[0], 1)
    np.testing.assert_allclose(1.0 - np.square(1.0 - closeness), np.square(cosine), atol=0.05)
    assert closeness[0] == pytest.approx(1.0, abs=1e-6)
    assert np.ptp(cosine) > 1.0
