"""The models of a bilevel study around its solution, as records to be drawn.

With one parameter drawn on each level, two surfaces over both, upper and lower objective, and the
line of the lower level's answers. Otherwise what each level sees: the upper objective over the
upper level's parameters, as the lower level answers them; the lower objective over the lower
level's parameters, at the solution; and the answers. Parameters that are not drawn are held at the
solution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from optuna.study import Study
from scipy.special import ndtri

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
from bbo_plugins.visualization._data.axes import ParameterAxis, coordinates
from bbo_plugins.visualization._data.objective import INTERVAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bbo_plugins.optuna.bilevel.posterior import BilevelPosterior
    from bbo_plugins.space.dimension import FloatArray

MEAN_LABEL = "posterior mean"


INTERVAL_LABEL = f"{INTERVAL:.0%} interval"


BARS_LABEL = f"{MEAN_LABEL} and {INTERVAL_LABEL}"


ANSWER_LABEL = "answers of the lower level"


SOLUTION_LABEL = "solution"


VIOLATED_LABEL = "violates a constraint"


_QUANTILE = float(ndtri(0.5 + 0.5 * INTERVAL))


_MAX_DRAWN = 2  # parameters of one level


_N_LINE, _N_PLANE, _N_ANSWERED_PLANE = 101, 61, 25  # points along an axis


_N_CROSSES = 21  # crosses along an axis, at most


_FLAT = 1e-9  # of the largest value; smaller differences are rounding errors


_JUMP = 0.1  # of an axis; so far apart, two neighboring answers are not joined


@dataclass(frozen=True)
class Queries:
    """Observations of one function in a panel.

    Attributes:
        function: The function's name.
        x: Where they are on the horizontal axis, shape (n,).
        y: Where they are on the vertical axis, shape (n,).
        values: The observed values, shape (n,).
        closeness: How much each of them tells about the panel, from 0 to 1, shape (n,).
    """

    function: str
    x: FloatArray
    y: FloatArray
    values: FloatArray
    closeness: FloatArray


@dataclass(frozen=True)
class Panel:
    """A curve over one parameter, a surface over two, or the lower level's answers alone.

    Attributes:
        title: The panel's title.
        axes: The parameters, the horizontal one first.
        solution: Place of the solution.
        values: The curve (m,) or the surface (vertical, horizontal); None for answers alone.
        value_title: What is the curve or surface.
        value_labels: What the values 0, 1, 2, ... stand for; empty if they are numbers.
        value_range: Ends of the color scale; None for those of the values.
        deviation: Posterior standard deviation of a curve, shape (m,).
        answer: The lower level's answers along the horizontal axis, where the vertical one is the
            lower level's: (2, m) places with NaN where the line breaks.
        queries: Observations by function.
        violated: Places at which a constraint is violated by its posterior mean, shape (2, k).
    """

    title: str
    axes: tuple[ParameterAxis, ...]
    solution: tuple[float, float]
    values: FloatArray | None = None
    value_title: str = ""
    value_labels: tuple[str, ...] = ()
    value_range: tuple[float, float] | None = None
    deviation: FloatArray | None = None
    answer: FloatArray | None = None
    queries: tuple[Queries, ...] = ()
    violated: FloatArray | None = None

    @property
    def is_smooth(self) -> bool:
        """Whether the surface has contours; else it is drawn value by value."""
        if self.values is None or self.value_range is not None:
            return False
        low, high = float(self.values.min()), float(self.values.max())
        flat = high - low <= _FLAT * max(abs(low), abs(high))
        return not flat and not any(axis.is_discrete for axis in self.axes)

    def interval(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central 95% intervals around a curve's values (m,), each (m,)."""
        half = _QUANTILE * (0.0 if self.deviation is None else self.deviation)
        return values - half, values + half


@dataclass(frozen=True)
class BilevelInfo:
    """What the plot shows.

    Attributes:
        title: The plot's title.
        panels: The panels, two to four.
        functions: Names of the functions whose observations are drawn, upper objective first.
    """

    title: str
    panels: tuple[Panel, ...]
    functions: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """All that a legend may name, in order."""
        return (
            MEAN_LABEL,
            INTERVAL_LABEL,
            BARS_LABEL,
            ANSWER_LABEL,
            SOLUTION_LABEL,
            *map(queries_label, self.functions),
            VIOLATED_LABEL,
        )


def queries_label(function: str) -> str:
    """Return what the observations of a function are called."""
    return f"queries of {function}"


@one_blas_thread()
def bilevel_info(
    study: Study, sampler: BILBOSampler, params: Sequence[str] | None = None
) -> BilevelInfo:
    """Compute the panels; the arguments are those of ``plot_bilevel``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no solution yet, the study is none of the sampler's, or ``params`` is
            not possible.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    errors.check_instance("sampler", sampler, BILBOSampler, "the study's BILBOSampler")
    if isinstance(params, str):
        raise TypeError(errors.rule_message("params", "a sequence of names or None", params))
    view = _View(sampler.posterior(study), params)
    return BilevelInfo(view.title(), tuple(view.panels()), view.posterior.roles.functions)


class _View:
    """A posterior and the parameters that are drawn of it."""

    def __init__(self, posterior: BilevelPosterior, params: Sequence[str] | None) -> None:
        self.posterior = posterior
        self.roles = posterior.roles
        self.space = posterior.trials.problem.space
        self.n_upper = posterior.trials.problem.n_upper
        self.point = posterior.pair.point
        self.upper, self.lower = self._drawn(params)

    def _drawn(self, params: Sequence[str] | None) -> tuple[list[int], list[int]]:
        """Return the columns that are drawn of each level."""
        levels = (self.roles.upper_params, self.roles.lower_params)
        if params is None:
            models = (self.posterior.model.upper, self.posterior.model.lower)
            chosen = []
            for names, model in zip(levels, models, strict=True):
                columns = np.array([self.space.names.index(name) for name in names])
                scales = model.process.hyperparameters.length_scales[columns]
                shortest = np.argsort(scales, kind="stable")[:_MAX_DRAWN]
                chosen.append(sorted(columns[shortest].tolist()))
            return chosen[0], chosen[1]
        by_level = [[name for name in dict.fromkeys(params) if name in names] for names in levels]
        known = set(params) <= set(self.roles.params)
        if not known or not all(1 <= len(names) <= _MAX_DRAWN for names in by_level):
            rule = (
                f"None or names of one or two of the upper level's parameters {levels[0]} and of "
                f"one or two of the lower level's {levels[1]}"
            )
            raise ValueError(errors.rule_message("params", rule, params))
        upper, lower = ([self.space.names.index(name) for name in names] for names in by_level)
        return upper, lower

    def title(self) -> str:
        """Return the plot's title."""
        roles, point = self.roles, self.point[None]
        values = ", ".join(
            f"{name} = {self.posterior.mean(name, point)[0]:.4g}"
            for name in (roles.upper, roles.lower)
        )
        doubt = "" if self.posterior.pair.tier == 0 else " (not feasible)"
        drawn = len(self.upper) + len(self.lower)
        slices = "; slices through it" if drawn < len(self.space) else ""
        return f"Solution{doubt}: {values}{slices}"

    def panels(self) -> Iterator[Panel]:
        """Return the panels."""
        if len(self.upper) == len(self.lower) == 1:
            yield from self._joint_panels()
            return
        n = _N_LINE if len(self.upper) == 1 else _N_ANSWERED_PLANE
        axes = self._axes(self.upper, n)
        answered = self.posterior.answers(self._mesh(self.upper, axes)[:, : self.n_upper])
        yield self._objective_panel(self.roles.upper, self.upper, axes, answered)
        lower_axes = self._axes(self.lower, _N_LINE if len(self.lower) == 1 else _N_PLANE)
        mesh = self._mesh(self.lower, lower_axes)
        yield self._objective_panel(self.roles.lower, self.lower, lower_axes, mesh)
        for column in self.lower:
            yield self._answer_panel(column, axes, answered)

    def _axes(self, columns: Sequence[int], n: int) -> tuple[ParameterAxis, ...]:
        return tuple(
            ParameterAxis(
                self.space.names[column],
                self.space.dimensions[column],
                coordinates(self.space.dimensions[column], float(self.point[column]), n),
            )
            for column in columns
        )

    def _mesh(self, columns: Sequence[int], axes: Sequence[ParameterAxis]) -> FloatArray:
        """Return the points of a panel, the horizontal axis varying fastest, (m, d)."""
        grids = np.meshgrid(*(axis.positions for axis in axes))
        points = np.tile(self.point, (grids[0].size, 1))
        for column, grid in zip(columns, grids, strict=True):
            points[:, column] = grid.ravel()
        return points

    def _joint_panels(self) -> Iterator[Panel]:
        columns = (*self.upper, *self.lower)
        axes = self._axes(columns, _N_LINE)
        mesh = self._mesh(columns, axes)
        along = np.tile(self.point, (len(axes[0].positions), 1))
        along[:, columns[0]] = axes[0].positions
        answered = self.posterior.answers(along[:, : self.n_upper])
        answer = _line(axes[0], axes[1], answered[:, columns[1]])
        constraints = (self.roles.upper_constraints, self.roles.lower_constraints)
        for name, of_level in zip((self.roles.upper, self.roles.lower), constraints, strict=True):
            yield Panel(
                title=f"{name}{self._held(columns)}",
                value_title=f"{name} ({MEAN_LABEL})",
                axes=axes,
                values=self.posterior.mean(name, mesh).reshape(_shape(axes)),
                answer=answer,
                queries=tuple(
                    self._queries(function, columns, axes) for function in (name, *of_level)
                ),
                violated=self._violated(of_level, axes, mesh),
                solution=self._place(columns, axes),
            )

    def _objective_panel(
        self, name: str, columns: Sequence[int], axes: tuple[ParameterAxis, ...], points: FloatArray
    ) -> Panel:
        """Return what one level sees of its objective at a panel's points (m, d)."""
        roles = self.roles
        of_upper = name == roles.upper
        # An answer that satisfies no lower-level constraint is none.
        constraints = roles.lower_constraints + (roles.upper_constraints if of_upper else ())
        shown = (name, *(roles.upper_constraints if of_upper else roles.lower_constraints))
        values = self.posterior.mean(name, points)
        if len(axes) == 1:
            shown = (name,)
            place = (self._place(columns, axes)[0], self._value(name))
        else:
            place = self._place(columns, axes)
        where = "with the lower level's answers" if of_upper else "at the solution"
        return Panel(
            title=f"{name}, {where}{self._held(columns, level=True)}",
            value_title=f"{name} ({MEAN_LABEL})",
            axes=axes,
            values=values.reshape(_shape(axes)),
            deviation=self.posterior.deviation(name, points) if len(axes) == 1 else None,
            queries=tuple(self._queries(function, columns, axes) for function in shown),
            violated=self._violated(constraints, axes, points, values if len(axes) == 1 else None),
            solution=place,
        )

    def _answer_panel(
        self, column: int, axes: tuple[ParameterAxis, ...], answered: FloatArray
    ) -> Panel:
        """Return the lower level's answers in one parameter, over the upper level's."""
        (axis,) = self._axes([column], _N_LINE)
        title = f"answer: {axis.name}{self._held(self.upper, level=True)}"
        place = self._place(self.upper, axes)
        if len(axes) == 1:
            return Panel(
                title=title,
                axes=(*axes, axis),
                solution=(place[0], float(axis.drawn(self.point[[column]])[0])),
                answer=_line(axes[0], axis, answered[:, column]),
            )
        values, (low, high) = axis.drawn(answered[:, column]), axis.values[[0, -1]].tolist()
        if axis.log:
            values, low, high = np.log10(values), math.log10(low), math.log10(high)
        return Panel(
            title=title,
            axes=axes,
            solution=place,
            values=values.reshape(_shape(axes)),
            value_title=f"log10({axis.name})" if axis.log else axis.name,
            value_labels=axis.labels,
            value_range=(low, high),
        )

    def _held(self, columns: Sequence[int], *, level: bool = False) -> str:
        """Return what a title says of parameters that are not drawn."""
        n = len(self.space)
        if level:
            n = self.n_upper if columns[0] < self.n_upper else n - self.n_upper
        return " (slice)" if n > len(columns) else ""

    def _value(self, name: str) -> float:
        return float(self.posterior.mean(name, self.point[None])[0])

    def _place(self, columns: Sequence[int], axes: Sequence[ParameterAxis]) -> tuple[float, float]:
        """Return the solution's place; of a curve the first number only is meant."""
        drawn = [
            float(axis.drawn(self.point[[column]])[0])
            for column, axis in zip(columns, axes, strict=True)
        ]
        return drawn[0], drawn[-1]

    def _queries(self, name: str, columns: Sequence[int], axes: Sequence[ParameterAxis]) -> Queries:
        X, values = self.posterior.observations(name)
        on_panel = np.tile(self.point, (len(X), 1))
        on_panel[:, columns] = X[:, columns]
        if columns[-1] < self.n_upper and len(X):
            on_panel = self.posterior.answers(on_panel[:, : self.n_upper])
        drawn = [axis.drawn(X[:, column]) for column, axis in zip(columns, axes, strict=True)]
        return Queries(
            function=name,
            x=drawn[0],
            y=drawn[1] if len(drawn) > 1 else values,
            values=values,
            closeness=self.posterior.closeness(name, X, on_panel),
        )

    def _violated(
        self,
        constraints: Sequence[str],
        axes: Sequence[ParameterAxis],
        points: FloatArray,
        heights: FloatArray | None = None,
    ) -> FloatArray | None:
        """Return the places of some of a panel's points (m, d) that violate a constraint.

        Args:
            constraints: Names of the constraints.
            axes: The panel's axes.
            points: The points.
            heights: Where a curve is at them, shape (m,).
        """
        if not constraints:
            return None
        means = [self.posterior.mean(name, points) for name in constraints]
        violated = (np.max(means, axis=0) > 0.0).reshape(_shape(axes))
        thinned = np.zeros_like(violated)
        some = tuple(_thinned(axis) for axis in reversed(axes))
        thinned[some] = violated[some]
        if not thinned.any():
            return None
        if heights is not None:
            return np.stack([axes[0].values, heights])[:, thinned]
        y, x = np.nonzero(thinned)
        return np.stack([axes[0].values[x], axes[1].values[y]])


def _shape(axes: Sequence[ParameterAxis]) -> tuple[int, ...]:
    return tuple(len(axis.positions) for axis in reversed(axes))


def _thinned(axis: ParameterAxis) -> slice:
    n = len(axis.positions)
    return (
        slice(None) if axis.is_discrete else slice(n // (2 * _N_CROSSES), None, -(-n // _N_CROSSES))
    )


def _line(horizontal: ParameterAxis, vertical: ParameterAxis, u: FloatArray) -> FloatArray:
    """Return the places (2, k) of answers ``u`` (m,), broken by NaN where they jump."""
    places = np.stack([horizontal.values, vertical.drawn(u)])
    if vertical.is_discrete or horizontal.is_discrete:
        return places  # which are drawn one by one
    jumps = np.flatnonzero(np.abs(np.diff(u)) > _JUMP) + 1
    return np.insert(places, jumps, np.nan, axis=1)
