"""BILBO as an Optuna sampler: two decision-makers, one function per trial.

The method is in :mod:`bbo_plugins.methods.bilbo`. Each trial stores its proposal
(:mod:`bbo_plugins.optuna.study.storage`) and the reason of its query
(:mod:`bbo_plugins.optuna.bilevel.trials`).
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.methods.bilbo import DEFAULT_BETA, Options, Query, space_filling, suggest
from bbo_plugins.optuna.bilevel.posterior import BilevelPosterior, BilevelSolution
from bbo_plugins.optuna.bilevel.roles import DIRECTIONS, Roles, name_of, names_of
from bbo_plugins.optuna.bilevel.trials import (
    NO_REASON,
    BilevelTrials,
    conditions_of,
    constraint_of,
    distributions_of,
    names_in_complete,
    reason_of,
)
from bbo_plugins.optuna.sampling.base import JointSampler, with_note_if_unreadable
from bbo_plugins.optuna.study.constraints import store_constraints
from bbo_plugins.optuna.study.points import fixed_params
from bbo_plugins.optuna.study.storage import as_stored, held_params, is_stopped, set_trial_attribute
from bbo_plugins.optuna.study.trials import BILEVEL_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from optuna.distributions import BaseDistribution

_logger = logging.getLogger(__name__)

_N_INITIAL = 3  # space-filling queries of each function
_INFEASIBLE = (
    "as of trial {} the problem looks infeasible: no point satisfies all constraints, with "
    "confidence. Further trials look for what would refute that."
)
_WITHOUT_MODEL = ("start", "fallback")  # reasons of queries that no model has made

# What is no solution, by whether a trial observes all functions.
_NO_RESULT = {
    False: "study.best_trial, a single evaluation whose response is near the lower level's answer "
    "and not at it, so that its value may be better than the optimum",
    True: "study.best_trials, a Pareto front of the two levels",
}


class BILBOSampler(JointSampler[BilevelTrials, Query]):
    """Bayesian optimization of bilevel problems (BILBO), one function per trial.

    The upper level chooses ``upper_params`` to optimize its objective, knowing that the lower level
    answers with the ``lower_params`` that optimize its own; black-box constraints may belong to
    either level. Both are expensive functions of all parameters. The sampler learns both levels at
    once and says with every trial which function to evaluate: the objective asks for it as a
    categorical parameter and returns that function's value::

        sampler = BILBOSampler(["price"], ["amount"], seed=1)
        study = optuna.create_study(direction="minimize", sampler=sampler)


        def objective(trial):
            query = trial.suggest_categorical("query", sampler.functions)
            price = trial.suggest_float("price", 0, 1)
            amount = trial.suggest_float("amount", 0, 1)
            return loss(price, amount) if query == "upper" else cost(price, amount)


        study.optimize(objective, n_trials=60)
        print(sampler.solution(study))

    A constraint holds where its value is at most zero, as everywhere in Optuna. Where one
    evaluation gives all functions, make a study with two directions, return both objectives, and
    report the constraints by their names with ``Trial.set_constraint``; there is no query then.

    ``study.best_trial`` of a study with one direction is the best evaluation of the upper objective
    at which the lower level's answer and the constraints were known well (all other trials are
    marked by a constraint value above zero). Its response is near the lower level's answer, not at
    it, so its value may be better than the optimum; take the solution, which is from the models. A
    line in the log (INFO) says so at the first suggestion by the models, and another one when the
    study is stopped from within the objective: of any other end Optuna tells a sampler nothing.

    It does not work where the lower level's best answer is a narrow peak or jumps wildly: a model
    of a few hundred values cannot see it.

    Args:
        upper_params: Names of the upper level's parameters.
        lower_params: Names of the lower level's parameters.
        query_param: Name of the categorical parameter that says which function to evaluate; its
            choices must be :attr:`functions`.
        upper: Name of the upper objective.
        lower: Name of the lower objective.
        upper_direction: "minimize" or "maximize"; also the study's (first) direction.
        lower_direction: "minimize" or "maximize"; also the study's second direction, if any.
        upper_constraints: Names of the upper level's constraints.
        lower_constraints: Names of the lower level's constraints.
        many_responses: Whether the lower level may have several equally good answers, of which the
            upper level may choose.
        epsilon: By how much an answer may be worse than the best, in the lower objective's units;
            needs ``many_responses``.
        beta: Root of it multiplies the deviations in confidence bounds; None for 4.
        n_startup_trials: Space-filling trials before the models take over, shared by the functions;
            None for 3 of each function.
        seed: Seed, a non-negative integer; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of its range, or a name is used twice.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BILBOSampler

            sampler = BILBOSampler(["price"], ["amount"], upper_direction="maximize", seed=1)


            def objective(trial):
                query = trial.suggest_categorical("query", sampler.functions)
                price = trial.suggest_float("price", 0.0, 1.0)
                amount = trial.suggest_float("amount", 0.0, 1.0)
                if query == "upper":
                    return price * amount  # the seller's income
                return (amount - (1.0 - price)) ** 2  # the buyer's discontent


            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.optimize(objective, n_trials=20)
            print(sampler.solution(study))
    """

    def __init__(
        self,
        upper_params: Sequence[str],
        lower_params: Sequence[str],
        *,
        query_param: str = "query",
        upper: str = "upper",
        lower: str = "lower",
        upper_direction: Literal["minimize", "maximize"] = "minimize",
        lower_direction: Literal["minimize", "maximize"] = "minimize",
        upper_constraints: Sequence[str] = (),
        lower_constraints: Sequence[str] = (),
        many_responses: bool = False,
        epsilon: float = 0.0,
        beta: float | None = None,
        n_startup_trials: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        self._roles = Roles(
            upper_params=names_of("upper_params", upper_params, least=1),
            lower_params=names_of("lower_params", lower_params, least=1),
            query_param=name_of("query_param", query_param),
            upper=name_of("upper", upper),
            lower=name_of("lower", lower),
            upper_direction=errors.check_word("upper_direction", upper_direction, DIRECTIONS),
            lower_direction=errors.check_word("lower_direction", lower_direction, DIRECTIONS),
            upper_constraints=names_of("upper_constraints", upper_constraints),
            lower_constraints=names_of("lower_constraints", lower_constraints),
        )
        self._options = Options(
            beta=DEFAULT_BETA if beta is None else beta,
            epsilon=epsilon,
            many_responses=many_responses,
        )
        self._n_startup_trials = (
            None
            if n_startup_trials is None
            else errors.check_int("n_startup_trials", n_startup_trials, minimum=1)
        )
        super().__init__(seed)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions, the choices of the query parameter."""
        return self._roles.functions

    def _check_study(self, study: Study) -> None:
        self._roles.in_study(study)

    def _modeled_distributions(self, study: Study) -> dict[str, BaseDistribution]:
        """Return the parameters of both levels and the query that trials have shown."""
        rows = self._readers.of(study).read(study).rows
        return distributions_of(rows, self._roles.in_study(study))

    def _read(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> BilevelTrials:
        del search_space  # A PartialFixedSampler around this one takes some parameters out of it.
        return self._read_in(study, trial, self._modeled_distributions(study))

    def _read_in(
        self,
        study: Study,
        trial: FrozenTrial,
        distributions: Mapping[str, BaseDistribution],
        *,
        only_earlier: bool = False,
    ) -> BilevelTrials:
        reader = self._readers.of(study)
        held = held_params(study, self)
        fixed = {name: held[name] for name in distributions if name in held}
        fixed |= fixed_params(trial, distributions)
        trials, roles = reader.read(study), self._roles.in_study(study)
        placed = reader.placed(distributions, conditions_of(trials, roles))
        return BilevelTrials.read(
            trials, roles, placed, asking=trial.number, fixed=fixed, only_earlier=only_earlier
        )

    def _suggest(self, snapshot: BilevelTrials, rng: np.random.Generator) -> Query:
        n_initial = _N_INITIAL
        if self._n_startup_trials is not None:
            shared = 1 if snapshot.coupled else len(self.functions)
            n_initial = math.ceil(self._n_startup_trials / shared)
        query = suggest(
            snapshot.problem,
            snapshot.data,
            rng=rng,
            options=self._options,
            n_initial=n_initial,
            coupled=snapshot.coupled,
            warm_starts=snapshot.warm_starts,
        )
        if query.infeasible:
            query = replace(query, notes=(*query.notes, _INFEASIBLE.format(snapshot.number)))
        return with_note_if_unreadable(query, snapshot.warm_starts)

    def _suggest_by_design(self, snapshot: BilevelTrials, rng: np.random.Generator) -> Query:
        return space_filling(snapshot.problem, snapshot.data, rng)

    def _params_of(self, snapshot: BilevelTrials, suggestion: Query) -> dict[str, Any]:
        asked = {} if snapshot.coupled else {self._roles.query_param: suggestion.function}
        return {**snapshot.problem.space.decode(suggestion.x), **asked, **snapshot.fixed}

    def _look_again(
        self, study: Study, trial: FrozenTrial, snapshot: BilevelTrials, suggestion: Query
    ) -> BilevelTrials | None:
        again = self._read_in(study, trial, snapshot.distributions)
        return again if again.is_taken(suggestion, since=snapshot) else None

    def _is_behind(
        self, study: Study, trial: FrozenTrial, snapshot: BilevelTrials, suggestion: Query
    ) -> bool:
        earlier = self._read_in(study, trial, snapshot.distributions, only_earlier=True)
        return earlier.is_taken(suggestion, since=snapshot)

    def _attributes_of(self, snapshot: BilevelTrials, suggestion: Query) -> Mapping[str, Any]:
        is_given = not snapshot.fixed.keys().isdisjoint(self._roles.lower_params)
        return {BILEVEL_KEY: reason_of(suggestion, answer_is_given=is_given)}

    def _announcement(self, snapshot: BilevelTrials, suggestion: Query) -> str:
        if suggestion.reason in _WITHOUT_MODEL:
            return ""
        return (
            f"start-up is over; models suggest from trial {snapshot.number} on. The result of this "
            f"study is sampler.solution(study), not {_NO_RESULT[snapshot.coupled]}."
        )

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter that is not known yet, or whose range has changed.

        Raises:
            ValueError: The parameter is on no level, or the query's choices are not the functions.
        """
        roles = self._roles.in_study(study)
        roles.check_level(param_name)
        if param_name == roles.query_param:
            roles.check_query(param_distribution)
            return self.functions[trial.number % len(self.functions)]
        return super().sample_independent(study, trial, param_name, param_distribution)

    def _warn_if_uncovered(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> None:
        has_changed = self._modeled_distributions(study).get(name, distribution) != distribution
        if has_changed and self._readers.of(study).once.first_time("range", name):
            _logger.warning(
                "Parameter %r of trial %d is sampled by a uniform draw, not by the models of %s: "
                "its range has changed. They take the new one from the next complete trial on.",
                name,
                trial.number,
                self,
            )

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Mark trials that ``study.best_trial`` must not take, and check the parameters.

        Raises:
            ValueError: All parameters, the query or, of a coupled trial, a constraint is missing;
                or there is one that does not belong.
        """
        del values
        roles, once = self._roles.in_study(study), self._readers.of(study).once
        # The only end of `optimize` that a sampler can see: study.stop() while a trial ran.
        if is_stopped(study, in_optimize=True) and once.first_time("end"):
            _logger.info(
                "%s: the study is stopped. Its result is sampler.solution(study), not %s.",
                self,
                _NO_RESULT[roles.coupled],
            )
        if state is TrialState.FAIL:
            everything = "all functions" if roles.coupled else "not chosen yet"
            asked = trial.params.get(roles.query_param, everything)
            if once.first_time("failed", asked):
                _logger.warning(
                    "%s: trial %d failed or returned NaN for the query %r; it has no value, and "
                    "fewer queries are made near it.",
                    self,
                    trial.number,
                    asked,
                )
        if state is not TrialState.COMPLETE:
            return
        if not roles.coupled:
            store_constraints(study, trial, [constraint_of(trial, roles)])
            if BILEVEL_KEY not in trial.system_attrs:  # as that of the first trial
                set_trial_attribute(study, trial, BILEVEL_KEY, NO_REASON)
        roles.check(trial.distributions)
        known = names_in_complete(self._readers.of(study).read(study).rows)
        empty = roles.empty_level({*known, *trial.distributions})
        if empty and once.first_time("empty", empty):
            _logger.warning(
                "%s: no trial has had a parameter of %s by now. All parameters are drawn at random "
                "until one has.",
                self,
                empty,
            )
        attributes = as_stored(study, trial).system_attrs
        roles.check_constraints(attributes)

    @one_blas_thread()
    def posterior(self, study: Study) -> BilevelPosterior:
        """Fit the models to a study's trials and look for the solution.

        Args:
            study: The study.

        Returns:
            The models of all functions, and their solution.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: A function has no observation yet, or the study does not fit.
        """
        errors.check_instance("study", study, Study, "an Optuna study")
        return BilevelPosterior.fit(study, self._roles, self._options, self._seed)

    @one_blas_thread()
    def solution(self, study: Study) -> BilevelSolution:
        """Return the best pair of upper-level parameters and lower-level answer, by the models.

        Args:
            study: The study.

        Returns:
            The solution, in the objectives' own units.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: A function has no observation yet, or the study does not fit.
        """
        return self.posterior(study).solution()
