"""Whole studies that are never stopped, and the rules that are replayed over them.

A study's record holds parameters and observed values of all trials in their order, and what this
package has stored with each: the hyperparameters behind a suggestion and the scores on the folds.
That is all that a terminator sees of a study, so that every rule is applied without a single new
trial, by a terminator that watches the study grow trial by trial. Where the sampler is ours the
terminator takes over its hyperparameters, else it fits its own, as in any study.

All rules of the package share its defaults for patience and the number of trials before which
nothing is stopped. The peer is Optuna's own terminator as its documentation sets it up. Two
controls need no model.
"""

import functools
import importlib.util
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial, create_trial

from bbo_plugins.methods.regret_gap.rule import StoppingRule
from bbo_plugins.optuna import RegretGapTerminator, report_cross_validation_scores
from benchmarks.common.report import package_digest
from benchmarks.common.samplers import SAMPLERS, quiet
from benchmarks.common.studies import StudyRun, run_study
from benchmarks.problems.problem import Problem
from benchmarks.stopping.problems import problem_named

DEFAULT, PEER, STAGNATION, FIXED = "gap-relative", "optuna-emmr", "stagnation", "fixed"
STAGNATION_PATIENCE = 30  # trials without a better value: Optuna's default for this rule
FIXED_STOP = 65  # trials: a blind stop that saves what the default is to save
RULES: Mapping[str, StoppingRule] = {
    DEFAULT: StoppingRule(),
    "gap-relative-deterministic": StoppingRule(deterministic_objective=True),
    "gap-auto": StoppingRule(threshold="auto"),
    "gap-median": StoppingRule(threshold="median"),
    "bound-median": StoppingRule(criterion="regret-bound", threshold="median"),
    "bound-cv": StoppingRule(criterion="regret-bound", threshold="cross-validation"),
    "ei-median": StoppingRule(criterion="expected-improvement", threshold="median"),
    "pi": StoppingRule(criterion="probability-of-improvement"),
}
ALL_RULES = (*RULES, STAGNATION, FIXED, PEER)
_PEER_SEEDS = 3  # it costs more than all else together
_ATTRIBUTES = "bbo_plugins:"  # how the names of those that the package writes begin

# Parameters, values and the package's attributes of each trial of a study.
Record = Mapping[str, Sequence[Any]]


class StopsStudies(Protocol):
    """A terminator, Optuna's or ours, as far as it is used here."""

    def should_terminate(self, study: optuna.Study) -> bool:
        """Return whether the study is to end."""


def execute(study: StudyRun, directory: Path) -> dict[str, Any]:
    """Run one study; returns what is replayed."""
    problem = problem_named(study.problem, directory)
    trials, _seconds = run_study(
        problem,
        SAMPLERS[study.entrant].build(study.seed, budget=study.n_trials),
        seed=study.seed,
        n_trials=study.n_trials,
        before_tell=functools.partial(_report_scores, problem),
    )
    return {
        "params": [trial.params for trial in trials],
        "values": [trial.value for trial in trials],
        "attributes": [_stored_by_us(trial) for trial in trials],
    }


def _report_scores(problem: Problem, trial: Trial) -> None:
    if problem.fold_scores is not None:
        report_cross_validation_scores(trial, problem.fold_scores(trial.params))


def _stored_by_us(trial: FrozenTrial) -> dict[str, Any]:
    """Return the system attributes of ``trial`` that this package has written."""
    attributes = trial.system_attrs.items()
    return {name: value for name, value in attributes if name.startswith(_ATTRIBUTES)}


@dataclass(frozen=True, kw_only=True)
class Replay(StudyRun):
    """One rule over a study; its ``source`` identifies the rule's code.

    Attributes:
        suggested_by: What identifies the sampler's code.
        rule: One of ``ALL_RULES``.
    """

    suggested_by: str
    rule: str

    @property
    def key(self) -> Self:
        """All fields: a rule's stop within n trials is stored for this many."""
        return self


def replay_of(study: StudyRun, rule: str) -> Replay:
    """Return the replay of a rule over a study by today's code."""
    fields = {name: value for name, value in asdict(study).items() if name != "source"}
    code = f"optuna-{optuna.__version__}" if rule == PEER else package_digest()
    return Replay(**fields, suggested_by=study.source, source=code, rule=rule)


def is_asked_of(rule: str, study: StudyRun, problem: Problem) -> bool:
    """Tell whether a rule is applied to a study."""
    if rule == PEER:
        return SAMPLERS[study.entrant].ours and study.seed < _PEER_SEEDS
    own = RULES.get(rule, StoppingRule())
    if own.deterministic_objective and problem.noise_sd > 0.0:
        return False
    return own.threshold != "cross-validation" or problem.fold_scores is not None


def growing(record: Record, problem: Problem) -> Iterator[optuna.Study]:
    """Yield one and the same study after each completion, as it was then."""
    study = optuna.create_study(direction="minimize")
    rows = zip(record["params"], record["values"], record["attributes"], strict=True)
    for params, value, attributes in rows:
        trial = create_trial(
            params=dict(params),
            distributions=dict(problem.space),
            value=value,
            system_attrs=dict(attributes),
        )
        study.add_trial(trial)
        yield study


def stop_in(replay: Replay, record: Record, directory: Path) -> dict[str, int | None]:
    """Return as ``stop`` after how many trials of a study a rule ends it, None for never."""
    quiet()
    values = record["values"]
    if replay.rule == FIXED:
        return {"stop": FIXED_STOP if len(values) >= FIXED_STOP else None}
    if replay.rule == STAGNATION:
        return {"stop": stagnation_stop(values)}
    terminator = terminator_of(replay.rule, replay.seed)
    studies = growing(record, problem_named(replay.problem, directory))
    for n, study in enumerate(studies, start=1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peer's parts are experimental and deprecated
            if terminator.should_terminate(study):
                return {"stop": n}
    return {"stop": None}


def stagnation_stop(values: Sequence[float], *, patience: int = STAGNATION_PATIENCE) -> int | None:
    """Return the first completion with more than ``patience`` since the smallest value, or None."""
    best = np.minimum.accumulate(values)
    for n in range(patience + 2, len(values) + 1):
        if best[n - 1] == best[n - patience - 2]:
            return n
    return None


def peer_is_missing() -> tuple[str, ...]:
    """Return what the peer needs and is not installed; its module goes in Optuna 6."""
    needed = ("torch", "optuna.terminator")
    return tuple(name for name in needed if importlib.util.find_spec(name) is None)


def terminator_of(rule: str, seed: int) -> StopsStudies:
    """Return the terminator of one of ``RULES`` or of the peer, which is made of two parts."""
    if rule != PEER:
        return RegretGapTerminator(**asdict(RULES[rule]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and experimental
        from optuna import terminator  # noqa: PLC0415 - gone in Optuna 6

        improvement = terminator.EMMREvaluator(seed=seed)
        own: StopsStudies = terminator.Terminator(
            improvement, terminator.MedianErrorEvaluator(improvement)
        )
        return own
