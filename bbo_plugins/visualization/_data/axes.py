"""A parameter as an axis of a plot."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.space import Dimension
    from bbo_plugins.space.dimension import FloatArray

_MAX_BARS = 25  # values of a numeric parameter that are drawn one by one
_MAX_LABEL = 16  # characters of a choice


@dataclass(frozen=True)
class ParameterAxis:
    """An axis along one parameter.

    Attributes:
        name: The parameter.
        dimension: Its values.
        positions: Coordinates of [0, 1] at which something is evaluated, ascending, shape (m,).
    """

    name: str
    dimension: Dimension
    positions: FloatArray

    @property
    def is_discrete(self) -> bool:
        """Whether each value is drawn by itself: choices, and few numbers."""
        return self.dimension.has_choices or is_few(self.dimension)

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic."""
        return self.dimension.log

    @property
    def labels(self) -> tuple[str, ...]:
        """The choices as texts, which are drawn at 0, 1, 2, ...; empty for a numeric parameter."""
        return labels(self.dimension.choices)

    @property
    def values(self) -> FloatArray:
        """Places at which ``positions`` are drawn, shape (m,)."""
        return self.drawn(self.positions)

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis; half a place beyond the outer ones of values drawn by themselves.

        Around a single float on a logarithmic axis they are a factor of two away.
        """
        if not self.is_discrete:
            return float(self.values[0]), float(self.values[-1])
        if self.log and self.dimension.kind == "float":  # a single value, which may be tiny
            only = float(self.values[0])
            return max(0.5 * only, math.ulp(0.0)), min(2.0 * only, sys.float_info.max)
        if self.dimension.has_choices or self.log or len(self.values) < 2:
            return float(self.values[0]) - 0.5, float(self.values[-1]) + 0.5
        half = 0.5 * float(self.values[1] - self.values[0])
        return float(self.values[0]) - half, float(self.values[-1]) + half

    def drawn(self, u: FloatArray) -> FloatArray:
        """Return where coordinates of [0, 1] are drawn, same shape (n,)."""
        if self.dimension.has_choices:
            return self.dimension.level_of(u).astype(np.float64)
        return np.array([self.dimension.decode(position) for position in u], dtype=np.float64)


def names_in(params: Any) -> list[str] | None:
    """Return the different names in the argument ``params`` of a plot, None for None.

    Raises:
        TypeError: It is no sequence of names.
    """
    if params is None:
        return None
    is_listed = isinstance(params, Iterable) and not isinstance(params, str)
    names: list[Any] = [*params] if is_listed else [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(errors.rule_message("params", "a sequence of names or None", params))
    return [*dict.fromkeys(names)]


def is_few(dimension: Dimension) -> bool:
    """Return whether a parameter has so few values that each is drawn by itself."""
    return dimension.n_levels is not None and dimension.n_levels <= _MAX_BARS


def coordinates(dimension: Dimension, u: float, n_points: int) -> FloatArray:
    """Return where in [0, 1] to evaluate, ascending: every level of few, else a grid with ``u``."""
    if dimension.n_levels is not None and (dimension.has_choices or is_few(dimension)):
        return dimension.position_of(np.arange(dimension.n_levels))
    return np.unique([*dimension.snap(np.linspace(0.0, 1.0, n_points)), u])


def labels(choices: Sequence[Any]) -> tuple[str, ...]:
    """Return the choices as short texts, distinct ones wherever the choices' own texts are."""
    texts = [str(choice) for choice in choices]
    if len(set(texts)) < len(texts):  # 1 and "1"
        texts = [repr(choice) for choice in choices]
    for shortened in (_beginning, _end):
        short = [shortened(text, _MAX_LABEL) for text in texts]
        if len(set(short)) == len(set(texts)):
            return tuple(short)
    return tuple(
        f"{number} {_end(text, _MAX_LABEL - 1 - len(str(number)))}"
        for number, text in enumerate(texts, 1)
    )


def _beginning(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _end(text: str, length: int) -> str:
    return text if len(text) <= length else f"…{text[len(text) - length + 1 :]}"
