"""One step of GO-UCB: fit the networks, maximize the bound in a trust region.

Symbols, equations and deviations: :mod:`bbo_plugins.methods.go_ucb`. The trust region is a box
around the best point whose length follows from the order of all values; no state is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.acquisition.functions import (
    ConstrainedAcquisition,
    ConstraintModel,
    Feasibility,
    log_probability_of_feasibility,
)
from bbo_plugins.acquisition.maximize import TrustRegion, length_after, maximize_in_region
from bbo_plugins.errors import UNUSABLE
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.go_ucb.surrogate import NetworkPosterior, NetworkSurrogate
from bbo_plugins.methods.observations import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bbo_plugins.acquisition.validity import Validity
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace

FIT_NAME = "GO-UCB"  # name of the objective's network, with which all others' begin
DEFAULT_BETA = 1.0
DEFAULT_HIDDEN_UNITS = 25
_NOISE = 0.03  # estimated variance of standardized targets, from which on they have noise
# Mean of log √β beside pending trials, by whether there is noise; its standard deviation is 1.
_LOG_MULTIPLIER = {False: -2.0, True: 0.5}


@dataclass(frozen=True, kw_only=True)
class GOUCBOptions:
    """The options of GO-UCB.

    Attributes:
        n_startup: How many of the observations were not suggested by this method.
        hidden_units: h.
        beta: β; the bound has √β posterior standard deviations.
        regularization: λ, noise variance of standardized targets; None to estimate it.
        deterministic: Whether the objective is free of noise; then no evaluated point is suggested
            again before the space is exhausted. In a space with a continuous parameter, or if
            enough repeats agree, none is in either case.
    """

    n_startup: int
    hidden_units: int = DEFAULT_HIDDEN_UNITS
    beta: float = DEFAULT_BETA
    regularization: float | None = None
    deterministic: bool = False


def acquisition_of(
    objective: NetworkPosterior,
    multiplier: float,
    incumbent: float,
    constraints: tuple[ConstraintModel, ...] = (),
    weights: tuple[Validity, ...] = (),
) -> ConstrainedAcquisition:
    """Return the acquisition function: the bound, or under constraints the expected improvement.

    The expected improvement has the standard deviations of the bound, and is weighed by the
    probability of feasibility. A bound has a unit: as the gains get smaller it would count for ever
    less beside the probability, and the search would stay away from the border.

    Args:
        objective: The objective's network.
        multiplier: √β, by which posterior standard deviations are multiplied.
        incumbent: Largest mean at points that may be the best; the bound needs it beside
            ``weights`` only.
        constraints: Networks of the slacks, and the slack from which on a point is feasible.
        weights: Where an evaluation returns a value, and where it is not cut off.
    """
    if constraints:
        objective = replace(objective, factor=multiplier**2)
        feasibility = Feasibility(constraints, weights)
        return ConstrainedAcquisition("logei", objective, incumbent, 0.0, feasibility)
    feasibility = Feasibility(weights=tuple(replace(one, exponent=1) for one in weights))
    # Algorithm 1, line 5 (Phase II): max over w
    return ConstrainedAcquisition("ucb", objective, incumbent, multiplier, feasibility)


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    options: GOUCBOptions,
    *,
    rng: np.random.Generator,
    warm_starts: Mapping[str, Any] = MappingProxyType({}),
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a random point and says so in the notes; it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point, in their order.
        options: The options.
        rng: Source of randomness of the networks and the candidate points.
        warm_starts: What the latest fit of each model left (:attr:`Suggestion.warm_starts`), None
            where that is unreadable.

    Returns:
        The point, the state of the fits and the fallbacks taken.
    """
    try:
        return _suggest_by_model(space, observations, options, rng=rng, warm_starts=warm_starts)
    except UNUSABLE as error:
        return Suggestion.at_random(space, rng, error)


def _suggest_by_model(
    space: SearchSpace,
    observations: Observations,
    options: GOUCBOptions,
    *,
    rng: np.random.Generator,
    warm_starts: Mapping[str, Any],
) -> Suggestion:
    """Return the point with the largest bound; arguments as for :func:`suggest`.

    Raises:
        ArithmeticError: The data are beyond floating point.
        ValueError: A Gram matrix could not be factorized.
    """
    features = FeatureMap.of(space)
    data = observations
    if len(observations.y) > training_subset.MAX_MODELED:
        data = training_subset.modeled(observations, features)
    networks = _fit(data, features, options, rng, warm_starts)
    surrogate, *constraints = networks.values()
    region, incumbent = _region(space, observations, surrogate, constraints, options.n_startup)
    multiplier = math.sqrt(options.beta)  # Eq. (7), a constant here
    is_noisy = data.has_known_noise or surrogate.noise_variance >= _NOISE
    if len(observations.pending):
        # The same bound of workers that think at the same time has its maxima at nearly one place.
        multiplier *= math.exp(_LOG_MULTIPLIER[is_noisy] + rng.standard_normal())
    validities = data.validities(features, warm_starts)
    acquisition = _acquisition(
        data, surrogate, constraints, multiplier, incumbent, validities.weights
    )
    # Among infinitely many points, one close by teaches as much as a repeat, and more.
    unrepeated = options.deterministic or space.size is None or observations.repeats_agree(space)
    x = maximize_in_region(
        acquisition,
        space,
        region,
        rng=rng,
        exclusions=observations.exclusions(
            space, unrepeated=unrepeated, accidents=not validities.predicts_failures, noisy=is_noisy
        ),
    )
    fits = {name: model.warm_start for name, model in networks.items()}
    return Suggestion(
        x, {**fits, **validities.warm_starts}, notes=validities.notes, criterion=FIT_NAME
    )


def _fit(
    data: Observations,
    features: FeatureMap,
    options: GOUCBOptions,
    rng: np.random.Generator,
    warm_starts: Mapping[str, Any],
) -> dict[str, NetworkSurrogate]:
    """Fit a network to the objective, and one to each constraint's slack.

    Returns:
        The networks by their names, the objective's first.
    """
    valued, networks = data.valued, {}
    networks[FIT_NAME] = NetworkSurrogate.fit(
        valued.X,
        valued.y,
        features,
        rng=rng,
        hidden_units=options.hidden_units,
        regularization=options.regularization,
        noise_variance=valued.noise_variance,
        deterministic=options.deterministic,
        warm_start=warm_starts.get(FIT_NAME),
        best=valued.best_feasible,
    )
    for constraint, values in data.reported_constraints.items():
        slack, name = -values, f"{FIT_NAME} {constraint}"
        known = np.isfinite(slack)
        best = data.best_feasible
        if best is None or not known[best]:
            best = int(np.nanargmin(np.abs(slack)))
        networks[name] = NetworkSurrogate.fit(
            data.X[known],
            slack[known],
            features,
            rng=rng,
            hidden_units=options.hidden_units,
            warm_start=warm_starts.get(name),
            best=int(known[:best].sum()),
            powers=(1.0,),  # another one would bend the slack at its border
        )
    return networks


def _region(
    space: SearchSpace,
    observations: Observations,
    surrogate: NetworkSurrogate,
    constraints: Sequence[NetworkSurrogate],
    n_startup: int,
) -> tuple[TrustRegion, float | None]:
    """Return the trust region, and the mean at its center.

    Its center is the observed point with the best mean; as long as none may be the best, the one
    that is feasible with the highest probability. Then there is no mean to be improved on.
    """
    points, eligible = space.snap(observations.X), observations.eligible
    mean = surrogate.predict_mean(points)
    if eligible.any():
        worth = np.where(eligible, mean, -np.inf)
        values = np.where(eligible, observations.y, -np.inf)
    elif constraints:
        worth = np.zeros(len(points))
        for model in constraints:
            prediction = model.predict(points)
            worth += log_probability_of_feasibility(*prediction, model.limit).value
        values = np.full(len(points), -np.inf)
    else:
        worth, values = mean, observations.y
    length = length_after(values, n_startup, observations.n_beside)
    region = TrustRegion.around_best(space, points, worth, length)
    is_infeasible = bool(constraints) and not eligible.any()
    return region, None if is_infeasible else float(mean[np.argmax(worth)])


def _acquisition(
    data: Observations,
    surrogate: NetworkSurrogate,
    constraints: Sequence[NetworkSurrogate],
    multiplier: float,
    incumbent: float | None,
    weights: tuple[Validity, ...],
) -> Feasibility | ConstrainedAcquisition:
    """Bind the acquisition function to the networks after the pending points and the failures.

    Args:
        data: What the networks are fitted to.
        surrogate: The objective's network.
        constraints: Those of the constraints' slacks.
        multiplier: √β.
        incumbent: The mean to be improved on; None where a feasible point is searched for.
        weights: Where an evaluation returns a value, and where it is not cut off.
    """
    pending = data.pending
    slacks = tuple(ConstraintModel(one.posterior_after(pending), one.limit) for one in constraints)
    if incumbent is None:
        return Feasibility(slacks, weights)
    objective = surrogate.posterior_after(pending, data.presumed_bad)
    return acquisition_of(objective, multiplier, incumbent, slacks, weights)
