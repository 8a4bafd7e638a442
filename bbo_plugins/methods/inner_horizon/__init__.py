"""How many SGD steps N each of T outer trials trains for (Fu et al. 2024, ICLR).

Tuning by training is a bilevel problem: Bayesian optimization outside, SGD inside; the loss that
SGD has not removed after N steps is the noise of the outer level. :class:`InnerHorizon` derives N
from T or from a total number of steps; :class:`GrowingHorizon` gives trial t N_t = c tᵖ steps and
continues the best trials whenever N has grown.

| symbol | shape | meaning                                                                       |
|--------|-------|-------------------------------------------------------------------------------|
| T, t   |       | number of outer trials (configurations); the t-th of them, from 1             |
| N, N_t |       | SGD steps of one trial, of the t-th trial                                     |
| η      |       | length of the SGD steps                                                       |
| c, p   |       | N = c Tᵖ or N_t = c tᵖ                                                        |
| φ(N)   |       | N^(-1/2) φ(N) bounds the excess risk after N steps                            |
| ε      | (t,)  | errors of the values, ε_i at most N_i^(-1/2) φ(N_i)                           |
| B, σ²  |       | bound on the RKHS norm of the outer objective; variance of the GP's noise     |

| equation or step | function | file |
|---|---|---|
| Theorem 1 | InnerHorizon.noise_variance | horizon.py |
| Theorem 1 | InnerHorizon.step_size_for | horizon.py |
| Theorem 3 | InnerHorizon.n_inner | horizon.py |
| Theorem 4 | bilevel_beta | laws.py |
| Section F.1 | InnerHorizon.n_inner | horizon.py |
| Eq. (C.8) | bilevel_beta | laws.py |

Deviations:

- c is 8 by default, and 4 in N_t (1 for few steps): the theorems leave it open.
- T is capped by the number of hyperparameters on request, as real searches saturate in T.
- The growing horizon is this project's: neither T nor N has to be known.
- η is constant during training in all modes; Theorem 18 has steps that shrink.
- φ is constant: the logarithms of φ(N) are left out.
- Errors are φ / √N for every loss: Theorem 18's bound for non-convex ones falls like N^(-1/4), but
  with factors of μ, which nobody knows.
- N grows alone: Theorem 1 has training and validation data that grow with it; a user's are fixed.
- β_t has the sum of the squared errors, (C.8), in place of t φ²(N) / N: N may differ among trials.
- B = 1 and σ² = 0.1, in units of the values' variance: with the model's noise variance for σ², and
  for the errors where φ is not known, β_t would be √(1 + t) whatever the data say.
"""

from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.methods.inner_horizon.laws import bilevel_beta

__all__ = ["GrowingHorizon", "InnerHorizon", "bilevel_beta"]
