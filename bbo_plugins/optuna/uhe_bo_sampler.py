"""UHEBOSampler: the front door to UHE-BO and to plain Bayesian optimization."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.likelihood import MARGINAL
from bbo_plugins.methods.gp_bo import DEFAULT_OPTIONS, Options
from bbo_plugins.methods.inner_horizon.laws import bilevel_beta
from bbo_plugins.methods.uhe_bo import algorithm as uhe_bo
from bbo_plugins.optuna.sampling.base import ModelSampler, with_note_if_unreadable
from bbo_plugins.optuna.study.continuations import noise_func_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from bbo_plugins.acquisition.functions import AcquisitionName
    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.methods.uhe_bo.algorithm import Variant
    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.optuna.study.trials import NoiseFunction
    from bbo_plugins.space.dimension import FloatArray

_logger = logging.getLogger(__name__)
_ACQUISITIONS: tuple[AcquisitionName, ...] = ("logei", "ei", "ucb")
_UHE, _MAP, _PAPER = "uhe", "map", "uhe-paper"
_PAPER_BETA = math.sqrt(1.96)  # √β_t of the paper
_BILEVEL = "bilevel"
_LARGEST_PHI = 1e6  # in standard deviations of the values; next to it no value says anything


class UHEBOSampler(ModelSampler):
    """Gaussian-process Bayesian optimization for Optuna that doubts its model when it gets stuck.

    For an ordinary study :class:`~bbo_plugins.optuna.BBOSampler` is the default choice.

    After a space-filling start-up, each trial is suggested by a Gaussian process (Matérn-5/2, one
    length-scale per parameter, for the objective a linear, a quadratic and a separable trend;
    hyperparameters by maximum a posteriori) that is fitted to all finished trials, and by the
    maximum of an acquisition function over the whole mixed search space. Trials running elsewhere,
    pruned trials, constraints and known noise are accounted for.

    When the model expects next to nothing of its next trial and the latest ones brought nothing,
    UHE-BO (``estimation="uhe"``) checks whether the model itself is wrong: a bandit (EXP3) spends
    some of the trials on points in the largest gaps between known ones and some on a model whose
    hyperparameters are estimated as if the trials had been spread evenly. A line in the log (INFO)
    says which share of the trials explored. :mod:`bbo_plugins.methods.uhe_bo` has the details.

    Numeric parameters may be floats or integers, on a linear or log scale, with or without steps;
    categorical ones have their own length-scale. Parameters that some trials do not have are
    modeled as well: when one exists is learned from the trials.

    With the same ``seed``, the same study gets the same suggestions, in one run or resumed, in this
    or another process; workers that share a study and a seed do not repeat each other. For a
    resumed study this holds with the default ``independent_sampler`` or one that keeps no state: a
    seeded sampler of Optuna starts its random numbers again. Optuna reseeds its sampler when
    ``n_jobs`` > 1, so such runs are not repeatable.

    A point whose evaluation failed, or was pruned without a finite report, is not an observation,
    but is not suggested again either unless it also had a value, and its surroundings become less
    attractive.
    A running trial that tens of later ones have overtaken counts as dead and is not waited for.

    Args:
        acquisition: "logei" (logarithm of the expected improvement), "ei" (expected improvement),
            or "ucb" (posterior mean + ``beta`` * posterior standard deviation).
        estimation: "uhe", the method of UHE-BO; "map": maximum a posteriori estimates only, and
            no exploration but the acquisition function's; or "uhe-paper", to reproduce the paper:
            the bandit decides every pair of trials, its random arm draws one uniform point, its
            reward is scaled by the start-up, the hyperparameters maximize Eq. (2), and
            ``acquisition`` is to be left out or "ucb".
        beta: Multiplier of the standard deviation for "ucb"; None for 1.96, for √1.96 with
            "uhe-paper". "bilevel" for Theorem 4 of Fu et al. (2024), which needs a ``horizon``:
            √(1 + 10 s²), where s² is the sum of the squared errors of the inner training over the
            trials so far and the next one, in units of the values' variance. That of a value
            after N steps is φ² / N if the horizon has a ``phi``, else the noise variance that the
            model estimated for the trial before, the same for all (β is 1.96 where there is none).
        horizon: The :class:`~bbo_plugins.InnerHorizon` by which the objective trains. If it has a
            ``phi``, the noise variance of a value after n steps is known to be φ² / n, unless
            ``noise_func`` is given; else only ``beta="bilevel"`` needs a horizon. With one that
            grows, see :class:`~bbo_plugins.optuna.PromotionCallback`: of trials that continue one
            another the model takes the one with the longest training, whether or not a horizon is
            given here.
        noise_func: Takes a finished :class:`~optuna.trial.FrozenTrial` and returns the known
            *variance* of its value's noise, in squared units of the objective. Called once per
            trial and process. What is no finite non-negative number counts as unknown, with one
            warning. None and unknown noise are estimated.
        n_trials: Planned number of trials, from which "uhe" derives the bandit's rate; None for a
            rate that falls with the number of trials so far. Has no effect with "map".
        n_startup_trials: Finished trials before the model suggests, one of them at least with a
            value.
        deterministic_objective: Whether the same parameters always give the same value. If so, no
            noise is assumed and no evaluated point is suggested again before the space is
            exhausted.
        constraints_func: Takes a finished trial and returns its constraint values, a constant
            number of them; a trial is feasible if none is above zero. ``Trial.set_constraint`` of
            Optuna 5 can be used instead.
        independent_sampler: Sampler for the start-up and for parameters the model does not cover.
            None for a space-filling start-up and uniform draws.
        warn_independent_sampling: Whether to warn, once per parameter, when a parameter is not
            covered by the model.
        seed: Seed, a non-negative integer; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, ``beta`` is given without "ucb", or
            "bilevel" without a horizon.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler


            def objective(trial):
                x = trial.suggest_float("x", -3.0, 3.0)
                kind = trial.suggest_categorical("kind", ["a", "b"])
                return (x - 1.0) ** 2 + (kind == "b")


            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(objective, n_trials=20)
            print(study.best_params)
    """

    def __init__(
        self,
        *,
        acquisition: Literal["logei", "ei", "ucb"] = "logei",
        estimation: Literal["uhe", "map", "uhe-paper"] = "uhe",
        beta: float | Literal["bilevel"] | None = None,
        horizon: InnerHorizon | None = None,
        noise_func: NoiseFunction | None = None,
        n_trials: int | None = None,
        n_startup_trials: int = 10,
        deterministic_objective: bool = False,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        self._acquisition = errors.check_word("acquisition", acquisition, _ACQUISITIONS)
        self._estimation = errors.check_word("estimation", estimation, (_UHE, _MAP, _PAPER))
        if self._estimation == _PAPER:
            if acquisition == "ei":
                rule = f"left out or 'ucb' with estimation={_PAPER!r}"
                raise ValueError(errors.rule_message("acquisition", rule, acquisition))
            if isinstance(beta, str):
                rule = f"a number or None with estimation={_PAPER!r}"
                raise ValueError(errors.rule_message("beta", rule, beta))
            self._acquisition = "ucb"
        self._horizon, known = horizon, noise_func_with(horizon, noise_func)
        self._noise_is_horizons = known is not noise_func
        self._beta = _checked_beta(beta, self._acquisition, horizon)
        self._n_trials = (
            None if n_trials is None else errors.check_int("n_trials", n_trials, minimum=1)
        )
        super().__init__(
            n_startup_trials=n_startup_trials,
            noise_func=known,
            constraints_func=constraints_func,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
            seed=seed,
            deterministic_objective=deterministic_objective,
            preprocesses=self._estimation != _PAPER,
        )

    def _variant(self) -> Variant:
        """Return the parts of UHE-BO that are on."""
        return {
            _UHE: uhe_bo.EXPLORE_WHEN_STAGNATED,
            _MAP: uhe_bo.MAP_ONLY,
            _PAPER: uhe_bo.AS_IN_THE_PAPER,
        }[self._estimation]

    @property
    def model_options(self) -> Options:
        """The options of each step, but that ``beta="bilevel"`` is decided at the step."""
        is_paper = self._estimation == _PAPER
        default = _PAPER_BETA if is_paper else DEFAULT_OPTIONS.beta
        return Options(
            acquisition=self._acquisition,
            beta=self._beta if isinstance(self._beta, float) else default,
            deterministic=self._deterministic,
            trend=not is_paper,
        )

    def _beta_of(self, snapshot: Snapshot) -> float:
        """Return the multiplier of the standard deviation, in a branch that of the whole study."""
        constant, snapshot = self.model_options.beta, snapshot.whole or snapshot
        if self._horizon is None or self._beta != _BILEVEL:
            return constant
        if self._horizon.phi is not None:
            return bilevel_beta(self._squared_errors(self._horizon, self._horizon.phi, snapshot))
        fit = snapshot.warm_starts.get(MARGINAL.name)
        estimate = fit.hyperparameters(len(snapshot.space)) if fit else None
        if not estimate:
            return constant
        # The excess risk is the outer level's noise: the model's estimate stands for φ²(N) / N.
        n_values = int(snapshot.observations.valued.complete.sum())
        return bilevel_beta(np.full(n_values + 1, estimate.noise_variance))

    def _squared_errors(self, horizon: InnerHorizon, phi: float, snapshot: Snapshot) -> FloatArray:
        """Return φ² / Nᵢ of each evaluation that Lemma 2 sums over, the next one the last, (t,).

        They are in units of the values' variance. Nᵢ are the steps behind the i-th value, all that
        a continued configuration has had. If the noise is a function of the user's they are those
        of the horizon for as many configurations. Pruned, failed and running trials have no final
        value and do not count.
        """
        valued = snapshot.observations.valued
        valued = valued.take(np.flatnonzero(valued.complete))
        known = valued.noise_variance
        if self._noise_is_horizons and known is not None and not np.isnan(known).any():
            shares = np.square(np.sqrt(known) / phi)  # 1 / Nᵢ
        else:
            steps = [horizon.steps(number) for number in range(len(valued.y))]
            shares = 1.0 / np.array(steps, dtype=np.float64)
        shares = np.append(shares, 1.0 / horizon.steps(snapshot.index))
        scale = float(valued.y.std()) or 1.0
        in_units = min(phi / scale, _LARGEST_PHI)
        return in_units**2 * shares

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        variant, warm_starts = self._variant(), snapshot.warm_starts
        step = uhe_bo.suggest(
            snapshot.space,
            snapshot.observations,
            snapshot.history,
            index=snapshot.index,
            rng=rng,
            options=replace(
                self.model_options, beta=self._beta_of(snapshot), warm_starts=warm_starts
            ),
            n_trials=self._n_trials,
            variant=variant,
        )
        if step.arm == uhe_bo.RANDOM_ARM:
            index = snapshot.index
            n_random = 1 + snapshot.history.before(index).count(uhe_bo.RANDOM_ARM)
            n_suggested = 1 + index - snapshot.history.first_suggested(index, with_gain=True)
            _logger.info(
                "%s: trial %d explores at random, as %s; so have "
                "%d of %d trials since start-up (%.0f%%).",
                self,
                snapshot.number,
                "the model's search has stagnated" if variant.on_stagnation else "the bandit chose",
                n_random,
                n_suggested,
                100.0 * n_random / n_suggested,
            )
        return with_note_if_unreadable(step, warm_starts)


def _checked_beta(
    beta: object, acquisition: str, horizon: InnerHorizon | None
) -> float | str | None:
    if beta is None:
        return None
    checked: float | str
    if isinstance(beta, str):
        checked = errors.check_word("beta", beta, (_BILEVEL,))
        if horizon is None:
            rule = "a number or None without a horizon"
            raise ValueError(errors.rule_message("beta", rule, beta))
    else:
        checked = errors.check_positive("beta", beta)
    if acquisition != "ucb":
        rule = f"None with acquisition={acquisition!r}, as only 'ucb' has a beta"
        raise ValueError(errors.rule_message("beta", rule, beta))
    return checked
