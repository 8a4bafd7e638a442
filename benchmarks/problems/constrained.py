"""Problems with black-box constraints that are active, or thin, at the minimum, which is known.

The formulas of G-functions and of the engineering designs are those usual in the literature on
constrained evolution (Liang et al. 2006, "Problem Definitions and Evaluation Criteria for CEC
2006"; Coello 2000 for the beam, the vessel and the spring). ``gardner_cosine`` and ``gardner_sine``
are of Gardner et al. (2014), ``gramacy`` is of Gramacy et al. (2016). The others are written here,
with minima that follow from geometry. All functions return the value and the constraints, which are
kept where none is above zero.
"""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.problems.formulas import Vector
from benchmarks.problems.problem import BoxFunction, ObjectiveProblem

Values = tuple[float, list[float]]

N_TRIALS = 60


@dataclass(frozen=True)
class Constrained(BoxFunction):
    """A function of a box with constraints.

    Attributes:
        argmin: A feasible point with the least value.
    """

    argmin: tuple[float, ...]

    def problem(self, name: str) -> ObjectiveProblem:
        """Return it as a problem of this name."""
        minimum = float(np.array(self.function(np.array(self.argmin))[0]))
        group = "chosen on" if name in CHOSEN_ON else "held out"
        return ObjectiveProblem(
            name=name, function=self, n_trials=N_TRIALS, minimum=minimum, group=group
        )


def g4(x: Vector) -> Values:
    """Himmelblau's: five parameters; two of six constraints are active."""
    a, b, c, d, e = x.tolist()
    u = 85.334407 + 0.0056858 * b * e + 0.0006262 * a * d - 0.0022053 * c * e
    v = 80.51249 + 0.0071317 * b * e + 0.0029955 * a * b + 0.0021813 * c * c
    w = 9.300961 + 0.0047026 * c * e + 0.0012547 * a * c + 0.0019085 * c * d
    value = 5.3578547 * c * c + 0.8356891 * a * e + 37.293239 * a - 40792.141
    return value, [-u, u - 92.0, 90.0 - v, v - 110.0, 20.0 - w, w - 25.0]


def g6(x: Vector) -> Values:
    """Two parameters; the feasible set is a sickle of less than 0.01% of the box."""
    a, b = x.tolist()
    value = (a - 10.0) ** 3 + (b - 20.0) ** 3
    outer, inner = (a - 5.0) ** 2 + (b - 5.0) ** 2, (a - 6.0) ** 2 + (b - 5.0) ** 2
    return value, [100.0 - outer, inner - 82.81]


def g7(x: Vector) -> Values:
    """Ten parameters, a quadratic function; six of eight constraints are active."""
    a, b, c, d, e, f, g, h, i, j = x.tolist()
    value = a * a + b * b + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2
    value += (e - 3) ** 2 + 2 * (f - 1) ** 2 + 5 * g * g + 7 * (h - 11) ** 2
    value += 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45
    return value, [
        -105 + 4 * a + 5 * b - 3 * g + 9 * h,
        10 * a - 8 * b - 17 * g + 2 * h,
        -8 * a + 2 * b + 5 * i - 2 * j - 12,
        3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c * c - 7 * d - 120,
        5 * a * a + 8 * b + (c - 6) ** 2 - 2 * d - 40,
        a * a + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
        0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e * e - f - 30,
        -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
    ]


def g8(x: Vector) -> Values:
    """Many waves, of which two constraints leave a percent of the box; none is active."""
    a, b = x.tolist()
    waves = math.sin(2 * math.pi * a) ** 3 * math.sin(2 * math.pi * b)
    return -waves / (a**3 * (a + b)), [a * a - b + 1.0, 1.0 - a + (b - 4.0) ** 2]


def g24(x: Vector) -> Values:
    """A linear function; two feasible parts that do not touch."""
    a, b = x.tolist()
    return -a - b, [
        -2 * a**4 + 8 * a**3 - 8 * a * a + b - 2,
        -4 * a**4 + 32 * a**3 - 88 * a * a + 96 * a + b - 36,
    ]


def welded_beam(x: Vector) -> Values:
    """Cost of a beam: shear and bending stress, deflection and buckling limit it."""
    h, length, t, b = x.tolist()
    load, arm = 6000.0, 14.0
    value = 1.10471 * h * h * length + 0.04811 * t * b * (arm + length)
    radius = math.sqrt(length**2 / 4 + ((h + t) / 2) ** 2)
    polar = 2 * math.sqrt(2) * h * length * (length**2 / 12 + ((h + t) / 2) ** 2)
    direct = load / (math.sqrt(2) * h * length)
    torsion = load * (arm + length / 2) * radius / polar
    shear = math.sqrt(direct**2 + direct * torsion * length / radius + torsion**2)
    bending = 6 * load * arm / (b * t * t)
    deflection = 4 * load * arm**3 / (30e6 * t**3 * b)
    buckling = 4.013 * 30e6 * math.sqrt(t * t * b**6 / 36) / arm**2
    buckling *= 1 - t / (2 * arm) * math.sqrt(30e6 / (4 * 12e6))
    return value, [shear - 13600, bending - 30000, h - b, deflection - 0.25, load - buckling]


def pressure_vessel(x: Vector) -> Values:
    """Cost of a vessel; the thicknesses are multiples of a sixteenth of an inch."""
    shell, head = 0.0625 * x[:2]
    radius, length = x[2:].tolist()
    value = 0.6224 * shell * radius * length + 1.7781 * head * radius**2
    value += 3.1661 * shell**2 * length + 19.84 * shell**2 * radius
    volume = math.pi * radius**2 * length + 4.0 / 3.0 * math.pi * radius**3
    return value, [0.0193 * radius - shell, 0.00954 * radius - head, 1296000.0 - volume]


def tension_spring(x: Vector) -> Values:
    """Weight of a spring: deflection, shear stress, surge frequency and diameter limit it."""
    wire, coil, n = x.tolist()
    stress = (4 * coil**2 - wire * coil) / (12566 * (coil * wire**3 - wire**4))
    return (n + 2) * coil * wire**2, [
        1 - coil**3 * n / (71785 * wire**4),
        stress + 1 / (5108 * wire**2) - 1,
        1 - 140.45 * wire / (coil**2 * n),
        (wire + coil) / 1.5 - 1,
    ]


def speed_reducer(x: Vector) -> Values:
    """Weight of a gear box with seven parameters, one an integer, and eleven constraints."""
    b, m, z, l1, l2, d1, d2 = x.tolist()
    value = 0.7854 * b * m * m * (3.3333 * z * z + 14.9334 * z - 43.0934)
    value += -1.508 * b * (d1**2 + d2**2) + 7.4777 * (d1**3 + d2**3)
    value += 0.7854 * (l1 * d1**2 + l2 * d2**2)
    return value, [
        27 / (b * m**2 * z) - 1,
        397.5 / (b * m**2 * z**2) - 1,
        1.93 * l1**3 / (m * z * d1**4) - 1,
        1.93 * l2**3 / (m * z * d2**4) - 1,
        math.sqrt((745 * l1 / (m * z)) ** 2 + 16.9e6) / (110 * d1**3) - 1,
        math.sqrt((745 * l2 / (m * z)) ** 2 + 157.5e6) / (85 * d2**3) - 1,
        m * z / 40 - 1,
        5 * m / b - 1,
        b / (12 * m) - 1,
        (1.5 * d1 + 1.9) / l1 - 1,
        (1.1 * d2 + 1.9) / l2 - 1,
    ]


def gardner_cosine(x: Vector) -> Values:
    """Two waves, half of the box feasible."""
    a, b = x.tolist()
    return math.cos(2 * a) * math.cos(b) + math.sin(a), [math.cos(a + b) + 0.5]


def gardner_sine(x: Vector) -> Values:
    """A tilted wave; the feasible set is a few small islands."""
    a, b = x.tolist()
    return math.sin(a) + b, [math.sin(a) * math.sin(b) + 0.95]


def gramacy(x: Vector) -> Values:
    """A linear function; a wave and a circle are active."""
    a, b = x.tolist()
    wave = 0.5 * math.sin(2 * math.pi * (a * a - 2 * b))
    return a + b, [1.5 - a - 2 * b - wave, a * a + b * b - 1.5]


_ISLANDS = np.array([[0.2, 0.3, 0.2], [0.75, 0.2, 0.7], [0.6, 0.75, 0.45]])
_WANTED = np.array([0.9, 0.9, 0.9])


def islands(x: Vector) -> Values:
    """Three balls that do not touch; the function is the distance from a point beyond them."""
    return math.dist(x, _WANTED), [float(np.linalg.norm(_ISLANDS - x, axis=1).min()) - 0.15]


def thin_shell(x: Vector) -> Values:
    """A shell in three dimensions with a hundredth of the box between its walls."""
    radius = float(np.linalg.norm(x - 0.5))
    return float(((x - 0.95) ** 2).sum()), [radius - 0.31, 0.3 - radius]


def far_corner(x: Vector) -> Values:
    """Five parameters; no random start is feasible: their sum is large where the value is bad."""
    return float(np.square(x).sum()), [4.25 - float(x.sum()), float(x[0] - x[1]) - 0.1]


def _toward(center: Vector, target: Vector, radius: float) -> tuple[float, ...]:
    """Return the point at ``radius`` from ``center`` that is next to ``target``."""
    way = target - center
    return tuple((center + (1.0 - 1e-12) * radius * way / np.linalg.norm(way)).tolist())


_G7 = (
    2.17199635,
    2.36368304,
    8.77392574,
    5.09598443,
    0.99065482,
    1.43057399,
    1.3216442,
    9.82872574,
)

# The maps of the models were chosen on the first ones; the others were tried afterwards.
CHOSEN_ON = {
    "gardner_cosine": Constrained(gardner_cosine, (0, 0), (6, 6), (4.622640938, 5.849334574)),
    "gramacy": Constrained(gramacy, (0, 0), (1, 1), (0.195122688, 0.404665364)),
    "g4": Constrained(
        g4, (78, 33, 27, 27, 27), (102, 45, 45, 45, 45), (78, 33, 29.995256026, 45, 36.775812906)
    ),
    "g24": Constrained(g24, (0, 0), (3, 4), (2.329520197, 3.178493074)),
    "pressure_vessel": Constrained(
        pressure_vessel,
        (1, 1, 10, 10),
        (99, 99, 200, 200),
        (13, 7, 42.098445596, 176.636595842),
        integers=(0, 1),
    ),
    "islands": Constrained(islands, (0,) * 3, (1,) * 3, _toward(_ISLANDS[2], _WANTED, 0.15)),
    "thin_shell": Constrained(
        thin_shell, (0,) * 3, (1,) * 3, _toward(np.full(3, 0.5), np.full(3, 0.95), 0.31)
    ),
}
HELD_OUT = {
    "gardner_sine": Constrained(gardner_sine, (0, 0), (6, 6), (4.712388976, 1.253235898)),
    "g6": Constrained(g6, (13, 0), (100, 100), (14.095, 0.842960789)),
    "g7": Constrained(g7, (-10,) * 10, (10,) * 10, (*_G7, 8.28009165, 8.37592666)),
    "g8": Constrained(g8, (0.1, 0.1), (10, 10), (1.227971, 4.245373)),
    "welded_beam": Constrained(
        welded_beam,
        (0.125, 0.1, 0.1, 0.1),
        (2, 10, 10, 2),
        (0.20572964, 3.470488666, 9.03662391, 0.20572964),
    ),
    "tension_spring": Constrained(
        tension_spring, (0.05, 0.25, 2), (2, 1.3, 15), (0.051689061, 0.356717736, 11.288965996)
    ),
    "speed_reducer": Constrained(
        speed_reducer,
        (2.6, 0.7, 17, 7.3, 7.3, 2.9, 5.0),
        (3.6, 0.8, 28, 8.3, 8.3, 3.9, 5.5),
        (3.5, 0.7, 17, 7.3, 7.715319911, 3.350214666, 5.286654465),
        integers=(2,),
    ),
    "far_corner": Constrained(far_corner, (0,) * 5, (1,) * 5, (0.85,) * 5),
}
ALL = {**CHOSEN_ON, **HELD_OUT}
