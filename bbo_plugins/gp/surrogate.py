"""A fitted surrogate of one quantity: output transform, hyperparameters and posterior together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.gp.fit import Fit, WarmStart, fit_map
from bbo_plugins.gp.likelihood import (
    MARGINAL,
    STATED_NOISE_FLOOR,
    FitCriterion,
    is_noise_estimated,
    noise_diagonal,
)
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import OutputTransform, transformed_noise

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.space.dimension import FloatArray


@dataclass(frozen=True)
class Surrogate:
    """A Gaussian process over transformed targets; :meth:`fit` builds one.

    Attributes:
        process: The posterior, in transformed units.
        transform: The map between the targets' own units and the process's.
        warm_start: What the next fit may start from.
        criterion_value: What the estimate maximizes, such as the log marginal likelihood, without
            the prior.
        notes: Fallbacks taken while fitting, in words.
    """

    process: GaussianProcess
    transform: OutputTransform
    warm_start: WarmStart
    criterion_value: float
    notes: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        transform: OutputTransform | None = None,
        noise_variance: FloatArray | None = None,
        deterministic: bool = False,
        warm_start: WarmStart | None = None,
        criterion: FitCriterion = MARGINAL,
        marginal_start: WarmStart | None = None,
    ) -> Surrogate:
        """Fit to maximized targets.

        Args:
            X: Points of the unit cube, shape (n, d), n >= 1.
            y: Targets in their own units, finite, shape (n,).
            features: The kernel's feature map.
            transform: The map of the targets; None for :meth:`OutputTransform.fit`.
            noise_variance: Known noise variances in squared units of ``y``, NaN where unknown.
            deterministic: Whether unknown noise is fixed at its floor instead of estimated.
            warm_start: What an earlier fit on nearly the same data left, with the same criterion.
            criterion: What the hyperparameters maximize together with their prior.
            marginal_start: What an earlier fit by the marginal likelihood left, for a criterion
                that borrows its noise variance from one.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        transform = transform or OutputTransform.fit(y)
        z = transform.forward(y)
        known = None
        if noise_variance is not None:
            known = transformed_noise(noise_variance, transform.derivative(y))
        fit = estimate(
            X,
            z,
            features,
            known_noise=known,
            fit_noise=not deterministic,
            warm_start=warm_start,
            criterion=criterion,
            marginal_start=marginal_start,
        )
        process = GaussianProcess.of_fit(X, z, fit, features, known_noise=known)
        notes = (fit.note,) if fit.note else ()
        return cls(process, transform, fit.warm_start, fit.criterion_value, notes)

    @property
    def limit(self) -> float:
        """0 in transformed units: from there on the slack of a constraint is feasible."""
        return float(self.transform.forward(np.zeros(1))[0])


def estimate(
    X: FloatArray,
    z: FloatArray,
    features: FeatureMap,
    *,
    known_noise: FloatArray | None = None,
    fit_noise: bool = True,
    warm_start: WarmStart | None = None,
    criterion: FitCriterion = MARGINAL,
    marginal_start: WarmStart | None = None,
) -> Fit:
    """Estimate the hyperparameters by a criterion, borrowed noise by the marginal likelihood.

    Args:
        X: Points of the unit cube, shape (n, d), n >= 1.
        z: Standardized targets, finite, shape (n,).
        features: The kernel's feature map for the d dimensions.
        known_noise: Known noise variances in squared units of ``z``, NaN where unknown, shape (n,).
        fit_noise: Whether the unknown noise variance is estimated; else it is at its floor.
        warm_start: State of an earlier fit by the criterion.
        criterion: The criterion.
        marginal_start: State of an earlier fit by the marginal likelihood.

    Returns:
        The estimate.
    """
    estimated = is_noise_estimated(known_noise, fit_noise=fit_noise)
    if not (estimated and criterion.borrows_noise):
        return fit_map(
            X,
            z,
            features,
            known_noise=known_noise,
            fit_noise=fit_noise,
            warm_start=warm_start,
            criterion=criterion,
        )
    marginal = fit_map(X, z, features, known_noise=known_noise, warm_start=marginal_start)
    # What is settled counts as known to the second fit, which knows no noise below this floor.
    noise = max(marginal.hyperparameters.noise_variance, STATED_NOISE_FLOOR)
    settled = noise_diagonal(len(z), noise, known_noise)
    fit = fit_map(X, z, features, known_noise=settled, warm_start=warm_start, criterion=criterion)
    with_noise = replace(fit.hyperparameters, noise_variance=noise, has_noise_estimate=True)
    return replace(fit, hyperparameters=with_noise, note=fit.note or marginal.note)
