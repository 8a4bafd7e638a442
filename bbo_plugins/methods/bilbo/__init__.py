"""BILBO: Bayesian optimization of bilevel problems, one function query at a time.

The upper level chooses x to maximize F(x, z), the lower level answers with the z that maximizes
f(x, z), and black-box constraints may belong to either level. Each step takes the most promising
point of the trusted sets and observes there the one function that is most uncertain.

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization".

| symbol | shape | meaning |
|---|---|---|
| x, z | (d_x,), (d_z,) | upper- and lower-level point in the unit cube |
| P | (n, d) | joint points (x, z), upper-level coordinates first |
| F, f | (n,) | upper- and lower-level objective, maximized |
| c | (n,) | constraint of either level, holds where it is at least 0 |
| μ_h, σ_h | (n,) | posterior mean and standard deviation of function h, in model units |
| u_h, l_h | (n,) | confidence bounds μ_h ± √β σ_h |
| S_lo, S | | {(x, z): u_c >= 0} for every c of the lower level; for every c |
| z̄(x) | (d_z,) | best response to x: argmax of u_f(x, z) over z in S_lo(x) |
| P⁺ | | {(x, z) in S_lo: u_f(x, z) + ε >= l_f(x, z̄(x))} |
| P̄ | | {(x, z̄(x)) for every x} |
| r̄_h | | 2√β σ_h(x, z); of f also 2√β σ_f(x, z̄(x)) where z is not z̄(x) |

| equation or step | function | file |
|---|---|---|
| Eq. (4.1) | FunctionModel.bound | model.py |
| Eq. (4.2) | TrustedSets.lower_level | trusted_sets.py |
| Eq. (4.3) | TrustedSets.feasibility | trusted_sets.py |
| Eq. (4.4) | best_of_table | search.py |
| Eq. (4.5) | best_of_table | search.py |
| Eq. (4.6) | best_pair | search.py |
| Definition 4.7 | TrustedSets.regret_bounds | trusted_sets.py |
| Eq. (4.7) | function_query | algorithm.py |
| Eq. (4.8) | reassigned | algorithm.py |
| Eq. (4.9) | solve | solution.py |
| Algorithm 1, line 1 | BilevelModel.fit | model.py |
| Algorithm 1, line 2 | trusted_sets | algorithm.py |
| Algorithm 1, line 4 | query | algorithm.py |
| Algorithm 1, line 7 | query | algorithm.py |
| Algorithm 1, line 8 | query | algorithm.py |
| Algorithm 1, line 11 | reassigned | algorithm.py |

Deviations:

- Where Eq. (4.8) and Algorithm 1, line 11, differ, at equal deviations, Eq. (4.8) decides.
- β is a constant, 4 by default: the paper's β_t trusts nearly everything at practical budgets.
- β is raised for one step where no r̄ is worth a query: a wrong model would stagnate.
- P is P̄ by default, as in half of the paper's experiments; P⁺ is for responses that are not unique.
- Beyond 10⁵ points a search replaces the enumeration of a grid: spaces are continuous or mixed.
- P^ε has points of S_lo only, as P⁺ has: a response that breaks a constraint is none.
- Where S ∩ P is empty and S is not, Eq. (4.6) has no solution: the pair of P that breaks a
  constraint least is taken.
- While the means satisfy all constraints nowhere, the query looks for a feasible point only.
- After a declaration of infeasibility queries go on: they find the declaration wrong if it is.
- A constraint that its mean violates is queried before functions of r̄ up to ten times as large:
  their values would most likely be of no use there. Not if it has more than three times the
  observations of an objective: of one that says yes or no the border is never known.
- Every tenth query tries to refute the current solution's response: a wrong one looks best.
- The solution maximizes a mean less deviations, which Eq. (4.9) and the rule of the paper's
  experiments do not: better after few queries, no better after many (docs/papers.md).
- r̄ is compared in units of each model's scale: the true deviations by which the paper standardizes
  are unknown.
- Values far out are compressed where that is likelier: one diverged value would blind the model.
- Beyond 500 observations of a function its model has a training subset: a variance costs n² time.
- Pending and failed queries count as observed at their means while a query is chosen: they would be
  made again. The paper has no parallel queries. Once queries have failed, u_f and the slack are
  compared with the logarithm of the probability of not failing added.
- ε is in the lower objective's own units: the paper's functions are standardized beforehand.
- In a coupled study the function query decides about the reassignment only: all are observed.
"""

from bbo_plugins.methods.bilbo.algorithm import DEFAULT_BETA, Options, Query, space_filling, suggest
from bbo_plugins.methods.bilbo.model import (
    BilevelModel,
    BilevelProblem,
    FunctionData,
    FunctionModel,
)
from bbo_plugins.methods.bilbo.search import Pair
from bbo_plugins.methods.bilbo.solution import SolutionCriterion, solve
from bbo_plugins.methods.bilbo.trusted_sets import TrustedSets

__all__ = [
    "DEFAULT_BETA",
    "BilevelModel",
    "BilevelProblem",
    "FunctionData",
    "FunctionModel",
    "Options",
    "Pair",
    "Query",
    "SolutionCriterion",
    "TrustedSets",
    "solve",
    "space_filling",
    "suggest",
]
