"""The plot of both levels: its numbers and its panels."""

from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial

from bbo_plugins.optuna import BILBOSampler, UHEBOSampler
from bbo_plugins.visualization._data.bilevel import plot_bilevel
from bbo_plugins.visualization._data.panels import HeatMap
from tests.visualization.parts import heat_map, labels, part, xy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.visualization._data.panels import Panel, Plot

ANSWER, SOLUTION = "answers of the lower level", "solution"
VIOLATED = "violates a constraint"
UNIT = FloatDistribution(0.0, 1.0)


def _study(
    sampler: BILBOSampler,
    space: Mapping[str, BaseDistribution],
    functions: Mapping[str, Callable[..., float]],
    n: int,
) -> Study:
    """Return a study of ``n`` random queries of each function."""
    study = optuna.create_study(sampler=sampler)
    rng = np.random.default_rng(0)
    query: BaseDistribution = CategoricalDistribution(sampler.functions)
    for index in range(n * len(sampler.functions)):
        name = sampler.functions[index % len(sampler.functions)]
        params = {key: _draw(distribution, rng) for key, distribution in space.items()}
        study.add_trial(
            create_trial(
                params={"query": name, **params},
                distributions={"query": query, **space},
                value=functions[name](**params),
            )
        )
    return study


def _draw(distribution: BaseDistribution, rng: np.random.Generator) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(rng.integers(len(distribution.choices)))]
    if isinstance(distribution, IntDistribution):
        return int(rng.integers(distribution.low, distribution.high + 1))
    assert isinstance(distribution, FloatDistribution)
    if distribution.single():
        return distribution.low
    if distribution.log:
        return float(np.exp(rng.uniform(math.log(distribution.low), math.log(distribution.high))))
    return float(rng.uniform(distribution.low, distribution.high))


@functools.cache
def _joint() -> tuple[Study, BILBOSampler]:
    """Return a study with one parameter on each level, solved by x = z = 0.6; not to be changed."""
    sampler = BILBOSampler(["x"], ["z"], upper_constraints=["C"], lower_constraints=["c"], seed=0)
    functions: dict[str, Callable[..., float]] = {
        "upper": lambda x, z: (x - 0.8) ** 2 + (z - 0.2) ** 2,
        "lower": lambda x, z: (z - x) ** 2,
        "C": lambda x, z: 0.6 - x + 0.0 * z,
        "c": lambda x, z: z - 0.9 + 0.0 * x,
    }
    return _study(sampler, {"x": UNIT, "z": UNIT}, functions, 16), sampler


LOG = FloatDistribution(1e-4, 1.0, log=True)
CHOICES = CategoricalDistribution(["a", "b", None])


@functools.cache
def _levels(upper: int, lower: int) -> tuple[Study, BILBOSampler]:
    """Return a study with so many parameters on each level; not to be changed."""
    kinds: tuple[BaseDistribution, ...] = (LOG, UNIT, IntDistribution(1, 4))
    answers: tuple[BaseDistribution, ...] = (UNIT, CHOICES, LOG)
    space = {f"x{i}": kinds[i] for i in range(upper)} | {f"z{i}": answers[i] for i in range(lower)}

    def objective(sign: float, **params: Any) -> float:
        x = 1.0 + math.log10(params["x0"]) / 4.0 - 0.1 * (params.get("x1", 0.0) - 0.4) ** 2
        wrong = 0.3 * (params.get("z1", "b") != ("b" if x < 0.5 else "a"))
        value = (params["z0"] - x) ** 2 + wrong + 0.05 * params.get("x2", 0)
        return float(value + sign * (x - 0.7) ** 2)

    sampler = BILBOSampler(
        [name for name in space if name[0] == "x"],
        [name for name in space if name[0] == "z"],
        upper_direction="maximize",
        lower_direction="maximize",
        seed=0,
    )
    functions = {
        "upper": lambda **params: -objective(3.0, **params),
        "lower": lambda **params: -objective(0.0, **params),
    }
    study = _study(sampler, space, functions, 18)
    maximized = optuna.create_study(direction="maximize", sampler=sampler)
    maximized.add_trials(study.trials)
    return maximized, sampler


# --------------------------------------------------------------------- one parameter on each level


def test_surfaces_are_the_posterior_means() -> None:
    """Of both objectives over both parameters, in the objectives' own units and directions."""
    study, sampler = _joint()
    plot = plot_bilevel(study, sampler)
    posterior = sampler.posterior(study)
    assert [panel.title for panel in plot.panels] == ["upper", "lower"]
    for panel in plot.panels:
        surface = heat_map(panel)
        assert [panel.x.title, panel.y.title] == ["x", "z"]
        points = np.array([[surface.x[7], z] for z in surface.y])
        expected = posterior.mean(panel.title, points)
        np.testing.assert_allclose(surface.values[:, 7], expected, rtol=1e-8)
        assert surface.contours
    truth = np.square(surface.x[None, :] - surface.y[:, None])
    assert np.abs(surface.values - truth).mean() < 0.02


def test_the_line_is_the_lower_levels_answer() -> None:
    """At each x the best z by the posterior means of objective and constraint, by brute force."""
    study, sampler = _joint()
    answers = xy(part(plot_bilevel(study, sampler).panels[0], ANSWER))
    posterior = sampler.posterior(study)
    z = np.linspace(0.0, 1.0, 2001)
    for x, answer in answers[::9]:
        points = np.column_stack([np.full_like(z, x), z])
        value = posterior.mean("lower", points)
        feasible = posterior.mean("c", points) <= 0.0
        at_answer = posterior.mean("lower", np.array([[x, answer]]))[0]
        assert at_answer <= value[feasible].min() + 1e-4
        assert answer <= z[feasible].max() + 0.02  # the read-out's tolerance
    np.testing.assert_allclose(answers[20:80, 1], answers[20:80, 0], atol=0.06)


def test_solution_and_title_are_the_samplers() -> None:
    """The star is where BILBOSampler.solution says, the title has its values."""
    study, sampler = _joint()
    plot, solution = plot_bilevel(study, sampler), sampler.solution(study)
    expected = (solution.upper_params["x"], solution.lower_params["z"])
    for panel in plot.panels:
        assert xy(part(panel, SOLUTION))[0] == pytest.approx(expected)
    assert plot.title == (
        f"Solution: upper = {solution.upper_value:.4g}, lower = {solution.lower_value:.4g}"
    )


def test_each_panel_has_its_levels_queries() -> None:
    """Objective and constraints of the level, where and what they were; all on the plane."""
    study, sampler = _joint()
    for panel, functions in zip(
        plot_bilevel(study, sampler).panels, (["upper", "C"], ["lower", "c"]), strict=True
    ):
        drawn = [label for label in labels(panel) if label.startswith("queries")]
        assert drawn == [f"queries of {function}" for function in functions]
        for function in functions:
            queries = part(panel, f"queries of {function}")
            asked = [t for t in study.trials if t.params["query"] == function]
            np.testing.assert_allclose(queries.x, [trial.params["x"] for trial in asked])
            np.testing.assert_allclose(queries.y, [trial.params["z"] for trial in asked])
            np.testing.assert_allclose(queries.custom, [trial.value or 0.0 for trial in asked])
            np.testing.assert_allclose(queries.opacity, 1.0)


def test_crosses_are_where_a_constraint_of_the_level_is_violated() -> None:
    """C forbids x < 0.6 to the upper level, c forbids z > 0.9 to the lower one."""
    study, sampler = _joint()
    upper, lower = (part(panel, VIOLATED) for panel in plot_bilevel(study, sampler).panels)
    assert upper.x.max() == pytest.approx(0.6, abs=0.06)
    assert len(upper.x) > 100
    assert lower.y.min() == pytest.approx(0.9, abs=0.06)


# --------------------------------------------------------------------- more parameters on a level


@functools.cache
def _plot(upper: int, lower: int) -> Plot:
    return plot_bilevel(*_levels(upper, lower))


def _panels(upper: int, lower: int) -> dict[str, Panel]:
    return {panel.title: panel for panel in _plot(upper, lower).panels}


ANSWERED = "upper, with the lower level's answers"


@pytest.mark.parametrize(
    "levels, axes",
    [
        ((1, 2), ["x0", "z0, z1", "x0", "x0"]),
        ((2, 1), ["x0, x1", "z0", "x0, x1"]),
        ((3, 1), ["x0, x1", "z0", "x0, x1"]),
    ],
)
def test_each_level_sees_its_own_parameters(levels: tuple[int, int], axes: list[str]) -> None:
    """Its objective over them, then each answer over the upper level's; the star is on each."""
    plot = _plot(*levels)
    over = [p.x.title + (f", {p.y.title}" if _is_surface(p) else "") for p in plot.panels]
    assert over == axes
    assert [panel.title.split(",")[0].split(":")[0] for panel in plot.panels[:3]] == [
        "upper",
        "lower",
        "answer",
    ]
    study, sampler = _levels(*levels)
    best = sampler.solution(study)
    params = {**best.upper_params, **best.lower_params}
    for panel in plot.panels:
        assert part(panel, SOLUTION).x[0] == pytest.approx(params[panel.x.title])
    assert ("slices through it" in plot.title) == (levels == (3, 1))
    assert set(plot.legend) >= {label for panel in plot.panels for label in labels(panel)}


def _is_surface(panel: Panel) -> bool:
    return any(isinstance(item, HeatMap) for item in panel.items)


def test_a_curve_goes_through_the_answers() -> None:
    """With one upper parameter: the objective's mean where x is answered, and its deviation."""
    study, sampler = _levels(1, 2)
    posterior = sampler.posterior(study)
    panels = _panels(1, 2)
    curve, band = (part(panels[ANSWERED], f) for f in ("posterior mean", "95% interval"))
    upper = 1.0 + np.log10(curve.x) / 4.0  # of the unit cube
    points = posterior.answers(upper[:, None])
    np.testing.assert_allclose(curve.y, posterior.mean("upper", points), rtol=1e-6, atol=1e-6)
    deviation = posterior.deviation("upper", points)
    np.testing.assert_allclose(band.high - band.low, 2.0 * 1.96 * deviation, rtol=1e-3)
    assert (band.high > band.low).all()
    assert panels[ANSWERED].x.log
    line = xy(part(panels["answer: z0"], ANSWER))
    line = line[~np.isnan(line[:, 0])]
    np.testing.assert_allclose(line[:, 0], curve.x)
    np.testing.assert_allclose(line[:, 1], points[:, 1], atol=1e-6)
    choices = panels["answer: z1"]
    assert choices.y.labels == ("a", "b", "None")
    assert set(part(choices, ANSWER).y) <= {0.0, 1.0, 2.0}


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "rate, limits",
    [(1e-3, (0.5e-3, 2e-3)), (5e-324, (5e-324, 1e-323)), (1.7e308, (0.85e308, sys.float_info.max))],
)
def test_a_value_that_stays_the_same_has_a_place_on_a_logarithmic_axis(
    rate: float, limits: tuple[float, float]
) -> None:
    """Half a place below a tiny one there is none, nor anything above the largest float."""
    sampler = BILBOSampler(["x"], ["z", "rate"], seed=0)
    functions: dict[str, Callable[..., float]] = {
        "upper": lambda x, z, rate: (x - 0.8) ** 2 + z + rate,
        "lower": lambda x, z, rate: (z - x) ** 2 + rate,
    }
    space = {"x": UNIT, "z": UNIT, "rate": FloatDistribution(rate, rate, log=True)}
    plot = plot_bilevel(_study(sampler, space, functions, 6), sampler, ["x", "rate"])
    assert plot.panels[0].y.log
    assert plot.panels[0].y.limits == limits


def test_what_cannot_be_drawn_is_named() -> None:
    """No solution yet, another sampler, another study, parameters that are none."""
    refused: Any = plot_bilevel
    study, sampler = _joint()
    with pytest.raises(ValueError, match="must have a complete trial"):
        refused(optuna.create_study(), sampler)
    with pytest.raises(TypeError, match="sampler must be the study's BILBOSampler, but got"):
        refused(study, UHEBOSampler())
    with pytest.raises(TypeError, match="study must be an Optuna study, but got None"):
        refused(None, sampler)
    with pytest.raises(ValueError, match="study must have the direction 'minimize'"):
        refused(optuna.create_study(direction="maximize"), sampler)
    other = BILBOSampler(["x"], ["w"])
    with pytest.raises(ValueError, match=r"at least one parameter of lower_params \['w'\]"):
        refused(study, other)
    for params in ("x", 5, [["x"]]):
        with pytest.raises(TypeError, match="params must be a sequence of names or None"):
            refused(study, sampler, params)


def test_parameters_may_be_chosen() -> None:
    """Those named are drawn, in the levels' order; others are refused with the possible ones."""
    study, sampler = _levels(3, 1)
    in_turn: Any = iter(["z0", "x1"])
    for names in (["z0", "x1"], in_turn):
        assert plot_bilevel(study, sampler, names).panels[0].x.title == "x1"
    for params in (["x0", "w"], ["x0"], ["query", "z0"], [], ["x0", "x1", "x2", "z0"]):
        with pytest.raises(ValueError, match="params must be None or names of one or two of the"):
            plot_bilevel(study, sampler, params)
