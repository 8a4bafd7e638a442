"""Slices of the posterior of a study's objective."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.space import Split
from bbo_plugins.visualization._data.axes import ParameterAxis, coordinates, labels, names_in
from bbo_plugins.visualization._data.objective import StudyPosterior, posterior_of
from bbo_plugins.visualization._data.panels import (
    Axis,
    Panel,
    Plot,
    Points,
    estimate,
    estimate_labels,
    limits_around,
    outlier_limit,
)
from bbo_plugins.visualization._style import SLICES, SMALL_STAR, TRIALS, opacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from optuna.study import Study

    from bbo_plugins.space import Condition
    from bbo_plugins.space.dimension import FloatArray, IntArray

_MEDIAN = "posterior median"
_TRIALS_LABEL = "other trials, fainter off the slice"
_SEVERAL = "trial that the slice goes through"
_MAX_SLICES = 9
_logger = logging.getLogger(__name__)


@one_blas_thread()
def plot_posterior(
    study: Study, params: Sequence[str] | None = None, *, at: int | None = None, n_points: int = 100
) -> Plot:
    """Plot the model of the objective along one parameter at a time, through one trial.

    The model, over all parameters that the trials have, of this package's latest suggestion: a
    Gaussian process with the hyperparameters stored with it, or GO-UCB's network. If nothing is
    stored it is fitted once, a network for a ``GOUCBSampler`` and a Gaussian process for all other
    samplers. Each panel varies one parameter and keeps the others at the values of the best trial,
    feasible if there is one. It shows the median of the objective without noise, its
    central 95% interval, and the complete trials: the further a trial is off the slice, by the
    model's own measure, the fainter it is. The interval is the model's: far from all trials a
    network's is often too narrow.

    A parameter that not all trials have is drawn where it exists, with the trials that have it: the
    panel's title has the values of the parameters that decide on that. If the best trial lacks it,
    the slice goes through the best of the others. Along a parameter that others depend on, those
    that appear are as in the best trial that has them.

    Values are in the objective's units. The axis of the values ends where only outliers are left.
    Known noise variances are those of the study's sampler, so load the study with its sampler.

    Args:
        study: A study with one objective.
        params: Parameters to draw; None for all, of more than nine those along which the
            median varies most.
        at: Number of the complete trial that the slices go through, if it has the parameter; None
            for the best.
        n_points: Number of points along a parameter with many values.

    Returns:
        Plotly's figure; of matplotlib, the axes of a single parameter, or an array (n,) with the
        axes of each of several. Empty, with a warning in the log, if there is nothing to model yet.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, a name is not one of the model's parameters,
            or there is no such trial.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization import plot_posterior

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            figure = plot_posterior(study)
            figure.write_html("posterior.html")
    """
    return _plot(study, params, at, n_points)


def _plot(study: Study, params: Sequence[str] | None, at: int | None, n_points: int) -> Plot:
    n_points = errors.check_int("n_points", n_points, minimum=2)
    number = None if at is None else errors.check_int("at", at, minimum=0)
    wanted = names_in(params)
    posterior = posterior_of(study)
    if posterior is None:
        _logger.warning(
            "There is no posterior to plot: the study needs a complete trial with a finite value "
            "and a parameter with more than one possible value."
        )
        return Plot("Posterior")
    known = [name for name in posterior.space.names if any(name in own for own in posterior.params)]
    names = known if wanted is None else wanted
    if not names or not set(names) <= set(known):
        rule = f"None or names of parameters that complete trials have, among {known!r}"
        raise ValueError(errors.rule_message("params", rule, wanted))
    reference = _reference(posterior, number)
    slices = [_slice(posterior, name, reference, n_points) for name in names]
    if wanted is None:
        slices = _largest_effects(slices)
    values, limits = posterior.values, _limits(posterior, slices)
    n_beyond = int(((values < limits[0]) | (values > limits[1])).sum())
    trials = f"{_TRIALS_LABEL} ({n_beyond} beyond the axis)" if n_beyond else _TRIALS_LABEL
    elsewhere = any(one.reference != reference for one in slices)
    through = _SEVERAL if elsewhere else f"trial {posterior.numbers[reference]}"
    title = _title(posterior, reference)
    if len(slices) < len(names):
        title += f", {len(slices)} of {len(names)} parameters: largest effects"
    return Plot(
        title,
        tuple(_panel(posterior, one, reference, limits, trials, through) for one in slices),
        SLICES,
        (*estimate_labels(_MEDIAN), trials, through),
    )


@dataclass(frozen=True)
class _Slice:
    """The posterior along one parameter.

    Attributes:
        axis: The parameter, evaluated at m positions.
        quantiles: Lower ends, medians and upper ends of the intervals, shape (3, m).
        reference: Index of the trial that the slice goes through.
        trials: Indices of the n trials that have the parameter, shape (n,).
        trials_x: Where they are, shape (n,).
        closeness: How much each of them tells about this slice, from 0 to 1, shape (n,).
    """

    axis: ParameterAxis
    quantiles: FloatArray
    reference: int
    trials: IntArray
    trials_x: FloatArray
    closeness: FloatArray


def _largest_effects(slices: Sequence[_Slice]) -> list[_Slice]:
    """Return the slices to draw if none are asked for: those whose median varies most."""
    effects = np.array([np.ptp(one.quantiles[1]) for one in slices])
    largest = np.argsort(-effects, kind="stable")[:_MAX_SLICES]
    return [slices[column] for column in sorted(largest)]


def _reference(posterior: StudyPosterior, number: int | None) -> int:
    if number is None:
        return posterior.best
    if number not in posterior.numbers:
        rule = "None or the number of a complete trial with a finite value that the model covers"
        raise ValueError(errors.rule_message("at", rule, number))
    return posterior.numbers.index(number)


def _title(posterior: StudyPosterior, reference: int) -> str:
    best = "the best in the latest ranges, " if posterior.n_outside else "the best, "
    which = best if reference == posterior.best else ""
    title = f"Posterior through trial {posterior.numbers[reference]}"
    return f"{title} ({which}{posterior.values[reference]:.4g})"


def _slice(posterior: StudyPosterior, name: str, reference: int, n_points: int) -> _Slice:
    column = posterior.space.names.index(name)
    dimension = posterior.space.dimensions[column]
    trials = np.array([i for i, own in enumerate(posterior.params) if name in own], dtype=np.int64)
    if reference not in trials:
        reference = next(int(i) for i in posterior.order if i in trials)
    x = posterior.X[reference]
    axis = ParameterAxis(name, dimension, coordinates(dimension, float(x[column]), n_points))
    if dimension.has_choices:
        trials_x = axis.drawn(posterior.X[trials, column])
    else:
        trials_x = np.array([posterior.params[i][name] for i in trials], dtype=np.float64)
    X = posterior.slice_at(x, column, axis.positions)
    quantiles = posterior.quantiles(X)
    closeness = posterior.closeness(x, column)[trials]
    return _Slice(axis, quantiles, reference, trials, trials_x, closeness)


def _branch_label(posterior: StudyPosterior, one: _Slice, reference: int) -> str:
    """Return on which branch a slice lies, if the parameter does not exist on all of them."""
    own = posterior.params[one.reference]
    conditions = posterior.space.conditions
    parents = dict.fromkeys(_deciding(conditions, conditions.get(one.axis.name, True)))
    text = ", ".join(f"{name} = {_text(own[name])}" for name in parents if name in own)
    if one.reference != reference:
        through = f"through trial {posterior.numbers[one.reference]}"
        text = f"{text}, {through}" if text else through
    return text


def _deciding(conditions: Mapping[str, Condition], condition: Condition) -> Iterator[str]:
    """Yield the names of the parameters whose values decide on a condition, the first ones first.

    One that only has to exist passes the question on to its own condition.
    """
    if not isinstance(condition, Split):
        return
    yield from _deciding(conditions, conditions.get(condition.parent, True))
    if len(set(condition.cells[:-1])) > 1:
        yield condition.parent
    for cell in condition.cells:
        yield from _deciding(conditions, cell)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else labels([value])[0]


def _panel(
    posterior: StudyPosterior,
    one: _Slice,
    reference: int,
    limits: tuple[float, float],
    trials_label: str,
    label: str,
) -> Panel:
    """Return a slice with the trials and, as a star, the one that it goes through."""
    axis, values = one.axis, posterior.values
    is_reference = one.trials == one.reference
    others = one.trials[~is_reference]
    numbers = np.array(posterior.numbers)[others]
    hover = "trial %{customdata}: %{y:.4g}<extra></extra>"
    trials = Points(
        trials_label,
        one.trials_x[~is_reference],
        values[others],
        TRIALS,
        opacity(one.closeness[~is_reference]),
        hover=hover,
        custom=numbers,
    )
    place = (one.trials_x[is_reference], values[[one.reference]])
    return Panel(
        Axis(axis.name, axis.log, axis.limits if axis.labels else None, axis.labels),
        Axis("Objective value", limits=limits),
        (
            *estimate(axis.values, tuple(one.quantiles), _MEDIAN, each=axis.is_discrete),
            trials,
            Points(label, *place, SMALL_STAR, hover="%{y:.4g}"),
        ),
        _branch_label(posterior, one, reference),
    )


def _limits(posterior: StudyPosterior, slices: Sequence[_Slice]) -> tuple[float, float]:
    """Return the ends of the value axis: all that is drawn, but not how far outliers reach.

    One diverged trial, or an interval that it widened, would leave a flat line of all the others.
    Trials that slices go through are within.
    """
    values, maximize = posterior.values, posterior.sign > 0.0
    drawn = np.concatenate([values, *(one.quantiles.ravel() for one in slices)])
    low, high = float(drawn.min()), float(drawn.max())
    limit = outlier_limit(values, maximize=maximize)
    through = [float(values[one.reference]) for one in slices]
    if maximize:
        low = max(low, min(limit, *through))
    else:
        high = min(high, max(limit, *through))
    return limits_around(low, high)
