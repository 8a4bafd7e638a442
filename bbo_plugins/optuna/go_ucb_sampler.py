"""GOUCBSampler: the front door to GO-UCB for Optuna."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bbo_plugins import errors
from bbo_plugins.acquisition.validity import VALIDITY_NAMES
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.go_ucb import algorithm as go_ucb
from bbo_plugins.methods.go_ucb.surrogate import WarmNetwork
from bbo_plugins.optuna.sampling.base import ModelSampler, with_note_if_unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.go_ucb import GOUCBOptions
    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot

N_STARTUP = 10  # of a study of unknown length


class GOUCBSampler(ModelSampler):
    """Global optimization in many dimensions with a small network as the model, for Optuna.

    After a space-filling start-up, each trial is suggested by a network with one hidden layer
    beside a quadratic function, which is fitted to all finished trials, and by the largest value
    that it can take for parameters in a ball around the fitted ones, in a trust region around the
    best trial. For 10 to 100 parameters and some tens to a thousand trials. For an ordinary study
    :class:`~bbo_plugins.optuna.BBOSampler`, in which this network takes turns with a Gaussian
    process, is the default choice. :mod:`bbo_plugins.methods.go_ucb` has the details, and where
    they leave the paper (Liu & Wang 2023).

    Numeric parameters may be floats or integers, on a linear or log scale, with or without steps;
    categorical ones have one input of the network per choice. Parameters that some trials do not
    have are modeled as well: when one exists is learned from the trials. Trials running elsewhere,
    pruned and failed trials, constraints and known noise are accounted for.

    With the same ``seed``, the same study gets the same suggestions, in one run or resumed, in this
    or another process: what a fit continues from is stored with the trials, some kilobytes each (25
    hidden units and 20 parameters: 2, and 100 parameters: 8). Optuna reseeds its sampler when
    ``n_jobs`` > 1, so such runs are not repeatable.

    Args:
        hidden_units: Hidden units of the network.
        n_startup_trials: Finished trials before the model suggests, one of them at least with a
            value. None for the paper's √``n_trials``, rounded up, or 10 without ``n_trials``.
        n_trials: Planned number of trials; sets ``n_startup_trials`` if that is not given, and
            nothing else.
        beta: Squared radius of the ball, in posterior standard deviations of the model: the bound
            is the mean plus √beta of them. None for the default, 1.
        regularization: Weight λ of the penalty on the network's parameters, which is the noise
            variance of the standardized objective, also with ``deterministic_objective``. None to
            choose it by marginal likelihood.
        noise_func: Takes a finished :class:`~optuna.trial.FrozenTrial` and returns the known
            *variance* of its value's noise, in squared units of the objective. What is no finite
            non-negative number counts as unknown, with one warning. None and unknown noise are
            estimated.
        deterministic_objective: Whether the same parameters always give the same value. If so, no
            noise is assumed and no evaluated point is suggested again before the space is
            exhausted; in a space with a continuous parameter, none is in either case.
        constraints_func: Takes a finished trial and returns its constraint values, a constant
            number of them; a trial is feasible if none is above zero. Each has a network of its
            own, and the expected improvement times the probability that all are kept takes the
            place of the bound.
            ``Trial.set_constraint`` of Optuna 5 can be used instead.
        independent_sampler: Sampler for the start-up and for parameters the model does not cover.
            None for a space-filling start-up and uniform draws.
        warn_independent_sampling: Whether to warn, once per parameter, when a parameter is not
            covered by the model.
        seed: Seed, a non-negative integer; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import GOUCBSampler


            def objective(trial):
                return sum(trial.suggest_float(f"x{i}", -1.0, 1.0) ** 2 for i in range(20))


            study = optuna.create_study(sampler=GOUCBSampler(seed=0))
            study.optimize(objective, n_trials=15)
            print(study.best_value)
    """

    def __init__(
        self,
        *,
        hidden_units: int = 25,
        n_startup_trials: int | None = None,
        n_trials: int | None = None,
        beta: float | None = None,
        regularization: float | None = None,
        noise_func: Callable[[FrozenTrial], float] | None = None,
        deterministic_objective: bool = False,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        self._hidden_units = errors.check_int("hidden_units", hidden_units, minimum=1)
        self._beta = None if beta is None else errors.check_positive("beta", beta)
        self._regularization = (
            None
            if regularization is None
            else errors.check_positive("regularization", regularization)
        )
        if n_trials is not None:
            n_trials = errors.check_int("n_trials", n_trials, minimum=1)
        if n_startup_trials is None:
            n_startup_trials = default_startup(n_trials)
        super().__init__(
            n_startup_trials=n_startup_trials,
            noise_func=noise_func,
            constraints_func=constraints_func,
            independent_sampler=independent_sampler,
            warn_independent_sampling=warn_independent_sampling,
            seed=seed,
            deterministic_objective=deterministic_objective,
        )

    @property
    def model_options(self) -> GOUCBOptions:
        """The options of GO-UCB."""
        return go_ucb.GOUCBOptions(
            n_startup=self._n_startup_trials,
            hidden_units=self._hidden_units,
            beta=go_ucb.DEFAULT_BETA if self._beta is None else self._beta,
            regularization=self._regularization,
            deterministic=self._deterministic,
        )

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        return suggest_by_network(snapshot, self.model_options, rng)


def suggest_by_network(
    snapshot: Snapshot, options: GOUCBOptions, rng: np.random.Generator
) -> Suggestion:
    """Return GO-UCB's next point, its fit begun from the stored one."""
    starts: dict[str, WarmNetwork | WarmStart | None] = {}
    for name, fit in snapshot.fits.items():
        if name.startswith(go_ucb.FIT_NAME):
            starts[name] = WarmNetwork.from_json(fit)
        elif name in VALIDITY_NAMES:
            starts[name] = WarmStart.from_json(fit)
    step = go_ucb.suggest(
        snapshot.space, snapshot.observations, options, rng=rng, warm_starts=starts
    )
    return with_note_if_unreadable(step, starts)


def default_startup(n_trials: int | None) -> int:
    """Return √n_trials rounded up, which is the paper's rule; without a plan :data:`N_STARTUP`."""
    return N_STARTUP if n_trials is None else math.isqrt(n_trials - 1) + 1
