"""Argument checks: one message style, and no value slips through as another type."""

from __future__ import annotations

import logging
import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "check, value, expected",
    [
        (errors.check_finite, 3, 3.0),
        (errors.check_finite, np.float32(0.5), 0.5),
        (errors.check_int, np.int8(-3), -3),
        (errors.check_bool, False, False),
        (errors.check_bool, np.True_, True),
    ],
)
def test_good_values_become_plain_ones(
    check: Callable[[str, Any], Any], value: Any, expected: Any
) -> None:
    """What passes comes back as the Python type the check names."""
    checked = check("argument", value)
    assert checked == expected
    assert type(checked) is type(expected)


def test_a_word_comes_back_as_it_is_listed() -> None:
    """A string of NumPy's is as good, but is not kept."""
    assert type(errors.check_word("mode", np.str_("max"), ("min", "max"))) is str


@pytest.mark.parametrize(
    "check, value, error, rule",
    [
        (errors.check_finite, "1", TypeError, "a finite number"),
        (errors.check_finite, True, TypeError, "a finite number"),
        (errors.check_finite, math.nan, ValueError, "a finite number"),
        (errors.check_finite, -math.inf, ValueError, "a finite number"),
        (errors.check_positive, 0, ValueError, "a positive number"),
        (errors.check_int, 1.0, TypeError, "an integer"),
        (errors.check_int, True, TypeError, "an integer"),
        (errors.check_int, math.nan, ValueError, "an integer"),
        (errors.check_bool, 0, TypeError, "True or False"),
    ],
)
def test_bad_values_are_refused(
    check: Callable[[str, Any], Any], value: Any, error: type[Exception], rule: str
) -> None:
    """The message reads: argument must be rule, but got value."""
    with pytest.raises(error) as caught:
        check("argument", value)
    assert str(caught.value) == f"argument must be {rule}, but got {value!r}."


def test_integers_have_a_minimum() -> None:
    """The minimum itself passes, one less does not, and the rule names it."""
    assert errors.check_int("n", 2, minimum=2) == 2
    with pytest.raises(ValueError, match=r"^n must be an integer of at least 2, but got 1\.$"):
        errors.check_int("n", 1, minimum=2)


def test_missing_extra_names_the_command() -> None:
    """The error is an ImportError, says what to install, and survives pickling."""
    error = errors.MissingExtraError("bbo_plugins.ray", "ray")
    assert isinstance(error, ImportError)
    assert isinstance(error, errors.BBOPluginsError)
    assert "bbo_plugins.ray needs" in str(error)
    assert "in a clone of bbo_plugins: pip install '.[ray]'" in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert str(again) == str(error)


def test_what_is_left_out_of_unusable_data_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """With the error, for whoever asks; one that is no matter of data is raised."""

    def fail(error: Exception) -> None:
        raise error

    with caplog.at_level(logging.DEBUG, "bbo_plugins"), errors.without_unusable("A cutoff"):
        fail(np.linalg.LinAlgError("not positive definite"))
    (record,) = caplog.records
    assert record.getMessage() == "A cutoff: ended early, as the data are unusable."
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], np.linalg.LinAlgError)
    with pytest.raises(TypeError), errors.without_unusable("A cutoff"):
        fail(TypeError())


def test_a_note_says_why_there_is_no_model(caplog: pytest.LogCaptureFixture) -> None:
    """And the log has the error, so that a mistake in code can be told from odd data."""
    error = ValueError("shapes (3,) (4,)")
    with caplog.at_level(logging.DEBUG, "bbo_plugins"):
        note = errors.note_without_model(error, "the point is random")
    assert note == "no model could be used (shapes (3,) (4,)), so the point is random"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error
