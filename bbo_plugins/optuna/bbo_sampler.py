"""BBOSampler: the front door for ordinary studies, with one objective or several."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from bbo_plugins import errors
from bbo_plugins.methods import gp_bo, multi_objective
from bbo_plugins.methods.go_ucb.algorithm import FIT_NAME, GOUCBOptions
from bbo_plugins.methods.gp_bo import (
    COSINES_USED,
    NAMES_WITH_COSINES,
    Options,
    can_be_local,
    can_have_cosines,
)
from bbo_plugins.optuna.go_ucb_sampler import N_STARTUP, default_startup, suggest_by_network
from bbo_plugins.optuna.sampling.base import ModelSampler, with_note_if_unreadable
from bbo_plugins.optuna.study.continuations import noise_func_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.methods.observations import Suggestion, TrialHistory
    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.optuna.study.trials import NoiseFunction, Once
    from bbo_plugins.space import SearchSpace

_logger = logging.getLogger(__name__)
_LOG_EVERY = 10  # trials of the models
# A trial's index, which is its number unless some before it continue others, says modulo six whose
# turn it is and how the Gaussian process goes about it:
#
#   0  the Gaussian process's, by the expected improvement; the network may take it
#   1  the Gaussian process's, by an upper confidence bound
#   2  the network's; the Gaussian process may take it, by an upper confidence bound
#   3  the Gaussian process's, by the expected improvement; a kernel with cosines is tried
#   4  the Gaussian process's, by an upper confidence bound
#   5  the network's; the Gaussian process may take it, by the expected improvement
#
# If such a kernel was used when it was last tried, it is tried in the turns 0 and 5, too. With many
# numeric parameters the network may take all turns but that of one trial in 36.
_CYCLE = 6
_CONTESTED, _BY_BOUND, _WITH_COSINES, _NETWORK = 0, (1, 2, 4), 3, (2, 5)
_KEPT_EVERY = 9  # trials, of which the last one, a turn of the network, is never taken from it
_WHOLE_EVERY = 12  # trials, in the first of which the Gaussian process searches the whole space
_WHOLE_EVERY_OF_CATEGORIES = 2  # the same with categories and no conditions
_WHOLE_KEPT_EVERY = 36  # trials, the first of which is never taken from it
_MANY_NUMBERS = 60  # with more, and without conditions, the network may take all turns
_MAX_INPUTS = 1000  # of the network; with more, each of its turns takes seconds


class BBOSampler(ModelSampler):
    """One sampler for every ordinary study: a Gaussian process and a network take turns.

    After a space-filling start-up, two of three trials are turns of a Gaussian process, as in
    :class:`~bbo_plugins.optuna.UHEBOSampler` with ``estimation="map"``. The third one is the turn
    of a network, as in :class:`~bbo_plugins.optuna.GOUCBSampler`. Both models are fitted to all
    finished trials, so that each learns from what the other has found. The model that improves on
    the best value more often takes over turns of the other one, which always keeps a few of its
    own, so that it can recover.

    The Gaussian process goes by the expected improvement. About half of its trials go by an upper
    confidence bound, if there are neither constraints nor conditional parameters nor categories.
    The bound is narrow if the values seem free of noise: such trials stay close to the best mean.
    With noise it is wide, and in a finite space there is none then.

    With conditional parameters, or with five or more numeric ones of which one at least is
    continuous, the Gaussian process searches a trust region around its best mean, and now and then
    the whole space. The network always searches one, around the best trial. If the trials say that
    parameters act apart, each with several minima, the Gaussian process may leave its region along
    single parameters.

    Every ten trials a line in the log (INFO) says how many finished trials each has suggested, and
    how many of them improved on the best value. ``docs/bbo.md`` has the rules by trial number.

    With more than 1,000 inputs, one for each numeric parameter and for each value of a category,
    only the Gaussian process suggests.

    A study with several objectives has a Gaussian process for each, and every trial is suggested by
    the expected improvement of the hypervolume that the trials dominate; with more than four, by
    random weights of the objectives. :mod:`bbo_plugins.methods.multi_objective` has the details.

    Numeric parameters may be floats or integers, on a linear or log scale, with or without steps,
    or categorical, and may depend on one another. Choices among numbers, such as 16, 32 and 64,
    have an order, unless they follow one another as 0, 1 and 2 do. Where the trials say that
    changes gather at one end of a range, the models see it stretched
    (:mod:`bbo_plugins.methods.input_warping`). Trials running elsewhere, pruned and failed trials,
    constraints and known noise are accounted for, as in the two samplers. A trial whose value is
    infinitely bad, or far worse than usual, counts as failed, unless it violates a constraint: then
    only its constraints are modeled. A value far worse than the others suggest, as of a training
    that failed by chance, is left out (:mod:`bbo_plugins.methods.outliers`).

    With the same ``seed``, the same study gets the same suggestions, in one run or resumed, in this
    or another process. Optuna reseeds its sampler when ``n_jobs`` > 1, so such runs are not
    repeatable.

    Args:
        n_startup_trials: Finished trials before the models suggest, one of them at least with a
            value. None for 10, or √``n_trials``, rounded up, if that is less.
        deterministic_objective: Whether the same parameters always give the same value. If so, no
            noise is assumed and no evaluated point is suggested again before the space is
            exhausted.
        constraints_func: Takes a finished trial and returns its constraint values, a constant
            number of them; a trial is feasible if none is above zero. ``Trial.set_constraint`` of
            Optuna 5 can be used instead.
        noise_func: Takes a finished :class:`~optuna.trial.FrozenTrial` and returns the known
            *variance* of its value's noise, in squared units of the objective; with several
            objectives a sequence of one for each. What is no finite non-negative number counts as
            unknown, with one warning. None and unknown noise are estimated.
        horizon: The :class:`~bbo_plugins.InnerHorizon` by which the objective trains. If it has a
            ``phi`` and ``noise_func`` is None, the noise variance of a value after n steps is known
            to be φ² / n, and the study must have one objective.
        n_trials: Planned number of trials; sets ``n_startup_trials`` if that is not given, and
            nothing else.
        independent_sampler: Sampler for the start-up and for parameters the models do not cover.
            None for a space-filling start-up and uniform draws.
        warn_independent_sampling: Whether to warn, once per parameter, when a parameter is not
            covered by the models.
        seed: Seed, a non-negative integer; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BBOSampler


            def objective(trial):
                x = trial.suggest_float("x", -3.0, 3.0)
                kind = trial.suggest_categorical("kind", ["a", "b"])
                return (x - 1.0) ** 2 + (kind == "b")


            study = optuna.create_study(sampler=BBOSampler(seed=0))
            study.optimize(objective, n_trials=20)
            print(study.best_params)
    """

    def __init__(
        self,
        *,
        n_startup_trials: int | None = None,
        deterministic_objective: bool = False,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        noise_func: NoiseFunction | None = None,
        horizon: InnerHorizon | None = None,
        n_trials: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        if n_trials is not None:
            n_trials = errors.check_int("n_trials", n_trials, minimum=1)
        if n_startup_trials is None:
            n_startup_trials = min(default_startup(n_trials), N_STARTUP)
        known = noise_func_with(horizon, noise_func)
        self._noise_is_horizons = known is not noise_func
        super().__init__(
            n_startup_trials=n_startup_trials,
            noise_func=known,
            constraints_func=constraints_func,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
            seed=seed,
            deterministic_objective=deterministic_objective,
        )

    @property
    def model_options(self) -> Options:
        """The options of the Gaussian process, to which a turn adds how it goes about it."""
        return Options(deterministic=self._deterministic, trend=True)

    def _check_study(self, study: Study) -> None:
        """Take a study with any number of objectives, with a horizon that tells the noise one."""
        n_objectives = len(study.directions)
        if self._noise_is_horizons and n_objectives > 1:
            raise ValueError(
                "horizon must have no phi in a study with several objectives, as it tells the "
                f"noise of one only, but the study has {n_objectives}."
            )

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        space, several = snapshot.space, len(snapshot.objectives) > 1
        if not several and _is_by_network(space, snapshot.history, snapshot.index):
            return self._suggest_by_network(snapshot, rng)
        options = self.model_options if several else self._options_of_turn(snapshot)
        options = replace(options, warm_starts=snapshot.warm_starts)
        if several:
            step = multi_objective.suggest(space, snapshot.objectives, rng=rng, options=options)
        else:
            step = gp_bo.suggest(space, snapshot.observations, rng=rng, options=options)
        return with_note_if_unreadable(step, options.warm_starts)

    def _options_of_turn(self, snapshot: Snapshot) -> Options:
        space, turn = snapshot.space, snapshot.index % _CYCLE
        may_go_on = turn not in _BY_BOUND and _latest_with_cosines(snapshot) == COSINES_USED
        return replace(
            self.model_options,
            by_bound=turn in _BY_BOUND,
            cosines=(turn == _WITH_COSINES or may_go_on) and can_have_cosines(space),
            local_after=None if _is_whole(space, snapshot.index) else self._n_startup_trials,
        )

    def _suggest_by_network(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        options = GOUCBOptions(n_startup=self._n_startup_trials, deterministic=self._deterministic)
        return suggest_by_network(snapshot, options, rng)

    def _log_snapshot(self, snapshot: Snapshot, once: Once) -> None:
        super()._log_snapshot(snapshot, once)
        index = snapshot.index
        n_suggested = index - snapshot.history.first_suggested(index)
        if n_suggested == 0 or n_suggested % _LOG_EVERY or len(snapshot.objectives) > 1:
            return
        network, process = _improvements(snapshot.history)
        _logger.info(
            "%s: %d of %d trials by the Gaussian process and %d of %d by the network improved on "
            "the best value.",
            self,
            *process,
            *network,
        )


def _latest_with_cosines(snapshot: Snapshot) -> str | None:
    """Return the name of the latest fits of a kernel with cosines, None if there are none."""
    tried = [name for name in snapshot.history.criteria if name in NAMES_WITH_COSINES]
    return tried[-1] if tried else None


def _improvements(history: TrialHistory) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many of the network's trials improved, of how many, and of the process's."""
    by_network = history.criteria == FIT_NAME
    by_process = (history.criteria != "") & ~by_network
    return history.improvements(by_network), history.improvements(by_process)


def _is_whole(space: SearchSpace, index: int) -> bool:
    """Return whether the Gaussian process searches the whole space where it has a region.

    With categories it does more often: the best values of another one may be elsewhere. A branch
    has parameters of its own, so a region reaches into others.
    """
    has_categories = not space.is_conditional and bool(space.n_categories.any())
    return index % (_WHOLE_EVERY_OF_CATEGORIES if has_categories else _WHOLE_EVERY) == 0


def _is_by_network(space: SearchSpace, history: TrialHistory, index: int) -> bool:
    """Return whether the network suggests trial ``index``.

    In its own turns it does, unless the Gaussian process is ahead of it; every ninth trial all the
    same, to come back. In the contested turn it does if it is ahead of the Gaussian process and
    that has a trust region, but never in every 36th trial. With many numeric parameters all turns
    are contested. With very many inputs, one for each number and for each value of a category, it
    never does.
    """
    if int(space.n_categories.clip(min=1).sum()) > _MAX_INPUTS:
        return False
    network, process = _improvements(history)
    if index % _CYCLE in _NETWORK:
        is_kept = index % _KEPT_EVERY == _KEPT_EVERY - 1
        return is_kept or not _is_ahead(process, network)
    n_numeric = int((space.n_categories == 0).sum())
    all_are_contested = n_numeric > _MANY_NUMBERS and not space.is_conditional
    is_contested = index % _CYCLE == _CONTESTED or all_are_contested
    is_contested &= index % _WHOLE_KEPT_EVERY != 0
    return is_contested and can_be_local(space) and _is_ahead(network, process)


def _is_ahead(other: tuple[int, int], owner: tuple[int, int]) -> bool:
    """Return whether a model improves more often than the one whose turn it is.

    The owner's rate begins at 2 of 4, the other's at 0 of 2: the owner has the benefit of the
    doubt.

    Args:
        other: How many of the model's trials improved, of how many.
        owner: The same of the one whose turn it is.
    """
    return other[0] / (other[1] + 2) > (owner[0] + 2) / (owner[1] + 4)
