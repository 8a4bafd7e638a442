"""BILBO as an Optuna sampler: two decision-makers, one function per trial.

The method is in :mod:`bbo_plugins.methods.bilbo`. Each trial stores its proposal
(:mod:`bbo_plugins.optuna.study.proposal`) and the reason of its query
(:mod:`bbo_plugins.optuna.bilevel.trials`).
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.methods.bilbo import DEFAULT_BETA, Options, Query, suggest
from bbo_plugins.optuna.bilevel.posterior import BilevelPosterior, BilevelSolution
from bbo_plugins.optuna.bilevel.roles import Roles
from bbo_plugins.optuna.bilevel.trials import (
    BilevelTrials,
    doubt,
    shared_distributions,
    store_reason,
)
from bbo_plugins.optuna.messages import Once
from bbo_plugins.optuna.sampling import randomness
from bbo_plugins.optuna.sampling.base import failing_if_refused, held_params
from bbo_plugins.optuna.study.points import PlacedTrials, dimension_of, fixed_params
from bbo_plugins.optuna.study.proposal import Proposal, store_proposal
from bbo_plugins.optuna.study.trials import store_constraints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

_logger = logging.getLogger(__name__)

_N_INITIAL = 3  # space-filling queries of each function
_WITHOUT_MODEL = ("start", "fallback")  # reasons of queries that no model has made
_MAX_ATTEMPTS = 3

# What is no solution, by whether a trial observes all functions.
_NO_RESULT = {
    False: "study.best_trial, a single evaluation whose response is near the lower level's answer "
    "and not at it, so that its value may be better than the optimum",
    True: "study.best_trials, a Pareto front of the two levels",
}


class BILBOSampler(BaseSampler):
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
        self._roles = Roles.checked(
            upper_params=upper_params,
            lower_params=lower_params,
            query_param=query_param,
            upper=upper,
            lower=lower,
            upper_direction=upper_direction,
            lower_direction=lower_direction,
            upper_constraints=upper_constraints,
            lower_constraints=lower_constraints,
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
        self._seed = (
            randomness.fresh_entropy()
            if seed is None
            else errors.check_int("seed", seed, minimum=0)
        )
        self._forget()

    def _forget(self) -> None:
        self._once = Once()
        self._suggesting = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the messages logged so far, and the lock."""
        return {k: v for k, v in self.__dict__.items() if k not in {"_once", "_suggesting"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with no message logged."""
        self.__dict__.update(state)
        self._forget()

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions, the choices of the query parameter."""
        return self._roles.functions

    def reseed_rng(self) -> None:
        """Mix in fresh randomness; Optuna does this for ``n_jobs`` > 1."""
        self._seed = randomness.mix(self._seed, randomness.fresh_entropy())

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Refuse a study whose directions do not fit; the trial made for it ends as failed.

        Raises:
            ValueError: They do not fit.
        """
        with failing_if_refused(study, trial):
            self._roles.is_coupled(study)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters of both levels and the query, once a trial has shown them all.

        Raises:
            ValueError: The study does not fit.
        """
        del trial
        coupled = self._roles.is_coupled(study)
        return shared_distributions(study, self._roles, coupled=coupled) or {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the parameters of both levels and the query together.

        Raises:
            ValueError: The study does not fit.
        """
        if not search_space or len(fixed_params(trial, search_space)) == len(search_space):
            return {}
        # All of them: a PartialFixedSampler around this one takes some out of the search space.
        distributions = self.infer_relative_search_space(study, trial)
        with self._suggesting:  # so that the next thread knows where this trial will be
            params = self._sample(study, trial, distributions)
        return {name: params[name] for name in search_space}

    def _sample(
        self, study: Study, trial: FrozenTrial, distributions: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        coupled = self._roles.is_coupled(study)
        fixed = self._fixed(study, trial, distributions)
        placed = PlacedTrials(distributions)

        def read() -> BilevelTrials:
            return BilevelTrials.read(study, self._roles, placed, asking=trial, fixed=fixed)

        trials = read()
        n_chunks = 0
        for attempt in range(_MAX_ATTEMPTS + 1):
            # Workers in step come to the same query again and again; the last attempt is one of
            # the start's, which differ from trial to trial.
            query = suggest(
                trials.problem,
                trials.data,
                rng=randomness.model_generator(self._seed, trial.number, attempt),
                options=self._options_for(coupled=coupled, start=attempt == _MAX_ATTEMPTS),
                warm_starts=trials.warm_starts,
            )
            params = {
                **trials.problem.space.decode(query.point),
                **({} if coupled else {self._roles.query_param: query.function}),
                **fixed,
            }
            n_chunks = self._store(study, trial, query, params, distributions, n_chunks)
            # Another process may have been thinking at the same time and come to the same query.
            # It stores before it looks, as we do, so at least one of the two sees the other.
            before, trials = trials, read()
            if not trials.has_new_query_near(query.point, query.function, since=before):
                break
        self._log(before, query, trial.number)
        if query.reason not in _WITHOUT_MODEL and self._once.first_time("model", study.study_name):
            _logger.info(
                "%s: start-up is over; models suggest from trial %d on. The result of this study "
                "is sampler.solution(study), not %s.",
                self,
                trial.number,
                _NO_RESULT[coupled],
            )
        return params

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter of a trial that comes before the first complete one.

        Raises:
            ValueError: The parameter is on no level, or the query's choices are not the functions.
        """
        coupled = self._roles.is_coupled(study)
        self._roles.check_level(param_name, coupled=coupled)
        if param_name == self._roles.query_param:
            self._roles.check_query(param_distribution)
            return self.functions[trial.number % len(self.functions)]
        shared = shared_distributions(study, self._roles, coupled=coupled)
        has_changed = shared is not None and shared[param_name] != param_distribution
        if has_changed and self._once.first_time("range", param_name):
            _logger.warning(
                "Parameter %r of trial %d is sampled by a uniform draw, not by the models of %s: "
                "its range has changed. They take the new one from the next complete trial on.",
                param_name,
                trial.number,
                self,
            )
        dimension = dimension_of(param_distribution)
        return randomness.uniform_value(dimension, self._seed, trial.number, param_name)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Mark trials that ``study.best_trial`` must not take, and check the parameters.

        Raises:
            ValueError: A parameter of a level, the query or, of a coupled trial, a constraint is
                missing; or there is one that does not belong.
        """
        del values
        coupled = self._roles.is_coupled(study)
        # The only end of `optimize` that a sampler can see: study.stop() while a trial ran. Optuna
        # keeps the flag afterwards, when trials are asked for and told one by one.
        is_running = getattr(study._thread_local, "in_optimize_loop", False)
        is_stopping = is_running and getattr(study, "_stop_flag", False)
        if is_stopping and self._once.first_time("end", study.study_name):
            _logger.info(
                "%s: the study is stopped. Its result is sampler.solution(study), not %s.",
                self,
                _NO_RESULT[coupled],
            )
        if state is TrialState.FAIL:
            everything = "all functions" if coupled else "not chosen yet"
            asked = trial.params.get(self._roles.query_param, everything)
            if self._once.first_time("failed", asked):
                _logger.warning(
                    "%s: trial %d failed or returned NaN for the query %r; there is nothing to "
                    "learn from it.",
                    self,
                    trial.number,
                    asked,
                )
        if state is not TrialState.COMPLETE:
            return
        if not coupled:
            fixed = self._fixed(study, trial, trial.distributions)
            store_constraints(study, trial, [doubt(trial, self._roles, fixed)])
        self._roles.check(trial.distributions, coupled=coupled)
        attributes = study._storage.get_trial_system_attrs(trial._trial_id)
        self._roles.check_constraints(attributes, coupled=coupled)

    @one_blas_thread()
    def posterior(self, study: Study) -> BilevelPosterior:
        """Fit the models to a study's trials and look for the solution.

        Args:
            study: The study.

        Returns:
            The models of all functions, and their solution.

        Raises:
            ValueError: A function has no observation yet, or the study does not fit.
        """
        return BilevelPosterior.fit(study, self._roles, self._options, self._seed)

    @one_blas_thread()
    def solution(self, study: Study) -> BilevelSolution:
        """Return the best pair of upper-level parameters and lower-level answer, by the models.

        Args:
            study: The study.

        Returns:
            The solution, in the objectives' own units.

        Raises:
            ValueError: A function has no observation yet, or the study does not fit.
        """
        return self.posterior(study).solution()

    def _options_for(self, *, coupled: bool, start: bool = False) -> Options:
        n_initial = sys.maxsize if start else _N_INITIAL
        if self._n_startup_trials is not None and not start:
            shared = 1 if coupled else len(self.functions)
            n_initial = math.ceil(self._n_startup_trials / shared)
        return replace(self._options, n_initial=n_initial, coupled=coupled)

    def _store(
        self,
        study: Study,
        trial: FrozenTrial,
        query: Query,
        params: Mapping[str, Any],
        distributions: Mapping[str, BaseDistribution],
        replacing: int,
    ) -> int:
        starts = [query.warm_starts.get(name) for name in self.functions]
        fits = tuple(start.to_json() for start in starts if start is not None)
        proposal = Proposal.of(params, distributions, fits=fits)
        n_chunks = store_proposal(study, trial, proposal, replacing=replacing)
        store_reason(study, trial, query)
        return n_chunks

    def _fixed(
        self, study: Study, trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of a trial that somebody else has chosen."""
        held = held_params(study, self)
        return {
            **{name: held[name] for name in distributions if name in held},
            **fixed_params(trial, distributions),
        }

    def _log(self, trials: BilevelTrials, query: Query, number: int) -> None:
        for note in query.notes:
            if self._once.first_time("note"):
                _logger.warning("%s: %s", self, note)
        for kind, remark in trials.remarks().items():
            if self._once.first_time(kind):
                _logger.warning("%s: %s", self, remark)
        if query.infeasible and self._once.first_time("infeasible"):
            _logger.warning(
                "%s: as of trial %d the problem looks infeasible: no point satisfies all "
                "constraints, with confidence. Further trials look for what would refute that.",
                self,
                number,
            )
