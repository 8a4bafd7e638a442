"""UHEBOSampler on what is stored: resumed studies, arms, fits of two losses, hostile records."""

from __future__ import annotations

import copy
import itertools
import logging
import math
import os
import pickle
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from bbo_plugins.gp import likelihood
from bbo_plugins.methods.uhe_bo import algorithm as uhe_bo
from bbo_plugins.methods.uhe_bo import losses
from bbo_plugins.methods.uhe_bo.algorithm import EXPLORE_WHEN_STAGNATED, Variant
from bbo_plugins.optuna.sampling.randomness import model_generator
from bbo_plugins.optuna.study.proposal import ARMS, Proposal
from tests.optuna.studies import MIXED, quadratic
from tests.optuna.uhe_studies import (
    MODEL,
    N_STARTUP,
    N_WHOLE,
    RANDOM,
    SQUARE,
    Chosen,
    arm_of,
    arms,
    default,
    history,
    opened,
    plateau,
    proposal_of,
    rows_of,
    step,
    whole,
)
from tests.oracles.arms import random_probability

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.optuna.uhe_bo_sampler import UHEBOSampler

# ---------------------------------------------------------------------------------- reproducibility


def renewed(sampler: UHEBOSampler, how: str) -> UHEBOSampler:
    """Return a sampler with the same arguments and without any memory of the study."""
    if how == "new":
        return default()
    if how == "pickled":
        return pickle.loads(pickle.dumps(sampler))  # type: ignore[no-any-return]  # noqa: S301 - our own bytes
    return copy.deepcopy(sampler)


@pytest.mark.parametrize("how", ["new", "pickled", "copied"])
def test_another_sampler_object_for_every_trial_makes_the_same_study(how: str) -> None:
    """Nothing but the study is remembered: points, arms, losses and expectations are the same."""
    study = optuna.create_study(sampler=default())
    for _ in range(N_WHOLE):
        study.sampler = renewed(study.sampler, how)  # type: ignore[arg-type]
        step(study)
    assert history(study) == history(whole())
    assert set(arms(study)) == set(ARMS)


def test_a_study_cut_into_pieces_is_the_whole_one(tmp_path: Path) -> None:
    """New connections to a database, with new samplers, go on with the bandit."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="s")
    for length in (4, 3, 6):
        study = optuna.load_study(storage=RDBStorage(url), study_name="s", sampler=default())
        for _ in range(length):
            step(study)
    assert history(study) == history(whole(13))
    assert set(arms(study)) == set(ARMS)


PROGRAM = """
import optuna, sys
sys.path.insert(0, sys.argv[1])
optuna.logging.set_verbosity(optuna.logging.ERROR)
from tests.optuna.uhe_studies import N_WHOLE, opened, step
study = opened(sys.argv[2])
while len(study.trials) < N_WHOLE:
    step(study)
"""


def test_another_process_goes_on_with_the_bandit(tmp_path: Path) -> None:
    """It replays what it finds, up to the middle of a pair."""
    path = str(tmp_path / "study.log")
    for _ in range(9):
        step(opened(path))
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - as text
    subprocess.run([sys.executable, "-c", PROGRAM, root, path], check=True)
    assert history(opened(path)) == history(whole())


def test_minimization_mirrors_maximization() -> None:
    """The same points and arms for the negative of an objective in the other direction."""
    studies = []
    for direction, sign in (("minimize", 1.0), ("maximize", -1.0)):
        study = optuna.create_study(sampler=default(), direction=direction)  # type: ignore[arg-type]
        for _ in range(18):
            step(study, lambda params, sign=sign: sign * (plateau(params) + 1e-9 * params["x"]))  # type: ignore[misc]
        studies.append(study)
    assert history(studies[0]) == history(studies[1])
    assert set(arms(studies[0])) == set(ARMS)


# ------------------------------------------------------------------------------ constructed studies


def finished(x: float, value: float, attributes: Mapping[str, Any] | None = None) -> FrozenTrial:
    """Return a complete trial on the diagonal of the square."""
    return optuna.create_trial(
        value=value,
        params={"x": x, "y": x},
        distributions=SQUARE,
        system_attrs=dict(attributes or {}),
    )


def with_rewards(favored: str, n_pairs: int = 6, **record: Any) -> list[FrozenTrial]:
    """Return trials at rest in which one arm has always paid, if by next to nothing."""
    grid = np.linspace(0.02, 0.98, N_STARTUP + 2 * n_pairs)
    trials = [finished(x, float(i)) for i, x in enumerate(grid[:N_STARTUP])]
    for i, x in enumerate(grid[N_STARTUP:]):
        fields: dict[str, Any] = {"expected_gain": 0.01 * uhe_bo._SMALL_GAIN, **record}
        if i % 2 == 0:
            fields["arm"] = favored
        attributes = Proposal({"x": x, "y": x}, **fields).to_attributes()
        value = N_STARTUP - float(i % 5) if i % 2 else N_STARTUP + 1e-9 * i
        trials.append(finished(x, value, attributes))
    return trials


def next_of(trials: list[FrozenTrial], sampler: UHEBOSampler) -> FrozenTrial:
    """Return the trial that follows those given, in a study of its own."""
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.add_trials(trials)
    study.ask(SQUARE)
    return study.trials[-1]


class Exploring(Chosen):
    """A sampler that pulls the random arm whenever its bandit is asked, pair after pair."""

    def __init__(self, **arguments: Any) -> None:
        """Choose the variant."""
        super().__init__(Variant(likelihood.MARGINAL, on_stagnation=False), **arguments)

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        # One whose first number is below any probability of an arm in the studies below.
        seeds = rng.integers(2**32, size=1_000).tolist()
        seed = next(seed for seed in seeds if np.random.default_rng(seed).random() < 0.05)
        return super()._suggest(snapshot, np.random.default_rng(seed))


@pytest.mark.parametrize("favored", [RANDOM, MODEL])
def test_planned_trials_change_the_arm(favored: str) -> None:
    """Where the draw lies between the probabilities of two plans, the arms differ."""
    trials = with_rewards(favored)
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    number = len(trials)
    rows = rows_of(study, number)
    plans = (number + 2, number + 40, 50_000)
    by_plan = sorted(
        (random_probability(rows, number, EXPLORE_WHEN_STAGNATED, t), t) for t in plans
    )
    (low, one), (high, other) = max(
        itertools.combinations(by_plan, 2), key=lambda p: p[1][0] - p[0][0]
    )
    assert high - low > 0.01
    seed = next(s for s in range(999) if low < model_generator(s, number).random() < high)
    pulled = [arm_of(next_of(trials, default(seed, n_trials=plan))) for plan in (one, other)]
    assert pulled == [MODEL, RANDOM]


def test_one_line_tells_the_share_of_random_trials(caplog: pytest.LogCaptureFixture) -> None:
    """Each random trial is logged once at INFO with what all of them add up to, itself included."""
    caplog.set_level(logging.INFO, "bbo_plugins")
    study = whole(24)
    pattern = re.compile(r"trial (\d+) explores .* (\d+) of (\d+) trials since .* \((\d+)%\)\.$")
    lines = [record.getMessage() for record in caplog.records if "explores" in record.getMessage()]
    told = [tuple(map(int, match.groups())) for match in map(pattern.search, lines) if match]
    explored = [trial.number for trial in study.trials if arm_of(trial) == RANDOM]
    assert len(told) == len(lines) == len(explored) > 2
    for count, (number, (said, n_random, n_trials, share)) in enumerate(
        zip(explored, told, strict=True), start=1
    ):
        assert (said, n_random) == (number, count)
        assert n_trials == number - N_STARTUP + 1
        assert share == round(100.0 * count / n_trials)


# --------------------------------------------------------------------------------- losses and fits


def test_names_of_losses_differ() -> None:
    """Fits are kept apart by these names."""
    known = (
        likelihood.Marginal(),
        losses.NearestNeighborPseudoData(),
        losses.WeightedLeaveOneOut(),
    )
    assert len({likelihood.name_of(loss) for loss in known}) == len(known)


@pytest.mark.parametrize("used", [likelihood.MARGINAL, losses.WeightedLeaveOneOut()])
def test_fits_continue_from_those_of_the_same_loss(used: likelihood.FitCriterion) -> None:
    """A stored fit changes the next one if it is of the same loss, and nothing if it is not."""
    other = losses.WeightedLeaveOneOut() if used == likelihood.MARGINAL else likelihood.MARGINAL
    variant = Variant(used, explores=False, on_stagnation=False)
    trials = [finished(x, math.sin(5.0 * x)) for x in np.linspace(0.05, 0.95, 8)]
    far = next_of(trials[:5], Chosen(variant, seed=0))  # a fit of other data
    proposal = proposal_of(far)
    assert proposal is not None

    def following(loss: likelihood.FitCriterion | None) -> tuple[Any, ...]:
        fits = () if loss is None else proposal.fits
        name = None if loss is None else likelihood.name_of(loss)
        attributes = Proposal(proposal.params, fits, loss=name).to_attributes()
        carrier = optuna.create_trial(state=TrialState.FAIL, system_attrs=attributes)
        made = proposal_of(next_of([*trials, carrier], Chosen(variant, seed=0)))
        assert made is not None
        assert made.loss == likelihood.name_of(used)
        return made.fits, made.params

    assert following(other) == following(None)
    assert following(used)[0] != following(None)[0]


# ------------------------------------------------------------------------------------ hostile, odd


def test_finite_deterministic_spaces_are_exhausted_while_exploring() -> None:
    """Random points do not repeat either, before the space is exhausted."""
    sampler = Exploring(seed=0, deterministic_objective=True)
    study = optuna.create_study(sampler=sampler)
    space: dict[str, BaseDistribution] = {"a": IntDistribution(0, 4), "b": IntDistribution(0, 3)}
    seen = set()
    for _ in range(20):
        trial = study.ask(space)
        seen.add((trial.params["a"], trial.params["b"]))
        study.tell(trial, 1.0)
    assert len(seen) == 20
    assert arms(study).count(RANDOM) >= 7


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("way", ["enqueued", "held"])
def test_random_points_keep_what_is_given(way: str) -> None:
    """The random arm of a partly enqueued trial, or of one with held parameters, moves the rest."""
    sampler = Exploring(seed=0)
    study = optuna.create_study(sampler=sampler)
    for _ in range(N_STARTUP):
        trial = study.ask(MIXED)
        study.tell(trial, trial.params["s"])
    given = {"lr": 1.0, "c": True}
    if way == "held":
        study.sampler = optuna.samplers.PartialFixedSampler(given, sampler)
    points = set()
    for _ in range(6):
        if way == "enqueued":
            study.enqueue_trial(given)
        trial = study.ask(MIXED)
        study.tell(trial, trial.params["s"])
        assert {name: trial.params[name] for name in given} == given
        if arm_of(study.trials[-1]) == RANDOM:
            points.add(tuple(map(str, trial.params.values())))
    assert len(points) == 3


def test_the_optimum_is_found_all_the_same() -> None:
    """Exploring at rest costs no more than some trials: the bowl's minimum is found."""
    study = optuna.create_study(sampler=default())
    for _ in range(24):
        step(study, lambda params: quadratic({**params, "z": 0.8}))
    assert study.best_value < 1e-3
