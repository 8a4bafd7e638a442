"""One parameter's values and their coordinates (formulas: :mod:`bbo_plugins.space`)."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numpy.typing import ArrayLike

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Number: TypeAlias = float | int

_MAX_LEVELS = 2**44  # more than these a coordinate may not tell apart
_WIDE_BELOW = 2**36  # larger integers on a log scale have cells narrower than points are told apart
_NAN_KEY = (float, "nan")  # of every NaN choice, as NaN is not equal to itself


@dataclass(frozen=True)
class Dimension:
    """The values one parameter may take, and their coordinates in [0, 1].

    Build one with :meth:`floats`, :meth:`integers`, :meth:`ordinal` or :meth:`categorical`;
    instances never change.

    Attributes:
        kind: What :meth:`decode` returns: a float, an int, or one of the choices.
        low: Smallest value (0 with choices, where it means nothing).
        high: Largest value, a whole number of steps above ``low``.
        log: Whether equal ratios, not equal differences, are equal distances.
        step: Distance between neighbors; None for a continuous dimension and with choices.
        choices: The choices of an ordinal or categorical dimension, in the order of their levels.
        held_at: Coordinate at which suggestions are held; None if the dimension is free.
        warp: w of the input warping (:func:`stretch`); 0 for none, always if categorical.
        n_levels: How many values there are to suggest; None if continuous.
    """

    kind: Literal["float", "int", "ordinal", "categorical"]
    low: Number = 0
    high: Number = 0
    log: bool = False
    step: Number | None = None
    choices: tuple[Any, ...] = ()
    held_at: float | None = None
    warp: float = 0.0
    n_levels: int | None = field(init=False, repr=False, compare=False)
    # "grid" and "log grid" have levels, "linear" and "log" count as continuous.
    _scale: Literal["linear", "log", "grid", "log grid"] = field(
        init=False, repr=False, compare=False
    )
    _steps: int = field(init=False, repr=False, compare=False)  # number of values minus one
    _base: float = field(init=False, repr=False, compare=False, default=1.0)
    _span: float = field(init=False, repr=False, compare=False, default=1.0)
    _level_of_choice: Mapping[Hashable, int] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @classmethod
    def floats(
        cls, low: float, high: float, *, log: bool = False, step: float | None = None
    ) -> Dimension:
        """Return a dimension of floats.

        Args:
            low: Smallest value; positive if ``log``.
            high: Largest value; lowered to a whole number of steps above ``low``.
            log: Whether the scale is logarithmic; excludes ``step``.
            step: Distance between neighboring values; None if every float in the range will do.

        Raises:
            TypeError: A bound is no number.
            ValueError: A bound is not finite, the range is empty, or log and step contradict.
        """
        low = errors.check_finite("low", low)
        high = errors.check_finite("high", high)
        if step is not None:
            step = errors.check_positive("step", step)
        return cls("float", low, high, log, step)

    @classmethod
    def integers(cls, low: int, high: int, *, log: bool = False, step: int = 1) -> Dimension:
        """Return a dimension of integers.

        Args:
            low: Smallest value; at least 1 if ``log``.
            high: Largest value; lowered to a whole number of steps above ``low``.
            log: Whether the scale is logarithmic; excludes a ``step`` other than 1.
            step: Distance between neighboring values.

        Raises:
            TypeError: A bound or the step is no integer.
            ValueError: The range is empty or beyond 1e308, or log and step contradict.
        """
        for argument, bound in (("low", low), ("high", high)):
            errors.check_finite(argument, errors.check_int(argument, bound))
        return cls("int", int(low), int(high), log, errors.check_int("step", step, minimum=1))

    @classmethod
    def ordinal(cls, choices: Iterable[Number]) -> Dimension:
        """Return a dimension of different numbers, neighbors at equal distances.

        Raises:
            ValueError: There is no number at all.
        """
        return cls("ordinal", choices=tuple(sorted(choices)))

    @classmethod
    def categorical(cls, choices: Iterable[Any]) -> Dimension:
        """Return a dimension of unordered choices of any type.

        Raises:
            ValueError: There is no choice at all.
        """
        return cls("categorical", choices=tuple(choices))

    def __post_init__(self) -> None:
        """Check that the fields agree and precompute what the coordinates need."""
        self._set_up()
        if self.held_at is not None:
            self._set(n_levels=1)

    def _set_up(self) -> None:
        if self.has_choices:
            if not self.choices:
                raise ValueError(errors.rule_message("choices", "non-empty", self.choices))
            self._set(_steps=len(self.choices) - 1, _scale="grid", n_levels=len(self.choices))
            table: dict[Hashable, int] = {}
            for level, choice in enumerate(self.choices):
                for key in _choice_keys(choice):
                    table.setdefault(key, level)
            self._set(_level_of_choice=table)
            return
        if self.low > self.high:
            rule = f"at most high ({self.high!r})"
            raise ValueError(errors.rule_message("low", rule, self.low))
        if self.log and self.low < (1 if self.kind == "int" else math.ulp(0.0)):
            raise ValueError(errors.rule_message("low", "positive on a log scale", self.low))
        extent = float(self.high) - float(self.low)
        if not math.isfinite(extent / self.low if self.log else extent):
            rule = f"so near to low ({self.low!r}) that the range does not overflow"
            raise ValueError(errors.rule_message("high", rule, self.high))
        if self.log and self.step is not None and (self.kind == "float" or self.step != 1):
            raise ValueError(errors.rule_message("step", "left out on a log scale", self.step))
        self._set_levels()
        self._set_scale()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _set_levels(self) -> None:
        """Count the values and lower ``high`` to the last of them."""
        if self.low == self.high:
            steps, few = 0, True
        elif self.step is None:
            steps, few = 0, False
        else:
            # Exact decimal arithmetic: the range 0 to 0.3 holds three steps of 0.1.
            low, high, step = (Fraction(str(x)) for x in (self.low, self.high, self.step))
            steps = (high - low) // step
            if self.kind == "float":  # the value after the last may round to high as well
                half_gap = Fraction(math.ulp(self.high)) / 2
                steps += low + (steps + 1) * step < Fraction(self.high) + half_gap
            few = steps < _MAX_LEVELS
            self._set(high=self._value_of_level(steps))
        self._set(_steps=steps, n_levels=steps + 1 if few else None)

    def _set_scale(self) -> None:
        """Precompute base and span of the scale."""
        extent = float(self.high) - float(self.low)
        if self.n_levels == 1 or (self.n_levels is not None and not self.log):
            self._set(_scale="grid")
        elif self.n_levels is not None:
            base = self.low - 0.5
            self._set(_scale="log grid", _base=base, _span=math.log1p((extent + 1.0) / base))
        elif self.log:
            self._set(_scale="log", _base=float(self.low), _span=math.log1p(extent / self.low))
        else:
            self._set(_scale="linear", _span=extent)

    @property
    def is_categorical(self) -> bool:
        """Whether the values are unordered choices."""
        return self.kind == "categorical"

    @property
    def has_choices(self) -> bool:
        """Whether the values are listed one by one, with an order or without."""
        return self.kind in {"ordinal", "categorical"}

    @property
    def is_continuous(self) -> bool:
        """Whether the values are too dense to be told apart as levels."""
        return self.n_levels is None

    @property
    def has_wide_cells(self) -> bool:
        """Whether it counts as continuous, but small values have ranges of the coordinate.

        That is so on a logarithmic scale of more integers than levels can be told apart.
        """
        return self.is_continuous and self.log and self.kind == "int"

    def held(self, value: Any) -> Dimension:
        """Return this dimension with one value left to suggest.

        Other values keep their coordinates: a model still learns from them.

        Raises:
            ValueError: ``value`` has no coordinate.
        """
        return replace(self, held_at=float(self.encode([value])[0]))

    def warped(self, w: float) -> Dimension:
        """Return this dimension, not categorical and not held, with the input warping ``w``."""
        return replace(self, warp=w)

    def stretched(self, u: FloatArray) -> FloatArray:
        """Return the coordinates of values that have ``u`` (n,) without the warp, shape (n,)."""
        return np.asarray(stretch(u, self.warp))

    def encode(self, values: Any) -> FloatArray:
        """Return the coordinates of ``values``, clipped into the range.

        Args:
            values: Numbers or choices, as a sequence or (numbers only) an array of any shape.

        Returns:
            Coordinates in [0, 1], of the same shape.

        Raises:
            ValueError: A value is NaN or no number, or not among the choices.
        """
        if self.has_choices:
            choice_levels = [self._find_choice(value) for value in values]
            return self._positions(np.asarray(choice_levels, dtype=np.float64))
        low, high = float(self.low), float(self.high)
        offset = np.clip(np.asarray(values, dtype=np.float64), low, high) - low
        if np.isnan(offset).any():
            raise ValueError(errors.rule_message("values", "numbers without NaN", values))
        if self._scale in {"linear", "log"}:
            with np.errstate(over="ignore"):  # NumPy 1.26 divides 1 too, which overflows if tiny
                ratio = offset / (self._span if self._scale == "linear" else self._base)
        if self._scale == "linear":
            return np.asarray(stretch(ratio, self.warp))
        if self._scale == "log":
            u = np.clip(np.log1p(ratio) / self._span, 0.0, 1.0)
            # NumPy and math may round the logarithm of the highest value differently.
            return np.asarray(stretch(np.where(offset >= high - low, 1.0, u), self.warp))
        # Between neighboring floats a step of large values is longer or shorter than it says.
        return self._positions(np.minimum(np.rint(offset / (self.step or 1)), self._steps))

    def decode(self, u: float) -> Any:
        """Return the value at coordinate ``u``, as a Python int, float, or the choice itself."""
        u = min(max(float(u if self.held_at is None else self.held_at), 0.0), 1.0)
        if self._scale in {"grid", "log grid"}:
            return self._value_of_level(int(self._levels(np.asarray(u))))
        if u in {0.0, 1.0}:
            return self.high if u else self.low
        u = float(_shrink(u, self.warp))
        if self._scale == "linear" and self.step is not None:
            return self._value_of_level(min(round(u * self._steps), self._steps))
        low, high = float(self.low), float(self.high)
        if self._scale == "linear":
            value = low + u * self._span
        else:
            value = low + self._base * math.expm1(u * self._span)
        value = min(max(value, low), high)
        return value if self.kind == "float" else min(max(round(value), self.low), self.high)

    def _value_of_level(self, level: int) -> Any:
        if self.has_choices:
            return self.choices[level]
        if self.kind == "int":
            return self.low + level * (self.step or 1)
        if level == 0:
            return self.low
        return float(Fraction(str(self.low)) + level * Fraction(str(self.step)))

    def snap(self, u: ArrayLike) -> FloatArray:
        """Return the coordinates of the values that ``u`` decodes to (same shape)."""
        u = np.clip(np.asarray(u, dtype=np.float64), 0.0, 1.0)
        if self.held_at is not None:
            return np.full_like(u, self.held_at)
        if self.n_levels is not None:
            return self._positions(self._levels(u))
        if not self.has_wide_cells:
            return u
        values = float(self.low) + self._base * np.expm1(_shrink(u, self.warp) * self._span)
        return np.where(values < _WIDE_BELOW, self.encode(np.rint(values)), u)

    def level_of(self, u: ArrayLike) -> IntArray:
        """Return the levels, 0 to ``n_levels - 1``, of the values that ``u`` decodes to.

        Raises:
            ValueError: The dimension is continuous.
        """
        if self.n_levels is None:
            raise ValueError(errors.rule_message("dimension", "discrete to have levels", self))
        u = np.clip(np.asarray(u, dtype=np.float64), 0.0, 1.0)
        levels = np.zeros_like(u) if self.held_at is not None else self._levels(u)
        return np.asarray(levels, dtype=np.int64)

    def position_of(self, level: ArrayLike) -> FloatArray:
        """Return the coordinates of ``level`` (same shape), each from 0 to ``n_levels - 1``.

        Raises:
            ValueError: The dimension is continuous.
        """
        if self.n_levels is None:
            raise ValueError(errors.rule_message("dimension", "discrete to have levels", self))
        level = np.asarray(level, dtype=np.float64)
        return (
            np.full_like(level, self.held_at)
            if self.held_at is not None
            else self._positions(level)
        )

    def _positions(self, level: FloatArray) -> FloatArray:
        """Return the coordinates of levels: on a linear scale the middles of cells of width 1/n."""
        if self._scale == "log grid":
            u = np.log1p((level + 0.5) / self._base) / self._span
        else:
            u = (level + 0.5) / (self._steps + 1.0)
        return np.asarray(stretch(u, self.warp))

    def _levels(self, u: FloatArray) -> FloatArray:
        """Return the levels (whole floats) of coordinates in [0, 1]."""
        u = np.asarray(_shrink(u, self.warp))
        if self._scale == "log grid":  # level k is the value low + k
            levels = np.rint(self._base * np.expm1(u * self._span) - 0.5)
            return np.clip(levels, 0.0, float(self._steps))
        return np.minimum(np.floor(u * (self._steps + 1.0)), float(self._steps))

    def _find_choice(self, value: Any) -> int:
        for key in _choice_keys(value):
            level = self._level_of_choice.get(key)
            if level is not None:
                return level
        for level, choice in enumerate(self.choices):
            if bool(choice == value):
                return level
        raise ValueError(errors.rule_message("value", f"one of {self.choices!r}", value))


def stretch(u: FloatArray | float, w: float) -> FloatArray | float:
    """Return the coordinates ``u`` in [0, 1] after input warping.

    That is log(1 + w u) / log(1 + w) for w > 0, which stretches the low end, and the same from the
    other end with -w for w < 0. Both ends stay where they are.
    """
    if w == 0.0:
        return u
    if w < 0.0:
        return 1.0 - stretch(1.0 - u, -w)
    return np.log1p(w * u) / math.log1p(w)


def _shrink(t: FloatArray | float, w: float) -> FloatArray | float:
    """Return the coordinates that :func:`stretch` maps to ``t``."""
    if w == 0.0:
        return t
    if w < 0.0:
        return 1.0 - _shrink(1.0 - t, -w)
    return np.minimum(np.expm1(t * math.log1p(w)) / w, 1.0)


def _choice_keys(choice: Any) -> tuple[Hashable, ...]:
    """Return under which key a choice is found by type and value; none if it is unhashable."""
    is_whole = isinstance(choice, numbers.Integral)  # it may be beyond the floats
    if isinstance(choice, numbers.Real) and not is_whole and math.isnan(choice):
        return (_NAN_KEY,)
    try:
        hash(choice)
    except TypeError:
        return ()
    return ((type(choice), choice),)
