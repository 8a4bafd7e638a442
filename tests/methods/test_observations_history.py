"""What a study's other trials say about the search itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.methods.observations import NO_ARM
from tests.oracles.arms import Row, first_of, past_of

ROWS = st.dictionaries(
    st.integers(0, 12),
    st.tuples(
        st.none() | st.integers(0, 1),
        st.booleans(),
        st.none() | st.floats(-2.0, 2.0),
        st.none() | st.floats(0.0, 1.0),
    ),
)


def test_start_up_ends_with_the_first_arm_or_expectation() -> None:
    """Either sign of a model will do; a trial of start-up has neither."""
    startup: Row = (None, True, 1.0, None)
    rows: dict[int, Row] = {2: startup, 3: startup}
    assert past_of({}).first_suggested(0) == 0
    assert past_of(rows).first_suggested(7) == 7
    assert past_of({**rows, 5: (None, False, None, 0.5), 6: startup}).first_suggested(7) == 5
    assert past_of({**rows, 5: (1, False, None, None), 6: startup}).first_suggested(7) == 5
    assert past_of({**rows, 5: (None, False, None, 0.0)}).first_suggested(7) == 5


@given(rows=ROWS, number=st.integers(0, 14))
def test_first_suggested_is_at_most_the_asking_trial(rows: dict[int, Row], number: int) -> None:
    """Workers overtake each other: a later trial that a model suggested does not come first."""
    first = past_of(rows).first_suggested(number)
    assert first == first_of(rows, number)
    assert type(first) is int


@given(rows=ROWS, number=st.integers(0, 14))
def test_before_cuts_every_column_alike(rows: dict[int, Row], number: int) -> None:
    """What is left is the table of the trials with smaller numbers."""
    cut = past_of(rows).before(number)
    expected = past_of({n: row for n, row in rows.items() if n < number})
    np.testing.assert_array_equal(cut.numbers, expected.numbers)
    np.testing.assert_array_equal(cut.arms, expected.arms)
    np.testing.assert_array_equal(cut.finished, expected.finished)
    np.testing.assert_array_equal(cut.values, expected.values)
    np.testing.assert_array_equal(cut.expected_gains, expected.expected_gains)


@given(rows=ROWS, number=st.integers(0, 14))
def test_an_arm_is_that_of_the_trial_with_the_number(rows: dict[int, Row], number: int) -> None:
    """Numbers have gaps, so they are no positions; a trial that is not known pulled no arm."""
    arm = rows[number][0] if number in rows else None
    found = past_of(rows).arm_of(number)
    assert found == (NO_ARM if arm is None else arm)
    assert type(found) is int
