"""The bandit of UHE-BO: weights, rates, regret, and the rewards of pairs of trials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.methods.uhe_bo.algorithm import (
    RewardRule,
    Round,
    exploration_rate,
    pair_rewards,
    probabilities,
    replay,
)
from tests.oracles import exp3 as oracle
from tests.oracles.arms import past_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.methods.observations import TrialHistory

    FloatArray = NDArray[np.float64]

RULES: tuple[RewardRule, ...] = get_args(RewardRule)
RATES = st.integers(1, 200)
REWARDS = st.none() | st.floats(0.0, 1.0)
# (arm or None, finished, value or None); integer values make ties common
ROWS = st.tuples(
    st.none() | st.integers(0, 1),
    st.booleans() | st.just(value=True),
    st.none() | st.integers(-3, 3).map(float),
)


PLAYED = st.lists(st.tuples(st.none() | st.integers(0, 1), REWARDS), max_size=40)


def _table(trials: oracle.Trials) -> TrialHistory:
    return past_of({n: (*row, None) for n, row in trials.items()})


# ------------------------------------------------------------------------------ weights and rates


@given(played=PLAYED, n_rounds=st.none() | RATES)
def test_weights_agree_with_plain_ones(
    played: list[tuple[int | None, Any]], n_rounds: int | None
) -> None:
    """Known n: weights multiplied round by round. Unknown: all rewards at the current rate."""
    bandit = replay([Round(*one) for one in played], n_rounds=n_rounds)

    def rate(i: int) -> float:
        return min(1.0, math.sqrt(2.0 * math.log(2.0) / ((math.e - 1) * (n_rounds or i))))

    state = oracle.anytime(played, rate)
    if n_rounds is not None:
        state = oracle.textbook(played, rate(1))
    assert bandit.gamma == pytest.approx(rate(len(played) + 1), rel=1e-14)
    np.testing.assert_allclose(np.exp(bandit.log_weights), state[0], rtol=1e-12)
    np.testing.assert_allclose(bandit.probabilities, state[1], rtol=1e-12)


@pytest.mark.parametrize("n_rounds", [1, 2, 7, 45, 10_000])
def test_rate_is_the_papers_for_twice_as_many_trials(n_rounds: int) -> None:
    """The paper counts trials, two a round; the anytime rate is its rate up to the next round."""
    expected = oracle.paper_rate(2 * n_rounds)
    assert exploration_rate(n_rounds) == pytest.approx(expected, rel=1e-14)
    assert replay([], n_rounds=n_rounds).gamma == pytest.approx(expected, rel=1e-14)
    before = [Round(None, None)] * (n_rounds - 1)
    assert replay(before).gamma == pytest.approx(expected, rel=1e-14)


@given(
    log_weights=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5), gamma=st.floats(1e-6, 1.0)
)
def test_probabilities_sum_to_one_and_keep_every_arm_alive(
    log_weights: list[float], gamma: float
) -> None:
    """However far apart the weights are, no arm falls below γ/K; a common factor is no matter."""
    p = probabilities(log_weights, gamma)
    assert sum(p) == pytest.approx(1.0, abs=1e-14)
    assert min(p) >= gamma / len(p)
    shifted = probabilities([log_weight - 1e4 for log_weight in log_weights], gamma)
    np.testing.assert_allclose(shifted, p, rtol=1e-8)


# ------------------------------------------------------------------------------------------ replay


@pytest.mark.parametrize("undecided", [Round(0, None), Round(None, 1.0), Round(None, None)])
def test_undecided_rounds_take_part_in_nothing_but_the_count(undecided: Round) -> None:
    """The weights are those of the decided rounds alone; without n, each round has its own rate."""
    decided = [Round(0, 1.0), Round(1, 0.3), Round(0, 0.7)]
    with_gaps = [undecided, decided[0], undecided, *decided[1:], undecided]
    expected = replay(decided, n_rounds=25)
    gappy = replay(with_gaps, n_rounds=25)
    assert gappy.gains == expected.gains
    assert gappy.probabilities == expected.probabilities
    assert replay(with_gaps).gamma == exploration_rate(len(with_gaps) + 1)


# ------------------------------------------------------------------------------------------- pairs


@given(
    rows=st.dictionaries(st.integers(0, 14), ROWS),
    first=st.integers(0, 5),
    ahead=st.integers(0, 12),
    rule=st.sampled_from(RULES),
)
def test_pairs_and_rewards_agree_with_the_rules_taken_one_by_one(
    rows: oracle.Trials, first: int, ahead: int, rule: RewardRule
) -> None:
    """Gaps, running and failed trials, ties, no start-up: the same rounds as looked up singly."""
    number = first + ahead
    found = pair_rewards(_table(rows), index=number, first=first, rule=rule)
    expected = oracle.pair_rounds(rows, number, first, rule)
    assert [one.arm for one in found] == [arm for arm, _ in expected]
    assert [one.reward for one in found] == [
        None if reward is None else pytest.approx(reward, abs=1e-14) for _, reward in expected
    ]
