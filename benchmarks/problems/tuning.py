"""Tuning of scikit-learn models, looked up in tables, as problems; with their noise or without it.

The noise of a table has the standard deviation of a cross-validated value that its folds suggest
(their standard error, the median over configurations): what another draw of the folds would do.
"""

import functools
from pathlib import Path

from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.hpo_grids import GRIDS
from benchmarks.problems.hpo_tables import Table, table_of
from benchmarks.problems.problem import Problem, noisy

BUDGET = 120
QUICK_TABLE = "quick_tree_wine"
NOISY = "noisy_"
NOISY_TABLES = (
    "svr_diabetes",
    "boosting_diabetes",
    "neighbors_digits",
    "logistic_cancer",
    "perceptron_wine",
)
TABLE_NAMES: tuple[str, ...] = (
    *(name for name in GRIDS if name != QUICK_TABLE),
    *(f"{NOISY}{name}" for name in NOISY_TABLES),
)
NAMES: tuple[str, ...] = (*PROBLEMS, *TABLE_NAMES, QUICK_TABLE)


@functools.cache
def table_named(name: str, directory: Path) -> Table:
    """Return the table behind a problem of :data:`TABLE_NAMES`; it is computed if not stored yet.

    Args:
        name: Name of the grid, with "noisy_" before it for noise.
        directory: Where tables are kept.
    """
    return table_of(GRIDS[name.removeprefix(NOISY)], directory)


@functools.cache
def problem_named(name: str, directory: Path) -> Problem:
    """Return a problem; a table that is not stored yet is computed.

    Args:
        name: One of :data:`NAMES`.
        directory: Where results go, and the tables with them.
    """
    if name in PROBLEMS:
        return PROBLEMS[name]
    table = table_named(name, directory)
    problem = Problem(
        name=table.grid.name,
        space=table.grid.space,
        value=table.value,
        argmin=table.best,
        minimum=table.value(table.best),
        n_trials=BUDGET,
        group="table",
        fold_scores=table.fold_scores,
    )
    if name == problem.name:
        return problem
    return noisy(problem, table.typical_error)
