"""What a terminator costs per completed trial: Optuna's criterion against ours, in turn.

All see the same histories of 200 trials and more in five dimensions, one more trial per step. Ours
is the front end as a study calls it, reading and writing the study's storage included: once for a
sampler that leaves nothing, so that it fits its own hyperparameters, and once for ours, whose
hyperparameters it takes over. Of Optuna's only the criterion is timed, and not the threshold.
"""

import warnings
from dataclasses import asdict

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from bbo_plugins.optuna import RegretGapTerminator
from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.timing import RATIO_HEADERS, RATIO_NOTE, Timing, ratio_cells, timed
from benchmarks.problems.functions import PROBLEMS
from benchmarks.stopping.replay import PEER

PROBLEM = "styblinski_tang5"
SAMPLER = "ours-map"  # whose hyperparameters are taken over
OWN_FIT, SHARED = "own fit", "shared"
TARGETS = {OWN_FIT: 10.0, SHARED: 50.0}
FULL, QUICK = (200, 3, 10), (20, 1, 2)  # trials, seeds and counted steps
_WARM_UP = 2  # steps that are not counted


def measure(n_trials: int, n_steps: int, seed: int) -> list[Timing]:
    """Time all entrants on one growing history."""
    from optuna.terminator import EMMREvaluator  # noqa: PLC0415 - gone in Optuna 6

    problem = PROBLEMS[PROBLEM]
    trials = history(problem, n_trials + _WARM_UP + n_steps, seed)
    sampler = SAMPLERS[SAMPLER].build(seed)
    studies = {
        OWN_FIT: optuna.create_study(direction="minimize"),
        SHARED: optuna.create_study(direction="minimize", sampler=sampler),
    }
    for study in studies.values():
        study.add_trials(trials[:n_trials])
    terminators = {name: RegretGapTerminator() for name in studies}
    for name, study in studies.items():
        terminators[name].evaluate(study)  # makes the records of what was there before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental
        evaluator = EMMREvaluator(seed=seed)
    direction = studies[OWN_FIT].direction
    entrants = {
        PEER: lambda: evaluator.evaluate(studies[OWN_FIT].get_trials(deepcopy=False), direction),
        OWN_FIT: lambda: terminators[OWN_FIT].evaluate(studies[OWN_FIT]),
        SHARED: lambda: terminators[SHARED].evaluate(studies[SHARED]),
    }
    timings = []
    for step, trial in enumerate(trials[n_trials:], start=-_WARM_UP):
        studies[OWN_FIT].add_trial(trial)
        studies[SHARED].add_trial(_suggested(studies[SHARED], trial))
        for name in entrants if step % 2 == 0 else reversed(entrants):
            _, wall, cpu = timed(entrants[name])
            if step >= 0:
                timings.append(Timing(entrant=name, seed=seed, step=step, wall=wall, cpu=cpu))
    return timings


def _suggested(study: optuna.Study, trial: FrozenTrial) -> FrozenTrial:
    """Return ``trial`` with what the study's sampler leaves with a trial that it suggests."""
    asked = study.ask(dict(trial.distributions))
    study.tell(asked, state=TrialState.FAIL)
    return create_trial(
        params=trial.params,
        distributions=trial.distributions,
        value=trial.value,
        system_attrs=study.get_trials(deepcopy=False)[-1].system_attrs,
    )


def add_cost(report: Report, *, quick: bool) -> None:
    """Measure, and add the table of ratios."""
    n_trials, n_seeds, n_steps = QUICK if quick else FULL
    timings = []
    for seed in range(n_seeds):
        report.progress(f"cost of a completed trial, n = {n_trials}, seed {seed}")
        fresh = measure(n_trials, n_steps, seed)
        for timing in fresh:
            report.record(kind="cost", n_trials=n_trials, **asdict(timing))
        timings += fresh
    report.table(
        f"Cost of a completed trial, n = {n_trials}, d = {PROBLEMS[PROBLEM].dimension}: "
        f"{PEER} / ours",
        ["hyperparameters", *RATIO_HEADERS],
        [[name, *ratio_cells(timings, name, PEER, goal)] for name, goal in TARGETS.items()],
    )
    report.note(RATIO_NOTE)
