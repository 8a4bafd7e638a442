"""The models of a bilevel study around its solution.

With one parameter drawn on each level, two surfaces over both, upper and lower objective, and the
line of the lower level's answers. Otherwise what each level sees: the upper objective over the
upper level's parameters, as the lower level answers them; the lower objective over the lower
level's parameters, at the solution; and the answers. Parameters that are not drawn are held at the
solution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from optuna.study import Study

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
from bbo_plugins.visualization._data.axes import ParameterAxis, coordinates, names_in
from bbo_plugins.visualization._data.panels import (
    QUANTILE,
    Axis,
    HeatMap,
    Item,
    Line,
    Panel,
    Plot,
    Points,
    estimate,
    estimate_labels,
)
from bbo_plugins.visualization._style import (
    ANSWERS,
    PAIRS,
    STAR,
    VIOLATED,
    LineStyle,
    closeness_of,
    opacity,
    query_style,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bbo_plugins.optuna.bilevel.posterior import BilevelPosterior
    from bbo_plugins.space.dimension import FloatArray

_MEAN = "posterior mean"
_ANSWER_LABEL, _SOLUTION_LABEL = "answers of the lower level", "solution"
_VIOLATED_LABEL = "violates a constraint"
_MAX_DRAWN = 2  # parameters of one level
_N_LINE, _N_PLANE, _N_ANSWERED_PLANE = 101, 61, 25  # points along an axis
_N_CROSSES = 21  # crosses along an axis, at most
_FLAT = 1e-9  # of the largest value; smaller differences are rounding errors
_JUMP = 0.1  # of an axis; so far apart, two neighboring answers are not joined


@one_blas_thread()
def plot_bilevel(study: Study, sampler: BILBOSampler, params: Sequence[str] | None = None) -> Plot:
    """Plot what the models of a bilevel study know of both levels, around the solution.

    With one parameter drawn on each level: the posterior means of both objectives over the two, and
    the line of the lower level's answers, its best ones by the posterior means. Otherwise what each
    level sees: the upper objective over the upper level's parameters where they are answered, the
    lower objective over the lower level's parameters at the solution, and each answer over the
    upper level's parameters. A curve comes with its central 95% interval. Parameters that are not
    drawn are held at the solution, lower ones where an answer is shown excepted.

    Each panel has the observations of its level's functions; the further off the panel one is, by
    the function's own model, the fainter it is. Crosses are where a constraint of the level is
    violated, by its posterior mean. Values are in the functions' own units.

    The models are fitted once, to all trials, as :meth:`BILBOSampler.solution` does.

    Args:
        study: A study of ``sampler``.
        sampler: The sampler.
        params: Parameters to draw, one or two of each level; None for those in which the levels'
            objectives vary most.

    Returns:
        Plotly's figure; of matplotlib, an array (n,) with the axes of each panel.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no solution yet, the study does not fit the sampler, or ``params`` is
            not possible.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BILBOSampler
            from bbo_plugins.visualization import plot_bilevel

            sampler = BILBOSampler(["x"], ["z"], seed=0)


            def objective(trial):
                query = trial.suggest_categorical("query", sampler.functions)
                x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
                return (x - 0.8) ** 2 + z**2 if query == "upper" else (z - x) ** 2


            study = optuna.create_study(sampler=sampler)
            study.optimize(objective, n_trials=12)
            figure = plot_bilevel(study, sampler)
            figure.write_html("bilevel.html")
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    errors.check_instance("sampler", sampler, BILBOSampler, "the study's BILBOSampler")
    wanted = names_in(params)
    view = _View(sampler.posterior(study), wanted)
    queries = map(_queries_label, view.posterior.roles.functions)
    legend = (*estimate_labels(_MEAN), _ANSWER_LABEL, _SOLUTION_LABEL, *queries, _VIOLATED_LABEL)
    return Plot(view.title(), tuple(view.panels()), PAIRS, legend)


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
        levels = tuple(
            tuple(name for name in level if name in self.space.names)
            for level in (self.roles.upper_params, self.roles.lower_params)
        )
        if params is None:
            models = (self.posterior.model.upper, self.posterior.model.lower)
            chosen = []
            for names, model in zip(levels, models, strict=True):
                columns = np.array([self.space.names.index(name) for name in names])
                scales = model.process.hyperparameters.length_scales[columns]
                shortest = np.argsort(scales, kind="stable")[:_MAX_DRAWN]
                chosen.append(sorted(columns[shortest].tolist()))
            return chosen[0], chosen[1]
        by_level = [[name for name in params if name in names] for names in levels]
        known = set(params) <= set(self.space.names)
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
        """Return both objectives over both parameters, with the line of the answers."""
        columns = (*self.upper, *self.lower)
        axes = self._axes(columns, _N_LINE)
        mesh = self._mesh(columns, axes)
        along = np.tile(self.point, (len(axes[0].positions), 1))
        along[:, columns[0]] = axes[0].positions
        answered = self.posterior.answers(along[:, : self.n_upper])
        answer = _answer(axes[0], axes[1], answered[:, columns[1]])
        constraints = (self.roles.upper_constraints, self.roles.lower_constraints)
        for name, of_level in zip((self.roles.upper, self.roles.lower), constraints, strict=True):
            surface = _surface(axes, self.posterior.mean(name, mesh), _mean_of(name))
            yield _panel(
                f"{name}{self._held(columns)}",
                axes,
                (
                    surface,
                    *answer,
                    *self._violated(of_level, axes, mesh),
                    *(self._queries(function, columns, axes) for function in (name, *of_level)),
                    _star(*self._place(columns, axes)),
                ),
            )

    def _objective_panel(
        self, name: str, columns: Sequence[int], axes: tuple[ParameterAxis, ...], points: FloatArray
    ) -> Panel:
        """Return what one level sees of its objective at a panel's points (m, d)."""
        roles = self.roles
        of_upper = name == roles.upper
        of_level = roles.upper_constraints if of_upper else roles.lower_constraints
        # An answer that satisfies no lower-level constraint is none.
        constraints = roles.lower_constraints + (roles.upper_constraints if of_upper else ())
        values = self.posterior.mean(name, points)
        where = "with the lower level's answers" if of_upper else "at the solution"
        title = f"{name}, {where}{self._held(columns, level=True)}"
        items: tuple[Item, ...]
        if len(axes) > 1:
            items = (
                _surface(axes, values, _mean_of(name)),
                *self._violated(constraints, axes, points),
                *(self._queries(function, columns, axes) for function in (name, *of_level)),
                _star(*self._place(columns, axes)),
            )
            return _panel(title, axes, items)
        half = QUANTILE * self.posterior.deviation(name, points)
        interval = (values - half, values, values + half)
        value = float(self.posterior.mean(name, self.point[None])[0])
        items = (
            *estimate(axes[0].values, interval, _MEAN, each=axes[0].is_discrete),
            *self._violated(constraints, axes, points, values),
            self._queries(name, columns, axes),
            _star(self._place(columns, axes)[0], value),
        )
        return _panel(title, axes, items, value_title=_mean_of(name))

    def _answer_panel(
        self, column: int, axes: tuple[ParameterAxis, ...], answered: FloatArray
    ) -> Panel:
        """Return the lower level's answers in one parameter, over the upper level's."""
        (axis,) = self._axes([column], _N_LINE)
        title = f"answer: {axis.name}{self._held(self.upper, level=True)}"
        place = self._place(self.upper, axes)
        if len(axes) == 1:
            star = _star(place[0], float(axis.drawn(self.point[[column]])[0]))
            items = (*_answer(axes[0], axis, answered[:, column]), star)
            return _panel(title, (*axes, axis), items)
        values, (low, high) = axis.drawn(answered[:, column]), axis.values[[0, -1]].tolist()
        if axis.log:
            values, low, high = np.log10(values), math.log10(low), math.log10(high)
        surface = HeatMap(
            f"log10({axis.name})" if axis.log else axis.name,
            axes[0].values,
            axes[1].values,
            values.reshape(_shape(axes)),
            labels=axis.labels,
            limits=(low, high),
        )
        return _panel(title, axes, (surface, _star(*place)))

    def _held(self, columns: Sequence[int], *, level: bool = False) -> str:
        """Return what a title says of parameters that are not drawn."""
        n = len(self.space)
        if level:
            n = self.n_upper if columns[0] < self.n_upper else n - self.n_upper
        return " (slice)" if n > len(columns) else ""

    def _place(self, columns: Sequence[int], axes: Sequence[ParameterAxis]) -> tuple[float, float]:
        """Return the solution's place; of a curve the first number only is meant."""
        drawn = [
            float(axis.drawn(self.point[[column]])[0])
            for column, axis in zip(columns, axes, strict=True)
        ]
        return drawn[0], drawn[-1]

    def _queries(self, name: str, columns: Sequence[int], axes: Sequence[ParameterAxis]) -> Points:
        """Return the observations of a function, fainter off the panel."""
        X, values = self.posterior.observations(name)
        on_panel = np.tile(self.point, (len(X), 1))
        on_panel[:, columns] = X[:, columns]
        if columns[-1] < self.n_upper and len(X):
            on_panel = self.posterior.answers(on_panel[:, : self.n_upper])
        drawn = [axis.drawn(X[:, column]) for column, axis in zip(columns, axes, strict=True)]
        return Points(
            _queries_label(name),
            drawn[0],
            drawn[1] if len(drawn) > 1 else values,
            query_style(self.roles.functions.index(name)),
            opacity(closeness_of(self.posterior.prior_correlation(name, X, on_panel))),
            clip=False,
            hover=f"{name} = %{{customdata:.4g}}<extra></extra>",
            custom=values,
        )

    def _violated(
        self,
        constraints: Sequence[str],
        axes: Sequence[ParameterAxis],
        points: FloatArray,
        heights: FloatArray | None = None,
    ) -> Iterator[Points]:
        """Return crosses at some of a panel's points (m, d) that violate a constraint, if any do.

        Args:
            constraints: Names of the constraints.
            axes: The panel's axes.
            points: The points.
            heights: The curve's values at them, shape (m,).
        """
        if not constraints:
            return
        means = [self.posterior.mean(name, points) for name in constraints]
        violated = (np.max(means, axis=0) > 0.0).reshape(_shape(axes))
        thinned = np.zeros_like(violated)
        some = tuple(_thinned(axis) for axis in reversed(axes))
        thinned[some] = violated[some]
        if not thinned.any():
            return
        if heights is not None:
            x, y = axes[0].values[thinned], heights[thinned]
        else:
            rows, columns = np.nonzero(thinned)
            x, y = axes[0].values[columns], axes[1].values[rows]
        yield Points(_VIOLATED_LABEL, x, y, VIOLATED, hover="")


def _queries_label(function: str) -> str:
    return f"queries of {function}"


def _mean_of(name: str) -> str:
    return f"{name} ({_MEAN})"


def _panel(
    title: str, axes: Sequence[ParameterAxis], items: tuple[Item, ...], *, value_title: str = ""
) -> Panel:
    """Return a panel over one or two parameters, over one of a curve with its values' title."""
    drawn = [Axis(axis.name, axis.log, axis.limits, axis.labels) for axis in axes]
    if len(drawn) == 1:
        return Panel(drawn[0], Axis(value_title), items, title)
    return Panel(drawn[0], drawn[1], items, title)


def _star(x: float, y: float) -> Points:
    return Points(_SOLUTION_LABEL, (x,), (y,), STAR, clip=False)


def _surface(axes: Sequence[ParameterAxis], values: FloatArray, title: str) -> HeatMap:
    """Return values (m,) over two axes, with contours unless they are flat or an axis discrete."""
    low, high = float(values.min()), float(values.max())
    flat = high - low <= _FLAT * max(abs(low), abs(high))
    contours = not flat and not any(axis.is_discrete for axis in axes)
    x, y = (axis.values for axis in axes)
    return HeatMap(title, x, y, values.reshape(_shape(axes)), contours=contours)


def _shape(axes: Sequence[ParameterAxis]) -> tuple[int, ...]:
    return tuple(len(axis.positions) for axis in reversed(axes))


def _thinned(axis: ParameterAxis) -> slice:
    n = len(axis.positions)
    return (
        slice(None) if axis.is_discrete else slice(n // (2 * _N_CROSSES), None, -(-n // _N_CROSSES))
    )


def _answer(horizontal: ParameterAxis, vertical: ParameterAxis, u: FloatArray) -> tuple[Item, ...]:
    """Return the answers ``u`` (m,) as a line, broken by NaN where they jump, or one by one."""
    places = np.stack([horizontal.values, vertical.drawn(u)])
    if vertical.is_discrete or horizontal.is_discrete:
        return (Points(_ANSWER_LABEL, places[0], places[1], ANSWERS),)
    jumps = np.flatnonzero(np.abs(np.diff(u)) > _JUMP) + 1
    x, y = np.insert(places, jumps, np.nan, axis=1)
    halo = LineStyle("white", width=4.5)
    return (Line("", x, y, halo, hover=""), Line(_ANSWER_LABEL, x, y, LineStyle("black")))
