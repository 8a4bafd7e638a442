"""What each criterion says after every completion of a history, whatever rule then decides.

A criterion's values depend on the threshold by the model's smallest noise only, so they are
computed once per history and smallest noise, by
:class:`bbo_plugins.optuna.RegretGapTerminator` on a study that grows trial by trial, and rules are
applied to them afterwards (``benchmarks.stopping.rules``). Where the history's sampler is ours the
terminator takes over its hyperparameters, else it fits its own, as in any study.

The peer is Optuna's own terminator as its documentation sets it up. It only says when to stop.
"""

import importlib.util
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import optuna

from bbo_plugins.optuna import RegretGapTerminator
from benchmarks.common.report import package_digest
from benchmarks.common.samplers import quiet
from benchmarks.common.studies import StudyRun
from benchmarks.problems.problem import Problem
from benchmarks.stopping.histories import History
from benchmarks.stopping.problems import objective_of

PEER = "optuna-emmr"
_PEER_NEEDS = ("torch", "scipy")
_DIGITS = 12


class StopsStudies(Protocol):
    """Optuna's terminators, as far as they are used here."""

    def should_terminate(self, study: optuna.Study) -> bool:
        """Return whether the study is to end."""


@dataclass(frozen=True, kw_only=True)
class Replay(StudyRun):
    """One criterion over the history of a study; its ``source`` identifies the criterion's code.

    Attributes:
        suggested_by: What identifies the sampler's code.
        criterion: One of the package's criteria, or the peer.
        threshold: The threshold that the model's smallest noise is that of.
        deterministic: Whether it is told that the objective is free of noise.
    """

    suggested_by: str
    criterion: str
    threshold: str = "relative"
    deterministic: bool = False

    @property
    def key(self) -> Self:
        """All fields: what is said after n trials is stored for this many."""
        return self


@dataclass(frozen=True, kw_only=True)
class Series:
    """What a criterion said after each of n completions.

    Attributes:
        values: The criterion, infinite where there is no signal.
        terms: What it is made of, by name; None where there is no signal.
        stop: The first completion at which the peer says stop, None if there is none.
    """

    values: Sequence[float] = ()
    terms: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    stop: int | None = None

    def term(self, name: str, absent: float) -> list[float]:
        """Return one term after each completion, ``absent`` where there is no signal."""
        column = self.terms.get(name, [None] * len(self.values))
        return [absent if value is None else value for value in column]


def replay_of(
    study: StudyRun, criterion: str, *, threshold: str = "relative", deterministic: bool = False
) -> Replay:
    """Return the replay of a study by today's code; the peer has no threshold of ours."""
    history: dict[str, Any] = {
        name: value for name, value in asdict(study).items() if name != "source"
    }
    if criterion == PEER:
        code = f"optuna-{optuna.__version__}"
    else:
        code = package_digest()
        history |= {"threshold": threshold, "deterministic": deterministic}
    return Replay(**history, suggested_by=study.source, source=code, criterion=criterion)


def peer_is_missing() -> tuple[str, ...]:
    """Return what the peer needs and is not installed; its module goes in Optuna 6."""
    needed = (*_PEER_NEEDS, "optuna.terminator")
    return tuple(name for name in needed if importlib.util.find_spec(name) is None)


def optuna_terminator(seed: int) -> StopsStudies:
    """Return Optuna's own terminator with its two parts for this criterion."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and experimental
        from optuna import terminator  # noqa: PLC0415 - gone in Optuna 6

        improvement = terminator.EMMREvaluator(seed=seed)
        error = terminator.MedianErrorEvaluator(improvement)
        own: StopsStudies = terminator.Terminator(improvement, error)
        return own


def evaluate(replay: Replay, history: History, directory: Path) -> dict[str, Any]:
    """Replay one criterion over one history; returns what it said."""
    quiet()
    problem = objective_of(replay.problem, directory).problem
    if replay.criterion == PEER:
        return {"stop": _peer_stop(history, problem)}
    rule: dict[str, Any] = {"criterion": replay.criterion, "threshold": replay.threshold}
    terminator = RegretGapTerminator(**rule, deterministic_objective=replay.deterministic)
    found = [terminator.evaluate(study) for study in history.growing(problem)]
    names = dict.fromkeys(name for one in found for name in one.terms)
    return {
        "values": [_rounded(one.value) for one in found],
        "terms": {
            name: [_rounded(one.terms.get(name, math.nan)) for one in found] for name in names
        },
    }


def _peer_stop(history: History, problem: Problem) -> int | None:
    terminator = optuna_terminator(history.study.seed)
    for n, study in enumerate(history.growing(problem), start=1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if terminator.should_terminate(study):
                return n
    return None


def series_in(record: Mapping[str, Any]) -> Series:
    """Return the series in a replay's record."""
    return Series(
        values=[math.inf if value is None else value for value in record.get("values", [])],
        terms=record.get("terms", {}),
        stop=record.get("stop"),
    )


def _rounded(value: float) -> float | None:
    """Return a number that JSON can hold; None for one that is not finite."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
