"""What another worker does between a worker's look at the study and its own suggestion."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.methods.bilbo import algorithm as bilbo
from bbo_plugins.optuna import bilbo_sampler
from bbo_plugins.optuna.sampling.base import _MAX_ATTEMPTS, ModelSampler
from bbo_plugins.optuna.study.storage import Proposal, store_proposal
from bbo_plugins.optuna.study.trials import BESIDE_KEY
from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    BILEVEL,
    DEFAULT,
    SAMPLERS,
    ask,
    assert_modeled,
    run,
    sampler_of,
    space_in,
    stored_of,
    study_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from bbo_plugins.methods.bilbo.algorithm import Query
    from bbo_plugins.methods.bilbo.model import BilevelProblem
    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot, StudySnapshot

_PATIENCE = 20  # seconds until workers give up waiting for one another


class Other:
    """Another process: it is ahead with each point that the sampler at hand comes to.

    Args:
        study: The study.
        state: How far it gets with the trial; None if it has but stored its proposal.
        n: How many times it is ahead.
        began_first: Whether its trials have lower numbers than that of the sampler at hand.
    """

    def __init__(
        self, study: Study, state: TrialState | None, n: int, *, began_first: bool = False
    ) -> None:
        """Start with nothing suggested."""
        self.study, self.state, self.n = study, state, n
        self.taken: list[dict[str, Any]] = []
        self.begun = [self._begin() for _ in range(n)] if began_first else []

    def _begin(self) -> FrozenTrial:
        storage = self.study._storage
        return storage.get_trial(storage.create_new_trial(self.study._study_id))

    def take(self, params: dict[str, Any]) -> None:
        """Get ahead, unless that has been done often enough."""
        if len(self.taken) >= self.n:
            return
        self.taken.append(params)
        storage, space = self.study._storage, space_in(self.study)
        trial = self.begun.pop() if self.begun else self._begin()
        store_proposal(self.study, trial, Proposal.of(params, space))
        if self.state is None:
            return
        for name, value in params.items():
            internal = space[name].to_internal_repr(value)
            storage.set_trial_param(trial._trial_id, name, internal, space[name])
        if self.state is not TrialState.RUNNING:
            storage.set_trial_state_values(trial._trial_id, self.state, [1.0])


def overtaken(name: str, other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``other`` know what the study's sampler comes to, before it stores it."""
    if name == BILEVEL:
        suggest = bilbo.suggest

        def told(problem: BilevelProblem, *rest: Any, **options: Any) -> Query:
            query = suggest(problem, *rest, **options)
            other.take({**problem.space.decode(query.x), "query": query.function})
            return query

        monkeypatch.setattr(bilbo_sampler, "suggest", told)
        return
    made_by = type(other.study.sampler)
    assert issubclass(made_by, ModelSampler)
    own = made_by._suggest

    def told_too(sampler: ModelSampler, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        suggestion = own(sampler, snapshot, rng)
        other.take(snapshot.params_at(suggestion.x))
        return suggestion

    monkeypatch.setattr(made_by, "_suggest", told_too)


@pytest.mark.parametrize("state", [TrialState.RUNNING, TrialState.COMPLETE], ids=lambda s: s.name)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_point_tried_meanwhile_is_given_up(
    name: str, state: TrialState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the other trial is still running or has completed in the meantime."""
    study = study_of(name)
    run(study, 6)
    other = Other(study, state, 1)
    overtaken(name, other, monkeypatch)
    trial = ask(study)
    assert other.taken
    assert trial.params not in other.taken


class InStep:
    """Workers that look at the study, store, and look again at the same moments.

    Args:
        study: The study, with a sampler of the name.
        name: Name of each worker's sampler.
        n: Number of workers.
    """

    def __init__(self, study: Study, name: str, n: int) -> None:
        """Start with nothing suggested."""
        self.study, self.name, self.n = study, name, n
        # What all have done before any goes on.
        self.suggested, self.stored, self.looked, self.withdrawn = (
            threading.Barrier(n, timeout=_PATIENCE) for _ in range(4)
        )
        self.met: dict[int, Mapping[str, Any]] = {}  # what all come to first, by trial number

    def asked(self) -> list[Trial]:
        """Return the trials that the workers ask for."""
        with ThreadPoolExecutor(self.n) as pool:
            jobs = [pool.submit(self._ask) for _ in range(self.n)]
            return sorted((job.result() for job in jobs), key=lambda trial: trial.number)

    def _ask(self) -> Trial:
        sampler: Any = sampler_of(self.name)
        attempt, look_again = sampler._attempt, sampler._look_again
        attempts, looks = itertools.count(), itertools.count()

        def attempt_in_step(snapshot: StudySnapshot, rng: np.random.Generator) -> Any:
            turn = next(attempts)
            if turn == 1:
                self.withdrawn.wait()
            suggestion = attempt(snapshot, rng)
            if turn == 0:
                self.met[snapshot.number] = sampler._params_of(snapshot, suggestion)
                self.suggested.wait()
            return suggestion

        def look_again_in_step(*arguments: Any) -> Any:
            is_first = next(looks) == 0
            if is_first:
                self.stored.wait()
            seen = look_again(*arguments)
            if is_first:
                self.looked.wait()
            return seen

        sampler._attempt, sampler._look_again = attempt_in_step, look_again_in_step
        storage, study_name = self.study._storage, self.study.study_name
        study = optuna.load_study(study_name=study_name, storage=storage, sampler=sampler)
        return study.ask(space_in(study))


# The turns of the default differ among workers, who come to points of their own.
@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != DEFAULT])
def test_of_workers_in_step_the_first_one_keeps_the_point(name: str) -> None:
    """The others make way, to points of their own, and models suggest all of them."""
    study = study_of(name)
    run(study, 6)
    workers = InStep(study, name, 4)
    trials = workers.asked()
    first = trials[0].number
    assert trials[0].params == workers.met[first]
    assert sorted(workers.met) == [first, first + 1, first + 2, first + 3]
    assert len({tuple(trial.params.values()) for trial in trials}) == 4
    for trial in trials:
        assert_modeled(study, trial)
        stored = stored_of(study.trials[trial.number])
        assert stored is not None
        assert stored.values(space_in(study)) == trial.params


@pytest.mark.parametrize("began_first", [False, True])
@pytest.mark.parametrize("name", QUICK)
def test_one_that_meets_others_everywhere_takes_a_point_of_the_design(
    name: str, began_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a point of its own, and no model is said to have suggested it."""
    study = study_of(name)
    run(study, 6)
    other = Other(study, None, _MAX_ATTEMPTS, began_first=began_first)
    with monkeypatch.context() as patch:
        overtaken(name, other, patch)
        trial = ask(study)
    assert len(other.taken) == _MAX_ATTEMPTS
    assert trial.params not in other.taken
    stored = stored_of(study.trials[trial.number])
    assert stored is not None
    assert stored.values(space_in(study)) == trial.params
    assert stored.arm is None
    assert stored.expected_gain is None
    assert stored.criterion is None
    assert not stored.fits
    assert not study.trials[trial.number].system_attrs.get(BESIDE_KEY)  # no model suggested it
    assert_modeled(study, ask(study))


@pytest.mark.parametrize("name", QUICK)
def test_the_last_attempt_stands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a trial that began before is at that point, too; then both evaluate it."""
    study = study_of(name)
    run(study, 6)
    other = Other(study, None, 100, began_first=True)
    sampler: Any = study.sampler
    params_of = sampler._params_of

    def told(snapshot: StudySnapshot, suggestion: Any) -> dict[str, Any]:
        params: dict[str, Any] = params_of(snapshot, suggestion)
        other.take(params)
        return params

    monkeypatch.setattr(sampler, "_params_of", told)
    trial = ask(study)
    stored = stored_of(study.trials[trial.number])
    assert stored is not None
    assert stored.values(space_in(study)) == trial.params == other.taken[-1]
