"""The tables of ``conditional``: those of all benchmarks, and ours against the better TPE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common.report import Report
from benchmarks.common.tables import CheckpointTables, Comparison
from benchmarks.conditional.entrants import TPES
from benchmarks.problems.conditional import REAL

GOAL = 0.1  # of the better TPE's median regret, on synthetic problems


@dataclass(frozen=True, kw_only=True)
class ConditionalTables(CheckpointTables):
    """The common tables, and one more."""

    def add(
        self,
        report: Report,
        comparison: Comparison,
        *,
        first: Sequence[str],
        ranked: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Add the common tables, and the ratio to the better TPE's median regret."""
        super().add(report, comparison, first=first, ranked=ranked)
        for ours in first:
            self.add_ratios(report, comparison, ours)

    def add_ratios(self, report: Report, comparison: Comparison, ours: str) -> None:
        """Add the ratio by problem, and on how many synthetic problems it reaches the goal."""
        checkpoints = comparison.checkpoints(self.trials) if comparison.curves else []
        rows, ratios = [], dict[str, float]()
        for problem in comparison.curves:
            cells = []
            for t in checkpoints:
                found = [comparison.values(problem, name, t) for name in (ours, *TPES)]
                medians = [float(np.median(values)) for values in found if len(values)]
                if len(medians) < len(found):
                    continue
                ratios[problem] = medians[0] / min(medians[1:])
                cells.append(f"{ratios[problem]:.2g}")
            if len(cells) == len(checkpoints):
                rows.append([problem, comparison.groups.get(problem, ""), *cells])
        if not rows:
            return
        report.table(
            f"{self.name}: median regret of {ours}, divided by the better TPE's",
            ["problem", "group", *(f"{t} trials" for t in checkpoints)],
            rows,
        )
        synthetic = [ratio for problem, ratio in ratios.items() if problem not in REAL]
        if synthetic:
            n_met = sum(ratio <= GOAL for ratio in synthetic)
            report.note(
                f"At the end at most {GOAL:g} of the better TPE's: {n_met} of {len(synthetic)} "
                "synthetic problems."
            )
