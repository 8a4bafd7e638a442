"""The models of a bilevel study, fitted to its trials, and their solution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.methods.bilbo.algorithm import Options, trusted_sets
from bbo_plugins.methods.bilbo.model import BilevelModel, FunctionModel, training_data
from bbo_plugins.methods.bilbo.search import Pair, anchors_of, best_pair, best_pairs
from bbo_plugins.methods.bilbo.solution import SolutionCriterion, solve
from bbo_plugins.optuna.bilevel.trials import (
    BilevelTrials,
    conditions_of,
    distributions_of,
    names_in_complete,
)
from bbo_plugins.optuna.sampling.base import model_generator
from bbo_plugins.optuna.study.points import PlacedTrials
from bbo_plugins.optuna.study.trials import TrialReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.study import Study

    from bbo_plugins.optuna.bilevel.roles import Roles
    from bbo_plugins.space.dimension import FloatArray

_BLOCK = 64  # upper-level points whose answers are looked for together


@dataclass(frozen=True, kw_only=True)
class BilevelSolution:
    """The solution of a bilevel study, in the objectives' own units.

    Attributes:
        upper_params: Parameters of the upper level, those that exist there.
        lower_params: The lower level's answer to them.
        upper_value: Posterior mean of the upper objective there.
        lower_value: Posterior mean of the lower objective there.
        regret_bound: By how much the upper objective could still be better elsewhere, as far as
            the confidence bounds tell; not negative. Only with ``many_responses=True`` is it the
            bound of the paper's theory, which holds as far as the models are right and the search
            finds the best pair: otherwise it compares with one response to each x, the most
            optimistic one, which need not be the lower level's answer.
        feasible: Whether all constraints hold, as far as their posterior means tell, and no query
            failed nearer to the solution than one of the same function succeeded.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BILBOSampler

            sampler = BILBOSampler(["x"], ["z"], seed=0)


            def objective(trial):
                query = trial.suggest_categorical("query", sampler.functions)
                x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
                return (x - 0.8) ** 2 + z**2 if query == "upper" else (z - x) ** 2


            study = optuna.create_study(sampler=sampler)
            study.optimize(objective, n_trials=16)
            solution = sampler.solution(study)
            if solution.feasible:
                print(solution.upper_params, solution.lower_params)
                print(
                    f"{solution.upper_value:.3f}, at most {solution.regret_bound:.3f} from the best"
                )
    """

    upper_params: Mapping[str, Any]
    lower_params: Mapping[str, Any]
    upper_value: float
    lower_value: float
    regret_bound: float
    feasible: bool


@dataclass(frozen=True)
class BilevelPosterior:
    """The models of a bilevel study's functions; :meth:`fit` builds one.

    Points are those of the joint unit cube, upper-level coordinates first. Values are in the
    functions' own units and directions.

    Attributes:
        roles: The roles of parameters and functions.
        options: The options of BILBO.
        trials: The data.
        model: The models after the observations alone.
        pair: The solution, and the lower level's best answer there.
        seed: Seed of the searches.
    """

    roles: Roles
    options: Options
    trials: BilevelTrials
    model: BilevelModel
    pair: Pair
    seed: int

    @classmethod
    def fit(cls, study: Study, roles: Roles, options: Options, seed: int) -> BilevelPosterior:
        """Fit the models to a study's trials and look for the solution.

        Args:
            study: The study.
            roles: The roles of parameters and functions.
            options: The options of BILBO.
            seed: Seed of the search for the solution.

        Returns:
            The models and their solution.

        Raises:
            ValueError: A function has no observation yet, or the study does not fit.
        """
        roles = roles.in_study(study)
        stored = TrialReader().read(study)
        distributions = distributions_of(stored.rows, roles)
        if not distributions:
            known = names_in_complete(stored.rows)
            if known and (empty := roles.empty_level(known)):
                raise ValueError(
                    f"study must have a complete trial with at least one parameter of {empty} to "
                    "have a solution, but has none."
                )
            latest = next((row for row in reversed(stored.rows) if row.complete), None)
            if latest is not None:  # it has other parameters
                roles.check(latest.trial.distributions)
            raise ValueError("study must have a complete trial to have a solution, but has none.")
        conditions = conditions_of(stored, roles)
        trials = BilevelTrials.read(stored, roles, PlacedTrials(distributions, conditions))
        missing = [name for name, one in trials.data.items() if not len(one.y)]
        if missing:
            raise ValueError(
                f"study must have a value of every function to have a solution, but has none of "
                f"{missing}."
            )
        fitted = BilevelModel.fit(trials.problem, trials.data, trials.warm_starts)
        model = fitted.without_unanswered
        rng = model_generator(seed, trials.number)
        many, epsilon = options.many_responses, options.epsilon
        pair = solve(model, trials.problem, rng=rng, many_responses=many, epsilon=epsilon)
        return cls(roles, options, trials, model, pair, seed)

    @cached_property
    def _by_name(self) -> dict[str, FunctionModel]:
        return {function.name: function for function in self.model.functions}

    def solution(self) -> BilevelSolution:
        """Return the solution."""
        model, point = self.model, self.pair.point
        trusted = trusted_sets(model, self.options)
        anchors = np.concatenate([point[None], anchors_of(trusted, model.observed)])
        rng = model_generator(self.seed, self.trials.number, 1)
        rival = best_pair(trusted, self.trials.problem, rng=rng, anchors=anchors)
        bounds = [
            model.upper.transform.inverse(model.upper.bound(P[None], multiplier))[0]
            for P, multiplier in ((rival.point, trusted.sqrt_beta), (point, -trusted.sqrt_beta))
        ]
        params = self.trials.problem.space.decode(point)
        return BilevelSolution(
            upper_params={name: params[name] for name in self.roles.upper_params if name in params},
            lower_params={name: params[name] for name in self.roles.lower_params if name in params},
            upper_value=float(self.mean(self.roles.upper, point[None])[0]),
            lower_value=float(self.mean(self.roles.lower, point[None])[0]),
            regret_bound=max(0.0, float(bounds[0] - bounds[1])),
            feasible=self.pair.tier == 0,
        )

    def mean(self, name: str, P: FloatArray) -> FloatArray:
        """Return a function's posterior mean at ``P`` (n, d), shape (n,).

        Where values are compressed, it is the median.
        """
        function = self._by_name[name]
        mean = function.process.predict_mean(self.trials.problem.space.with_inactive_set(P))
        return np.asarray(self.roles.sign(name) * function.transform.inverse(mean))

    def deviation(self, name: str, P: FloatArray) -> FloatArray:
        """Return a function's posterior standard deviation at ``P`` (n, d), shape (n,).

        Where values are compressed, it is that of the map's tangent at the mean.
        """
        function = self._by_name[name]
        mean, sd = function.predict(self.trials.problem.space.with_inactive_set(P))
        return function.transform.deviation(mean, sd)

    def observations(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return where a function was observed (n, d), and its values there (n,).

        Of too many, the training data of its model.
        """
        data, _ = training_data(self.trials.data[name], self.trials.problem.features)
        return data.X, self.roles.sign(name) * data.y

    def answers(self, X: FloatArray) -> FloatArray:
        """Return the lower level's answers to ``X`` (m, d_x), as the solution takes them, (m, d).

        That is the best response by the posterior means; among many, the upper level's choice.
        """
        options = self.options
        criterion = SolutionCriterion(self.model, options.many_responses, options.epsilon)
        anchors = anchors_of(criterion, self.model.observed)
        points = []
        for start in range(0, len(X), _BLOCK):
            rng = model_generator(self.seed, self.trials.number, 2)
            block = X[start : start + _BLOCK]
            pairs = best_pairs(criterion, self.trials.problem, block, rng=rng, anchors=anchors)
            points.append(np.concatenate([pairs.X, pairs.Z], axis=1))
        return np.concatenate(points)

    def prior_correlation(self, name: str, P: FloatArray, Q: FloatArray) -> FloatArray:
        """Return the correlation of a function's values at each row of ``P`` and ``Q`` (n, d)."""
        return self._by_name[name].process.prior_correlation(P, Q)
