"""Exceptions of the package and the checks that raise them, in one message style.

An argument that does not fit raises a plain :class:`TypeError` (wrong type) or :class:`ValueError`
(wrong value) that reads ``"<argument> must be <rule>, but got <value!r>."``. Everything that is no
fault of an argument derives from :class:`BBOPluginsError`.

Numbers are checked the same way everywhere: a bool is no number, NaN fits no rule, and numpy
scalars are as good as Python ones. Each check returns the value as the plain Python type it names.
"""

from __future__ import annotations

import logging
import math
import numbers
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# What a fit raises whose data are beyond floating point or memory. ValueError is what LinAlgError,
# math.sqrt(-1.0) and int(NaN) are; mistakes in code may be too, and are in the log (DEBUG).
UNUSABLE: Final = (ArithmeticError, MemoryError, ValueError)
_Word = TypeVar("_Word", bound=str)
_logger = logging.getLogger(__name__)


class BBOPluginsError(Exception):
    """Base class of the exceptions this package defines."""


class MissingExtraError(BBOPluginsError, ImportError):
    """A feature needs packages of an extra that is not installed.

    Args:
        feature: What was asked for, as the user would call it.
        extra: The name of the extra that provides it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        """Compose the message."""
        self.feature = feature
        self.extra = extra
        super().__init__(
            f"{feature} needs packages that are not installed; "
            f"in a clone of bbo_plugins: pip install '.[{extra}]'"
        )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """Pickle by the two constructor arguments, not by the finished message."""
        return type(self), (self.feature, self.extra)


@contextmanager
def without_unusable(what: str) -> Iterator[None]:
    """End a block whose data are unusable where it has got to; the log has the error (DEBUG).

    Args:
        what: What the block does, as the beginning of a sentence.
    """
    try:
        yield
    except UNUSABLE:
        _logger.debug("%s: ended early, as the data are unusable.", what, exc_info=True)


def rule_message(argument: str, rule: str, value: object) -> str:
    """Return the message that every failed check of an argument carries."""
    return f"{argument} must be {rule}, but got {value!r}."


def reason_of(error: Exception) -> str:
    """Return what an exception says, or its type if it says nothing."""
    return str(error) or type(error).__name__


def note_without_model(error: Exception, outcome: str) -> str:
    """Return the note that no model could be used; the log has the error (DEBUG).

    Args:
        error: Why none could be.
        outcome: What that leads to, as the end of a sentence.
    """
    _logger.debug("No model could be used.", exc_info=error)
    return f"no model could be used ({reason_of(error)}), so {outcome}"


def check_real(
    argument: str, value: object, rule: str, accept: Callable[[float], bool] = math.isfinite
) -> float:
    """Return ``value`` as a float if it is a real number that ``accept`` lets through.

    Args:
        argument: Name of the argument, for the message.
        value: What the caller passed.
        rule: The rule in words, as it reads after "must be".
        accept: Whether the number obeys the rule; a NaN is refused before it is asked.

    Raises:
        TypeError: ``value`` is not a real number (bool included).
        ValueError: ``value`` is NaN or breaks the rule.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(rule_message(argument, rule, value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isnan(number) or not accept(number):
        raise ValueError(rule_message(argument, rule, value))
    return number


def check_finite(argument: str, value: object) -> float:
    """Return ``value`` as a finite float."""
    return check_real(argument, value, "a finite number")


def check_positive(argument: str, value: object) -> float:
    """Return ``value`` as a finite float above zero."""
    return check_real(argument, value, "a positive number", lambda number: 0.0 < number < math.inf)


def check_int(argument: str, value: object, *, minimum: int | None = None) -> int:
    """Return ``value`` as an int, not below ``minimum`` if one is given.

    Raises:
        TypeError: ``value`` is not an integer; a bool or a float such as ``3.0`` is not one.
        ValueError: ``value`` is NaN or below ``minimum``.
    """
    rule = "an integer" if minimum is None else f"an integer of at least {minimum}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        is_nan = isinstance(value, numbers.Real) and math.isnan(value)
        raise (ValueError if is_nan else TypeError)(rule_message(argument, rule, value))
    number = int(value)
    if minimum is not None and number < minimum:
        raise ValueError(rule_message(argument, rule, value))
    return number


def check_bool(argument: str, value: object) -> bool:
    """Return ``value`` as a bool if it is True or False; nothing else is taken for either.

    Raises:
        TypeError: ``value`` is not a bool.
        ValueError: ``value`` is NaN.
    """
    numpy = sys.modules.get("numpy")  # a numpy bool comes from where numpy is loaded already
    if numpy is not None and isinstance(value, numpy.bool_):
        return bool(value)
    if not isinstance(value, bool):
        is_nan = isinstance(value, float) and math.isnan(value)
        raise (ValueError if is_nan else TypeError)(rule_message(argument, "True or False", value))
    return value


def check_word(argument: str, value: object, words: Sequence[_Word]) -> _Word:
    """Return the one of ``words`` that ``value`` is.

    Raises:
        TypeError: ``value`` is not a string.
        ValueError: ``value`` is a string that is not among ``words``.
    """
    listed = " or ".join(repr(word) for word in words)
    rule = f"one of {listed}" if len(words) > 1 else listed
    if not isinstance(value, str):
        raise TypeError(rule_message(argument, rule, value))
    if value not in words:
        raise ValueError(rule_message(argument, rule, value))
    return words[words.index(value)]


def check_callable(argument: str, value: object, rule: str) -> None:
    """Check that ``value`` can be called.

    Raises:
        TypeError: ``value`` is not callable.
    """
    if not callable(value):
        raise TypeError(rule_message(argument, rule, value))


def check_instance(argument: str, value: object, kind: type, rule: str) -> None:
    """Check that ``value`` is an instance of ``kind``.

    Raises:
        TypeError: ``value`` is something else.
    """
    if not isinstance(value, kind):
        raise TypeError(rule_message(argument, rule, value))
