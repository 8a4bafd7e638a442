"""Histories that stopping criteria are replayed over: whole studies, never stopped.

A history is one study of one objective by one sampler from the start-up points of the regret
benchmark (by seed the same for every sampler) up to the full budget. Its record holds parameters
and observed values of all trials in their order, and what this package has stored with each: the
hyperparameters behind a suggestion and the scores on the folds. That is all that a terminator sees
of a study, so that criteria are evaluated anew without a single new trial.

A record is found again by all that it depends on: objective, sampler, seed, budget, and digests of
the objective's definition and of the code that suggests. The code of the criteria is none of that.
"""

import hashlib
import importlib.util
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, create_trial

from bbo_plugins.optuna import report_cross_validation_scores
from benchmarks.common.samplers import SAMPLERS, Sampler, quiet
from benchmarks.problems.problem import Problem
from benchmarks.regret.run import startup_points
from benchmarks.stopping.problems import Objective, objective_of

KIND = "history"
PROTOCOL = 1
_ATTRIBUTES = "bbo_plugins:"  # how the names of those that the package writes begin
# Of the package, what no suggestion depends on. Samplers have no part in stopping.
_UNRELATED_FOLDERS = ("ray", "visualization")
_UNRELATED_WORDS = ("completions", "cross_validation", "regret_gap", "stopping", "terminator")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One study to be run; all its fields together are the key of its record."""

    function: str
    sampler: str
    seed: int
    n_trials: int
    source: str
    problem: str
    protocol: int = PROTOCOL


@dataclass(frozen=True, kw_only=True)
class History:
    """A finished study.

    Attributes:
        run: What it is a run of.
        params: Parameters of the n trials, in the order of completion.
        values: Their observed values, minimized.
        attributes: What this package has stored with each.
    """

    run: Run
    params: Sequence[Mapping[str, Any]]
    values: Sequence[float]
    attributes: Sequence[Mapping[str, Any]]

    def regrets(self, problem: Problem) -> list[float]:
        """Return after each trial the noise-free regret of the best *observed* one."""
        best, regret, regrets = math.inf, math.inf, []
        for params, value in zip(self.params, self.values, strict=True):
            if value < best:
                best, regret = value, problem.regret(params)
            regrets.append(regret)
        return regrets

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


def source_of(sampler: Sampler) -> str:
    """Return what identifies an entrant's code, as ``Sampler.source`` does."""
    return f"suggestions-{suggestion_digest()}" if sampler.ours else sampler.source()


def planned_runs(
    objectives: Sequence[Objective], samplers: Sequence[Sampler], seeds: int, n_trials: int
) -> list[Run]:
    """Return every run, seed by seed, so that an interrupted benchmark has complete seeds."""
    sources = {sampler.name: source_of(sampler) for sampler in samplers}
    return [
        Run(
            function=objective.name,
            sampler=sampler.name,
            seed=seed,
            n_trials=n_trials,
            source=sources[sampler.name],
            problem=objective.problem.fingerprint,
        )
        for seed in range(seeds)
        for objective in objectives
        for sampler in samplers
    ]


def execute(run: Run, directory: Path) -> dict[str, Any]:
    """Run one study; returns its record."""
    quiet()
    objective = objective_of(run.function, directory)
    problem = objective.problem
    study = optuna.create_study(
        direction="minimize", sampler=SAMPLERS[run.sampler].build(run.seed, run.n_trials)
    )
    for params in startup_points(problem, run.seed):
        study.enqueue_trial(params)
    for number in range(run.n_trials):
        trial = study.ask(dict(problem.space))
        if objective.fold_scores is not None:
            report_cross_validation_scores(trial, objective.fold_scores(trial.params))
        study.tell(trial, problem.observe(trial.params, seed=run.seed, number=number))
    trials = study.get_trials(deepcopy=False)
    return {
        "kind": KIND,
        **asdict(run),
        "params": [trial.params for trial in trials],
        "values": [trial.value for trial in trials],
        "attributes": [_stored_by_us(trial) for trial in trials],
    }


def _stored_by_us(trial: FrozenTrial) -> dict[str, Any]:
    """Return the system attributes of ``trial`` that this package has written."""
    attributes = trial.system_attrs.items()
    return {name: value for name, value in attributes if name.startswith(_ATTRIBUTES)}


def histories(records: Iterable[Mapping[str, Any]]) -> dict[Run, History]:
    """Return the histories among ``records`` by their run."""
    fields = Run.__dataclass_fields__
    found = {}
    for record in records:
        if record.get("kind") == KIND and fields.keys() <= record.keys():
            run = Run(**{name: record[name] for name in fields})
            parts = {name: record[name] for name in ("params", "values", "attributes")}
            found[run] = History(run=run, **parts)
    return found
