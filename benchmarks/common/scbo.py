"""SCBO on BoTorch, behind Optuna's sampler interface so that all meet the same loop.

The settings are those of BoTorch's tutorial of "Scalable Constrained Bayesian Optimization"
(Eriksson & Poloczek 2021) with batches of one: TuRBO's box and process (``benchmarks.common.turbo``
with all that is said there), one more process per constraint, and one sample of each at the
candidates. The next point is the candidate of the best sampled value among those that the samples
call feasible; if there are none, that of the least total violation. The box is a cube around the
best feasible trial, else the trial of the least total violation. A success is a better feasible
value, by 0.1%, or less violation while nothing is feasible. Violations are counted in the
constraints' own units.

As in the tutorial, all outcomes are standardized alone: the paper's Gaussian copula for the
objective and bilog map of the constraints are left out. Unlike there, the best of the start-up
points is known to the first count of successes, and the best value also moves by rises that are too
small to be one. Integers are relaxed and rounded, log parameters modeled on the log scale.
"""

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from benchmarks.common.peer import Floats
from benchmarks.common.turbo import TuRBOSampler


class SCBOSampler(TuRBOSampler):
    """SCBO for one study from its first trial on; every trial sets the same constraints."""

    shaped = False

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Read the constraints of the complete trials, then suggest."""
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        self._constraints = np.array(
            [[value for _, value in sorted(each.constraints.items())] for each in trials]
        )
        return super().sample_relative(study, trial, search_space)

    def outcomes(self, y: Floats) -> Floats:
        """Return the values, maximized, and the constraints (n, m) beside them."""
        return np.column_stack([y, self._constraints])
