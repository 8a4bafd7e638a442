"""The solution of a bilevel study, from models fitted to its trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.methods.bilbo import Options, trusted_sets
from bbo_plugins.methods.bilbo_candidates import anchors_of, best_pair
from bbo_plugins.methods.bilbo_model import BilevelModel
from bbo_plugins.methods.bilbo_solution import solve
from bbo_plugins.optuna import randomness
from bbo_plugins.optuna.bilevel_trials import BilevelTrials, Roles, shared_distributions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.study import Study


@dataclass(frozen=True, kw_only=True)
class BilevelSolution:
    """What is known of a bilevel study's solution, in the objectives' own units.

    Attributes:
        upper_params: Parameters of the upper level.
        lower_params: The lower level's answer to them.
        upper_value: Posterior mean of the upper objective there.
        lower_value: Posterior mean of the lower objective there.
        regret_bound: By how much the upper objective could still be better elsewhere, as far as
            the confidence bounds tell; positive.
        feasible: Whether all constraints hold, as far as their posterior means tell.
    """

    upper_params: Mapping[str, Any]
    lower_params: Mapping[str, Any]
    upper_value: float
    lower_value: float
    regret_bound: float
    feasible: bool


def solution_of(study: Study, roles: Roles, options: Options, seed: int) -> BilevelSolution:
    """Fit the models to a study's trials and return the solution.

    Args:
        study: The study.
        roles: Which parameters and functions play which part.
        options: How BILBO decides.
        seed: Seed of the search for the solution.

    Raises:
        ValueError: A function has no observation yet, or the study does not fit.
    """
    coupled = roles.is_coupled(study)
    distributions = shared_distributions(study, roles, coupled=coupled)
    if distributions is None:
        raise ValueError("study must have a complete trial to have a solution, but has none.")
    trials = BilevelTrials.read(study, roles, distributions)
    missing = [name for name, of in trials.data.items() if not len(of.y)]
    if missing:
        raise ValueError(
            f"study must have a value of every function to have a solution, but has none of "
            f"{missing}."
        )
    problem = trials.problem
    model = BilevelModel.fit(problem, trials.data, trials.warm_starts)
    rng = randomness.model_generator(seed, trials.n_trials)
    pair = solve(model, problem, rng=rng, many_responses=options.many_responses)
    trusted = trusted_sets(model, options)
    anchors = np.concatenate([pair.point[None], anchors_of(trusted, model.observed)])
    rival = best_pair(trusted, problem, rng=rng, anchors=anchors)
    highest = model.upper.bound(rival.point[None], trusted.sqrt_beta)[0]
    gap = float(highest - model.upper.bound(pair.point[None], -trusted.sqrt_beta)[0])
    upper_value, lower_value = (
        roles.sign(function.name)
        * float(function.units.inverse(function.predict(pair.point[None])[0])[0])
        for function in (model.upper, model.lower)
    )
    params = problem.space.decode(pair.point)
    return BilevelSolution(
        upper_params={name: params[name] for name in roles.upper_params},
        lower_params={name: params[name] for name in roles.lower_params},
        upper_value=upper_value,
        lower_value=lower_value,
        regret_bound=max(0.0, gap) * model.upper.units.scale,
        feasible=pair.tier == 0,
    )
