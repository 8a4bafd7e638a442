"""UHEBOSampler's bandit in studies: reduced, parallel, interrupted and resumed ones."""

from __future__ import annotations

import logging
import os
import pickle
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.gp import likelihood
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.uhe_bo.algorithm import EXPLORE_WHEN_STAGNATED, RANDOM_ARM, Variant
from bbo_plugins.optuna.sampling.base import model_generator
from bbo_plugins.optuna.study.storage import ARMS
from bbo_plugins.optuna.uhe_bo_sampler import UHEBOSampler
from tests.optuna.uhe_studies import (
    EVERY_PAIR,
    MODEL,
    N_STARTUP,
    N_WHOLE,
    RANDOM,
    SEED,
    SQUARE,
    Chosen,
    arm_of,
    arms,
    default,
    history,
    opened,
    proposal_of,
    ramp,
    rows_of,
    step,
    whole,
)
from tests.oracles.arms import first_of, random_probability

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.trial import Trial

    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot

# --------------------------------------------------------------------------------------- reduction


class Parent(UHEBOSampler):
    """A sampler that takes the parent method's steps."""

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        return gp_bo.suggest(
            snapshot.space,
            snapshot.observations,
            rng=rng,
            options=gp_bo.Options(
                trend=True,
                warm_starts={name: WarmStart.from_json(fit) for name, fit in snapshot.fits.items()},
            ),
        )


def test_map_is_the_parent_method() -> None:
    """With estimation="map", study and stored fits are the parent's; no arm is ever pulled."""
    studies = []
    for sampler in (default(estimation="map"), Parent(n_startup_trials=N_STARTUP, seed=SEED)):
        study = optuna.create_study(sampler=sampler)
        for _ in range(N_WHOLE):
            step(study)
        studies.append(study)
    assert not arms(studies[0])
    assert arms(whole())  # with "uhe" there would be some
    for one, other in zip(*(study.trials for study in studies), strict=True):
        assert one.params == other.params
        first, second = proposal_of(one), proposal_of(other)
        assert (first and first.fits) == (second and second.fits)


# --------------------------------------------------------------------------- whatever comes between


class Script:
    """A study in which workers, users and other samplers do things in random order.

    Before every suggestion the probability of its arms is computed from the stored trials alone.
    """

    MAX_RUNNING: ClassVar[int] = 4

    def __init__(self, sampler: Chosen, script: int, *, steady: bool = False, **study: Any) -> None:
        """Start an empty study."""
        self.sampler, self.steady = sampler, steady
        self.study = optuna.create_study(sampler=sampler, **study)
        self.rng = np.random.default_rng(script)
        self.running: list[Trial] = []  # those with parameters
        self.asked: list[Trial] = []  # those without
        self.n_pulled = self.n_doubted = 0

    def act(self) -> None:
        """Do something."""
        if self.asked and self.rng.random() < 0.5:
            self.suggest(self.asked.pop(int(self.rng.integers(len(self.asked)))))
        elif len(self.running) + len(self.asked) < self.MAX_RUNNING and self.rng.random() < 0.6:
            self.ask()
        elif self.running:
            self.tell(self.running.pop(int(self.rng.integers(len(self.running)))))

    def ask(self) -> None:
        """Start a trial: an enqueued one, one of another sampler, or one that suggests later."""
        kind = self.rng.choice(["plain", "late", "enqueued", "partly", "foreign"])
        if kind in {"enqueued", "partly"}:
            names = list(SQUARE) if kind == "enqueued" else ["y"]
            self.study.enqueue_trial({name: self.rng.random() for name in names})
        if kind == "foreign":
            self.study.sampler = optuna.samplers.RandomSampler(0)
            self.running.append(self.study.ask(SQUARE))
            self.study.sampler = self.sampler
            assert arm_of(self.study.trials[-1]) is None
            return
        trial = self.study.ask()
        if kind == "late":
            self.asked.append(trial)
        else:
            self.suggest(trial)

    def suggest(self, trial: Trial) -> None:
        """Let a trial ask for its parameters, and check the arm and the loss."""
        number = trial.number
        fixed = self.study.trials[number].system_attrs.get("fixed_params", {})
        rows = rows_of(self.study, number)
        for name in SQUARE:
            assert trial.suggest_float(name, 0.0, 1.0) == fixed.get(name, trial.params[name])
        self.running.append(trial)
        proposal = proposal_of(self.study.trials[number])
        if proposal is None or (proposal.arm is None and proposal.criterion is None):
            return  # start-up, or nothing left to suggest
        variant = self.sampler.variant
        second = (number - first_of(rows, number)) % 2 == 1
        doubted = second and rows[number - 1][0] == RANDOM_ARM
        self.n_doubted += doubted
        if proposal.arm != RANDOM:
            loss = (
                variant.criterion if doubted or not variant.on_stagnation else likelihood.MARGINAL
            )
            assert proposal.criterion == loss.name
            assert (proposal.expected_gain is None) is (doubted and variant.on_stagnation)
        if second:
            assert proposal.arm is None
        elif proposal.arm is not None or not variant.on_stagnation:
            p = random_probability(rows, number, variant, self.sampler._n_trials)
            draw = model_generator(self.sampler._draw_seed, number).random()
            assert proposal.arm == (RANDOM if draw < p else MODEL)
            self.n_pulled += 1

    def tell(self, trial: Trial) -> None:
        """End a trial in one of several ways."""
        outcome = self.rng.choice(["complete"] * 4 + ["fail", "prune"])
        trial.set_user_attr("violation", float(self.rng.choice([-1.0, 1.0])))
        value = ramp(trial.params) if self.steady else float(self.rng.integers(-3, 4))
        if outcome == "prune":
            trial.report(value, 0)
        states = {"fail": TrialState.FAIL, "prune": TrialState.PRUNED}
        given = value if outcome == "complete" else None
        self.study.tell(trial, given, state=states.get(str(outcome)))


@pytest.mark.parametrize(
    "script, direction, arguments, variant",
    [
        (0, "minimize", {}, EVERY_PAIR),
        (1, "maximize", {"n_trials": 31}, Variant(likelihood.MARGINAL, on_stagnation=False)),
        (
            1,
            "minimize",
            {"constraints_func": lambda trial: [trial.user_attrs["violation"]]},
            EVERY_PAIR,
        ),
    ],
    ids=["scaled", "improvement, planned", "constrained"],
)
def test_arms_follow_from_the_stored_trials(
    script: int, direction: str, arguments: dict[str, Any], variant: Variant
) -> None:
    """Out of order, failed, pruned, enqueued, foreign, late and running trials: EXP3 as replayed.

    Up to four trials run at once; an infeasible value counts as none.
    """
    sampler = Chosen(variant, seed=script, warn_independent_sampling=False, **arguments)
    scene = Script(sampler, script, direction=direction)
    for _ in range(100):
        scene.act()
    assert scene.n_pulled >= 8
    assert set(arms(scene.study)) == set(ARMS)


def test_the_default_asks_at_the_first_of_a_pair_only_whatever_comes_between() -> None:
    """The same scenes on a ramp, with the variant that waits: the arms pulled are EXP3's."""
    n_pulled = n_doubted = 0
    for script in range(2):
        sampler = Chosen(EXPLORE_WHEN_STAGNATED, seed=script, warn_independent_sampling=False)
        scene = Script(sampler, script, steady=True)
        for _ in range(90):
            scene.act()
        n_pulled += scene.n_pulled
        n_doubted += scene.n_doubted
    assert n_pulled >= 3
    assert n_doubted >= 1


# ---------------------------------------------------------------------------------- what is stored


@pytest.mark.parametrize("how", ["new", "pickled"])
def test_another_sampler_object_for_every_trial_makes_the_same_study(how: str) -> None:
    """Nothing but the study is remembered: points, arms, losses and expectations are the same."""
    study = optuna.create_study(sampler=default())
    for _ in range(N_WHOLE):
        pickled = pickle.dumps(study.sampler)
        study.sampler = default() if how == "new" else pickle.loads(pickled)  # noqa: S301 - our own
        step(study)
    assert history(study) == history(whole())
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


def test_one_line_tells_the_share_of_random_trials(caplog: pytest.LogCaptureFixture) -> None:
    """Each random trial is logged once at INFO with what all of them add up to, itself included."""
    caplog.set_level(logging.INFO, "bbo_plugins")
    study = whole(24)
    pattern = re.compile(r"trial (\d+) explores .* (\d+) of (\d+) trials since .* \((\d+)%\)\.$")
    found = (pattern.search(record.getMessage()) for record in caplog.records)
    told = [tuple(map(int, match.groups())) for match in found if match]
    explored = [trial.number for trial in study.trials if arm_of(trial) == RANDOM]
    assert len(explored) > 2
    since = [number - N_STARTUP + 1 for number in explored]
    assert told == [
        (number, count, n, round(100.0 * count / n))
        for count, (number, n) in enumerate(zip(explored, since, strict=True), start=1)
    ]
