"""UHE-BO's step: when the bandit is asked, what its arms do, and what is left of the parent."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.likelihood import MARGINAL
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.uhe_bo import algorithm as uhe_bo
from bbo_plugins.methods.uhe_bo.algorithm import (
    AS_IN_THE_PAPER,
    EXPLORE_WHEN_STAGNATED,
    MAP_ONLY,
    MODEL_ARM,
    RANDOM_ARM,
    Variant,
)
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData, WeightedLeaveOneOut
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.arms import Row, first_of, past_of, random_probability
from tests.oracles.problems import observe, unit_box
from tests.oracles.steps import NAMES, assert_valid, smooth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.acquisition.functions import AcquisitionName
    from bbo_plugins.gp.likelihood import FitCriterion
    from bbo_plugins.methods.observations import Observations, Suggestion
    from bbo_plugins.space.dimension import FloatArray

LITERAL = AS_IN_THE_PAPER
# The rules of the bandit without the cost of the paper's loss.
EVERY_PAIR = replace(LITERAL, criterion=MARGINAL)

# The first number of each generator, so that the arm can be chosen. No arm's probability comes near
# 0 or 1 in the tables below, so the lowest number pulls the random arm and the highest the model's.
DRAWS = sorted((np.random.default_rng(seed).random(), seed) for seed in range(2000))
PULLS_RANDOM, PULLS_MODEL = DRAWS[0][1], DRAWS[-1][1]

DATA = observe(X := np.random.default_rng(0).random((6, 2)), smooth(X))
SMALL, LARGE = 0.1 * uhe_bo._SMALL_GAIN, 10.0 * uhe_bo._SMALL_GAIN
FIRST = 4  # the first trial after start-up in the tables below


def ask(
    rows: Mapping[int, Row],
    number: int,
    variant: Variant = EXPLORE_WHEN_STAGNATED,
    *,
    seed: int = 0,
    space: SearchSpace | None = None,
    observations: Observations = DATA,
    **options: Any,
) -> Suggestion:
    """Suggest trial ``number`` with a generator of its own, in the unit box unless told so."""
    space = space or unit_box(observations.X.shape[1])
    rng = np.random.default_rng(seed)
    step = uhe_bo.suggest(
        space, observations, past_of(rows), index=number, rng=rng, variant=variant, **options
    )
    assert_valid(step, space)
    assert step.expected_gain is None or math.isfinite(step.expected_gain)
    return step


def stagnated(number: int = FIRST + 6) -> dict[int, Row]:
    """Return the trials before ``number`` of a search that has brought nothing of late."""
    rows: dict[int, Row] = {n: (None, True, float(min(n, 3)), None) for n in range(FIRST)}
    return rows | dict.fromkeys(range(FIRST, number), (None, True, 3.0, SMALL))


def state(step: Suggestion) -> tuple[Any, ...]:
    """Return all of a suggestion that the parent method has too, to be compared."""
    fits = {name: json.dumps(fit.to_json()) for name, fit in step.warm_starts.items()}
    return step.x.tolist(), step.expected_gain, fits, step.notes


# --------------------------------------------------------------------------------------- reduction


def demanding(seed: int) -> Observations:
    """Return observations with constraints, known noise, pending and failed points."""
    rng = np.random.default_rng(seed)
    X = rng.random((9, 2))
    return observe(
        X,
        smooth(X),
        complete=np.arange(9) != 4,
        pending=rng.random((2, 2)),
        noise_variance=np.where(np.arange(9) % 2, 0.01, math.nan),
        constraints=X[:, :1] - 0.7,
        failed=rng.random((1, 2)),
    )


@pytest.mark.parametrize("rows", [{}, stagnated()], ids=["new", "stagnated"])
@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_without_its_parts_it_is_the_parent_method(
    rows: dict[int, Row], acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Point, expectation and fits equal those of ``gp_bo`` to the last bit."""
    observations = demanding(1)
    options = gp_bo.Options(acquisition=acquisition, beta=1.5, deterministic=deterministic)
    rng = np.random.default_rng(3)
    parent = gp_bo.suggest(unit_box(2), observations, rng=rng, options=options)
    step = ask(rows, FIRST + 6, MAP_ONLY, seed=3, observations=observations, options=options)
    assert state(step) == state(parent)
    assert step.arm is None
    assert step.criterion == MARGINAL.name


@pytest.mark.parametrize("variant", [EXPLORE_WHEN_STAGNATED, Variant(explores=False)])
def test_while_the_search_moves_the_default_is_the_parent_method(variant: Variant) -> None:
    """Nothing is drawn for an arm and the ordinary loss is minimized, in either place of a pair."""
    rows = stagnated() | {n: (None, True, float(n), LARGE) for n in range(FIRST, FIRST + 6)}
    for number in (FIRST + 5, FIRST + 6):
        parent = gp_bo.suggest(unit_box(2), DATA, rng=np.random.default_rng(0))
        step = ask(rows, number, variant)
        assert state(step) == state(parent)
        assert (step.arm, step.criterion) == (None, MARGINAL.name)


@pytest.mark.parametrize("loss", [NearestNeighborPseudoData(), WeightedLeaveOneOut()])
def test_fits_continue_from_those_of_the_same_loss(loss: FitCriterion) -> None:
    """The fit starts from the state of the loss in use; borrowed noise, from the ordinary one."""
    old = observe(X := DATA.X[:5], smooth(X))
    states = {
        known: gp_bo.suggest(
            unit_box(2), old, rng=np.random.default_rng(1), options=gp_bo.Options(criterion=known)
        ).warm_starts
        for known in (loss, MARGINAL)
    }

    variant = Variant(criterion=loss, explores=False, on_stagnation=False)
    own, ordinary = states[loss][loss.name], states[MARGINAL][MARGINAL.name]
    both = {loss.name: own, MARGINAL.name: ordinary}
    step = ask({}, 0, variant, options=gp_bo.Options(warm_starts=both))
    for starts, same in (
        (both, True),
        ({loss.name: ordinary, MARGINAL.name: ordinary}, False),
        ({loss.name: own}, not loss.borrows_noise),  # others have no use for it
    ):
        parent = gp_bo.suggest(
            unit_box(2),
            DATA,
            rng=np.random.default_rng(0),
            options=gp_bo.Options(criterion=loss, warm_starts=starts),
        )
        assert (state(step) == state(parent)) is same


# -------------------------------------------------------------------------------- when it is asked


def is_asked(rows: Mapping[int, Row], number: int) -> bool:
    """Return whether the bandit decides the trial; here, it always does so for the random arm."""
    return ask(rows, number, seed=PULLS_RANDOM).arm == RANDOM_ARM


REST = FIRST + 6
LAST = REST - 1
RISE = 2.0 * uhe_bo._SMALL_RISE * 3.0  # in the units of ``stagnated``, whose spread is 1 or so


def expecting(*gains: float | None, before: float | None = SMALL) -> dict[int, Row]:
    """Return the trials after start-up, the latest of them with these expectations."""
    given = [before] * (REST - FIRST - len(gains)) + [*gains]
    return {n: (None, True, 3.0, gain) for n, gain in enumerate(given, start=FIRST)}


@pytest.mark.parametrize(
    "change, expected",
    [
        pytest.param({}, True, id="stagnated"),
        pytest.param(expecting(SMALL, LARGE), True, id="expected nothing of the one before"),
        pytest.param(expecting(SMALL, LARGE, LARGE), False, id="only the latest two count"),
        pytest.param(expecting(SMALL, None, LARGE, None), True, id="the latest two that have one"),
        pytest.param(
            dict.fromkeys((LAST - 1, LAST), (None, False, None, LARGE)),
            False,
            id="expects something of running trials",
        ),
        pytest.param(
            dict.fromkeys(range(FIRST, REST), (None, True, 3.0, None)), False, id="no model so far"
        ),
        pytest.param({LAST: (None, True, 3.0 + RISE, SMALL)}, False, id="has just improved"),
        pytest.param({LAST: (None, True, None, SMALL)}, True, id="a failure is no improvement"),
        pytest.param({REST + 1: (None, True, 9.0, LARGE)}, True, id="later trials are not seen"),
        pytest.param(
            dict.fromkeys(range(REST), (None, True, None, LARGE)),
            False,
            id="no value, but one is expected",
        ),
    ],
)
def test_the_default_waits_until_the_search_has_come_to_rest(
    change: dict[int, Row], expected: bool
) -> None:
    """Next to nothing is expected, and next to nothing has been found by the latest trials."""
    assert is_asked(stagnated() | change, REST) is expected


def test_the_papers_loss_is_minimized_for_every_trial_that_a_model_suggests() -> None:
    """With the variant of the paper, the loss does not wait, in either place of a pair.

    Whichever arm the pair's first has pulled, both tell what they expect.
    """
    first = ask(stagnated(), REST, LITERAL, seed=PULLS_MODEL)
    assert (first.arm, first.criterion) == (MODEL_ARM, LITERAL.criterion.name)
    assert first.expected_gain is not None
    for arm in (RANDOM_ARM, MODEL_ARM, None):
        second = ask(stagnated() | {REST: (arm, True, 0.0, None)}, REST + 1, LITERAL)
        assert (second.arm, second.criterion) == (None, LITERAL.criterion.name)
        assert second.expected_gain is not None


# ----------------------------------------------------------------------------- a pair that is asked


def by_model(seed: int, *, n_drawn: int, loss: FitCriterion = MARGINAL) -> tuple[Any, ...]:
    """Return the parent method's step with a generator that has drawn some numbers before."""
    rng = np.random.default_rng(seed)
    rng.random(n_drawn)
    step = gp_bo.suggest(unit_box(2), DATA, rng=rng, options=gp_bo.Options(criterion=loss))
    assert step.expected_gain is not None
    return state(step)


@pytest.mark.parametrize("finished", [True, False])
def test_the_models_arm_is_two_ordinary_steps(finished: bool) -> None:
    """Both are the parent's, what they expect included, but that the arm took one number."""
    first = ask(stagnated(), REST, seed=PULLS_MODEL)
    assert (first.arm, first.criterion) == (MODEL_ARM, MARGINAL.name)
    assert state(first) == by_model(PULLS_MODEL, n_drawn=1)
    rows = stagnated() | {REST: (MODEL_ARM, finished, 3.0, first.expected_gain)}
    second = ask(rows, REST + 1)
    assert (second.arm, second.criterion) == (None, MARGINAL.name)
    assert state(second) == by_model(0, n_drawn=0)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param((RANDOM_ARM, True, 1.0, None), id="finished"),
        pytest.param((RANDOM_ARM, True, 9.0, None), id="improved"),
        pytest.param((RANDOM_ARM, True, None, None), id="failed"),
        pytest.param((RANDOM_ARM, False, None, None), id="running"),
    ],
)
def test_after_a_random_point_the_model_is_doubted(first: Row) -> None:
    """The second of the pair is by the variant's loss, and what it expects is nobody's business."""
    assert ask(stagnated(), REST, seed=PULLS_RANDOM).arm == RANDOM_ARM
    second = ask(stagnated() | {REST: first}, REST + 1)
    assert (second.arm, second.criterion) == (None, WeightedLeaveOneOut().name)
    point, _, *rest = by_model(0, n_drawn=0, loss=WeightedLeaveOneOut())
    assert state(second) == (point, None, *rest)
    assert point != by_model(0, n_drawn=0)[0]  # of the ordinary model


# --------------------------------------------------------------------------------------- the bandit

ROWS = st.dictionaries(
    st.integers(0, 16),
    st.tuples(
        st.one_of(st.integers(0, 1), st.integers(0, 1), st.none()),
        st.one_of(st.just(value=True), st.just(value=True), st.booleans()),
        st.one_of(st.integers(-3, 3).map(float), st.integers(-3, 3).map(float), st.none()),
        st.none() | st.just(SMALL),
    ),
    max_size=17,
)


@given(
    rows=ROWS,
    ahead=st.integers(0, 5),
    n_trials=st.none() | st.integers(1, 60),
    reward=st.sampled_from(["improvement", "scaled"]),
)
@settings(max_examples=25)
def test_arms_are_pulled_with_the_probabilities_of_exp3(
    rows: dict[int, Row], ahead: int, n_trials: int | None, reward: Any
) -> None:
    """Draws next to the replayed probability decide as they must, at the first of a pair only.

    The tables have gaps, failed and running trials, arms at the second of a pair, foreign trials.
    """
    variant = replace(EVERY_PAIR, reward=reward)
    number = max(rows, default=0) + 1 + ahead
    if (number - first_of(rows, number)) % 2:
        assert ask(rows, number, variant, n_trials=n_trials).arm is None
        number += 1
    p = random_probability(rows, number, variant, n_trials)
    below = max((draw for draw in DRAWS if draw[0] < p - 1e-9), default=None)
    above = min((draw for draw in DRAWS if draw[0] > p + 1e-9), default=None)
    for draw, arm in ((below, RANDOM_ARM), (above, MODEL_ARM)):
        if draw is not None:
            assert ask(rows, number, variant, seed=draw[1], n_trials=n_trials).arm == arm


# -------------------------------------------------------------------------------- the random point


def explore(
    n: int,
    space: SearchSpace | None = None,
    observations: Observations = DATA,
    n_draws: int = EXPLORE_WHEN_STAGNATED.n_draws,
) -> FloatArray:
    """Return the points (n, d) of the random arm for n generators."""
    variant = replace(EVERY_PAIR, n_draws=n_draws)  # whose first pair is decided by a fair coin
    steps = [
        ask({}, 0, variant, seed=seed, space=space, observations=observations)
        for seed in [seed for draw, seed in DRAWS if draw < 0.5][:n]
    ]
    assert {step.arm for step in steps} == {RANDOM_ARM}
    for step in steps:
        assert (step.warm_starts, step.notes, step.expected_gain, step.criterion) == (
            {},
            (),
            None,
            None,
        )
    return np.array([step.x for step in steps])


@pytest.mark.parametrize("kind", ["observed", "pending", "failed"])
@pytest.mark.parametrize("held", [None, 0.0, 0.4], ids=["free", "held at a wall", "held inside"])
def test_random_points_keep_away_from_what_is_known(kind: str, held: float | None) -> None:
    """The mean distance to evaluated, running or failed points is above that of uniform draws."""
    space = unit_box(3) if held is None else unit_box(3).held({"x1": held})
    rng = np.random.default_rng(2)
    known = rng.random((18, 3))
    if held is not None:
        known[:, 1] = held
    one = np.full((1, 3), 0.95)
    X = known if kind == "observed" else one
    options: Any = {} if kind == "observed" else {kind: known}
    observations = observe(X, smooth(X), **options)
    gaps = [
        float(np.mean(space.distances(explore(80, space, observations, n), known).min(axis=1)))
        for n in (1, EXPLORE_WHEN_STAGNATED.n_draws)
    ]
    assert gaps[1] > 1.25 * gaps[0]


@pytest.mark.parametrize("n_draws", [1, EXPLORE_WHEN_STAGNATED.n_draws])
@pytest.mark.parametrize("kind", ["observed", "pending", "failed"])
@pytest.mark.parametrize("held", [{}, {"b": "y"}])
def test_finite_spaces_are_exhausted_before_anything_repeats(
    n_draws: int, kind: str, held: dict[str, Any]
) -> None:
    """The points that have not been taken are found, each of them; then any will do."""
    space = SearchSpace(
        {"a": Dimension.integers(1, 90, log=True), "b": Dimension.categorical("xyz")}
    ).held(held)
    everything = space.enumerate()
    middle = len(everything) // 2
    left = everything[middle : middle + 2]
    taken = np.delete(everything, [middle, middle + 1], axis=0)
    options: Any = {} if kind == "observed" else {kind: taken}
    X = taken if kind == "observed" else taken[:1]
    points = explore(12, space, observe(X, smooth(X), **options), n_draws)
    found = {row.tobytes() for row in points}
    assert found <= {row.tobytes() for row in left}
    assert len(found) == 2 or n_draws > 1  # of several draws the furthest one is taken
    exhausted = explore(12, space, observe(everything, smooth(everything)), n_draws)
    assert len({row.tobytes() for row in exhausted}) > 2
