"""The tables of regrets: medians and quartiles, mean ranks, paired ratios with wins and losses.

Regrets below ``RELATIVE_FLOOR`` of a problem's scale (median regret of a random point) count as
that; without any feasible trial the regret counts as ``NOTHING`` times the scale.  Entrants may
have different seeds, and runs different lengths: ranks are over the runs that all compared entrants
have, a paired comparison over those that both have, and after t trials those count that are that
long.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.common.report import Report
from benchmarks.common.runs import grouped
from benchmarks.problems.problem import StudyProblem

RELATIVE_FLOOR = 1e-6
NOTHING = 10.0
WALD = 1.96  # half-width of a 95% interval in standard errors
ALL = "all"

Floats: TypeAlias = NDArray[np.float64]
# Regrets of every entrant that has the run, by problem and seed.
Cells: TypeAlias = Mapping[tuple[str, int], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One entrant against another: wins, ties, losses over runs, and the ratio of their regrets.

    Attributes:
        wins: Runs in which the first has the smaller regret.
        ties: Runs in which both have the same.
        losses: The other runs.
        ratio: Geometric mean of the regret ratio, over problems.
        low: Lower end of its 95% interval, which is over problems, not seeds.
        high: Upper end.
    """

    wins: int
    ties: int
    losses: int
    ratio: float
    low: float
    high: float

    @property
    def counts(self) -> str:
        """Wins, ties and losses as a cell."""
        return f"{self.wins} / {self.ties} / {self.losses}"

    def interval(self) -> str:
        """Return the ratio and its interval as a cell."""
        return f"{self.ratio:.3g} [{self.low:.2g}, {self.high:.2g}]"


def quartiles(values: Sequence[float] | Floats, spec: str = ".3g", ends: str = ".2g") -> str:
    """Return the median and the quartiles as a cell."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{median:{spec}} [{low:{ends}}, {high:{ends}}]"


def mean_and_error(values: Sequence[float]) -> str:
    """Return the mean and its standard error as a cell."""
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else math.nan
    return f"{np.mean(values):.3g} ± {error:.1g}"


def mean_and_sd(values: Sequence[float] | Floats, spec: str = ".3g") -> str:
    """Return mean ± standard deviation as a cell; the deviation of one value is 0."""
    if not len(values):
        return "none"
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{float(np.mean(values)):{spec}} ± {sd:.2g}"


def wald(values: Sequence[float] | Floats) -> str:
    """Return mean ± 1.96 standard errors as a cell; of one value the value alone."""
    mean = f"{float(np.mean(values)):.4g}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {WALD * float(np.std(values, ddof=1)) / math.sqrt(len(values)):.2g}"


def add_seconds(
    report: Report,
    records: Iterable[Mapping[str, Any]],
    entrants: Sequence[str],
    group_of: Mapping[str, str],
) -> None:
    """Add CPU time per suggestion by group: context only, as runs are not made in turn.

    Args:
        report: What to add to.
        records: Those of studies.
        entrants: The columns.
        group_of: The row of each problem.
    """
    seconds = {
        key: 1e3 * np.mean([np.mean(record["seconds"]) for record in group])
        for key, group in grouped(
            ({**r, "group": group_of[r["problem"]]} for r in records), "group", "entrant"
        ).items()
    }
    rows = [
        [
            group,
            *(
                f"{seconds[group, name]:.1f}" if (group, name) in seconds else ""
                for name in entrants
            ),
        ]
        for group in dict.fromkeys(group for group, _ in seconds)
    ]
    report.table("CPU ms per suggestion, start-up included", ["of", *entrants], rows)


def verdict(met: bool) -> str:  # noqa: FBT001 - a word for a truth value
    """Return the word for whether a goal is met."""
    return "met" if met else "MISSED"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The regrets of entrants on problems.

    Attributes:
        entrants: Their names, in the order of the columns.
        curves: Floored regret after each trial, by problem, entrant and seed.
        groups: The group of each problem; empty if there are none.
        scales: Median regret of a random point, by problem.
    """

    entrants: tuple[str, ...]
    curves: Mapping[str, Mapping[str, Mapping[int, Floats]]]
    groups: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        records: Iterable[Mapping[str, Any]],
        entrants: Sequence[str],
        problems: Mapping[str, StudyProblem],
        groups: Mapping[str, str] | None = None,
    ) -> Self:
        """Collect the records of studies.

        Args:
            records: As :func:`benchmarks.common.studies.run_studies` returns them.
            entrants: Whose are asked for; those without a record are left out.
            problems: The problems by name; records of others are left out.
            groups: The group of each problem.
        """
        curves: dict[str, dict[str, dict[int, Floats]]] = {}
        scales: dict[str, float] = {}
        for record in records:
            name = record["problem"]
            if name not in problems:
                continue
            scale = scales.setdefault(name, problems[name].scale)
            # None while there was no feasible trial
            curve = np.array([math.inf if r is None else r for r in record["regrets"]])
            floored = np.maximum(curve, RELATIVE_FLOOR * scale)
            per_entrant = curves.setdefault(name, {}).setdefault(record["entrant"], {})
            per_entrant[record["seed"]] = np.where(np.isinf(curve), NOTHING * scale, floored)
        present = {entrant for runs in curves.values() for entrant in runs}
        return cls(
            entrants=tuple(name for name in entrants if name in present),
            curves=curves,
            groups=groups or {},
            scales=scales,
        )

    def checkpoints(self, trials: Iterable[int]) -> list[int]:
        """Return those numbers of trials that come before the longest run's end, and the end."""
        runs = (run for by_entrant in self.curves.values() for run in by_entrant.values())
        end = max(len(curve) for run in runs for curve in run.values())
        return [*(t for t in trials if t < end), end]

    def values(self, problem: str, entrant: str, t: int | None = None) -> Floats:
        """Return the regrets (n_seeds,) after ``t`` trials, by default at the end."""
        found = [_after(c, t) for c in self.curves[problem].get(entrant, {}).values()]
        return np.array([regret for regret in found if regret is not None])

    def cells(self, t: int | None = None, group: str = ALL) -> Cells:
        """Return the regrets after ``t`` trials, by default at the end, of a group's problems."""
        cells: dict[tuple[str, int], dict[str, float]] = {}
        for problem, runs in self.curves.items():
            if group in {ALL, self.groups.get(problem)}:
                for entrant, per_seed in runs.items():
                    for seed, curve in per_seed.items():
                        if (regret := _after(curve, t)) is not None:
                            cells.setdefault((problem, seed), {})[entrant] = regret
        return cells

    @property
    def subsets(self) -> list[str]:
        """The groups' names, and that of all."""
        groups = {self.groups.get(name, "") for name in self.curves}
        return [*(sorted(groups) if len(groups) > 1 else ()), ALL]

    def median_cells(self, problem: str, t: int | None = None) -> list[str]:
        """Return a row's cells, none if no run is that long; the least median is bold."""
        regrets = [self.values(problem, entrant, t) for entrant in self.entrants]
        if not any(map(len, regrets)):
            return []
        least = min(float(np.median(found)) for found in regrets if len(found))
        texts = [f"{quartiles(found)} ({len(found)})" if len(found) else "" for found in regrets]
        return [
            f"**{text}**" if text and float(np.median(found)) == least else text
            for text, found in zip(texts, regrets, strict=True)
        ]


def _after(curve: Floats, t: int | None) -> float | None:
    """Return the regret after ``t`` trials, by default at the end; None if there are fewer."""
    return float(curve[(t or len(curve)) - 1]) if len(curve) >= (t or 0) else None


def mean_ranks(cells: Cells, entrants: Sequence[str]) -> tuple[Floats | None, int]:
    """Return mean ranks (n_entrants,), 1 is best, and over how many runs that all entrants have.

    Ranks are averaged over a problem's seeds first, so that every problem counts alike.
    """
    ranks: dict[str, list[Floats]] = {}
    for (problem, _seed), cell in cells.items():
        if all(name in cell for name in entrants):
            ranks.setdefault(problem, []).append(rankdata([cell[name] for name in entrants]))
    if not ranks:
        return None, 0
    means = np.array([np.mean(of_problem, axis=0) for of_problem in ranks.values()])
    return means.mean(axis=0), sum(map(len, ranks.values()))


def _common(cells: Cells, first: str, second: str) -> dict[str, Floats]:
    """Return the regrets (n, 2) of two entrants in the runs that both have, by problem."""
    both: dict[str, list[tuple[float, float]]] = {}
    for (problem, _seed), cell in cells.items():
        if first in cell and second in cell:
            both.setdefault(problem, []).append((cell[first], cell[second]))
    return {problem: np.array(pairs) for problem, pairs in both.items()}


def paired(cells: Cells, first: str, second: str) -> Pair | None:
    """Compare two entrants on the runs that both have; None if there is none."""
    both = _common(cells, first, second).values()
    if not both:
        return None
    signs = np.sign(np.concatenate([pairs[:, 0] - pairs[:, 1] for pairs in both]))
    # The claim generalizes over problems, not seeds, so the interval is over problems.
    means = np.array([np.log(pairs[:, 0] / pairs[:, 1]).mean() for pairs in both])
    half = WALD * float(means.std(ddof=1)) / math.sqrt(means.size) if means.size > 1 else math.nan
    return Pair(
        wins=int((signs < 0.0).sum()),
        ties=int((signs == 0.0).sum()),
        losses=int((signs > 0.0).sum()),
        ratio=math.exp(float(means.mean())),
        low=math.exp(float(means.mean()) - half),
        high=math.exp(float(means.mean()) + half),
    )


def behind(cells: Cells, first: str, second: str) -> dict[str, float]:
    """Return the problems on which the first's median regret is above the second's, and by what.

    Medians are over the seeds that both have.
    """
    medians = {
        name: np.median(pairs, axis=0) for name, pairs in _common(cells, first, second).items()
    }
    return {name: float(mine / theirs) for name, (mine, theirs) in medians.items() if mine > theirs}


@dataclass(frozen=True, kw_only=True)
class CheckpointTables:
    """Tables of regrets after several numbers of trials.

    Attributes:
        name: What the tables' titles begin with.
        trials: After how many; the last one is the end of the longest run, whatever it is; None
            for the end of each run alone, where problems have budgets of their own.
        group: What the groups are called in a heading, in the singular and in the plural.
        what: What is compared.
    """

    name: str
    trials: Sequence[int] | None
    group: tuple[str, str] = ("group", "groups")
    what: str = "simple regret"

    def add(self, report: Report, comparison: Comparison, *, first: Sequence[str]) -> None:
        """Add medians, mean ranks and paired comparisons to the report.

        Args:
            report: What to add to.
            comparison: The regrets.
            first: The entrants that are compared in pairs with each other and with all others.
        """
        if not comparison.curves:
            report.note(f"{self.name}: nothing was measured.")
            return
        self._add_medians(report, comparison)
        self._add_ranks(report, comparison)
        self._add_pairs(report, comparison, first)
        counts = ", ".join(
            f"{name} {sum(len(runs.get(name, {})) for runs in comparison.curves.values())}"
            for name in comparison.entrants
        )
        report.note(f"Runs in {self.name}: {counts}.")

    def _add_medians(self, report: Report, comparison: Comparison) -> None:
        rows = [
            [problem, comparison.groups.get(problem, ""), t or "all", *cells]
            for problem in comparison.curves
            for t in self._checkpoints(comparison)
            if (cells := comparison.median_cells(problem, t))
        ]
        report.table(
            f"{self.name}: {self.what}, median [quartiles] (number of seeds)",
            ["problem", self.group[0], "trials", *comparison.entrants],
            rows,
        )

    def _add_ranks(self, report: Report, comparison: Comparison) -> None:
        rows: list[list[object]] = []
        for t in self._checkpoints(comparison):
            for group in comparison.subsets:
                ranks, n_runs = mean_ranks(comparison.cells(t, group), comparison.entrants)
                if ranks is not None:
                    rows.append([t or "all", group, n_runs, *(f"{rank:.2f}" for rank in ranks)])
        headers = ["trials", self.group[1], "problems x seeds", *comparison.entrants]
        report.table(f"{self.name}: mean rank of all that have the run, 1 is best", headers, rows)

    def _add_pairs(self, report: Report, comparison: Comparison, first: Sequence[str]) -> None:
        """Add the paired comparisons, and by name the problems on which the first is behind."""
        rows: list[list[object]] = []
        mine = [name for name in first if name in comparison.entrants]
        others = [name for name in comparison.entrants if name not in mine]
        pairs = [(own, other) for i, own in enumerate(mine) for other in [*mine[i + 1 :], *others]]
        for (own, other), t, group in itertools.product(
            pairs, self._checkpoints(comparison), comparison.subsets
        ):
            cells = comparison.cells(t, group)
            if pair := paired(cells, own, other):
                lost = behind(cells, own, other) if group == ALL else {}
                names = ", ".join(f"{name} ({by:.2g}x)" for name, by in lost.items())
                duel = f"{own} against {other}"
                rows.append([duel, t or "all", group, pair.counts, pair.interval(), names])
        headers = ["pair", "trials", self.group[1], "wins / ties / losses"]
        headers += ["ratio [95% over problems]", "behind by median"]
        report.table(f"{self.name}: paired comparison, below 1 the first is better", headers, rows)

    def _checkpoints(self, comparison: Comparison) -> Sequence[int | None]:
        """Return after how many trials the tables are; None for the end of each run."""
        return [None] if self.trials is None else comparison.checkpoints(self.trials)
