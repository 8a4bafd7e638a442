"""Long bilevel studies: bounded models, the same suggestion in any process, a solution to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import create_trial

from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.methods.bilbo.model import MAX_MODELED
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import BILEVEL_KEY
from tests.optuna.bilevel_studies import FUNCTIONS, sampler_of
from tests.optuna.studies import warnings_in

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.bilbo_sampler import BILBOSampler

SPACE = {
    "query": CategoricalDistribution(FUNCTIONS),
    "x": FloatDistribution(0.0, 1.0),
    "z": FloatDistribution(0.0, 1.0),
}


def value_of(query: str, x: float, z: float) -> float:
    """Return the value of one function."""
    return float({"upper": (x - 0.8) ** 2 + (z - 0.2) ** 2, "lower": (z - x) ** 2}[query])


def history(n: int) -> list[FrozenTrial]:
    """Return trials of a search: half all over the square, half around the solution 0.5, 0.5.

    Three of four ask for the lower objective.
    """
    rng = np.random.default_rng(0)
    trials = []
    for i in range(n):
        center, width = (0.5, 1.0) if 2 * i < n else (0.5, 0.1)
        x, z = center + width * (rng.random(2) - 0.5)
        query = FUNCTIONS[int(rng.integers(4) > 0)]
        trials.append(
            create_trial(
                value=value_of(query, x, z),
                params={"query": query, "x": float(x), "z": float(z)},
                distributions=SPACE,
            )
        )
    return trials


def study_of(trials: list[FrozenTrial], sampler: BILBOSampler) -> Study:
    """Return an in-memory study with these trials."""
    study = optuna.create_study(sampler=sampler)
    study.add_trials(trials)
    return study


@pytest.mark.slow
def test_ten_thousand_trials(caplog: pytest.LogCaptureFixture) -> None:
    """Models of bounded size suggest without a word, and know the solution."""
    sampler = sampler_of(seed=3)
    study = study_of(history(10_000), sampler)
    study.ask(SPACE)
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    sizes = [fit["n_points"] for fit in proposal.fits.values()]
    assert len(sizes) == 2
    assert all(0.9 * MAX_MODELED <= size <= MAX_MODELED for size in sizes)
    assert study.trials[-1].system_attrs[BILEVEL_KEY]["reason"] != "fallback"
    with one_blas_thread():  # as in ``BILBOSampler.solution``
        posterior = sampler.posterior(study)
        solution = posterior.solution()
    assert max(len(posterior.observations(name)[1]) for name in FUNCTIONS) <= MAX_MODELED
    assert solution.feasible
    assert solution.upper_params["x"] == pytest.approx(0.5, abs=0.02)
    assert solution.lower_params["z"] == pytest.approx(0.5, abs=0.02)
    assert warnings_in(caplog) == []
