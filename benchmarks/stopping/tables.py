"""Outcomes of stopping, and the tables of the stopping benchmark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.stopping.problems import FAMILIES, HALVES, Family, Half, Objective
from benchmarks.stopping.rules import DEFAULT, ENTRANTS

LOSS = 0.01  # of the median regret of a random point: more than that is a premature stop
# Largest share of premature stops and smallest share of the budget saved, of the default rule with
# our samplers.
GOALS = {"noise-free": (0.04, 0.35), "noisy": (0.10, 0.25)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one rule on one history.

    Attributes:
        function: The objective.
        family: Its family.
        half: Its half.
        sampler: The history's sampler.
        entrant: The rule.
        seed: The history's seed.
        budget: Trials of the history.
        stop: Trials until the stop, the budget if there was none.
        stopped: Whether there was one before the end.
        regret: Normalized simple regret at the stop: regret / largest regret of a random point.
        full_regret: The same at the full budget.
        loss: What stopping cost, in units of the median regret of a random point.
    """

    function: str
    family: Family
    half: Half
    sampler: str
    entrant: str
    seed: int
    budget: int
    stop: int
    stopped: bool
    regret: float
    full_regret: float
    loss: float

    @property
    def saved(self) -> float:
        """Share of the budget that was saved."""
        return 1.0 - self.stop / self.budget

    @property
    def is_premature(self) -> bool:
        """Whether stopping lost more than 1%."""
        return self.loss > LOSS


def outcome_of(
    objective: Objective,
    regrets: Sequence[float],
    stop: int | None,
    *,
    sampler: str,
    entrant: str,
    seed: int,
) -> Outcome:
    """Return what came of stopping after ``stop`` trials, or not at all if that is None.

    Args:
        objective: The objective.
        regrets: Regret of the incumbent after each trial of the full budget.
        stop: Trials until the stop.
        sampler: Name of the sampler.
        entrant: Name of the rule.
        seed: Seed of the history.
    """
    budget = len(regrets)
    at_stop, at_end = regrets[(stop or budget) - 1], regrets[-1]
    return Outcome(
        function=objective.name,
        family=objective.family,
        half=objective.half,
        sampler=sampler,
        entrant=entrant,
        seed=seed,
        budget=budget,
        stop=stop or budget,
        stopped=stop is not None and stop < budget,
        regret=at_stop / objective.largest_regret,
        full_regret=at_end / objective.largest_regret,
        loss=(at_stop - at_end) / objective.problem.scale,
    )


def add_tables(report: Report, outcomes: Sequence[Outcome]) -> None:
    """Add every table of outcomes to the report."""
    if not outcomes:
        report.note("Nothing was measured.")
        return
    _add_halves(report, outcomes)
    for kind, chosen in _by_noise(outcomes):
        _add_comparison(report, kind, chosen)
    ours = [o for o in outcomes if o.entrant == DEFAULT and SAMPLERS[o.sampler].ours]
    if ours:
        _add_goals(report, ours)
        _add_families(report, ours)
        _add_objectives(report, ours)


def _by_noise(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """Split into noise-free and noisy ones; a kind of which there are none is left out."""
    kinds = [
        ("noise-free", [o for o in outcomes if o.family != "noisy"]),
        ("noisy", [o for o in outcomes if o.family == "noisy"]),
    ]
    return [(kind, chosen) for kind, chosen in kinds if chosen]


def _add_halves(report: Report, outcomes: Sequence[Outcome]) -> None:
    """Say which objectives are in which half."""
    for half in HALVES:
        names = dict.fromkeys(o.function for o in outcomes if o.half == half)
        report.note(f"{half.capitalize()} half ({len(names)}): {', '.join(names)}.")


def _add_comparison(report: Report, kind: str, outcomes: Sequence[Outcome]) -> None:
    """Add the table of every rule with every sampler."""
    rows = []
    for entrant in ENTRANTS:
        for sampler in dict.fromkeys(o.sampler for o in outcomes):
            chosen = [o for o in outcomes if (o.entrant, o.sampler) == (entrant, sampler)]
            if chosen:
                rows.append([entrant, sampler, *_summary(chosen)])
    headers = ["rule", "sampler", *_SUMMARY_HEADERS]
    n = len({o.function for o in outcomes})
    seeds = len({o.seed for o in outcomes})
    report.table(f"{kind.capitalize()} objectives: {n}, {seeds} seeds each", headers, rows)
    report.note(
        "Stop time: median [quartiles] of the number of trials, the budget where there was no "
        "stop. Regret: of the best observed trial, noise-free, over the largest of a random point, "
        f"mean at the stop and at the full budget. Lost: share of runs with more than {LOSS:.0%} "
        "lost (regret at the stop minus regret at the full budget, in units of the median regret "
        "of a random point). Saved: mean share of the budget."
    )


_SUMMARY_HEADERS = (
    "runs",
    "stopped",
    "stop time",
    "regret at stop",
    "at full budget",
    *(f"{column}, {half}" for half in (*HALVES, "all") for column in ("lost", "saved")),
)


def _summary(outcomes: Sequence[Outcome]) -> list[object]:
    """Return the cells of ``_SUMMARY_HEADERS``."""
    low, median, high = np.quantile([o.stop for o in outcomes], [0.25, 0.5, 0.75])
    cells: list[object] = [
        len(outcomes),
        f"{np.mean([o.stopped for o in outcomes]):.0%}",
        f"{median:.0f} [{low:.0f}, {high:.0f}]",
        f"{np.mean([o.regret for o in outcomes]):.4f}",
        f"{np.mean([o.full_regret for o in outcomes]):.4f}",
    ]
    for chosen in (*([o for o in outcomes if o.half == half] for half in HALVES), outcomes):
        cells += [_lost(chosen), _saved(chosen)]
    return cells


def _lost(outcomes: Sequence[Outcome]) -> str:
    """Return the share of premature stops, and how many they are."""
    if not outcomes:
        return "-"
    n = sum(o.is_premature for o in outcomes)
    return f"{n / len(outcomes):.1%} ({n})"


def _saved(outcomes: Sequence[Outcome]) -> str:
    return f"{np.mean([o.saved for o in outcomes]):.1%}" if outcomes else "-"


def _add_goals(report: Report, ours: Sequence[Outcome]) -> None:
    """Say where the default rule meets its goals."""
    rows = []
    for kind, of_kind in _by_noise(ours):
        most_lost, least_saved = GOALS[kind]
        for sampler in dict.fromkeys(o.sampler for o in of_kind):
            for half in (*HALVES, "all"):
                chosen = [o for o in of_kind if o.sampler == sampler and half in {o.half, "all"}]
                if not chosen:
                    continue
                lost = float(np.mean([o.is_premature for o in chosen]))
                saved = float(np.mean([o.saved for o in chosen]))
                met = lost <= most_lost and saved >= least_saved
                goal = f"<= {most_lost:.0%} lost, >= {least_saved:.0%} saved"
                verdict = "met" if met else "MISSED"
                rows.append([kind, sampler, half, goal, _lost(chosen), _saved(chosen), verdict])
    headers = ["objectives", "sampler", "half", "goal", "lost", "saved", "verdict"]
    report.table(f"Goals of the default rule ({DEFAULT})", headers, rows)


def _add_families(report: Report, ours: Sequence[Outcome]) -> None:
    """Add the default rule by family of objectives."""
    rows = [
        [family, sampler, *_summary(chosen)]
        for family in FAMILIES
        for sampler in dict.fromkeys(o.sampler for o in ours)
        if (chosen := [o for o in ours if (o.family, o.sampler) == (family, sampler)])
    ]
    report.table(
        f"The default rule ({DEFAULT}) by family", ["family", "sampler", *_SUMMARY_HEADERS], rows
    )


def _add_objectives(report: Report, ours: Sequence[Outcome]) -> None:
    """Add the default rule objective by objective, all of our samplers together."""

    def mean(chosen: Iterable[Outcome], value: Callable[[Outcome], float]) -> str:
        return f"{np.mean([value(o) for o in chosen]):.4f}"

    rows = []
    for function in dict.fromkeys(o.function for o in ours):
        chosen = [o for o in ours if o.function == function]
        low, median, high = np.quantile([o.stop for o in chosen], [0.0, 0.5, 1.0])
        rows.append(
            [
                function,
                chosen[0].family,
                chosen[0].half,
                len(chosen),
                f"{median:.0f} [{low:.0f}, {high:.0f}]",
                mean(chosen, lambda o: o.regret),
                mean(chosen, lambda o: o.full_regret),
                _lost(chosen),
                f"{max(o.loss for o in chosen):.3f}",
                _saved(chosen),
            ]
        )
    headers = ["objective", "family", "half", "runs", "stop time: median [range]"]
    headers += ["regret at stop", "at full budget", "lost", "largest loss", "saved"]
    samplers = ", ".join(dict.fromkeys(o.sampler for o in ours))
    report.table(f"The default rule ({DEFAULT}) by objective, {samplers} together", headers, rows)
