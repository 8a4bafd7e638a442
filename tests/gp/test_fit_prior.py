"""The log priors against SciPy's normal distribution and the constants decided for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bbo_plugins.gp.fit import NormalPrior, default_prior
from tests.oracles.differences import numeric_gradient


@pytest.mark.parametrize("d", [1, 2, 30])
def test_default_prior_has_the_documented_constants(d: int) -> None:
    """As decided: log ℓ ~ N(log(0.35 √d), 1), log s² ~ N(0, 1), log σ_n² ~ N(log 1e-3, 2²)."""
    prior = default_prior(d)
    length_scale = math.log(0.35 * math.sqrt(d))
    np.testing.assert_allclose(prior.location, [length_scale] * d + [0.0, math.log(1e-3)])
    np.testing.assert_allclose(prior.scale, [1.0] * d + [1.0, 2.0])


def test_prior_of_a_trend_has_the_documented_constants() -> None:
    """As decided: log τ₁², log τ₂² ~ N(log 0.1, 1.5²), before the noise, all else as without."""
    prior, plain = default_prior(2, trend=True), default_prior(2)
    np.testing.assert_allclose(prior.location[3:5], math.log(0.1))
    np.testing.assert_allclose(prior.scale[3:5], 1.5)
    np.testing.assert_array_equal(np.delete(prior.location, [3, 4]), plain.location)
    np.testing.assert_array_equal(np.delete(prior.scale, [3, 4]), plain.scale)


def test_log_density_is_the_normal_one_up_to_a_constant() -> None:
    """Differences of log densities agree with SciPy's; the gradient with a numeric one."""
    prior = NormalPrior(location=np.array([0.5, -2.0, 3.0]), scale=np.array([1.0, 0.3, 2.0]))
    rng = np.random.default_rng(0)
    constant = np.sum(stats.norm.logpdf(prior.location, prior.location, prior.scale))
    for theta in 3.0 * rng.standard_normal((5, 3)):
        value, gradient = prior.value_and_gradient(theta)
        expected = np.sum(stats.norm.logpdf(theta, prior.location, prior.scale)) - constant
        assert value == pytest.approx(expected, rel=1e-12)
        numeric = numeric_gradient(lambda t: prior.value_and_gradient(t)[0], theta)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-9, atol=1e-9)
