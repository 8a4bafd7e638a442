"""Encodings of the peers, and what the quality check relies on; most of it without torch."""

import importlib
import importlib.util
from typing import Any

import numpy as np
import optuna
import pytest

from benchmarks.common import botorch_peer, hebo_peer
from benchmarks.common.histories import history
from benchmarks.latency.quality import CapturingGPSampler, OptunaPrior, compare, search_space
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import from_unit

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


@pytest.mark.parametrize(
    "name", ["mixed_sphere6", "mixed_interaction5", "stepped_ackley5", "log_sphere5"]
)
def test_botorch_encoding_round_trips(name: str) -> None:
    """Encoding and decoding give the same parameters, and corners decode to legal ones."""
    space = PROBLEMS[name].space
    rng = np.random.default_rng(0)
    for point in rng.random((20, len(space))):
        params = from_unit(space, point)
        encoded = np.array(botorch_peer.encode(space, params))
        assert ((encoded >= 0.0) & (encoded <= 1.0)).all()
        again = botorch_peer.decode(space, encoded)
        for key, value in params.items():
            expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert again[key] == expected
    for corner in (np.zeros(len(encoded)), np.ones(len(encoded))):
        for key, value in botorch_peer.decode(space, corner).items():
            assert space[key]._contains(space[key].to_internal_repr(value))


@pytest.mark.parametrize(
    "name", ["mixed_sphere6", "mixed_interaction5", "stepped_ackley5", "log_sphere5"]
)
def test_hebo_encoding_round_trips(name: str) -> None:
    """HEBO is told values that decode to the same parameters."""
    space = PROBLEMS[name].space
    for point in np.random.default_rng(0).random((20, len(space))):
        for key, value in from_unit(space, point).items():
            again = hebo_peer.decoded(space[key], hebo_peer.coded(space[key], value))
            assert again == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


def test_optuna_prior_gradient() -> None:
    """The gradient agrees with central differences, and vanishes at the stated mode."""
    prior = OptunaPrior(3)
    theta = np.array([0.3, -0.5, 0.1, 0.4, -4.0])
    gradient = prior.value_and_gradient(theta)[1]
    for i in range(5):
        step = np.zeros(5)
        step[i] = 1e-6
        difference = prior.value_and_gradient(theta + step)[0]
        difference -= prior.value_and_gradient(theta - step)[0]
        assert gradient[i] == pytest.approx(difference / 2e-6, rel=1e-6, abs=1e-8)
    at_mode = prior.value_and_gradient(prior.location)[1]
    assert np.abs(at_mode).max() < 1e-3


@needs_torch
@pytest.mark.parametrize("name", ["hartmann6", "mixed_sphere6"])
def test_log_posterior_is_optunas_own(name: str) -> None:
    """Our log posterior is the one Optuna maximizes, plus the constant that it leaves out."""
    torch = pytest.importorskip("torch")
    optuna_prior = importlib.import_module("optuna._gp.prior")
    problem = PROBLEMS[name]
    trials = history(problem, 25, 0)
    differences = []
    for n in (24, 25):
        models = []

        class Keeping(CapturingGPSampler):
            def _optimize_acqf(self, acqf: Any, best_params: Any) -> Any:
                models.append(acqf._gpr)  # noqa: B023
                return super()._optimize_acqf(acqf, best_params)

        sampler = Keeping(seed=0)
        study = optuna.create_study(sampler=sampler)
        study.add_trials(trials[:n])
        suggested = study.ask(dict(problem.space)).params
        space = search_space(problem.space)
        assert sampler.captured is not None
        result = compare(sampler.captured, trials[:n], suggested, space, seed=0, warm_start=None)
        with torch.no_grad():
            model = models[0]
            theirs = float(model.marginal_log_likelihood() + optuna_prior.default_log_prior(model))
        differences.append(result.fit_theirs - theirs + 0.5 * n * np.log(2.0 * np.pi))
    assert differences == pytest.approx([0.0, 0.0], abs=1e-6)


@needs_torch
def test_capturing_changes_no_suggestion() -> None:
    """The capturing sampler suggests exactly what GPSampler does."""
    problem = PROBLEMS["branin"]
    trials = history(problem, 12, 0)
    suggestions = []
    for sampler in (optuna.samplers.GPSampler(seed=1), CapturingGPSampler(seed=1)):
        study = optuna.create_study(sampler=sampler)
        study.add_trials(trials)
        suggestions.append(study.ask(dict(problem.space)).params)
    assert suggestions[0] == suggestions[1]
