"""UHEBOSampler with estimation="uhe-paper": Algorithm 1, trial by trial, from its formulas."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import optuna
import pytest

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData
from bbo_plugins.optuna.sampling.base import model_generator
from tests.optuna.uhe_studies import (
    MODEL,
    N_STARTUP,
    RANDOM,
    SEED,
    SQUARE,
    default,
    proposal_of,
    rows_of,
)
from tests.oracles import exp3

N_TRIALS = 24


def wave(params: dict[str, Any]) -> float:
    """Return a wavy function of two parameters, minimized."""
    return float(math.sin(7.0 * params["x"]) + (params["y"] - 0.6) ** 2)


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    """Return a study by the paper's method."""
    sampler = default(estimation="uhe-paper", n_trials=N_TRIALS)
    made = optuna.create_study(sampler=sampler)
    for _ in range(N_TRIALS):
        trial = made.ask(SQUARE)
        made.tell(trial, wave(trial.params))
    return made


def values_of(study: optuna.Study, limit: int) -> list[float]:
    """Return the values before trial ``limit``, maximized."""
    return [-float(trial.values[0]) for trial in study.trials[:limit]]


def test_arms_are_pulled_as_by_the_textbook(study: optuna.Study) -> None:
    """Every pair, with γ of T trials after start-up and the scaled reward of lines 19 and 20."""
    gamma = exp3.paper_rate(N_TRIALS - N_STARTUP)
    pulled = []
    for number in range(N_STARTUP, N_TRIALS, 2):
        trials: exp3.Trials = {n: row[:3] for n, row in rows_of(study, number).items()}
        rounds = exp3.pair_rounds(trials, number, N_STARTUP, "scaled")
        p = exp3.textbook(rounds, gamma)[1][0]
        draw = model_generator(SEED, number).random()
        first, second = (proposal_of(study.trials[n]) for n in (number, number + 1))
        assert first is not None
        assert first.arm == (RANDOM if draw < p else MODEL)
        assert second is not None
        assert second.arm is None
        pulled.append(first.arm)
    assert {RANDOM, MODEL} == set(pulled)


def test_the_random_arm_draws_one_uniform_point(study: optuna.Study) -> None:
    """The next random numbers after the arm's."""
    proposals = {trial.number: proposal_of(trial) for trial in study.trials[N_STARTUP:]}
    drawn = [n for n, one in proposals.items() if one is not None and one.arm == RANDOM]
    assert drawn
    for number in drawn:
        rng = model_generator(SEED, number)
        rng.random()
        expected = dict(zip(SQUARE, rng.random(2).tolist(), strict=True))
        assert study.trials[number].params == pytest.approx(expected, abs=1e-12)


def test_the_model_maximizes_the_papers_bound_with_the_papers_estimate(study: optuna.Study) -> None:
    """Mean + √1.96 standard deviations; on a fine grid nothing is higher, and 1.96 would differ."""
    axis = np.linspace(0.0, 1.0, 61)
    grid = np.array(list(itertools.product(axis, axis)))
    away = 0
    for number in range(N_STARTUP, N_TRIALS):
        proposal = proposal_of(study.trials[number])
        assert proposal is not None
        if proposal.arm == RANDOM:
            continue
        assert proposal.criterion == NearestNeighborPseudoData().name
        fit = WarmStart.from_json(proposal.fits[proposal.criterion])
        assert fit is not None
        hyperparameters = fit.hyperparameters(2)
        assert hyperparameters is not None
        X = np.array([list(trial.params.values()) for trial in study.trials[:number]])
        y = np.array(values_of(study, number))
        z = OutputTransform.fit(y).forward(y)
        process = GaussianProcess.from_data(X, z, hyperparameters, FeatureMap((0, 0)))
        x = np.array([list(study.trials[number].params.values())])

        def bound(points: np.ndarray, factor: float, model: GaussianProcess = process) -> Any:
            mean, variance = model.predict(points)
            return mean + factor * np.sqrt(variance)

        assert bound(x, math.sqrt(1.96))[0] >= bound(grid, math.sqrt(1.96)).max() - 1e-3
        away += int(bound(x, 1.96)[0] < bound(grid, 1.96).max() - 1e-2)
    assert away > 0


@pytest.mark.parametrize("beta, expected", [(None, math.sqrt(1.96)), (2.0, 2.0)])
def test_beta_multiplies_the_standard_deviation(beta: float | None, expected: float) -> None:
    """As with the other estimates, though the paper names its square."""
    assert default(estimation="uhe-paper", beta=beta).model_options.beta == expected
