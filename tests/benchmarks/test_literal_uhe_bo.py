"""UHE-BO to the letter: the paper's loss with its priors."""

import numpy as np
import pytest
from scipy.stats import gamma

from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData
from benchmarks.common.literal_uhe_bo import LiteralLoss
from benchmarks.problems.gp_samples import draw

FEATURES = FeatureMap((0, 0))


@pytest.mark.parametrize("fit_noise", [True, False])
def test_literal_posterior_has_the_papers_priors(fit_noise: bool) -> None:
    """With the default prior added, the likelihood is weighted by SciPy's Gamma densities."""
    X, y = draw("uniform", 2, 12, 0)
    literal = LiteralLoss().bind(X, y, FEATURES, fit_noise=fit_noise)
    pseudo = NearestNeighborPseudoData().bind(X, y, FEATURES, fit_noise=fit_noise)
    prior = default_prior(2)
    q = pseudo.n_parameters
    rng = np.random.default_rng(1)
    differences = []
    for _ in range(5):
        full = prior.location + 0.5 * rng.standard_normal(4)
        full[q:] = prior.location[q:]
        # The density of θ = log x is that of x times x.
        log_gamma = gamma.logpdf(np.exp(full[:q]), a=1e-3, scale=0.1) + full[:q]
        total = literal(full[:q])[0] + prior.value_and_gradient(full)[0]
        differences.append(total - pseudo(full[:q])[0] - log_gamma.sum())
    assert differences == pytest.approx([differences[0]] * 5, abs=1e-8)
