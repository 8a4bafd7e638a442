"""Slices of the posterior of a study's objective."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.visualization._data.axes import ParameterAxis, coordinates
from bbo_plugins.visualization._data.objective import INTERVAL, StudyPosterior, posterior_of
from bbo_plugins.visualization._data.panels import Axis, Names, Panel, Plot, Points, estimate
from bbo_plugins.visualization._style import SLICES, SMALL_STAR, TRIALS, opacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

    from bbo_plugins.space.dimension import FloatArray

_NAMES = Names("posterior median", f"{INTERVAL:.0%} interval")
_TRIALS_LABEL = "other trials, fainter off the slice"
DEFAULT_POINTS = 100
_MAX_SLICES = 9
_MARGIN = 0.05
_LARGEST_DRAWN = 1e300  # an axis whose length overflows cannot be drawn
_logger = logging.getLogger(__name__)


@one_blas_thread()
def posterior_plot(
    study: Study, params: Sequence[str] | None, *, at: int | None, n_points: int
) -> Plot:
    """Return the posterior along each parameter, through one trial.

    Args:
        study: The study.
        params: Parameters to draw; None for those of the largest effects.
        at: Number of the trial; None for the best.
        n_points: Number of points along a parameter with many values.

    Returns:
        The plot; without panels, with a warning in the log, if there is nothing to model.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not possible.
    """
    n_points = errors.check_int("n_points", n_points, minimum=2)
    number = None if at is None else errors.check_int("at", at, minimum=0)
    if isinstance(params, str):
        raise TypeError(errors.rule_message("params", "a sequence of names or None", params))
    posterior = posterior_of(study)
    if posterior is None:
        _logger.warning(
            "There is no posterior to plot: the study needs complete trials with finite values "
            "that share a parameter with more than one possible value."
        )
        return Plot("Posterior")
    names = posterior.space.names if params is None else tuple(dict.fromkeys(params))
    if not names or not set(names) <= set(posterior.space.names):
        shared = f"among {list(posterior.space.names)!r}"
        rule = f"None or names of parameters that all complete trials share, {shared}"
        raise ValueError(errors.rule_message("params", rule, params))
    reference = _reference(posterior, number)
    slices = [_slice(posterior, name, reference, n_points) for name in names]
    if params is None:
        slices = _largest_effects(slices)
    values = _drawable(posterior.values)
    limits = _limits(posterior, slices)
    n_beyond = int(((values < limits[0]) | (values > limits[1])).sum())
    trials = f"{_TRIALS_LABEL} ({n_beyond} beyond the axis)" if n_beyond else _TRIALS_LABEL
    through = f"trial {posterior.numbers[reference]}"
    return Plot(
        _title(posterior, reference, len(slices), chosen=params is None),
        tuple(_panel(posterior, one, reference, limits, trials, through) for one in slices),
        SLICES,
        (_NAMES.middle, _NAMES.interval, _NAMES.bars, trials, through),
    )


@dataclass(frozen=True)
class _Slice:
    """The posterior along one parameter.

    Attributes:
        axis: The parameter, evaluated at m positions.
        quantiles: Lower ends, medians and upper ends of the intervals, shape (3, m).
        trials_x: Where the n trials are, shape (n,).
        closeness: How much each of them tells about this slice, from 0 to 1, shape (n,).
    """

    axis: ParameterAxis
    quantiles: FloatArray
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


def _title(posterior: StudyPosterior, reference: int, n_drawn: int, *, chosen: bool) -> str:
    which = "the best, " if reference == posterior.best else ""
    title = f"Posterior through trial {posterior.numbers[reference]}"
    title += f" ({which}{posterior.values[reference]:.4g})"
    n_params = len(posterior.space)
    if chosen and n_drawn < n_params:
        title += f", {n_drawn} of {n_params} parameters: largest effects"
    return title


def _slice(posterior: StudyPosterior, name: str, reference: int, n_points: int) -> _Slice:
    column = posterior.space.names.index(name)
    dimension = posterior.space.dimensions[column]
    x = posterior.X[reference]
    axis = ParameterAxis(name, dimension, coordinates(dimension, float(x[column]), n_points))
    X = np.tile(x, (len(axis.positions), 1))
    X[:, column] = axis.positions
    if dimension.is_categorical:
        trials_x = axis.drawn(posterior.X[:, column])
    else:
        trials_x = np.array([params[name] for params in posterior.params], dtype=np.float64)
    quantiles = _drawable(posterior.quantiles(X))
    return _Slice(axis, quantiles, trials_x, posterior.closeness(x, column))


def _panel(
    posterior: StudyPosterior,
    one: _Slice,
    reference: int,
    limits: tuple[float, float],
    trials_label: str,
    label: str,
) -> Panel:
    """Return a slice with the trials and, as a star, the one that it goes through."""
    axis, values = one.axis, _drawable(posterior.values)
    others = np.delete(np.arange(len(values)), reference)
    numbers = np.array(posterior.numbers)[others]
    hover = "trial %{customdata}: %{y:.4g}<extra></extra>"
    trials = Points(
        trials_label,
        one.trials_x[others],
        values[others],
        TRIALS,
        opacity(one.closeness[others]),
        hover=hover,
        custom=numbers,
    )
    place = (one.trials_x[[reference]], values[[reference]])
    return Panel(
        Axis(axis.name, axis.log, axis.limits if axis.labels else None, axis.labels),
        Axis("Objective value", limits=limits),
        (
            *estimate(axis.values, tuple(one.quantiles), _NAMES, each=axis.is_discrete),
            trials,
            Points(label, *place, SMALL_STAR, hover="%{y:.4g}"),
        ),
    )


def _limits(posterior: StudyPosterior, slices: Sequence[_Slice]) -> tuple[float, float]:
    """Return the ends of the value axis: all that is drawn, but not how far outliers reach.

    One diverged trial, or an interval that it widened, would leave a flat line of all the others.
    """
    values = _drawable(posterior.values)
    drawn = np.concatenate([values, *(one.quantiles.ravel() for one in slices)])
    low, high = float(drawn.min()), float(drawn.max())
    if posterior.sign > 0.0:
        low = max(low, posterior.outlier_limit)
    else:
        high = min(high, posterior.outlier_limit)
    margin = _MARGIN * (high - low)
    return low - margin, high + margin


def _drawable(values: FloatArray) -> FloatArray:
    """Return values, any shape, that leave an axis of finite length."""
    return np.clip(values, -_LARGEST_DRAWN, _LARGEST_DRAWN)
