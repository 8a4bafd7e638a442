"""The formulas of deceptive problems against their sources, and proofs of their minima."""

import functools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.problems import formulas


def deceptive_piece(x: float, alpha: float) -> float:
    """Return g of Deceptive as its source writes it, in four pieces."""
    if x <= 0.8 * alpha:
        return -x / alpha + 0.8
    if x <= alpha:
        return 5.0 * x / alpha - 4.0
    if x <= (1.0 + 4.0 * alpha) / 5.0:
        return 5.0 * (x - alpha) / (alpha - 1.0) + 1.0
    return (x - 1.0) / (1.0 - alpha) + 0.8


def test_deceptive_is_its_source() -> None:
    """The mean of the four-piece functions, squared, with the sign of a minimization."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        peaks, z = rng.uniform(0.1, 0.9, size=3), rng.random(3)
        pieces = [deceptive_piece(*pair) for pair in zip(z, peaks, strict=True)]
        assert formulas.deceptive(z, peaks) == pytest.approx(-(np.mean(pieces) ** 2), abs=1e-12)


def test_deceptive_has_its_minimum_at_the_peaks_only() -> None:
    """Along each axis g is within [0, 1], 1 at the peak alone, and 0.8 at and beyond the edges."""
    for peak in (0.15, 1 / 3, 0.85):
        x = np.append(np.linspace(-0.5, 1.5, 4001), peak)
        g = np.sqrt([-formulas.deceptive(np.array([value]), np.array([peak])) for value in x])
        assert g.min() == pytest.approx(0.0, abs=6e-3)
        assert g[-1] == g.max() == 1.0
        assert (g[:-1][np.abs(x[:-1] - peak) > 0.05] <= 0.8 + 1e-12).all()
        assert g[0] == g[4000] == pytest.approx(0.8)


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_two_basins_minimum(dimension: int) -> None:
    """Nothing is below the stated argmin: where the gradient vanishes is on the segment of centers.

    There z is a weighted mean of the two centers, so a scan of the segment finds every minimum; a
    local search from random points confirms it.
    """
    rng = np.random.default_rng(dimension)
    broad = rng.choice([-1.0, 1.0], dimension) * rng.uniform(0.4, 0.6, dimension)
    argmin = formulas.two_basins_argmin(broad)
    lowest = formulas.two_basins(argmin, broad)
    way = np.linspace(-0.2, 1.2, 7001)
    values = np.array([formulas.two_basins(share * broad, broad) for share in way])
    assert values.min() == pytest.approx(lowest, abs=2e-6)
    assert values.min() >= lowest
    inner = values[1:-1]
    minima = way[1:-1][(inner < values[:-2]) & (inner < values[2:])]
    assert len(minima) == 2  # a narrow one next to the origin, and the broad one that misleads
    assert minima[0] < 0.1
    assert minima[1] > 0.9
    formula = functools.partial(formulas.two_basins, broad=broad)
    found = [minimize(formula, z).fun for z in broad * rng.random((10, 1))]
    assert min(found) == pytest.approx(lowest, abs=1e-8)
    assert max(found) == pytest.approx(values[way > 0.5].min(), abs=2e-6)


def test_h1_as_the_paper_prints_it() -> None:
    """The rounded form agrees with the printed formula, up to its rounded center."""
    rng = np.random.default_rng(1)
    for x, y in rng.uniform(-25.0, 25.0, size=(100, 2)):
        top = math.sin(x - y / 8.0) ** 2 + math.sin(y + x / 8.0) ** 2
        printed = top / math.sqrt((x - 8.6998) ** 2 + (y - 6.7665) ** 2 + 1.0)
        assert formulas.h1_rounded(np.array([x, y])) == pytest.approx(-printed, abs=1e-5)
