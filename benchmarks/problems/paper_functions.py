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

import numpy as np

from benchmarks.problems import formulas as f
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.problem import Problem, unmoved

N_TRIALS = 100
_PEAKS = np.array([1.0, 2.0]) / 3.0  # alpha_i = i / (n + 1)
_DECEPTIVE = functools.partial(f.deceptive, peaks=_PEAKS)
_BRANIN_BOX = np.array([-5.0, 0.0]), np.array([10.0, 15.0])
_CUBES = {d: (np.zeros(d), np.ones(d)) for d in (2, 3)}
_H1_BOX = np.full(2, -25.0), np.full(2, 25.0)

# Name, formula, minimizer, lower and upper ends of the box; in the paper's order.
_FUNCTIONS: tuple[tuple[str, Formula, Vector, Vector, Vector], ...] = (
    ("paper_branin", f.branin, f.BRANIN_ARGMIN, *_BRANIN_BOX),
    ("paper_deceptive2", _DECEPTIVE, _PEAKS, *_CUBES[2]),
    ("paper_hartmann3", f.hartmann3, f.HARTMANN3_ARGMIN, *_CUBES[3]),
    ("paper_h1", f.h1_rounded, f.H1_ARGMIN, *_H1_BOX),
)


def paper_problems() -> tuple[Problem, ...]:
    """Return the paper's functions in its order."""
    return tuple(unmoved(*definition, n_trials=N_TRIALS) for definition in _FUNCTIONS)
