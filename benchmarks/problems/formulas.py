"""The raw test functions, to be minimized, in their usual coordinates.

Each takes z (d,) and returns a float.  Every one of them attains its known minimum over the *whole*
of R^d, not just over its usual box: where the textbook formula dips lower outside the box
(Schwefel, Michalewicz) it is continued by something that does not.  That is what allows
``benchmarks.problems.functions`` to shift and rotate the box freely without moving the minimum.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Formula: TypeAlias = Callable[[Vector], float]

# One of Branin's three equal minima.
BRANIN_ARGMIN = np.array([math.pi, 2.275])
HARTMANN3_ARGMIN = np.array([0.11458887665506896, 0.55564889461693009, 0.85254698468667747])
HARTMANN6_ARGMIN = np.array(
    [
        0.20168951100670544,
        0.15001069182345797,
        0.47687397422189703,
        0.27533243049405607,
        0.31165161660011327,
        0.65730053406562034,
    ]
)
STYBLINSKI_TANG_ARGMIN = -2.9035340277711771
SCHWEFEL_ARGMIN = 420.968746359982027
SCHWEFEL_LIMIT = 500.0
MICHALEWICZ_ARGMIN = np.array(
    [
        2.20290552017260935,
        1.57079632679489662,
        1.28499157055292436,
        1.92305846986636284,
        1.72046977256584128,
    ]
)
# x1 - x2/8 = x2 + x1/8 = 5 pi / 2: both sines are one where the denominator is one.
H1_ARGMIN = 2.5 * math.pi / (1.0 + 1.0 / 64.0) * np.array([1.125, 0.875])
BIRASTRIGIN_NEAR = 2.5  # coordinate of the deeper funnel's bottom
HOLDER_TABLE_ARGMIN = np.array([8.05502347573655, 9.664590019241274])
CROSS_IN_TRAY_ARGMIN = np.array([1.3494066171539107, 1.3494066171539107])
SIX_HUMP_CAMEL_ARGMIN = np.array([0.08984201368301331, -0.7126564032704135])

_HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN3_SCALES = np.array(
    [[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]]
)
_HARTMANN3_CENTERS = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
_HARTMANN6_SCALES = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
_HARTMANN6_CENTERS = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(z: Vector) -> float:
    """Three equal valleys on a parabola; minimum 10/(8 pi) = 0.397887."""
    quadratic = z[1] - 5.1 / (4.0 * math.pi**2) * z[0] ** 2 + 5.0 / math.pi * z[0] - 6.0
    return float(quadratic**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * math.cos(z[0]) + 10.0)


def hartmann3(z: Vector) -> float:
    """Four Gaussian wells in three dimensions; minimum -3.862780."""
    return -float(
        _HARTMANN_WEIGHTS @ np.exp(-(_HARTMANN3_SCALES * (z - _HARTMANN3_CENTERS) ** 2).sum(axis=1))
    )


def hartmann6(z: Vector) -> float:
    """Four Gaussian wells in six dimensions; minimum -3.322368."""
    return -float(
        _HARTMANN_WEIGHTS @ np.exp(-(_HARTMANN6_SCALES * (z - _HARTMANN6_CENTERS) ** 2).sum(axis=1))
    )


def rosenbrock(z: Vector) -> float:
    """A curved valley with walls a hundred times as steep; minimum 0 at (1, ..., 1)."""
    return float((100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2).sum())


def ackley(z: Vector) -> float:
    """A funnel under fine ripples; minimum 0 at the origin."""
    radius = math.sqrt(float(z @ z) / z.size)
    ripple = float(np.cos(2.0 * math.pi * z).mean())
    # expm1 keeps the two differences exact near the origin, where they cancel.
    return -20.0 * math.expm1(-0.2 * radius) - math.e * math.expm1(ripple - 1.0)


def levy(z: Vector) -> float:
    """A bowl crossed by waves; minimum 0 at (1, ..., 1)."""
    w = 1.0 + (z - 1.0) / 4.0
    middle = (w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(math.pi * w[:-1] + 1.0) ** 2)
    last = (w[-1] - 1.0) ** 2 * (1.0 + math.sin(2.0 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + middle.sum() + last)


def griewank(z: Vector) -> float:
    """A wide bowl with a product of ripples; minimum 0 at the origin."""
    ripple = np.cos(z / np.sqrt(np.arange(1.0, z.size + 1.0))).prod()
    return float((z @ z) / 4000.0 + 1.0 - ripple)


def styblinski_tang(z: Vector) -> float:
    """Two wells per coordinate, one a little deeper; minimum -39.166166 d."""
    return float(0.5 * (z**4 - 16.0 * z**2 + 5.0 * z).sum())


def michalewicz(z: Vector) -> float:
    """Narrow valleys between plateaus, zero outside [0, pi]^d; minimum -4.687658 if d = 5."""
    inside = np.clip(z, 0.0, math.pi)
    return -float(
        (np.sin(inside) * np.sin(np.arange(1.0, z.size + 1.0) * inside**2 / math.pi) ** 20).sum()
    )


def schwefel(z: Vector) -> float:
    """Deep wells far from each other, a quadratic wall outside +-500; minimum 0."""
    inside = np.clip(z, -SCHWEFEL_LIMIT, SCHWEFEL_LIMIT)
    wells = SCHWEFEL_ARGMIN * math.sin(math.sqrt(SCHWEFEL_ARGMIN)) - inside * np.sin(
        np.sqrt(np.abs(inside))
    )
    return float(wells.sum() + 0.02 * ((z - inside) ** 2).sum())


def ellipsoid(z: Vector) -> float:
    """A quadratic whose curvatures span a factor of 1,000; minimum 0 at the origin."""
    return float(10.0 ** (3.0 * np.arange(z.size) / (z.size - 1)) @ z**2)


def sharp_ridge(z: Vector) -> float:
    """A crease along the first axis, a hundred times as steep across; minimum 0 at the origin."""
    return float(z[0] ** 2 + 100.0 * np.linalg.norm(z[1:]))


def h1(z: Vector) -> float:
    """Rings of equal ripples around one peak in a 200-wide box, deceptive; minimum -2."""
    ripples = math.sin(z[0] - z[1] / 8.0) ** 2 + math.sin(z[1] + z[0] / 8.0) ** 2
    return -ripples / (float(np.linalg.norm(z - H1_ARGMIN)) + 1.0)


def h1_rounded(z: Vector) -> float:
    """``h1`` with a rounded peak, 1 / sqrt(r² + 1), as the UHE paper prints it; minimum -2."""
    ripples = math.sin(z[0] - z[1] / 8.0) ** 2 + math.sin(z[1] + z[0] / 8.0) ** 2
    return -ripples / math.sqrt(float((z - H1_ARGMIN) @ (z - H1_ARGMIN)) + 1.0)


def deceptive(z: Vector, peaks: Vector) -> float:
    """Slopes that lead away from narrow peaks to every edge of the unit cube; minimum -1.

    -(mean of g_i)² where g_i falls from 0.8 at both edges to 0 next to ``peaks`` (d,) and rises to
    1 there.  Constant outside the unit cube.
    """
    z = np.clip(z, 0.0, 1.0)
    # Distance from the peak as a share of the way to the edge on the same side: 0 to 1.
    way = np.where(z <= peaks, (peaks - z) / peaks, (z - peaks) / (1.0 - peaks))
    return -(float(np.where(way <= 0.2, 1.0 - 5.0 * way, way - 0.2).mean()) ** 2)


def two_basins(z: Vector, broad: Vector) -> float:
    """A narrow basin of depth 1 at the origin, a broad one of depth 0.8 at ``broad`` (d,)."""
    return -float(_basin_weights(z, broad).sum())


def two_basins_argmin(broad: Vector) -> Vector:
    """Return the minimum (d,) of ``two_basins``, next to the origin.

    Where the gradient vanishes, z is the mean of the two centers weighted by depth and curvature:
    a fixed point whose iteration (mean shift) never goes up.
    """
    z = np.zeros_like(broad)
    for _ in range(1000):
        narrow_pull, broad_pull = _basin_weights(z, broad) / np.square(_basin_widths(z.size))
        following = broad * (broad_pull / (narrow_pull + broad_pull))
        if np.array_equal(following, z):
            break
        z = following
    return z


def _basin_widths(dimension: int) -> Vector:
    """Return the standard deviations of the narrow and the broad basin, (2,)."""
    return np.array([0.08, 0.25]) * math.sqrt(dimension / 2.0)


def _basin_weights(z: Vector, broad: Vector) -> Vector:
    """Return how deep the narrow and the broad basin are at ``z``, (2,)."""
    squares = np.array([z @ z, (z - broad) @ (z - broad)])
    return np.array([1.0, 0.8]) * np.exp(-0.5 * squares / np.square(_basin_widths(z.size)))


def rastrigin(z: Vector) -> float:
    """A bowl under deep regular waves; minimum 0 at the origin."""
    return float(z @ z + 10.0 * (1.0 - np.cos(2.0 * math.pi * z)).sum())


def dixon_price(z: Vector) -> float:
    """A curved valley that stiffens from term to term; minimum 0 at ``dixon_price_argmin``."""
    terms = np.arange(2.0, z.size + 1.0) * (2.0 * z[1:] ** 2 - z[:-1]) ** 2
    return float((z[0] - 1.0) ** 2 + terms.sum())


def dixon_price_argmin(dimension: int) -> Vector:
    """Return z_i = 2^(2^(1-i) - 1), shape (d,)."""
    return np.asarray(2.0 ** (2.0 ** -np.arange(dimension, dtype=float) - 1.0))


def alpine(z: Vector) -> float:
    """Ripples that grow with the distance, with a kink at every zero; minimum 0 at the origin."""
    return float(np.abs(z * np.sin(z) + 0.1 * z).sum())


def birastrigin(z: Vector) -> float:
    """Lunacek's two funnels under waves, the wider one shallower; minimum 0 at 2.5 (1, ..., 1)."""
    near, d = BIRASTRIGIN_NEAR, z.size
    s = 1.0 - 1.0 / (2.0 * math.sqrt(d + 20.0) - 8.2)
    far = -math.sqrt((near**2 - 1.0) / s)
    funnels = min(float(((z - near) ** 2).sum()), d + s * float(((z - far) ** 2).sum()))
    return funnels + 10.0 * float((1.0 - np.cos(2.0 * math.pi * (z - near))).sum())


def cauchy(z: Vector, directions: Vector) -> float:
    """Mean of log(1 + (a_k·z)²), as in robust regression; minimum 0 at the origin."""
    return float(np.log1p((directions @ z) ** 2).mean())


def hidden_hartmann6(z: Vector) -> float:
    """Hartmann's six-dimensional function of the first six coordinates; minimum -3.322368."""
    return hartmann6(z[:6])


def single_network(x: Vector) -> float:
    """The GO-UCB paper's f1, its network with all weights one: -(25 sigmoid(1 + Σ x) + 1)."""
    return -(25.0 / (1.0 + math.exp(-(1.0 + float(x.sum())))) + 1.0)


def holder_table(z: Vector) -> float:
    """Waves that grow towards four equal corners; minimum -19.208503 in [-10, 10]²."""
    growth = math.exp(abs(1.0 - float(np.linalg.norm(z)) / math.pi))
    return float(-abs(math.sin(z[0]) * math.cos(z[1]) * growth))


def cross_in_tray(z: Vector) -> float:
    """A cross of ridges over a waved tray; four equal minima, -2.062612."""
    growth = math.exp(abs(100.0 - float(np.linalg.norm(z)) / math.pi))
    return float(-1e-4 * (abs(math.sin(z[0]) * math.sin(z[1]) * growth) + 1.0) ** 0.1)


def six_hump_camel(z: Vector) -> float:
    """Six wells in two equal halves; minimum -1.031628."""
    square = z[0] * z[0]
    first = (4.0 - 2.1 * square + square * square / 3.0) * square
    return float(first + z[0] * z[1] + (4.0 * z[1] * z[1] - 4.0) * z[1] * z[1])


def easom(z: Vector) -> float:
    """A plain with one narrow hole; minimum -1 at (π, π)."""
    depth = math.exp(-float(np.square(z - math.pi).sum()))
    return float(-math.cos(z[0]) * math.cos(z[1]) * depth)


def booth(z: Vector) -> float:
    """A tilted quadratic valley; minimum 0 at (1, 3)."""
    return float((z[0] + 2.0 * z[1] - 7.0) ** 2 + (2.0 * z[0] + z[1] - 5.0) ** 2)
