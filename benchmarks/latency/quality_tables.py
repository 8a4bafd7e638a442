"""The quality check that belongs to the ``latency`` benchmark: collecting cases and reporting them.

Kept apart from ``benchmarks.latency.quality``, which needs the package's mathematics: this module
can be imported, and the timing part run, without it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.problems.functions import PROBLEMS

TARGET_SHARE = 0.9
STEPS = 3  # the first is cold for both optimizers, the others are warm
CASES: Sequence[tuple[str, int]] = tuple(
    (problem, n)
    for problem in (
        "branin",
        "hartmann3",
        "rosenbrock5",
        "ackley5",
        "levy6",
        "styblinski_tang5",
        "schwefel4",
        "ellipsoid10",
        "levy20",
        "log_sphere5",
        "noisy_hartmann6",
        "noisy_branin",
        "mixed_sphere6",
        "stepped_ackley5",
        "mixed_interaction5",
    )
    for n in (20, 60, 150)
)
QUICK_CASES: Sequence[tuple[str, int]] = (("rosenbrock5", 25), ("mixed_sphere6", 25))


@dataclass
class QualityLog:
    """Cases in which GPSampler's model was captured and compared with ours."""

    report: Report
    cases: list[dict[str, Any]] = field(default_factory=list)
    _warm_starts: dict[tuple[str, int], Any] = field(default_factory=dict)
    _lengths: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(
        self,
        problem: str,
        seed: int,
        sampler: BaseSampler,
        trials: list[FrozenTrial],
        suggested: Mapping[str, Any],
    ) -> None:
        """Compare on one suggestion; our fit is warm if this follows the last case by one trial."""
        from benchmarks.latency import quality  # noqa: PLC0415 - the timing part runs without it

        assert isinstance(sampler, quality.CapturingGPSampler)
        if sampler.captured is None:
            return
        key = (problem, seed)
        follows = self._lengths.get(key) == len(trials) - 1
        result = quality.compare(
            sampler.captured,
            trials,
            suggested,
            quality.search_space(PROBLEMS[problem].space),
            seed=seed,
            warm_start=self._warm_starts.get(key) if follows else None,
        )
        sampler.captured = None
        self._warm_starts[key] = result.warm_start
        self._lengths[key] = len(trials)
        case = {
            "problem": problem,
            "n": len(trials),
            "seed": seed,
            "warm": result.warm,
            "fit": result.fit_ours - result.fit_theirs,
            "acquisition": result.acquisition_ours - result.acquisition_theirs,
        }
        self.cases.append(case)
        self.report.record(kind="quality", **case)


def extra_cases(log: QualityLog, *, quick: bool, seeds: int) -> None:
    """Add histories of other problems and lengths: two functions would be a narrow basis."""
    from benchmarks.latency import quality  # noqa: PLC0415 - the timing part runs without it

    for name, n in QUICK_CASES if quick else CASES:
        problem = PROBLEMS[name]
        for seed in range(seeds):
            log.report.progress(f"quality {name}, n = {n}, seed {seed}")
            trials = history(problem, n + STEPS, 1000 + seed)
            study = optuna.create_study(sampler=quality.CapturingGPSampler(seed=seed))
            study.add_trials(trials[:n])
            for step in range(STEPS):
                trial = study.ask(dict(problem.space))
                log.add(name, 1000 + seed, study.sampler, trials[: n + step], trial.params)
                study.tell(trial, state=TrialState.FAIL)
                study.add_trial(trials[n + step])


def _row(name: str, differences: Sequence[float], tolerance: float, *, verdict: bool) -> list[Any]:
    """Return one line: how often ours is no worse, and how the differences are distributed."""
    values = np.asarray(differences)
    share = float((values >= -tolerance).mean())
    low, median, high = np.quantile(values, [0.05, 0.5, 0.95])
    target = f">= {TARGET_SHARE:.0%}: {'met' if share >= TARGET_SHARE else 'MISSED'}"
    return [
        name,
        values.size,
        f"{share:.1%}",
        target if verdict else "",
        f"{float((values > tolerance).mean()):.1%}",
        f"{low:.3g}",
        f"{median:.3g}",
        f"{high:.3g}",
    ]


def add_quality_tables(report: Report, log: QualityLog) -> None:
    """Add the shares of cases in which ours reached no less, and the worst cases by name."""
    from benchmarks.latency.quality import TOLERANCE  # noqa: PLC0415 - the timing part runs without it

    if not log.cases:
        report.note("**The quality check has no case.**")
        return
    large = max(case["n"] for case in log.cases) // 2
    groups: Sequence[tuple[str, Callable[[dict[str, Any]], bool]]] = (
        ("all", lambda _: True),
        ("cold", lambda case: not case["warm"]),
        ("warm", lambda case: bool(case["warm"])),
        (f"n > {large}", lambda case: bool(case["n"] > large)),
    )
    rows = []
    for quantity, name in (("fit", "log posterior"), ("acquisition", "log EI")):
        for group, belongs in groups:
            chosen = [case[quantity] for case in log.cases if belongs(case)]
            if chosen:
                rows.append(_row(f"{name}, {group}", chosen, TOLERANCE, verdict=group == "all"))
    headers = ["reached", "cases", "ours no worse", "target", "ours better", "5%", "median", "95%"]
    report.table("Quality: ours minus GPSampler's, in nats, both by our formulas", headers, rows)
    report.note(
        f'"No worse" allows {TOLERANCE:g} nats. Fit: the same data and Optuna\'s prior. '
        "Acquisition: GPSampler's hyperparameters and incumbent, its point against the one that "
        "our search returns."
    )
    for quantity, name in (("fit", "log posterior"), ("acquisition", "log EI")):
        worst = sorted(log.cases, key=lambda case: case[quantity])[:5]
        worst = [case for case in worst if case[quantity] < -TOLERANCE]
        text = ", ".join(
            f"{case['problem']} n={case['n']} {'warm' if case['warm'] else 'cold'} "
            f"({case[quantity]:.2g})"
            for case in worst
        )
        report.note(f"Worst cases, {name}: {text or 'none'}.")
