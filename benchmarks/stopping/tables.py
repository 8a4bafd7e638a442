"""Outcomes of stopping, and the tables of the stopping benchmark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.tables import quartiles
from benchmarks.problems.problem import Problem
from benchmarks.stopping.problems import HALVES, half_of
from benchmarks.stopping.replay import ALL_RULES, DEFAULT

LOSS = 0.01  # of the median regret of a random point: more than that is a premature stop


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one rule on one study.

    Attributes:
        problem: The objective.
        sampler: The study's sampler.
        rule: The rule.
        seed: The study's seed.
        regrets: Regret of the incumbent after each trial of the full budget.
        stop: Trials until the stop, None if there was none.
    """

    problem: Problem
    sampler: str
    rule: str
    seed: int
    regrets: Sequence[float]
    stop: int | None

    @property
    def half(self) -> str:
        """The objective's half."""
        return half_of(self.problem.name)

    @property
    def n_trials(self) -> int:
        """Trials until the stop, the budget if there was none."""
        return self.stop or len(self.regrets)

    @property
    def saved(self) -> float:
        """Share of the budget that was saved."""
        return 1.0 - self.n_trials / len(self.regrets)

    @property
    def loss(self) -> float:
        """What stopping cost, in units of the median regret of a random point."""
        return (self.regrets[self.n_trials - 1] - self.regrets[-1]) / self.problem.scale

    @property
    def regret(self) -> float:
        """Regret at the stop over the largest regret of a random point."""
        return self.regrets[self.n_trials - 1] / self.problem.largest_regret

    @property
    def full_regret(self) -> float:
        """The same at the full budget."""
        return self.regrets[-1] / self.problem.largest_regret


def add_tables(report: Report, outcomes: Sequence[Outcome]) -> None:
    """Add every table of outcomes to the report."""
    if not outcomes:
        report.note("Nothing was measured.")
        return
    for half in HALVES:
        names = dict.fromkeys(o.problem.name for o in outcomes if o.half == half)
        report.note(f"{half.capitalize()} half ({len(names)}): {', '.join(names)}.")
    for kind in ("Noise-free", "Noisy"):
        chosen = [o for o in outcomes if (o.problem.group == "noisy") == (kind == "Noisy")]
        if chosen:
            _add_comparison(report, kind, chosen)
    ours = [o for o in outcomes if o.rule == DEFAULT and SAMPLERS[o.sampler].ours]
    if ours:
        _add_objectives(report, ours)


def _add_comparison(report: Report, kind: str, outcomes: Sequence[Outcome]) -> None:
    """Add the table of every rule with every sampler."""
    rows = []
    for rule in ALL_RULES:
        for sampler in dict.fromkeys(o.sampler for o in outcomes):
            chosen = [o for o in outcomes if (o.rule, o.sampler) == (rule, sampler)]
            if chosen:
                rows.append([rule, sampler, *_summary(chosen)])
    headers = ["rule", "sampler", "runs", "stopped", "stop time", "regret at stop"]
    headers += ["at full budget"]
    headers += [f"{column}, {half}" for half in (*HALVES, "all") for column in ("lost", "saved")]
    n = len({o.problem.name for o in outcomes})
    seeds = len({o.seed for o in outcomes})
    report.table(f"{kind} objectives: {n}, {seeds} seeds each", headers, rows)
    report.note(
        "Stop time: median [quartiles] of the number of trials, the budget where there was no "
        "stop. Regret: of the best observed trial, noise-free, over the largest of a random point, "
        f"mean at the stop and at the full budget. Lost: share of runs with more than {LOSS:.0%} "
        "lost (regret at the stop minus regret at the full budget, in units of the median regret "
        "of a random point). Saved: mean share of the budget."
    )


def _summary(outcomes: Sequence[Outcome]) -> list[object]:
    cells: list[object] = [
        len(outcomes),
        f"{np.mean([o.saved > 0.0 for o in outcomes]):.0%}",
        quartiles([o.n_trials for o in outcomes], ".0f", ".0f"),
        _mean(outcomes, lambda o: o.regret),
        _mean(outcomes, lambda o: o.full_regret),
    ]
    for chosen in (*([o for o in outcomes if o.half == half] for half in HALVES), outcomes):
        cells += [_lost(chosen), _saved(chosen)]
    return cells


def _mean(outcomes: Iterable[Outcome], value: Callable[[Outcome], float]) -> str:
    return f"{np.mean([value(o) for o in outcomes]):.4f}"


def _lost(outcomes: Sequence[Outcome]) -> str:
    """Return the share of premature stops, and how many they are."""
    if not outcomes:
        return "-"
    n = sum(o.loss > LOSS for o in outcomes)
    return f"{n / len(outcomes):.1%} ({n})"


def _saved(outcomes: Sequence[Outcome]) -> str:
    return f"{np.mean([o.saved for o in outcomes]):.1%}" if outcomes else "-"


def _add_objectives(report: Report, ours: Sequence[Outcome]) -> None:
    """Add the default rule objective by objective, all of our samplers together."""
    rows = []
    for name in dict.fromkeys(o.problem.name for o in ours):
        chosen = [o for o in ours if o.problem.name == name]
        rows.append(
            [
                name,
                chosen[0].problem.group,
                chosen[0].half,
                len(chosen),
                quartiles([o.n_trials for o in chosen], ".0f", ".0f"),
                _mean(chosen, lambda o: o.regret),
                _mean(chosen, lambda o: o.full_regret),
                _lost(chosen),
                f"{max(o.loss for o in chosen):.3f}",
                _saved(chosen),
            ]
        )
    headers = ["objective", "family", "half", "runs", "stop time", "regret at stop"]
    headers += ["at full budget", "lost", "largest loss", "saved"]
    samplers = ", ".join(dict.fromkeys(o.sampler for o in ours))
    report.table(f"The default rule ({DEFAULT}) by objective, {samplers} together", headers, rows)
