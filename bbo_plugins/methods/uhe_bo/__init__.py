"""UHE-BO (Ha et al. 2023): Bayesian optimization with unknown kernel hyperparameters.

An optimizer samples where it expects much, so hyperparameters fitted to its data can be confidently
wrong. UHE-BO spends trials on random points, as many as a bandit (EXP3) finds worthwhile, and
estimates the hyperparameters as if the data had been sampled uniformly.

| symbol  | shape  | meaning                                                                     |
|---------|--------|-----------------------------------------------------------------------------|
| D, X, y | (n, d) | observations; their points X (n, d) and targets y (n,), maximized           |
| T       | -      | number of trials after start-up, two to each round of the bandit            |
| γ       | -      | exploration rate of the bandit                                              |
| ω, p, r | (2,)   | weights, probabilities of the two arms; r: reward of a round in [0, 1]      |
| X', ŷ'  | (M, d) | uniform points and the labels of their nearest observations, ŷ' (M,)        |
| θ       | (d+5,) | log hyperparameters: length-scales, signal variance, trend, noise variance  |

| equation or step | function | file |
|---|---|---|
| Algorithm 1, line 5 | exploration_rate | algorithm.py |
| Algorithm 1, line 7 | probabilities | algorithm.py |
| Algorithm 1, lines 6-10 | suggest | algorithm.py |
| Algorithm 1, line 12 | _random_point | algorithm.py |
| Algorithm 1, line 14 | NearestNeighborPseudoData.bind | criteria.py |
| Eq. (2) | NearestNeighborPseudoData.bind | criteria.py |
| Algorithm 1, lines 15-16 | suggest | algorithm.py |
| Algorithm 1, line 19 | pair_rewards | algorithm.py |
| Algorithm 1, line 20 | Bandit.after | algorithm.py |

Deviations of the default; :data:`AS_IN_THE_PAPER` is the paper's in the first four, and is run
with mean + √β_t · deviation as the acquisition function:

* The bandit decides only while the search has stagnated: before, exploring costs what the model
  would have gained.
* Weighted leave-one-out after a random point, the marginal likelihood elsewhere, instead of Eq. (2)
  for every trial: borrowed labels look like noise.
* The random arm takes, of 32 uniform points, the one in the largest gap: there the model knows
  least.
* The reward is 1 if the pair improved the best value, else 0: the objective's scale is unknown.
* For unknown T the rate is that of the rounds so far, and ω = exp(γ Ĝ / 2) with the current rate:
  steps taken at earlier, larger rates would give the first rounds the most say for ever.
* The uniform points of Eq. (2) depend on d alone: data determine the result in any process.
* "Nearest" is meant in the kernel's feature columns: there may be categorical dimensions.
* The kernel has a trend (:mod:`bbo_plugins.gp.kernels`), and inputs may be warped
  (:mod:`bbo_plugins.methods.input_warping`), unless the sampler runs the paper.
* The acquisition function is log EI unless "ucb" is chosen: it needs no multiplier.

Deviations that :data:`AS_IN_THE_PAPER` has too:

* Targets are transformed, as hyperparameters would follow the few worst values. The priors are this
  package's, not Gamma(1e-3, 10), with which MAP may stay in a local optimum (docs/papers.md).
* Values far worse than usual count as failures: a model of them would bend for what nobody seeks.
* D_0 is a space-filling design: random points leave gaps.
* In a finite space a random point that is known gives way to one that is not: it teaches nothing.
* γ is at most 1, as it mixes probabilities, and T/2 is rounded down, as a round has two trials.
* Eq. (2) has x' in both places, as Proposition 6.4 has it: the paper prints x there once.

Source: H. Ha, V. Nguyen, H. Tran-The, H. Zhang, X. Zhang, A. van den Hengel, "Provably Efficient
Bayesian Optimization with Unknown Gaussian Process Hyperparameter Estimation", arXiv:2306.06844.
"""

from bbo_plugins.methods.uhe_bo.algorithm import (
    AS_IN_THE_PAPER,
    EXPLORE_WHEN_STAGNATED,
    MAP_ONLY,
    MODEL_ARM,
    RANDOM_ARM,
    Variant,
    suggest,
)
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData, WeightedLeaveOneOut

__all__ = [
    "AS_IN_THE_PAPER",
    "EXPLORE_WHEN_STAGNATED",
    "MAP_ONLY",
    "MODEL_ARM",
    "RANDOM_ARM",
    "NearestNeighborPseudoData",
    "Variant",
    "WeightedLeaveOneOut",
    "suggest",
]
