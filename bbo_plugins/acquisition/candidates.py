"""Space-filling points of the unit cube: Sobol sequences, randomized by a shift modulo 1.

The unshifted sequence is computed once per size and kept; a shift (Cranley & Patterson 1976) per
use costs one addition and keeps the points' uniformity, so that every ask can have its own set.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

_MAX_SOBOL_DIMENSIONS = 21201  # SciPy's table of direction numbers ends here


_construction_lock = threading.Lock()


def shifted_sobol(n: int, n_dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Return ``n`` Sobol points shifted by a random vector modulo 1, shape (n, n_dimensions)."""
    if n_dimensions > _MAX_SOBOL_DIMENSIONS:
        return rng.random((n, n_dimensions))
    shift = rng.random(n_dimensions)
    # SciPy fills its table of direction numbers on first use, which is not safe to do twice at a
    # time.
    with _construction_lock:
        points = _sobol(1 << max(n - 1, 0).bit_length(), n_dimensions)
    shifted = points[:n] + shift
    shifted -= np.floor(shifted)
    return shifted


@lru_cache(maxsize=32)
def _sobol(n: int, n_dimensions: int) -> FloatArray:
    # scipy.stats takes longer to import than everything else here together
    from scipy.stats import qmc  # noqa: PLC0415

    points: FloatArray = qmc.Sobol(n_dimensions, scramble=False).random(n)
    points.flags.writeable = False
    return points
