"""BBOSampler: the front door for ordinary studies, with one objective or several."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.optuna.go_ucb_sampler import GOUCBSampler
from bbo_plugins.optuna.sampling.base import ModelSampler, noting_unreadable
from bbo_plugins.optuna.uhe_bo_sampler import UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.gp_bo import Options
    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.optuna.study.trials import NoiseFunction

_logger = logging.getLogger(__name__)
_LOG_EVERY = 10  # trials of the models
_TURNS = 3  # trials of which the second is greedy, and the network suggests the last one
_GLOBAL_EVERY = 6  # trials, of which the first one's search is never local


class BBOSampler(ModelSampler):
    """One sampler for every ordinary study: a Gaussian process and a network take turns.

    After a space-filling start-up, two of three trials are suggested by a Gaussian process, as
    by :class:`~bbo_plugins.optuna.UHEBOSampler` with ``estimation="map"``, and the third
    (numbers 2, 5, 8, ...) by a network, as by :class:`~bbo_plugins.optuna.GOUCBSampler`. Both
    models are fitted to all finished trials, so that each learns from what the other has found.
    Where one of them does not suit the objective, the other one still makes progress.

    The Gaussian process goes by the expected improvement. For the second of three trials (numbers
    1, 4, 7, ...) it goes by an upper confidence bound of mean + 0.5 standard deviations, close to
    its best mean, if there are neither constraints nor conditional parameters and the values seem
    free of noise.

    The network searches a trust region around the best trial. The Gaussian process has such a
    region, too, with five or more parameters, if none is conditional or categorical, one at least
    is continuous, and there are no constraints; in every sixth trial (numbers 0, 6, 12, ...) it
    searches the whole space.

    Every ten trials a line in the log (INFO) says how often each has improved on the best
    value.

    A study with several objectives has a Gaussian process for each, and every trial is suggested by
    the expected improvement of the hypervolume that the trials dominate; with more than four, by
    random weights of the objectives. :mod:`bbo_plugins.methods.multi_objective` has the details.

    Numeric parameters may be floats or integers, on a linear or log scale, with or without steps,
    or categorical, and may depend on one another. Trials running elsewhere, pruned and failed
    trials, constraints and known noise are accounted for, as in the two samplers.

    With the same ``seed``, the same study gets the same suggestions, in one run or resumed, in this
    or another process. Optuna reseeds its sampler when ``n_jobs`` > 1, so such runs are not
    repeatable.

    Args:
        n_startup_trials: Complete or pruned trials, usable as observations, before the models
            suggest; two where twice as many points have been tried.
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
        horizon: The :class:`~bbo_plugins.InnerHorizon` by which the only objective trains. If it
            has a ``phi``, the noise variance of a value after n steps is known to be φ² / n, unless
            ``noise_func`` is given.
        n_trials: Planned number of trials. Of no effect: the turns do not depend on it.
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
        n_startup_trials: int = 10,
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
        self._process_arm = UHEBOSampler(
            estimation="map",
            horizon=horizon,
            noise_func=noise_func,
            n_trials=n_trials,
            deterministic_objective=deterministic_objective,
        )
        self._network_arm = GOUCBSampler(
            n_startup_trials=n_startup_trials, deterministic_objective=deterministic_objective
        )
        super().__init__(
            n_startup_trials=n_startup_trials,
            noise_func=self._process_arm._noise_func,  # the horizon's, if that knows it
            constraints_func=constraints_func,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
            seed=seed,
        )

    @property
    def model_options(self) -> Options:
        """The options of the Gaussian process; the network has GO-UCB's defaults."""
        return self._process_arm.model_options

    def _check_study(self, study: Study) -> None:
        """Take a study with any number of objectives."""

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        several = len(snapshot.objectives) > 1
        if not several and _is_by_network(snapshot.configuration):
            return self._network_arm._suggest(snapshot, rng)
        # Imported when first needed: SciPy's linear algebra would double the package's import time.
        from bbo_plugins.gp.fit import WarmStart  # noqa: PLC0415
        from bbo_plugins.gp.likelihood import MARGINAL, name_of  # noqa: PLC0415
        from bbo_plugins.methods import gp_bo, multi_objective  # noqa: PLC0415

        stored = snapshot.fits.get(name_of(MARGINAL), ())
        fits = tuple(map(WarmStart.from_json, stored))
        space, options = snapshot.space, replace(self.model_options, warm_starts=fits)
        if several:
            step = multi_objective.suggest(space, snapshot.objectives, rng=rng, options=options)
        else:
            is_local = snapshot.configuration % _GLOBAL_EVERY != 0
            options = replace(
                options,
                greedy=snapshot.configuration % _TURNS == 1,
                local_after=self._n_startup_trials if is_local else None,
            )
            step = gp_bo.suggest(space, snapshot.observations, rng=rng, options=options)
        return noting_unreadable(step, fits)

    def _log_snapshot(self, snapshot: Snapshot) -> None:
        super()._log_snapshot(snapshot)
        number = snapshot.configuration
        past = snapshot.past.before(number)
        first = past.first_suggested(number)
        is_due = number > first and (number - first) % _LOG_EVERY == 0
        if not is_due or len(snapshot.objectives) > 1:
            return
        values = np.where(past.finished & ~np.isnan(past.values), past.values, -np.inf)
        best = np.maximum.accumulate(np.concatenate([[-np.inf], values[:-1]]))
        improving = past.numbers[(values > best) & (past.numbers >= first)].tolist()
        n_network = sum(map(_is_by_network, improving))
        _logger.info(
            "%s: of %d trials since start-up, %d by the Gaussian process and %d by the network "
            "improved on the best value.",
            self,
            number - first,
            len(improving) - n_network,
            n_network,
        )


def _is_by_network(number: int) -> bool:
    """Return whether the network suggests the trial of this number."""
    return number % _TURNS == _TURNS - 1
