"""The functions of COCO, an independent benchmark of optimizers.

Of three suites, the first instance of each function in a few numbers of parameters: ``bbob``
(Hansen et al. 2021, "COCO: a platform for comparing continuous optimizers in a black-box setting"),
``mixint``, of whose parameters four fifths are integers of 2 to 16 levels (Tušar et al. 2019), and
``constrained`` (Dufossé et al. 2022). The package ``coco-experiment`` has them.
"""

import contextlib
import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems.formulas import Vector
from benchmarks.problems.problem import BoxFunction, ObjectiveProblem

_BEST_POINT = "._bbob_problem_best_parameter.txt"  # COCO writes it to the working directory


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is taken of one of COCO's suites.

    Attributes:
        name: COCO's name of it.
        n_functions: How many functions it has.
        dimensions: Numbers of parameters.
        n_trials: Trials of one run.
    """

    name: str
    n_functions: int
    dimensions: tuple[int, ...]
    n_trials: int


SUITES: Mapping[str, Suite] = {
    "bbob": Suite(name="bbob", n_functions=24, dimensions=(2, 5, 10), n_trials=100),
    "mixint": Suite(name="bbob-mixint", n_functions=24, dimensions=(5, 10), n_trials=80),
    "constrained": Suite(name="bbob-constrained", n_functions=54, dimensions=(2, 5), n_trials=80),
}
NAMES = tuple(
    f"{kind}-f{function}-{dimension}"
    for kind, suite in SUITES.items()
    for dimension in suite.dimensions
    for function in range(1, suite.n_functions + 1)
)


def suite_of(name: str) -> str:
    """Return the key in ``SUITES`` of the problem of a name."""
    return name.split("-", maxsplit=1)[0]


def problem_named(name: str) -> ObjectiveProblem:
    """Return a problem, as ``bbob-f1-2``: the first function with two parameters.

    Raises:
        ImportError: The package ``coco-experiment`` is missing.
    """
    kind, _, dimension = name.split("-")
    function = box_function(name)
    return ObjectiveProblem(
        name=name,
        function=function,
        n_trials=SUITES[kind].n_trials,
        minimum=float(np.asarray(function.function(best_point(name))[0])),
        group=f"{kind}, {dimension} parameters",
    )


def box_function(name: str) -> BoxFunction:
    """Return the function of the problem of a name.

    Raises:
        ImportError: The package ``coco-experiment`` is missing.
    """
    found = _problem(name)

    def values(x: Vector) -> tuple[float, list[float]]:
        return float(found(x)), found.constraint(x).tolist() if found.number_of_constraints else []

    return BoxFunction(
        values,
        low=tuple(found.lower_bounds.tolist()),
        high=tuple(found.upper_bounds.tolist()),
        integers=tuple(range(found.number_of_integer_variables)),
    )


def best_point(name: str) -> Vector:
    """Return where the problem of a name has its minimum, shape (d,)."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _problem(name)._best_parameter("print")  # noqa: SLF001 - COCO tells it in no other way
        return np.loadtxt(Path(folder) / _BEST_POINT)


@functools.cache
def _problem(name: str) -> Any:
    """Return COCO's problem: the first instance of a function."""
    import cocoex  # noqa: PLC0415 - a package that only this benchmark needs

    kind, function, dimension = name.split("-")
    only = f"dimensions:{dimension} function_indices:{function[1:]} instance_indices:1"
    return cocoex.Suite(SUITES[kind].name, "", only).get_problem(0)
