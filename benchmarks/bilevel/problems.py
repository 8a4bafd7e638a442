"""Bilevel test problems with known solutions: Branin/Goldstein-Price, a mixed case, all by name.

Sources: Picheny, Wagner & Ginsbourger (2013) for the scaled Branin and Goldstein-Price functions;
Chew, Nguyen & Low (2025), "BILBO", section 5, for their use; the mixed case is this project's.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from benchmarks.bilevel.smd import bounded_smd2, bounded_smd6, bounded_smd12, smd
from benchmarks.bilevel.task import LOWER, UPPER, Array, BilevelTask, Function, Params

_BRANIN_GOLDSTEIN: Params = {"x0": 0.5180049647796, "z0": 0.2563568739387}
_MIXED: Params = {"price": 0.24149838457, "level": 3, "amount": 0.96510299241, "kind": "rich"}


def branin(x: Array, z: Array) -> Array:
    """Return the Branin-Hoo function over the unit square, scaled by Picheny et al. (2013)."""
    u, v = 15.0 * x[..., 0] - 5.0, 15.0 * z[..., 0]
    valley = v - 5.1 / (4.0 * math.pi**2) * u**2 + 5.0 / math.pi * u - 6.0
    ripple = (10.0 - 10.0 / (8.0 * math.pi)) * np.cos(u) - 44.81
    return np.asarray((valley**2 + ripple) / 51.95)


def goldstein_price(x: Array, z: Array) -> Array:
    """Return the logarithm of the Goldstein-Price function, scaled by Picheny et al. (2013)."""
    u, v = 4.0 * x[..., 0] - 2.0, 4.0 * z[..., 0] - 2.0
    first = 19.0 - 14.0 * u + 3.0 * u**2 - 14.0 * v + 6.0 * u * v + 3.0 * v**2
    second = 18.0 - 32.0 * u + 12.0 * u**2 + 48.0 * v - 36.0 * u * v + 27.0 * v**2
    product = (1.0 + (u + v + 1.0) ** 2 * first) * (30.0 + (2.0 * u - 3.0 * v) ** 2 * second)
    return np.asarray((np.log(product) - 8.693) / 2.427)


def minimum_over_response(f: Function, x: Array) -> Array:
    """Return the minimum of f(x, z) over one z in [0, 1] by grids of ever smaller step.

    Args:
        f: The lower-level objective.
        x: Upper-level points, shape (..., d_x).
    """
    center, half = np.full(x.shape[:-1], 0.5), 0.5
    for n in (2001, 41, 41):
        z = np.clip(center[..., None] + np.linspace(-half, half, n), 0.0, 1.0)
        values = f(np.broadcast_to(x[..., None, :], (*z.shape, x.shape[-1])), z[..., None])
        best = np.argmin(values, axis=-1)[..., None]
        center = np.take_along_axis(z, best, axis=-1)[..., 0]
        half *= 2.0 / (n - 1)
    return np.asarray(np.take_along_axis(values, best, axis=-1)[..., 0])


def branin_goldstein_price(name: str = "branin-goldstein", **changes: Any) -> BilevelTask:
    """Return the BILBO paper's first problem: F is Branin, f is Goldstein-Price."""
    task = BilevelTask(
        name=name,
        upper_space={"x0": FloatDistribution(0.0, 1.0)},
        lower_space={"z0": FloatDistribution(0.0, 1.0)},
        functions={UPPER: branin, LOWER: goldstein_price},
        lower_minimum=lambda x: minimum_over_response(goldstein_price, x),
        solution=_BRANIN_GOLDSTEIN,
        n_queries=150,
    )
    return replace(task, **changes)


def _wave(x: Array, z: Array) -> Array:
    """A constraint that is violated by 0.5 and more."""
    return np.asarray(2.1 + np.sin(7.0 * x[..., 0]) * np.cos(5.0 * z[..., 0]))


def infeasible_branin() -> BilevelTask:
    """Return Branin/Goldstein-Price with a wavy upper constraint that never holds."""
    return branin_goldstein_price(
        name="branin-infeasible",
        functions={UPPER: branin, LOWER: goldstein_price, "wave": _wave},
        solution=None,
        n_queries=40,
        upper_constraints=("wave",),
    )


_COSTS = np.array([0.3, 0.0, 0.15])
_TARGETS = np.array([-0.6, 0.1, 0.7])


def _mixed_lower(x: Array, z: Array) -> Array:
    price, level = x[..., 0], x[..., 1]
    kind = z[..., 1].astype(np.int64)
    target = _TARGETS[kind] + 0.4 * np.sin(3.0 * price)
    return np.asarray(
        np.square(z[..., 0] - target) + _COSTS[kind] * (1.0 + price) + 0.07 * level * (kind == 1)
    )


def _mixed_upper(x: Array, z: Array) -> Array:
    price, level = x[..., 0], x[..., 1]
    kind = z[..., 1].astype(np.int64)
    return np.asarray(
        np.square(price - 0.3) + np.square(z[..., 0] - 0.9) + 0.08 * level - 0.25 * (kind == 2)
    )


def _mixed_lower_minimum(x: Array) -> Array:
    """Return the minimum over the three kinds; each one's target lies in the box."""
    kinds = [
        _mixed_lower(
            x, np.stack([_TARGETS[k] + 0.4 * np.sin(3.0 * x[..., 0]), np.full(x.shape[:-1], k)], -1)
        )
        for k in range(3)
    ]
    return np.asarray(np.min(kinds, axis=0))


def mixed() -> BilevelTask:
    """Return a problem with floats, an integer and a category: which response is best jumps."""
    return BilevelTask(
        name="mixed",
        upper_space={"price": FloatDistribution(-1.0, 1.0), "level": IntDistribution(0, 8)},
        lower_space={
            "amount": FloatDistribution(-1.5, 1.5),
            "kind": CategoricalDistribution(("basic", "plain", "rich")),
        },
        functions={UPPER: _mixed_upper, LOWER: _mixed_lower},
        lower_minimum=_mixed_lower_minimum,
        solution=_MIXED,
        n_queries=150,
    )


TASKS: Mapping[str, BilevelTask] = {
    task.name: task
    for task in (
        branin_goldstein_price(),
        bounded_smd2(),
        bounded_smd6(),
        bounded_smd12(),
        mixed(),
        *(smd(number, dimension) for dimension in (5, 10) for number in range(1, 9)),
        infeasible_branin(),
        bounded_smd12(feasible=False),
    )
}
