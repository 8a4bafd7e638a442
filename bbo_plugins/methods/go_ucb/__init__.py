r"""GO-UCB: optimization with a parametric surrogate (Liu & Wang 2023, ICML).

A network is fitted to the observations; the next point has the largest value that the network can
take there while its parameters stay in a confidence ball around the fitted ones:

    x_t = argmax_x max_{w in Ball_t} f_x(w).

Start with :func:`~bbo_plugins.methods.go_ucb.algorithm.suggest`.

| symbol  | shape    | meaning                                                                     |
|---------|----------|-----------------------------------------------------------------------------|
| n, t    |          | observations of the start-up (Phase I), observations that are modeled       |
| X, y    | (t, d)   | points of the unit cube; y (t,) their values, maximized                     |
| U, z    | (t, D)   | inputs in [-1, 1]; z (t,) the transformed values                            |
| w       | (d_w,)   | parameters in units of their prior standard deviations                      |
| h       |          | hidden units                                                                |
| θ       | (8,)     | logarithms of the network's six scales, log λ, and the growth q of the noise|
| w̄       | (d_w,)   | the weights of the regression, where f is linearized                        |
| g, J    | (t, d_w) | gradients ∇_w f at w̄, one per row of J                                      |
| K       | (t, t)   | J Jᵀ, the Gram matrix of the gradients                                      |
| λ, N    | (t,)     | regularization, which is a noise variance; N_i that of each observation     |
| ŵ_t, Σ_t|          | center (d_w,) and matrix (d_w, d_w) of the ball; Σ_t is never formed        |
| β       |          | squared radius of the ball in units of λ                                    |
| σ²(g)   |          | λ gᵀΣ_t⁻¹g, the posterior variance of gᵀw                                   |

| equation or step | function | file |
|---|---|---|
| Algorithm 1, lines 2-4 (Phase II) | NetworkSurrogate.fit | surrogate.py |
| Algorithm 1, line 5 (Phase II) | acquisition_of | algorithm.py |
| Eq. (2) | fit | regression.py |
| Eq. (3) | NetworkBall.from_data | regression.py |
| Eq. (4) | NetworkBall.from_data | regression.py |
| Eq. (5) | NetworkBall.from_data | regression.py |
| Eq. (6) | NetworkBall.variance | regression.py |
| Eq. (7) | _suggest_by_model | algorithm.py |
| Section 2 of Eriksson et al. (2019) | length_after | ../../acquisition/maximize.py |
| Eq. (5.9) of Rasmussen & Williams (2006) | ScaleEvidence.__call__ | evidence.py |

Phase I is the start-up of the sampler.

Deviations:

- Phase I: a space-filling design, as uniform draws leave gaps. Its √(n + T) trials, rounded up, are
  part of those that are planned; the paper's √T come before the T.
- Network: a quadratic stands beside the hidden units, with a prior on all weights. Few observations
  leave many weights open, and a quadratic is learned at once.
- Eq. (2): Levenberg-Marquardt, warm from trial to trial. At the paper's rate the weights stay put.
- Eqs. (3), (4): all gradients are taken at w̄, not at ŵ_i. The old ones belong to worse fits.
- Eqs. (3) to (5): the sums are over all observations, Phase I's too. In the paper those enter by
  ŵ_0 only, which here is the prior mean.
- Eq. (4): regularized towards the prior mean 0, λ by marginal likelihood. The objective's scale is
  unknown.
- Eq. (7): β is a constant. The paper's ball holds about every function: no point stands out.
- Line 5: w in closed form, of the network linearized at w̄; quasi-Newton ascent over x in a trust
  region. The paper's steps hardly move x.
- Values: a power transform, less exact far from the best. One bad value would decide the fit.
- Parameters: one end of a range may be stretched (:mod:`bbo_plugins.methods.input_warping`). Few
  hidden units cannot follow what gathers there.
- Constraints, pending and failed points, more than 1,000 observations: the paper has none of them.
  Beside pending points √β is drawn: the maxima of one bound would lie next to each other. It is
  small without noise, as the values of points next to each other then tell the slope. A failure
  counts less, the more points were pending when it was suggested. Under constraints the expected
  improvement, with √β standard deviations, takes the place of the bound, which would count for ever
  less beside a probability.
"""

from bbo_plugins.methods.go_ucb.algorithm import (
    DEFAULT_BETA,
    DEFAULT_HIDDEN_UNITS,
    FIT_NAME,
    GOUCBOptions,
    suggest,
)
from bbo_plugins.methods.go_ucb.surrogate import NetworkSurrogate, WarmNetwork

__all__ = [
    "DEFAULT_BETA",
    "DEFAULT_HIDDEN_UNITS",
    "FIT_NAME",
    "GOUCBOptions",
    "NetworkSurrogate",
    "WarmNetwork",
    "suggest",
]
