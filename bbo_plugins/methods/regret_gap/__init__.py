"""Stop when the expected minimum simple regret can hardly have moved (Ishibashi et al., 2023).

After each evaluation the model bounds how far the new observation can have moved its expectation of
the optimum, |E_{t-1}[max f] - E_t[max f]| <= ΔR̃_t with high probability. Once ΔR̃_t has been at or
below a threshold s_t for long enough, the optimization stops.

| symbol   | shape        | meaning                                                                |
|----------|--------------|------------------------------------------------------------------------|
| X, y     | (n, d), (n,) | points of the unit cube and values in the order of completion; n = t   |
| θ_t, y_t | (d,), scalar | the newest point and its value                                         |
| θ*_t     | (d,)         | the point with the best *observed* value among the first t             |
| Θ        | (m, d)       | the points that stand for the search space, observed ones first        |
| p_t      |              | the posterior after t observations; μ_t, σ_t² its mean and variance    |
| λ⁻¹      | scalar       | variance of the observation noise                                      |
| Δμ*      | scalar       | μ_t(θ*_t) - μ_{t-1}(θ*_{t-1}), the change of the incumbent's mean      |
| v, g     | scalar       | deviation of f(θ*_{t-1}) - f(θ*_t) under p_t; its mean over v          |
| κ_{t-1}  | scalar       | largest UCB over Θ minus largest LCB over observed points, at p_{t-1}  |
| β_t      | scalar       | 2 log(m t² π² / (6δ)); UCB and LCB are μ ± √β_t σ                      |

Lines of Algorithm 1 are counted from the one after its input.

| equation or step | function | file |
|---|---|---|
| Algorithm 1 | evaluate | algorithm.py |
| Algorithm 1, lines 6-7 | StoppingModel.fit | model.py |
| Algorithm 1, line 8 | gap_terms | bound.py |
| Algorithm 1, line 9 | StoppingRule.decides | rule.py |
| Theorem 1 | difference_variance | bound.py |
| Lemma 3 | expected_excess | bound.py |
| Eq. (1) | regret_bound | bound.py |
| Eq. (2) | GapTerms.value | bound.py |
| Eq. (3) | gap_terms | bound.py |
| Eq. (4) | kl_divergence | bound.py |
| Eq. (5) | cross_validation_threshold | bound.py |
| Eq. (6) | auto_threshold | bound.py |
| Eq. (7) | auto_threshold | bound.py |
| Section 4.3 | StoppingRule.median_threshold | rule.py |
| Section 4.4 | StoppingModel.before | model.py |
| Section 5.1 | confidence_multiplier | bound.py |

Deviations, each with its reason:

- Values are maximized: the mirror image of the paper, f -> -f swaps min and max, UCB and -LCB.
- Δμ* enters with its absolute value, as in Theorem 1: without it (Algorithm 1) the bound fails.
- g compares two means *after* the observation, as in Lemma 3: Theorem 1 prints μ_{t-1} for one.
- v² is Theorem 1's: Appendix F has lost a term of it.
- The LCB in κ_{t-1} is over the points before θ_t, as in the proof: Appendix F prints Θ_t.
- KL is that of p_t from p_{t-1}, Eq. (4): Appendix B prints the other direction in places.
- The noise has variance λ⁻¹ throughout: Lemma 6 writes N(0, λ).
- The threshold is compared with ΔR̃_t, as in Algorithm 1: section 4.3 once names its bound ΔR̂_t.
- Θ is a finite set of candidates with the observed points: the paper leaves a continuous |Θ| open.
- t counts all observations that are modeled, start-up included: β_t has to cover them all.
- δ is one and the same in β_t and Eq. (7): the paper gives no other value.
- λ⁻¹ has a floor that depends on the threshold: KL grows without limit as the noise vanishes.
- Completions that count as failed are left out: a model of penalties knows little of the rest.
- "relative" and patience are this project's: the paper's thresholds stop too early or too late.
- Both improvement criteria are taken at the largest expected improvement: for any sampler's study.
- Their incumbent is the largest posterior mean at observed points: noise biases the best value.

Sources: Ishibashi, Karasuyama, Takeuchi & Hino (2023), "A stopping criterion for Bayesian
optimization by the gap of expected minimum simple regrets". Rivals: Makarova et al. (2022),
"Automatic termination for hyperparameter optimization" (regret bound), with the threshold of Nadeau
& Bengio (2000), "Inference for the generalization error"; Nguyen et al. (2017), "Regret for
expected improvement over the best-observed value and stopping condition"; Lorenz et al. (2015),
"Stopping criteria for boosting automatic experimental design" (probability of improvement).
"""

from bbo_plugins.methods.regret_gap.algorithm import Evaluation, evaluate
from bbo_plugins.methods.regret_gap.bound import GapTerms, Update, gap_terms
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule

__all__ = [
    "Evaluation",
    "GapTerms",
    "StoppingRecord",
    "StoppingRule",
    "Update",
    "evaluate",
    "gap_terms",
]
