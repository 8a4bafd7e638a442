"""The four synthetic functions of the UHE paper in their own boxes: neither shifted nor rotated.

Source: Ha et al., "Provably Efficient Bayesian Optimization with Unknown Gaussian Process
Hyperparameter Estimation", appendix C.  What is printed there is taken as it is, except:

- Deceptive's third and fourth piece lack the constants 1 and 4/5 of the paper's own source (the
  test functions of infinity77.net), without which the function jumps; they are put back. The number
  of dimensions is not given, and the grids of the paper's Fig. 4 (about 60³ and 500² points) allow
  two or three; here it is two.
- Branin's t is printed as 1/(8 pi)²; here it is the usual 1/(8 pi).
- h1 has no box in the paper. Here it is [-25, 25]²; the function's source has [-100, 100]², which
  is what the moved ``h1`` uses. The center's printed (8.6998, 6.7665) is taken unrounded.

Neither the budget nor the number of start-up points is in the paper's text. Here it is 100 trials,
the benchmark's ten start-up points among them.
"""

import functools
from types import MappingProxyType

import numpy as np

from benchmarks.problems import formulas
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.problem import Params, Problem, box

N_TRIALS = 100


def _unmoved(name: str, formula: Formula, argmin: Vector, low: Vector, high: Vector) -> Problem:
    """Return a formula as it is, in the box from ``low`` to ``high``, each of shape (d,)."""
    space = box(low, high)
    names = tuple(space)

    def value(params: Params) -> float:
        return formula(np.array([params[parameter] for parameter in names]))

    return Problem(
        name=name,
        space=MappingProxyType(space),
        value=value,
        argmin=MappingProxyType(dict(zip(names, argmin.tolist(), strict=True))),
        minimum=formula(argmin),
        n_trials=N_TRIALS,
        group="paper",
    )


def paper_problems() -> tuple[Problem, ...]:
    """Return the paper's functions in its order."""
    f = formulas
    peaks = np.array([1.0, 2.0]) / 3.0  # alpha_i = i / (n + 1)
    return (
        _unmoved(
            "paper_branin", f.branin, f.BRANIN_ARGMIN, np.array([-5.0, 0.0]), np.array([10.0, 15.0])
        ),
        _unmoved(
            "paper_deceptive2",
            functools.partial(f.deceptive, peaks=peaks),
            peaks,
            np.zeros(2),
            np.ones(2),
        ),
        _unmoved("paper_hartmann3", f.hartmann3, f.HARTMANN3_ARGMIN, np.zeros(3), np.ones(3)),
        _unmoved("paper_h1", f.h1_rounded, f.H1_ARGMIN, np.full(2, -25.0), np.full(2, 25.0)),
    )
