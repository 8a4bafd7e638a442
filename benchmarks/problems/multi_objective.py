"""Problems with two to four objectives, minimized; some constrained, noisy or with integers.

ZDT3 is of Zitzler et al. (2000), DTLZ2 and DTLZ7 of Deb et al. (2005), the others as in the
collection of Tanabe & Ishibuchi (2020), "An easy-to-use real-world multi-objective optimization
problem suite", and in Deb (2001), "Multi-Objective Optimization using Evolutionary Algorithms";
reference points of the designs are BoTorch's. ``forest_size`` is a real task: error of a forest
against the number of its nodes.

Regret is the hypervolume that is missing to the largest one known, from values without noise. That
is the one of the front's formula (ZDT, DTLZ, ``bnh``, ``osy``), BoTorch's (``vehicle_safety``,
``car_side_impact``), or that of the union of fronts found by evolution with 60,000 evaluations, and
a little more than that of 440 trials for the forest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, Trial
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from benchmarks.problems.formulas import Vector
from benchmarks.problems.hypervolume import hypervolume
from benchmarks.problems.problem import BoxFunction, Direction, ObjectiveProblem, is_feasible

Values = tuple[Sequence[float], Sequence[float]]

N_TRIALS = 80
_MINIMIZE: Direction = "minimize"


@dataclass(frozen=True)
class SeveralObjectives(BoxFunction):
    """Functions of a box, with or without constraints.

    Attributes:
        reference: Reference point of the hypervolume.
        best: The largest hypervolume that is known.
    """

    reference: tuple[float, ...]
    best: float

    def values_of(self, trial: FrozenTrial) -> Sequence[float]:
        """Return the values of a trial without noise."""
        if not self.noise_sd:
            return [*trial.values]
        point = np.array([trial.params[f"x{i}"] for i in range(len(self.low))])
        values: Sequence[float] = self.function(point)[0]  # type: ignore[assignment]
        return values

    def problem(self, name: str) -> ObjectiveProblem:
        """Return it as a problem of this name."""
        return _problem(name, self, self.values_of, self.reference, self.best)


def _problem(
    name: str,
    function: Callable[[Trial], Sequence[float]],
    values_of: Callable[[FrozenTrial], Sequence[float]],
    reference: Sequence[float],
    best: float,
) -> ObjectiveProblem:
    def missing(trials: Sequence[FrozenTrial]) -> float:
        values = [values_of(trial) for trial in trials if is_feasible(trial)]
        points = -np.array(values).reshape(len(values), len(reference))
        return max(best - hypervolume(points, -np.array(reference)), 0.0)

    return ObjectiveProblem(
        name=name,
        function=function,
        n_trials=N_TRIALS,
        regret_of=missing,
        directions=[_MINIMIZE] * len(reference),
        group="chosen on" if name in CHOSEN_ON else "held out",
    )


def zdt1(x: Vector) -> Values:
    """Two objectives with a convex front."""
    g = 1.0 + 9.0 * float(x[1:].mean())
    first = float(x[0])
    return (first, g * (1.0 - math.sqrt(first / g))), ()


def zdt3(x: Vector) -> Values:
    """Two objectives; the front has five parts."""
    g = 1.0 + 9.0 * float(x[1:].mean())
    first = float(x[0])
    wave = first / g * math.sin(10.0 * math.pi * first)
    return (first, g * (1.0 - math.sqrt(first / g) - wave)), ()


def _dtlz2(x: Vector, k: int) -> Values:
    radius = 1.0 + float(np.square(x[k - 1 :] - 0.5).sum())
    angles = 0.5 * math.pi * x[: k - 1]
    values = [radius * float(np.cos(angles[: k - 1 - i]).prod()) for i in range(k)]
    return [v * math.sin(angles[k - 1 - i]) if i else v for i, v in enumerate(values)], ()


def dtlz2(x: Vector) -> Values:
    """Three objectives; the front is an eighth of a sphere."""
    return _dtlz2(x, 3)


def circle(x: Vector) -> Values:
    """DTLZ2 with two objectives."""
    return _dtlz2(x, 2)


def dtlz7(x: Vector) -> Values:
    """Three objectives; the front has four parts."""
    h = 2.0 + 9.0 * float(x[2:].mean())
    waves = x[:2] / h * (1.0 + np.sin(3.0 * math.pi * x[:2]))
    return (float(x[0]), float(x[1]), h * (3.0 - float(waves.sum()))), ()


def kursawe(x: Vector) -> Values:
    """Two objectives with many waves; the front has four parts."""
    first = -10.0 * np.exp(-0.2 * np.sqrt(x[:-1] ** 2 + x[1:] ** 2))
    second = np.abs(x) ** 0.8 + 5.0 * np.sin(x**3)
    return (float(first.sum()), float(second.sum())), ()


def bnh(x: Vector) -> Values:
    """Binh & Korn's: two objectives, two constraints."""
    a, b = x.tolist()
    values = 4.0 * (a * a + b * b), (a - 5.0) ** 2 + (b - 5.0) ** 2
    return values, ((a - 5.0) ** 2 + b * b - 25.0, 7.7 - (a - 8.0) ** 2 - (b + 3.0) ** 2)


def osy(x: Vector) -> Values:
    """Osyczka & Kundu's: two objectives, six constraints; the front has five parts."""
    a, b, c, d, e, f = x.tolist()
    first = -25 * (a - 2) ** 2 - (b - 2) ** 2 - (c - 1) ** 2 - (d - 4) ** 2 - (e - 1) ** 2
    limits = (2 - a - b, a + b - 6, b - a - 2, a - 3 * b - 2, (c - 3) ** 2 + d - 4)
    return (first, float(np.square(x).sum())), (*limits, 4 - (e - 3) ** 2 - f)


def vehicle_safety(x: Vector) -> Values:
    """Mass, acceleration and intrusion in a crash (Liao et al. 2008)."""
    a, b, c, d, e = x.tolist()
    mass = 1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d
    acceleration = 6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d - 0.3695 * a * d
    acceleration += 0.0861 * a * e + 0.3628 * b * d - 0.1106 * a * a - 0.3437 * c * c
    intrusion = -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c
    intrusion += -0.0118 * b * d - 0.0204 * c * d - 0.008 * c * e - 0.0241 * b * b
    values = (mass + 4.4559504 * e, acceleration + 0.1764 * d * d, intrusion + 0.0109 * d * d)
    return values, ()


def car_side_impact(x: Vector) -> Values:
    """Four objectives, the last of which is a sum of violations (Jain & Deb 2014)."""
    a, b, c, d, e, f, g = x.tolist()
    weight = 1.98 + 4.9 * a + 6.67 * b + 6.98 * c + 4.01 * d + 1.78 * e + 1e-5 * f + 2.73 * g
    force = 4.72 - 0.5 * d - 0.19 * b * c
    pillar = 10.58 - 0.674 * a * b - 0.67275 * b
    door = 16.45 - 0.489 * c * g - 0.843 * e * f
    third = 0.214 + 0.00817 * e - 0.0587118 * a + 0.03099 * b * f - 0.018 * b * g + 0.030408 * c
    excess = [
        1.16 - 0.3717 * b * d - 0.0092928 * c - 1.0,
        0.261
        - 0.0159 * a * b
        - 0.06486 * a
        - 0.019 * b * g
        + 0.0144 * c * e
        + 0.0154464 * f
        - 0.32,
        third - 0.00364 * e * f - 0.018 * b * b - 0.32,
        0.74 - 0.61 * b - 0.031296 * c - 0.031872 * g + 0.227 * b * b - 0.32,
        28.98 + 3.818 * c - 4.2 * a * b + 1.27296 * f - 2.68065 * g - 32.0,
        33.86 + 2.95 * c - 5.057 * a * b - 3.795 * b - 3.4431 * g + 1.45728 - 32.0,
        46.36 - 9.9 * b - 4.4505 * a - 32.0,
        force - 4.0,
        pillar - 9.9,
        door - 15.7,
    ]
    violation = sum(max(value, 0.0) for value in excess)
    return (weight, force, 0.5 * (pillar + door), violation), ()


def welded_beam(x: Vector) -> Values:
    """Cost and deflection of a beam: two objectives, four constraints."""
    h, length, t, b = x.tolist()
    cost = 1.10471 * h * h * length + 0.04811 * t * b * (14.0 + length)
    lever = math.sqrt(0.25 * (length**2 + (h + t) ** 2))
    primary = 6000.0 / (math.sqrt(2.0) * h * length)
    inertia = 1.414 * h * length * (length**2 / 12.0 + 0.25 * (h + t) ** 2)
    secondary = 6000.0 * (14.0 + 0.5 * length) * lever / inertia
    shear = math.sqrt(primary**2 + secondary**2 + length * primary * secondary / lever)
    buckling = 64746.022 * (1.0 - 0.0282346 * t) * t * b**3
    limits = (shear / 13600.0 - 1.0, 504000.0 / (t * t * b) / 30000.0 - 1.0, h - b)
    return (cost, 2.1952 / (t**3 * b)), (*limits, 1.0 - buckling / 6000.0)


def disc_brake(x: Vector) -> Values:
    """Mass and stopping time of a brake with a whole number of discs: four constraints."""
    inner, outer, force, discs = x.tolist()
    squares, cubes = outer**2 - inner**2, outer**3 - inner**3
    mass = 4.9e-5 * squares * (discs - 1.0)
    if abs(cubes) < 1e-9:
        return (mass, 1e3), (1e3,) * 4
    time = 9.82e6 * squares / (force * discs * cubes)
    torque = 2.66e-2 * force * discs * cubes / squares
    return (mass, min(max(time, -1e3), 1e3)), (
        inner + 20.0 - outer,
        force / (3.14 * squares) - 0.4,
        2.22e-3 * force * cubes / squares**2 - 1.0,
        1.0 - torque / 900.0,
    )


def forest_size(trial: Trial) -> tuple[float, float]:
    """Return a forest's cross-validated error and the decimal logarithm of its number of nodes."""
    criterion = trial.suggest_categorical("criterion", ["gini", "entropy"])
    bootstrap = trial.suggest_categorical("bootstrap", [True, False])
    return _error_and_size(
        n_estimators=trial.suggest_int("n_estimators", 1, 32, log=True),
        max_depth=trial.suggest_int("max_depth", 1, 16),
        max_features=trial.suggest_float("max_features", 0.05, 1.0),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 32, log=True),
        criterion=criterion,
        bootstrap=bootstrap,
    )


def _error_and_size(**hyperparameters: Any) -> tuple[float, float]:
    X, y = load_digits(return_X_y=True)
    errors, nodes = [], []
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y):
        forest = RandomForestClassifier(**hyperparameters, random_state=0).fit(X[train], y[train])
        errors.append(1.0 - forest.score(X[test], y[test]))
        nodes.append(sum(tree.tree_.node_count for tree in forest.estimators_))
    return float(np.mean(errors)), math.log10(float(np.mean(nodes)))


def _unit(k: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return (0.0,) * k, (1.0,) * k


# Details of the step were chosen on the first ones; the others were tried afterwards.
CHOSEN_ON: Mapping[str, SeveralObjectives] = {
    "zdt3": SeveralObjectives(zdt3, *_unit(5), (1.1, 1.2), 1.4417624),
    "dtlz2": SeveralObjectives(dtlz2, *_unit(6), (1.1,) * 3, 1.1**3 - math.pi / 6.0),
    "kursawe": SeveralObjectives(kursawe, (-5.0,) * 3, (5.0,) * 3, (-13.8, 1.2), 41.06),
    "bnh": SeveralObjectives(bnh, (0.0, 0.0), (5.0, 3.0), (140.0, 50.0), 5285.3319),
    "vehicle_safety": SeveralObjectives(
        vehicle_safety, (1.0,) * 5, (3.0,) * 5, (1864.72022, 11.81993945, 0.2903999384), 246.81607
    ),
    "noisy_zdt1": SeveralObjectives(zdt1, *_unit(4), (1.1, 1.1), 1.21 - 1.0 / 3.0, noise_sd=0.05),
}
HELD_OUT: Mapping[str, SeveralObjectives] = {
    "dtlz7": SeveralObjectives(dtlz7, *_unit(6), (1.0, 1.0, 6.5), 1.9576694),
    "osy": SeveralObjectives(
        osy, (0, 0, 1, 0, 1, 0), (10, 10, 5, 6, 5, 10), (-75.0, 75.0), 10108.355
    ),
    "welded_beam": SeveralObjectives(
        welded_beam, (0.125, 0.1, 0.1, 0.125), (5, 10, 10, 5), (40.0, 0.015), 0.51225
    ),
    "car_side_impact": SeveralObjectives(
        car_side_impact,
        (0.5, 0.45, 0.5, 0.5, 0.875, 0.4, 0.4),
        (1.5, 1.35, 1.5, 1.5, 2.625, 1.2, 1.2),
        (45.4872, 4.5114, 13.3394, 10.3942),
        484.72655,
    ),
    "disc_brake": SeveralObjectives(
        disc_brake,
        (55, 75, 1000, 11),
        (80, 110, 3000, 20),
        (5.7771, 3.9651),
        11.2045,
        integers=(3,),
    ),
    "noisy_circle": SeveralObjectives(
        circle, *_unit(4), (1.1, 1.1), 1.21 - math.pi / 4.0, noise_sd=0.05
    ),
}
PROBLEMS = {
    **{name: one.problem(name) for name, one in {**CHOSEN_ON, **HELD_OUT}.items()},
    "forest_size": _problem("forest_size", forest_size, lambda t: t.values, (0.4, 4.0), 0.705),
}
