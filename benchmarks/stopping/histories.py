"""Histories that stopping criteria are replayed over: whole studies, never stopped.

A history is one study of one objective by one sampler from the start-up points of the regret
benchmark (by seed the same for every sampler) up to the full budget. Its record holds parameters
and observed values of all trials in their order, and what this package has stored with each: the
hyperparameters behind a suggestion and the scores on the folds. That is all that a terminator sees
of a study, so that criteria are evaluated anew without a single new trial.

A record depends on the code that suggests, and not on that of the criteria.
"""

import functools
import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, create_trial

from bbo_plugins.optuna import report_cross_validation_scores
from benchmarks.common.samplers import SAMPLERS, Entrant
from benchmarks.common.studies import StudyRun, planned, run_study
from benchmarks.problems.problem import Problem
from benchmarks.stopping.problems import Objective, objective_of

_ATTRIBUTES = "bbo_plugins:"  # how the names of those that the package writes begin
# Of the package, what no suggestion depends on. Samplers have no part in stopping.
_UNRELATED_FOLDERS = ("ray", "visualization")
_UNRELATED_WORDS = ("completions", "cross_validation", "regret_gap", "stopping", "terminator")


@dataclass(frozen=True, kw_only=True)
class History:
    """A finished study.

    Attributes:
        study: The study.
        params: Parameters of the n trials, in the order of completion.
        values: Their observed values, minimized.
        attributes: What this package has stored with each.
    """

    study: StudyRun
    params: Sequence[Mapping[str, Any]]
    values: Sequence[float]
    attributes: Sequence[Mapping[str, Any]]

    def regrets(self, problem: Problem) -> list[float]:
        """Return after each trial the noise-free regret of the best *observed* one."""
        return problem.regrets(zip(self.params, self.values, strict=True))

    def growing(self, problem: Problem) -> Iterator[optuna.Study]:
        """Yield one and the same study after each completion, as it was then."""
        study = optuna.create_study(direction="minimize")
        rows = zip(self.params, self.values, self.attributes, strict=True)
        for params, value, attributes in rows:
            trial = create_trial(
                params=dict(params),
                distributions=dict(problem.space),
                value=value,
                system_attrs=dict(attributes),
            )
            study.add_trial(trial)
            yield study


def suggestion_digest() -> str:
    """Return a digest of the package's files that decide what its samplers suggest."""
    spec = importlib.util.find_spec("bbo_plugins")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] in _UNRELATED_FOLDERS:
            continue
        if not any(word in place.stem for word in _UNRELATED_WORDS):
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def source_of(sampler: Entrant) -> str:
    """Return what identifies an entrant's code, as ``Entrant.source`` does."""
    return f"suggestions-{suggestion_digest()}" if sampler.ours else sampler.source()


def planned_studies(
    objectives: Sequence[Objective], samplers: Sequence[Entrant], seeds: int, n_trials: int
) -> list[StudyRun]:
    """Return every study, seed by seed, so that an interrupted benchmark has complete seeds."""
    problems = [objective.problem for objective in objectives]
    runs = planned(problems, samplers, lambda _problem, _sampler: range(seeds), n_trials=n_trials)
    sources = {sampler.name: source_of(sampler) for sampler in samplers}
    return [replace(run, source=sources[run.entrant]) for run in runs]


def execute(study: StudyRun, directory: Path) -> dict[str, Any]:
    """Run one study; returns what is replayed."""
    objective = objective_of(study.problem, directory)
    trials, _seconds = run_study(
        objective.problem,
        SAMPLERS[study.entrant].build(study.seed, budget=study.n_trials),
        seed=study.seed,
        n_trials=study.n_trials,
        before_tell=functools.partial(_report_scores, objective),
    )
    return {
        "params": [trial.params for trial in trials],
        "values": [trial.value for trial in trials],
        "attributes": [_stored_by_us(trial) for trial in trials],
    }


def _report_scores(objective: Objective, trial: Trial) -> None:
    if objective.fold_scores is not None:
        report_cross_validation_scores(trial, objective.fold_scores(trial.params))


def _stored_by_us(trial: FrozenTrial) -> dict[str, Any]:
    """Return the system attributes of ``trial`` that this package has written."""
    attributes = trial.system_attrs.items()
    return {name: value for name, value in attributes if name.startswith(_ATTRIBUTES)}


def history_of(study: StudyRun, record: Mapping[str, Any]) -> History:
    """Return the history in a study's record."""
    parts = {name: record[name] for name in ("params", "values", "attributes")}
    return History(study=study, **parts)
