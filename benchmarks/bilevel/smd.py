"""The SMD suite of bilevel test problems: SMD1 to SMD8, and the BILBO paper's bounded variants.

Symbols, with sums over the entries of a vector wherever it is squared or in a function:

| symbol | part of the variables                                     |
|--------|-----------------------------------------------------------|
| a, b   | upper level: x_u1 (p entries), x_u2 (r)                   |
| c, d   | lower level: x_l1 (q entries, SMD6: q + s), x_l2 (r)      |
| t      | the term that couples b and d, zero at the lower optimum  |

Sources: Sinha, Malo & Deb (2014), "Test problem construction for single-objective bilevel
optimization"; Chew, Nguyen & Low (2025), "BILBO", section D.3, for the bounded variants.

What the sources leave open: the open ends of the suite's boxes, where tan and log diverge, are
moved in by what keeps every lower-level optimum in the box. The signs in the BILBO paper's section
D.3 contradict its text for SMD2 and SMD12; those of the original suite are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution

from benchmarks.bilevel.task import LOWER, UPPER, Array, BilevelTask, Function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    # Of a, b, c and d, (..., n) each.
    Parts: TypeAlias = Callable[[Array, Array, Array, Array], Array]

_LOG_LOW = 0.001  # where the box of log d begins; log of it is below -5
_TAN_GAP = 0.005  # distance of the box of tan d from its pole: tan reaches 200


def _sum2(v: Array) -> Array:
    return np.asarray(np.square(v).sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class _Smd:
    """One problem of the suite: the parts F and f are made of, as functions of the variables."""

    upper: Parts
    lower: Parts
    lower_minimum: Callable[[Array, Array], Array]
    boxes: tuple[tuple[float, float], ...]  # of a, b, c, d
    best: tuple[float, float, float, float]  # entries of a, b, c, d at the optimum


def _rosen(c: Array) -> Array:
    return np.asarray(
        (np.square(c[..., 1:] - np.square(c[..., :-1])) + np.square(c[..., :-1] - 1.0)).sum(-1)
    )


def _ripples(c: Array) -> Array:
    """Return q + Σ (c² - cos 2πc), 0 at c = 0."""
    return np.asarray((1.0 + np.square(c) - np.cos(2.0 * math.pi * c)).sum(axis=-1))


def _griewank(a: Array) -> Array:
    i = np.arange(1, a.shape[-1] + 1)
    return np.asarray(1.0 + _sum2(a) / 400.0 - np.prod(np.cos(a / np.sqrt(i)), axis=-1))


def _ackley(a: Array) -> Array:
    mean = np.square(a).mean(axis=-1)
    waves = np.exp(np.cos(2.0 * math.pi * a).mean(axis=-1))
    return np.asarray(20.0 + math.e - 20.0 * np.exp(-0.2 * np.sqrt(mean)) - waves)


def _steps(c: Array) -> Array:
    """Return Σ (c_{i+1} - c_i)² over the pairs (0, 1), (2, 3), ..."""
    return _sum2(c[..., 1::2] - c[..., :-1:2])


_WIDE = (-5.0, 10.0)
_HALF_PI = math.pi / 2.0 - _TAN_GAP
_TAN = (-_HALF_PI, _HALF_PI)
_LOG = (_LOG_LOW, math.e)


def _smd(number: int, q: int) -> _Smd:
    """Return an original problem of the suite without constraints; SMD6 needs ``q``."""
    zero = (0.0, 0.0, 0.0, 0.0)
    unit = (0.0, 0.0, 0.0, 1.0)
    problems = {
        1: _Smd(
            upper=lambda a, b, c, d: _sum2(a) + _sum2(c) + _sum2(b) + _sum2(b - np.tan(d)),
            lower=lambda a, b, c, d: _sum2(a) + _sum2(c) + _sum2(b - np.tan(d)),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, _WIDE, _WIDE, _TAN),
            best=zero,
        ),
        2: _Smd(
            upper=lambda a, b, c, d: _sum2(a) - _sum2(c) + _sum2(b) - _sum2(b - np.log(d)),
            lower=lambda a, b, c, d: _sum2(a) + _sum2(c) + _sum2(b - np.log(d)),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, (-5.0, 1.0), _WIDE, _LOG),
            best=unit,
        ),
        3: _Smd(
            upper=lambda a, b, c, d: _sum2(a) + _sum2(c) + _sum2(b) + _sum2(b**2 - np.tan(d)),
            lower=lambda a, b, c, d: _sum2(a) + _ripples(c) + _sum2(b**2 - np.tan(d)),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, _WIDE, _WIDE, _TAN),
            best=zero,
        ),
        4: _Smd(
            upper=lambda a, b, c, d: (
                _sum2(a) - _sum2(c) + _sum2(b) - _sum2(np.abs(b) - np.log1p(d))
            ),
            lower=lambda a, b, c, d: _sum2(a) + _ripples(c) + _sum2(np.abs(b) - np.log1p(d)),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, (-1.0, 1.0), _WIDE, (0.0, math.e)),
            best=zero,
        ),
        5: _Smd(
            upper=lambda a, b, c, d: _sum2(a) - _rosen(c) + _sum2(b) - _sum2(np.abs(b) - d**2),
            lower=lambda a, b, c, d: _sum2(a) + _rosen(c) + _sum2(np.abs(b) - d**2),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, _WIDE, _WIDE, _WIDE),
            best=(0.0, 0.0, 1.0, 0.0),
        ),
        6: _Smd(
            upper=lambda a, b, c, d: (
                _sum2(a) - _sum2(c[..., :q]) + _sum2(c[..., q:]) + _sum2(b) - _sum2(b - d)
            ),
            lower=lambda a, b, c, d: (
                _sum2(a) + _sum2(c[..., :q]) + _steps(c[..., q:]) + _sum2(b - d)
            ),
            lower_minimum=lambda a, b: _sum2(a),  # noqa: ARG005
            boxes=(_WIDE, _WIDE, _WIDE, _WIDE),
            best=zero,
        ),
        7: _Smd(
            upper=lambda a, b, c, d: _griewank(a) - _sum2(c) + _sum2(b) - _sum2(b - np.log(d)),
            lower=lambda a, b, c, d: (a**3).sum(axis=-1) + _sum2(c) + _sum2(b - np.log(d)),
            lower_minimum=lambda a, b: np.asarray((a**3).sum(axis=-1)),  # noqa: ARG005
            boxes=(_WIDE, (-5.0, 1.0), _WIDE, _LOG),
            best=unit,
        ),
        8: _Smd(
            upper=lambda a, b, c, d: _ackley(a) - _rosen(c) + _sum2(b) - _sum2(b - d**3),
            lower=lambda a, b, c, d: np.abs(a).sum(axis=-1) + _rosen(c) + _sum2(b - d**3),
            lower_minimum=lambda a, b: np.asarray(np.abs(a).sum(axis=-1)),  # noqa: ARG005
            boxes=(_WIDE, _WIDE, _WIDE, _WIDE),
            best=(0.0, 0.0, 1.0, 0.0),
        ),
    }
    return problems[number]


@dataclass(frozen=True)
class _Layout:
    """Numbers of entries of a, b, c, d, and how arrays are split into them."""

    p: int
    r: int
    n_c: int

    def split(self, x: Array, z: Array) -> tuple[Array, Array, Array, Array]:
        return x[..., : self.p], x[..., self.p :], z[..., : self.n_c], z[..., self.n_c :]

    def spaces(
        self, boxes: tuple[tuple[float, float], ...]
    ) -> tuple[dict[str, BaseDistribution], dict[str, BaseDistribution]]:
        limits = dict(zip("abcd", boxes, strict=True))
        return tuple(  # type: ignore[return-value]
            {
                f"{letter}{i}": FloatDistribution(*limits[letter])
                for letter, count in level
                for i in range(count)
            }
            for level in ((("a", self.p), ("b", self.r)), (("c", self.n_c), ("d", self.r)))
        )

    def params(self, entries: tuple[float, float, float, float]) -> dict[str, float]:
        counts = (self.p, self.r, self.n_c, self.r)
        return {
            f"{letter}{i}": entry
            for letter, count, entry in zip("abcd", counts, entries, strict=True)
            for i in range(count)
        }

    def function(self, of_parts: Parts) -> Function:
        return lambda x, z: np.asarray(of_parts(*self.split(x, z)))


def _task(
    name: str,
    layout: _Layout,
    parts: _Smd,
    *,
    n_queries: int = 250,
    constraints: Mapping[str, Parts] | None = None,
    feasible: bool = True,
    **more: Any,
) -> BilevelTask:
    """Return the task that the parts make with so many entries of the variables."""
    upper_space, lower_space = layout.spaces(parts.boxes)
    functions = {UPPER: parts.upper, LOWER: parts.lower, **(constraints or {})}
    return BilevelTask(
        name=name,
        upper_space=upper_space,
        lower_space=lower_space,
        functions={key: layout.function(of_parts) for key, of_parts in functions.items()},
        lower_minimum=lambda x: parts.lower_minimum(x[..., : layout.p], x[..., layout.p :]),
        solution=layout.params(parts.best) if feasible else None,
        n_queries=n_queries,
        **more,
    )


def smd(number: int, dimension: int) -> BilevelTask:
    """Return an original problem SMD1 to SMD8 in 5 or 10 dimensions.

    p, q, r (and s of SMD6) are 1, 2, 1 in 5 dimensions (1, 0, 1, 2) and 3, 3, 2 in 10 (3, 1, 2, 2).
    """
    layout = _Layout(*{5: (1, 1, 2), 10: (3, 2, 3)}[dimension])
    q = {5: 0, 10: 1}[dimension] if number == 6 else layout.n_c
    name = f"smd{number}-{dimension}d"
    return _task(name, layout, _smd(number, q), many_responses=number == 6)


def bounded_smd2() -> BilevelTask:
    """Return the BILBO paper's SMD2, in which log d is replaced by log(0.99 d + 0.01)."""

    def t(b: Array, d: Array) -> Array:
        return b - np.log(0.99 * d + 0.01)

    def best_t(b: Array) -> Array:
        return np.minimum(b - math.log(0.01), 0.0)  # d = 0 is the nearest below b = log 0.01

    parts = _Smd(
        upper=lambda a, b, c, d: _sum2(a) - _sum2(c) / 2 + _sum2(b) - _sum2(t(b, d)),
        lower=lambda a, b, c, d: _sum2(a) + _sum2(c) / 2 + _sum2(t(b, d)),
        lower_minimum=lambda a, b: _sum2(a) + _sum2(best_t(b)),
        boxes=((-1.0, 2.0), (-5.0, 1.0), (-1.0, 2.0), (0.0, math.e)),
        best=(0.0, 0.0, 0.0, 1.0),
    )
    return _task("smd2-bounded", _Layout(1, 1, 2), parts)


def bounded_smd6() -> BilevelTask:
    """Return the BILBO paper's SMD6: q = 0, s = 2, the terms of f divided by 3, 9 and 3."""
    parts = _Smd(
        upper=lambda a, b, c, d: _sum2(a) + _sum2(c) / 2 + _sum2(b) - _sum2(b - d),
        lower=lambda a, b, c, d: _sum2(a) / 3 + _steps(c) / 9 + _sum2(b - d) / 3,
        lower_minimum=lambda a, b: _sum2(a) / 3,  # noqa: ARG005
        boxes=((-1.0, 2.0),) * 4,
        best=(0.0, 0.0, 0.0, 0.0),
    )
    return _task("smd6-bounded", _Layout(1, 1, 2), parts, many_responses=True)


def bounded_smd12(*, feasible: bool = True) -> BilevelTask:
    """Return the BILBO paper's SMD12, with all its constraints.

    Args:
        feasible: False raises what b - tanh d must be to more than it can be, by 0.5 of the
            standardized constraint.
    """
    largest_t = 1.0 + math.tanh(math.pi / 2.0)
    # With c = largest_t + margin - t, E c² = (largest_t + margin)² + Var t (t has mean 0), and
    # margin / rms = 0.5 has the solution below for Var t = 1/3 + 0.4516.
    variance = 1.0 / 3.0 + 0.4516
    margin = (largest_t + math.sqrt(4.0 * largest_t**2 + 3.0 * variance)) / 3.0
    least_t = 1.0 if feasible else largest_t + margin

    def t(b: Array, d: Array) -> Array:
        return b - np.tanh(d)

    def lower_minimum(a: Array, b: Array) -> Array:
        # |t| = 1 where d can reach it, else as much as d can reach: then the level is infeasible
        t_squared = np.minimum(np.square(np.abs(b[..., 0]) + math.tanh(math.pi / 2.0)), 1.0)
        return _sum2(a) + 1.0 + t_squared

    constraints: dict[str, Parts] = {
        "gap": lambda a, b, c, d: least_t - t(b, d)[..., 0],  # noqa: ARG005
        "a": lambda a, b, c, d: (b**3 - a)[..., 0],  # noqa: ARG005
        "b": lambda a, b, c, d: (a**3 - b)[..., 0],  # noqa: ARG005
        "c0": lambda a, b, c, d: c[..., 1] ** 3 - c[..., 0],  # noqa: ARG005
        "c1": lambda a, b, c, d: c[..., 0] ** 3 - c[..., 1],  # noqa: ARG005
        "size": lambda a, b, c, d: 1.0 - t(b, d)[..., 0] ** 2,  # noqa: ARG005
    }
    parts = _Smd(
        upper=lambda a, b, c, d: (
            _sum2(a - 2)
            + _sum2(c) / 2
            + _sum2(b - 2)
            + np.tanh(np.abs(d)).sum(axis=-1)
            - _sum2(t(b, d))
        ),
        lower=lambda a, b, c, d: _sum2(a) + _sum2(c - 2) / 2 + _sum2(t(b, d)),
        lower_minimum=lower_minimum,
        boxes=((-5.0, 10.0), (-1.0, 1.0), (-5.0, 10.0), (-math.pi / 2.0, math.pi / 2.0)),
        best=(1.0, 1.0, 1.0, 0.0),
    )
    return _task(
        "smd12-bounded" if feasible else "smd12-infeasible",
        _Layout(1, 1, 2),
        parts,
        n_queries=400 if feasible else 40,
        constraints=constraints,
        feasible=feasible,
        upper_constraints=("gap", "a", "b"),
        lower_constraints=("c0", "c1", "size"),
    )
