"""The problems of the ``regret`` benchmark by name: functions, and tuning looked up in tables."""

from pathlib import Path

from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem
from benchmarks.stopping.problems import QUICK_TABLE, TABLE_NAMES, table_objective

FUNCTION_NAMES = tuple(name for name, problem in PROBLEMS.items() if problem.group != "paper")
PAPER_NAMES = tuple(name for name, problem in PROBLEMS.items() if problem.group == "paper")
NAMES = (*PROBLEMS, *TABLE_NAMES, QUICK_TABLE)


def problem_named(name: str, directory: Path) -> Problem:
    """Return a problem; a table that is not stored yet is computed.

    Args:
        name: One of :data:`NAMES`.
        directory: Where results go, and the tables with them.
    """
    return PROBLEMS[name] if name in PROBLEMS else table_objective(name, directory).problem
