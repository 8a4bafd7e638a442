"""The hypervolume that points dominate, slice by slice of the last objective."""

import numpy as np

from bbo_plugins.acquisition.hypervolume import front_of
from benchmarks.problems.formulas import Vector


def hypervolume(points: Vector, reference: Vector) -> float:
    """Return the volume that ``points`` (n, k) dominate and that dominates ``reference`` (k,).

    All objectives are maximized.
    """
    front = front_of(points[(points > reference).all(axis=1)])
    if not len(front):
        return 0.0
    front = front[np.argsort(-front[:, -1], kind="stable")]
    depths = -np.diff(front[:, -1], append=reference[-1])
    if front.shape[1] == 1:
        return float(depths.sum())
    if front.shape[1] == 2:  # the first objective grows along the front
        return float(((front[:, 0] - reference[0]) * depths).sum())
    slices = [hypervolume(front[: i + 1, :-1], reference[:-1]) for i in range(len(front))]
    return float(np.dot(slices, depths))
