"""Optuna samplers of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bbo_plugins import errors
from bbo_plugins.optuna.model_sampler import ModelSampler, ModelSuggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.gp_bo import AcquisitionName
    from bbo_plugins.optuna.trials import Snapshot

_ACQUISITIONS = ("logei", "ei", "ucb")


class UHEBOSampler(ModelSampler):
    """Gaussian-process Bayesian optimization for Optuna, without torch.

    After a space-filling start-up, each trial is suggested by a Gaussian process (Matérn-5/2, one
    length-scale per parameter, hyperparameters by maximum a posteriori) that is fitted to all
    finished trials, and by the maximum of an acquisition function over the whole mixed search
    space. Trials running elsewhere, pruned trials, constraints and known noise are accounted for.

    Numeric parameters may be floats or integers, on a linear or log scale, with or without steps;
    categorical ones have their own length-scale. Parameters that not all complete trials share are
    drawn independently of the model, with a warning.

    With the same ``seed``, the same study gets the same suggestions, in one run or resumed, in this
    or another process; workers that share a study and a seed do not repeat each other. For a
    resumed study this holds with the default ``independent_sampler`` or one that keeps no state: a
    seeded sampler of Optuna starts its random numbers again. Optuna reseeds its sampler when
    ``n_jobs`` > 1, so such runs are not repeatable.

    A point whose evaluation failed is not an observation, but is not suggested again either. A
    running trial that tens of later ones have overtaken counts as dead and is not waited for.

    Args:
        acquisition: "logei" (logarithm of the expected improvement), "ei" (expected improvement),
            or "ucb" (posterior mean + ``beta`` * posterior standard deviation).
        estimation: "map", maximum a posteriori. The consistent estimation of UHE-BO, "uhe",
            arrives in a later release.
        beta: Multiplier of the standard deviation for "ucb"; None for 1.96.
        horizon: Not available yet; must be None.
        noise_func: Takes a finished :class:`~optuna.trial.FrozenTrial` and returns the known
            *variance* of its value's noise, in squared units of the objective. Called once per
            trial and process. What is no finite non-negative number counts as unknown, with one
            warning. None and unknown noise are estimated.
        n_trials: Planned number of trials. Has no effect with "map"; the exploration rate of "uhe"
            will be derived from it.
        n_startup_trials: Complete or pruned trials, usable as observations, before the model
            suggests.
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
        ValueError: An argument has a value outside its range, or ``beta`` is given without "ucb".
    """

    def __init__(
        self,
        *,
        acquisition: str = "logei",
        estimation: str = "map",
        beta: float | str | None = None,
        horizon: object | None = None,
        noise_func: Callable[[FrozenTrial], float] | None = None,
        n_trials: int | None = None,
        n_startup_trials: int = 10,
        deterministic_objective: bool = False,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        self._acquisition = cast(
            "AcquisitionName", errors.check_word("acquisition", acquisition, _ACQUISITIONS)
        )
        _check_estimation(estimation)
        self._beta = _checked_beta(beta, acquisition)
        if horizon is not None:
            rule = "None, as horizons are not available yet"
            raise ValueError(errors.rule_message("horizon", rule, horizon))
        self._n_trials = (
            None if n_trials is None else errors.check_int("n_trials", n_trials, minimum=1)
        )
        self._deterministic = errors.check_bool("deterministic_objective", deterministic_objective)
        super().__init__(
            n_startup_trials=n_startup_trials,
            noise_func=noise_func,
            constraints_func=constraints_func,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
            seed=seed,
        )

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> ModelSuggestion:
        # Imported when first needed: SciPy's linear algebra would double the package's import time.
        from bbo_plugins.gp.fit import WarmStart  # noqa: PLC0415
        from bbo_plugins.methods import gp_bo  # noqa: PLC0415

        suggestion = gp_bo.suggest(
            snapshot.space,
            snapshot.observations,
            rng=rng,
            acquisition=self._acquisition,
            beta=gp_bo.DEFAULT_BETA if self._beta is None else self._beta,
            deterministic=self._deterministic,
            warm_starts=[WarmStart.from_json(fit) for fit in snapshot.fits],
        )
        return ModelSuggestion(
            x=suggestion.x,
            fits=tuple(warm_start.to_json() for warm_start in suggestion.warm_starts),
            notes=suggestion.notes,
        )


def _check_estimation(estimation: object) -> None:
    errors.check_word("estimation", estimation, ("map", "uhe"))
    if estimation == "uhe":
        rule = "'map' for now, as 'uhe' arrives in a later release"
        raise ValueError(errors.rule_message("estimation", rule, estimation))


def _checked_beta(beta: object, acquisition: str) -> float | None:
    if beta is None:
        return None
    if isinstance(beta, str):
        rule = "a positive number or None ('bilevel' is not available yet)"
        raise ValueError(errors.rule_message("beta", rule, beta))  # noqa: TRY004 - an unknown word
    number = errors.check_positive("beta", beta)
    if acquisition != "ucb":
        rule = f"None with acquisition={acquisition!r}, as only 'ucb' has a beta"
        raise ValueError(errors.rule_message("beta", rule, beta))
    return number
