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

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution

from benchmarks.bilevel.task import LOWER, UPPER, Array, BilevelTask, Function

# Of a, b, c and d, (..., n) each.
Parts: TypeAlias = Callable[[Array, Array, Array, Array], Array]
Box: TypeAlias = tuple[float, float]

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


def _uneven(c: Array) -> Array:
    """Return SMD6's part of F: its last two entries are those whose best response is a line."""
    return _sum2(c[..., :-2]) - _sum2(c[..., -2:])


_WIDE = (-5.0, 10.0)
_HALF_PI = math.pi / 2.0 - _TAN_GAP
_TAN = (-_HALF_PI, _HALF_PI)
_LOG = (_LOG_LOW, math.e)


def _original(
    t: Callable[[Array, Array], Array],
    sign: float,
    *,
    of_a: tuple[Callable[[Array], Array], Callable[[Array], Array]] = (_sum2, _sum2),
    of_c: tuple[Callable[[Array], Array], Callable[[Array], Array]] = (_sum2, _sum2),
    b: Box = _WIDE,
    d: Box = _WIDE,
    best_c: float = 0.0,
    best_d: float = 0.0,
) -> _Smd:
    """Return a problem of the suite without constraints.

    Args:
        t: The term of b and d.
        sign: That of the parts of c and t in F; in f both are added.
        of_a: The parts of a in F and in f.
        of_c: The parts of c in F and in f.
        b: Box of the entries of b.
        d: Box of the entries of d.
        best_c: Entries of c at the optimum, where a and b are 0.
        best_d: Entries of d at the optimum.
    """
    (upper_a, lower_a), (upper_c, lower_c) = of_a, of_c
    return _Smd(
        upper=lambda a, b, c, d: upper_a(a) + sign * upper_c(c) + _sum2(b) + sign * _sum2(t(b, d)),
        lower=lambda a, b, c, d: lower_a(a) + lower_c(c) + _sum2(t(b, d)),
        lower_minimum=lambda a, _b: lower_a(a),
        boxes=(_WIDE, b, _WIDE, d),
        best=(0.0, 0.0, best_c, best_d),
    )


_NARROW = (-5.0, 1.0)
_ORIGINALS = {
    1: _original(lambda b, d: b - np.tan(d), 1.0, d=_TAN),
    2: _original(lambda b, d: b - np.log(d), -1.0, b=_NARROW, d=_LOG, best_d=1.0),
    3: _original(lambda b, d: b**2 - np.tan(d), 1.0, of_c=(_sum2, _ripples), d=_TAN),
    4: _original(
        lambda b, d: np.abs(b) - np.log1p(d),
        -1.0,
        of_c=(_sum2, _ripples),
        b=(-1.0, 1.0),
        d=(0.0, math.e),
    ),
    5: _original(lambda b, d: np.abs(b) - d**2, -1.0, of_c=(_rosen, _rosen), best_c=1.0),
    6: _original(
        lambda b, d: b - d, -1.0, of_c=(_uneven, lambda c: _sum2(c[..., :-2]) + _steps(c[..., -2:]))
    ),
    7: _original(
        lambda b, d: b - np.log(d),
        -1.0,
        of_a=(_griewank, lambda a: (a**3).sum(axis=-1)),
        b=_NARROW,
        d=_LOG,
        best_d=1.0,
    ),
    8: _original(
        lambda b, d: b - d**3,
        -1.0,
        of_a=(_ackley, lambda a: np.abs(a).sum(axis=-1)),
        of_c=(_rosen, _rosen),
        best_c=1.0,
    ),
}


def _task(
    name: str,
    parts: _Smd,
    entries: tuple[int, int, int] = (1, 1, 2),
    *,
    n_queries: int = 250,
    constraints: Mapping[str, Parts] | None = None,
    feasible: bool = True,
    **more: Any,
) -> BilevelTask:
    """Return the task that the parts make with p, r, n_c and r entries of a, b, c and d."""
    p, r, n_c = entries

    def function(of_parts: Parts) -> Function:
        return lambda x, z: np.asarray(of_parts(x[..., :p], x[..., p:], z[..., :n_c], z[..., n_c:]))

    names = [
        [f"{letter}{i}" for i in range(n)] for letter, n in zip("abcd", (p, r, n_c, r), strict=True)
    ]
    spaces: list[dict[str, BaseDistribution]] = [
        {name: FloatDistribution(*box) for name in letter}
        for letter, box in zip(names, parts.boxes, strict=True)
    ]
    best = {name: at for letter, at in zip(names, parts.best, strict=True) for name in letter}
    functions = {UPPER: parts.upper, LOWER: parts.lower, **(constraints or {})}
    return BilevelTask(
        name=name,
        upper_space=spaces[0] | spaces[1],
        lower_space=spaces[2] | spaces[3],
        functions={key: function(of_parts) for key, of_parts in functions.items()},
        lower_minimum=lambda x: np.asarray(parts.lower_minimum(x[..., :p], x[..., p:])),
        solution=best if feasible else None,
        n_queries=n_queries,
        **more,
    )


def smd(number: int, dimension: int) -> BilevelTask:
    """Return an original problem SMD1 to SMD8 in 5 or 10 dimensions.

    p, q, r (and s of SMD6) are 1, 2, 1 in 5 dimensions (1, 0, 1, 2) and 3, 3, 2 in 10 (3, 1, 2, 2).
    """
    entries = (1, 1, 2) if dimension == 5 else (3, 2, 3)
    name = f"smd{number}-{dimension}d"
    return _task(name, _ORIGINALS[number], entries, many_responses=number == 6)


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
    return _task("smd2-bounded", parts)


def bounded_smd6() -> BilevelTask:
    """Return the BILBO paper's SMD6: q = 0, s = 2, the terms of f divided by 3, 9 and 3."""
    parts = _Smd(
        upper=lambda a, b, c, d: _sum2(a) + _sum2(c) / 2 + _sum2(b) - _sum2(b - d),
        lower=lambda a, b, c, d: _sum2(a) / 3 + _steps(c) / 9 + _sum2(b - d) / 3,
        lower_minimum=lambda a, b: _sum2(a) / 3,  # noqa: ARG005
        boxes=((-1.0, 2.0),) * 4,
        best=(0.0, 0.0, 0.0, 0.0),
    )
    return _task("smd6-bounded", parts, many_responses=True)


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
        parts,
        n_queries=400 if feasible else 40,
        constraints=constraints,
        feasible=feasible,
        upper_constraints=("gap", "a", "b"),
        lower_constraints=("c0", "c1", "size"),
    )
