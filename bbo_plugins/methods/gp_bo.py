"""One step of Gaussian-process Bayesian optimization: fit, account for pending points, maximize.

The parent of the papers' methods that use a GP, and what ``estimation="map"`` runs. A surrogate is
fitted to the objective (and one to each constraint), pending points are added at their posterior
mean ("Kriging believer": the variance shrinks there, the mean stays), points that failed as
evidence of a bad value, and the acquisition function is maximized.

| symbol | meaning                                                                               |
|--------|---------------------------------------------------------------------------------------|
| μ, σ²  | posterior mean and variance of the transformed objective, shape (m,)                  |
| μ⁺     | incumbent: largest posterior mean over observed points, not the best (noisy) value    |
| β      | multiplier of σ in the upper confidence bound                                         |
| t_j    | transformed limit of constraint j: feasible where the slack -c_j is at least that     |

Source: the incumbent after Fu et al. (2024), "Convergence of Bayesian Bilevel Optimization",
Algorithm 1 (there a minimum).

Deviations: pending and failed points are accounted for, which the paper leaves open. Targets go
through :class:`bbo_plugins.gp.outputs.OutputTransform`. As long as no observed point is feasible,
the probability of feasibility alone is maximized. Of more than a thousand observations the model
has a part (:mod:`bbo_plugins.methods.active_set`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.optimize import maximize
from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.losses import MARGINAL, Loss
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.methods import active_set
from bbo_plugins.methods.constrained import AcquisitionName, ConstrainedAcquisition, ConstraintModel
from bbo_plugins.methods.validity import LATEST_FAILED, Validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.regression import GaussianProcess
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace

DEFAULT_BETA = 1.96
_N_ANCHORS = 5


@dataclass(frozen=True)
class Suggestion:
    """The outcome of one step.

    Attributes:
        x: The suggested point, representable in the search space, shape (d,).
        warm_starts: For the objective and each constraint, what the next step's fits start from.
        notes: Fallbacks taken, in words; empty when all went well.
        expected_gain: Improvement that the model expects at ``x``, see
            :meth:`ConstrainedAcquisition.expected_gain`; None without a model.
    """

    x: FloatArray
    warm_starts: tuple[WarmStart, ...]
    notes: tuple[str, ...]
    expected_gain: float | None = None


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    *,
    rng: np.random.Generator,
    acquisition: AcquisitionName = "logei",
    beta: float = DEFAULT_BETA,
    deterministic: bool = False,
    loss: Loss = MARGINAL,
    warm_starts: Sequence[WarmStart | None] = (),
    marginal_start: WarmStart | None = None,
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a random point and says so in the notes; it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point.
        rng: Source of randomness of the candidate points.
        acquisition: Acquisition function to maximize.
        beta: Multiplier of σ for "ucb".
        deterministic: Whether the objective is free of noise; then no evaluated point is suggested
            again before the space is exhausted.
        loss: What the objective's kernel hyperparameters are estimated by.
        warm_starts: The :attr:`Suggestion.warm_starts` of the previous step with the same loss.
        marginal_start: The first one of the previous step with the marginal likelihood, for a loss
            that borrows its noise variance.
    """
    try:
        return _suggest_by_model(
            space,
            observations,
            rng=rng,
            acquisition=acquisition,
            beta=beta,
            deterministic=deterministic,
            loss=loss,
            warm_starts=warm_starts,
            marginal_start=marginal_start,
        )
    except (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
        x = space.snap(shifted_sobol(1, len(space), rng))[0]
        reason = str(error) or type(error).__name__
        return Suggestion(x, (), (f"no model could be used ({reason}), so the point is random",))


def _suggest_by_model(
    space: SearchSpace,
    observations: Observations,
    *,
    rng: np.random.Generator,
    acquisition: AcquisitionName,
    beta: float,
    deterministic: bool,
    loss: Loss,
    warm_starts: Sequence[WarmStart | None],
    marginal_start: WarmStart | None,
) -> Suggestion:
    """Fit the surrogates and maximize the acquisition function; may raise on unusable data."""
    features = FeatureMap(tuple(space.n_categories.tolist()))
    failed, evaluated = _failed(observations), observations.X
    observations = active_set.modeled(observations, features)
    n_models = 1 + len(_constraint_columns(observations))
    starts = [*warm_starts, *([None] * n_models)][:n_models]
    surrogate = Surrogate.fit(
        observations.X,
        observations.y,
        features,
        noise_variance=observations.noise_variance,
        deterministic=deterministic,
        warm_start=starts[0],
        loss=loss,
        marginal_start=marginal_start,
    )
    constraints = _fit_constraints(observations, features, starts[1:])
    fitted = [surrogate, *constraints]
    known, mean = _attainable(space, surrogate.process)
    criterion = _acquisition(
        surrogate,
        constraints,
        observations,
        failed,
        incumbents=mean[_eligible(observations, known, constraints)],
        kind=acquisition,
        beta=beta,
    )
    x, _ = maximize(
        criterion,
        space,
        rng=rng,
        length_scales=surrogate.process.hyperparameters.length_scales,
        anchors=known[np.argsort(-mean, kind="stable")[:_N_ANCHORS]],
        excluded=np.concatenate([evaluated, failed]) if deterministic else failed,
        pending=observations.pending,
    )
    return Suggestion(
        x=x,
        warm_starts=tuple(model.warm_start for model in fitted),
        notes=tuple(note for model in fitted for note in model.notes),
        expected_gain=criterion.expected_gain(x),
    )


def _failed(observations: Observations) -> FloatArray:
    """Return the points (f, d) that failed and have not been evaluated since."""
    if observations.failed is None:
        return observations.X[:0]
    evaluated = {row.tobytes() for row in observations.X}
    still = [row for row in observations.failed if row.tobytes() not in evaluated]
    return np.array(still).reshape(len(still), observations.X.shape[1])


def _attainable(space: SearchSpace, process: GaussianProcess) -> tuple[FloatArray, FloatArray]:
    """Return the observed points (n, d), moved into ``space``, and the posterior means there (n,).

    Only in a space with a held dimension do they move: what counts there is the best of the slice.
    """
    points = space.snap(process.X)
    if np.array_equal(points, process.X):
        return points, process.mean_at_observations
    return points, process.predict_mean(points)


def _fit_constraints(
    observations: Observations, features: FeatureMap, warm_starts: Sequence[WarmStart | None]
) -> list[Surrogate]:
    """Fit one surrogate to the slack -c of each constraint, on the trials that report it."""
    models = []
    for values, warm_start in zip(_constraint_columns(observations), warm_starts, strict=True):
        known = np.isfinite(values)
        models.append(
            Surrogate.fit(observations.X[known], -values[known], features, warm_start=warm_start)
        )
    return models


def _constraint_columns(observations: Observations) -> list[FloatArray]:
    """Return the values (n,) of each constraint that at least one trial reports."""
    if observations.constraints is None:
        return []
    return [column for column in observations.constraints.T if np.isfinite(column).any()]


def _eligible(
    observations: Observations, known: FloatArray, constraints: Sequence[Surrogate]
) -> NDArray[np.bool_]:
    """Return which observed points (n,) may be the incumbent: complete and, if so asked, feasible.

    A trial that reports some constraints is judged by those, one that reports none is not feasible.
    Where an observed point had to move to ``known`` (n, d), the constraints' models judge.
    """
    eligible = observations.complete.copy()
    if not constraints:
        return eligible
    if not np.array_equal(known, observations.X):
        for model in constraints:
            eligible &= model.process.predict_mean(known) >= _limit(model)
        return eligible
    values = np.column_stack(_constraint_columns(observations))
    eligible &= ~np.isnan(values).all(axis=1)
    eligible &= ~(values > 0.0).any(axis=1)  # NaN, not reported, is no violation
    return eligible


def _limit(constraint: Surrogate) -> float:
    """Return the transformed slack from which on a point is feasible."""
    return float(constraint.transform.forward(np.zeros(1))[0])


def _acquisition(
    surrogate: Surrogate,
    constraints: Sequence[Surrogate],
    observations: Observations,
    failed: FloatArray,
    *,
    incumbents: FloatArray,
    kind: AcquisitionName,
    beta: float,
) -> ConstrainedAcquisition:
    """Bind the acquisition function to the posteriors after the fantasies.

    Args:
        surrogate: Model of the objective.
        constraints: Models of the constraints.
        observations: What is known of the study.
        failed: Points at which an evaluation failed, shape (f, d).
        incumbents: Posterior means at the points that may be the incumbent; possibly none.
        kind: Which acquisition function.
        beta: Multiplier of σ for "ucb".
    """
    pending = observations.pending
    validity = Validity.of(observations.X, failed, surrogate.process.features)
    models = tuple(
        ConstraintModel(_believe(model.process, pending), _limit(model)) for model in constraints
    )
    process = _believe(_doubt(surrogate.process, failed[-LATEST_FAILED:]), pending)
    if not len(incumbents) and models:
        return ConstrainedAcquisition(None, process, 0.0, beta, models, validity)
    feasible = np.ones(len(pending), dtype=bool)
    for model in models:
        feasible &= _believed(model.process, pending) >= model.limit
    believed = _believed(process, pending)[feasible]
    if not len(incumbents):
        incumbents = surrogate.process.mean_at_observations
    # Fu et al. (2024), Algorithm 1: the best predictive mean over the points evaluated so far.
    incumbent = float(np.concatenate([incumbents, believed]).max())
    return ConstrainedAcquisition(kind, process, incumbent, beta, models, validity)


def _doubt(process: GaussianProcess, failed: FloatArray) -> GaussianProcess:
    """Condition on evidence that the points that failed are no better than the median.

    Its noise is the posterior variance there: one failure moves the mean halfway, as it may have
    been an accident, and further ones at the same place move it further.
    """
    if not len(failed):
        return process
    mean, variance = process.predict(failed)
    return process.condition_on(
        failed, np.minimum(mean, np.median(process.y)), known_noise=variance
    )


def _believe(process: GaussianProcess, pending: FloatArray) -> GaussianProcess:
    """Condition on each pending point's own posterior mean."""
    if not len(pending):
        return process
    return process.condition_on(pending, process.predict_mean(pending))


def _believed(process: GaussianProcess, pending: FloatArray) -> FloatArray:
    """Return the values at the pending points (p,) that ``process`` was last conditioned on."""
    return process.y[len(process.y) - len(pending) :]
