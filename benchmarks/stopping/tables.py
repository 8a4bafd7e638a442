"""Outcomes of stopping, and the tables of the stopping benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common.report import Report
from benchmarks.problems.problem import Problem
from benchmarks.stopping.problems import HALVES, half_of

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
    def saved(self) -> float:
        """Share of the budget that was saved."""
        return 1.0 - self.stop / len(self.regrets) if self.stop else 0.0

    @property
    def loss(self) -> float:
        """What stopping cost, in units of the median regret of a random point."""
        at_stop = self.regrets[(self.stop or len(self.regrets)) - 1]
        return (at_stop - self.regrets[-1]) / self.problem.scale


def add_tables(report: Report, outcomes: Sequence[Outcome]) -> None:
    """Add every table of outcomes to the report, noisy objectives apart."""
    for half in HALVES:
        names = dict.fromkeys(o.problem.name for o in outcomes if o.half == half)
        report.note(f"{half.capitalize()} half ({len(names)}): {', '.join(names)}.")
    parts = [*HALVES, "all"]
    headers = ["rule", "sampler", "runs", "stopped"]
    headers += [f"{column}, {part}" for part in parts for column in ("lost", "saved")]
    for kind in ("Noise-free", "Noisy"):
        of_kind = [o for o in outcomes if (o.problem.group == "noisy") == (kind == "Noisy")]
        rows: list[list[object]] = []
        for rule, sampler in dict.fromkeys((o.rule, o.sampler) for o in of_kind):
            chosen = [o for o in of_kind if (o.rule, o.sampler) == (rule, sampler)]
            stopped = f"{np.mean([o.saved > 0.0 for o in chosen]):.0%}"
            rows.append([rule, sampler, len(chosen), stopped])
            for part in parts:
                rows[-1] += _lost_and_saved([o for o in chosen if part in {o.half, "all"}])
        report.table(f"{kind} objectives", headers, rows)
    report.note(
        f"Lost: share of runs with more than {LOSS:.0%} lost (regret at the stop minus regret at "
        "the full budget, of the best observed trial, noise-free, in units of the median regret of "
        "a random point). Saved: mean share of the budget."
    )


def _lost_and_saved(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return the share of premature stops and how many they are, and the share saved."""
    if not outcomes:
        return "", ""
    n = sum(o.loss > LOSS for o in outcomes)
    return f"{n / len(outcomes):.1%} ({n})", f"{np.mean([o.saved for o in outcomes]):.1%}"
