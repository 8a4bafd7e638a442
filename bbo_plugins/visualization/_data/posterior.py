"""Slices of the posterior of a study's objective, as records to be drawn."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.visualization._data.axes import coordinates, is_few, labels
from bbo_plugins.visualization._data.objective import INTERVAL, StudyPosterior, posterior_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from optuna.study import Study

    from bbo_plugins.space.dimension import FloatArray

EMPTY_TITLE = "Posterior"


Y_TITLE = "Objective value"


MEDIAN_LABEL = "posterior median"


INTERVAL_LABEL = f"{INTERVAL:.0%} interval"


BARS_LABEL = f"{MEDIAN_LABEL} and {INTERVAL_LABEL}"


TRIALS_LABEL = "other trials, fainter off the slice"


DEFAULT_POINTS = 100


_MAX_SLICES = 9


_MARGIN = 0.05


_LARGEST_DRAWN = 1e300  # an axis whose length overflows cannot be drawn


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Slice:
    """The posterior along one parameter, the others held at the reference trial's values.

    Attributes:
        name: The parameter.
        kind: "curve"; "bars" for a numeric parameter of few values; "choices" for a categorical
            one, whose choices are drawn at 0, 1, 2, ...
        log: Whether the parameter has a log scale.
        labels: The choices as text; empty unless ``kind`` is "choices".
        x: Where the posterior is evaluated, ascending, shape (m,).
        low: Lower ends of the intervals, shape (m,).
        median: Posterior medians, shape (m,).
        high: Upper ends of the intervals, shape (m,).
        trials_x: Where the n trials of the info are, shape (n,).
        closeness: How much each of them tells about this slice, from 0 to 1, shape (n,).
    """

    name: str
    kind: Literal["curve", "bars", "choices"]
    log: bool
    labels: tuple[str, ...]
    x: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    trials_x: FloatArray
    closeness: FloatArray


@dataclass(frozen=True)
class PosteriorInfo:
    """What the plot shows.

    Attributes:
        title: The plot's title.
        slices: One per parameter; empty if there is no model.
        numbers: Numbers of the n complete trials, ascending, shape (n,).
        values: Their values, shape (n,).
        reference: Index of the trial that the slices go through.
        value_range: Ends of the value axis.
    """

    title: str
    slices: tuple[Slice, ...]
    numbers: NDArray[np.int64]
    values: FloatArray
    reference: int
    value_range: tuple[float, float]

    @property
    def others(self) -> NDArray[np.int64]:
        """Indices of the trials that are not the reference."""
        return np.delete(np.arange(len(self.numbers)), self.reference)

    @property
    def trials_label(self) -> str:
        """What the other trials are called, with how many of them the value axis leaves out."""
        low, high = self.value_range
        n_beyond = int(((self.values < low) | (self.values > high)).sum())
        return TRIALS_LABEL if n_beyond == 0 else f"{TRIALS_LABEL} ({n_beyond} beyond the axis)"

    @property
    def reference_label(self) -> str:
        """What the reference trial is called."""
        return f"trial {self.numbers[self.reference]}"


@one_blas_thread()
def posterior_info(
    study: Study, params: Sequence[str] | None, *, at: int | None, n_points: int
) -> PosteriorInfo | None:
    """Compute the slices; the arguments are those of ``plot_posterior``.

    Returns:
        None, after a warning in the log, if there is nothing to model.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not possible.
    """
    n_points = errors.check_int("n_points", n_points, minimum=2)
    number = None if at is None else errors.check_int("at", at, minimum=0)
    if isinstance(params, str):
        raise TypeError(errors.rule_message("params", "a sequence of names or None", params))
    asked = None if params is None else list(dict.fromkeys(params))
    posterior = posterior_of(study)
    if posterior is None:
        _logger.warning(
            "There is no posterior to plot: the study needs complete trials with finite values "
            "that share a parameter with more than one possible value."
        )
        return None
    names = posterior.space.names if asked is None else asked
    if not names or not set(names) <= set(posterior.space.names):
        shared = f"among {list(posterior.space.names)!r}"
        rule = f"None or names of parameters that all complete trials share, {shared}"
        raise ValueError(errors.rule_message("params", rule, params))
    reference = _reference(posterior, number)
    slices = tuple(_slice(posterior, name, reference, n_points) for name in names)
    if asked is None:
        slices = _largest_effects(slices)
    return PosteriorInfo(
        title=_title(posterior, reference, len(slices), chosen=asked is None),
        slices=slices,
        numbers=np.array(posterior.numbers),
        values=_drawable(posterior.values),
        reference=reference,
        value_range=_value_range(posterior, slices),
    )


def _largest_effects(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return the slices to draw if none are asked for: those whose median varies most."""
    effects = np.array([np.ptp(one.median) for one in slices])
    largest = np.argsort(-effects, kind="stable")[:_MAX_SLICES]
    return tuple(slices[column] for column in sorted(largest))


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


def _slice(posterior: StudyPosterior, name: str, reference: int, n_points: int) -> Slice:
    column = posterior.space.names.index(name)
    dimension = posterior.space.dimensions[column]
    x = posterior.X[reference]
    positions = coordinates(dimension, float(x[column]), n_points)
    X = np.tile(x, (len(positions), 1))
    X[:, column] = positions
    low, median, high = _drawable(posterior.quantiles(X))
    if dimension.is_categorical:
        kind: Literal["curve", "bars", "choices"] = "choices"
        drawn_at = np.arange(len(positions), dtype=np.float64)
        trials_x = dimension.level_of(posterior.X[:, column]).astype(np.float64)
    else:
        kind = "bars" if is_few(dimension) else "curve"
        drawn_at = np.array([dimension.decode(u) for u in positions], dtype=np.float64)
        trials_x = np.array([params[name] for params in posterior.params], dtype=np.float64)
    return Slice(
        name=name,
        kind=kind,
        log=dimension.log,
        labels=labels(dimension.choices),
        x=drawn_at,
        low=low,
        median=median,
        high=high,
        trials_x=trials_x,
        closeness=posterior.closeness(x, column),
    )


def _value_range(posterior: StudyPosterior, slices: Sequence[Slice]) -> tuple[float, float]:
    """Return the ends of the value axis: all that is drawn, but not how far outliers reach.

    One diverged trial, or an interval that it widened, would leave a flat line of all the others.
    """
    values = _drawable(posterior.values)
    drawn = np.concatenate([values, *(part for s in slices for part in (s.low, s.high))])
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
