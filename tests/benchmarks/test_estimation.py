"""The estimation benchmark: exact sample paths, biased histories, estimates, and its tables."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from benchmarks.estimation import estimators
from benchmarks.problems import gp_samples

LENGTH_SCALES = gp_samples.LENGTH_SCALES[2]


def test_paths_have_their_covariance_however_they_are_asked() -> None:
    """Over 1,500 paths, values drawn one after another have the covariance of a joint draw."""
    rng = np.random.default_rng(1)
    X = rng.random((4, 2))
    values = []
    for _ in range(1500):
        path = gp_samples.SamplePath(LENGTH_SCALES, rng)
        values.append(np.concatenate([path(X[:1]), path(X[1:3]), path(X[3:])]))
    expected = gp_samples.matern52(X, X, LENGTH_SCALES)
    # Standard error of a covariance of standard normal numbers: at most sqrt(2 / 1500) = 0.037.
    np.testing.assert_allclose(np.cov(np.array(values).T), expected, atol=0.15)


def nearest(X: np.ndarray) -> np.ndarray:
    """Return the distance of each point to its nearest neighbor."""
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    return np.asarray(distances.min(axis=1))


@pytest.mark.parametrize("design", gp_samples.DESIGNS)
def test_histories_are_repeatable_and_biased(design: str) -> None:
    """Histories are fixed by their seed; all but the uniform ones are dense and good somewhere."""
    X, y = gp_samples.draw(design, 2, 40, 5)
    first, again, other = (gp_samples.draw(design, 2, 12, seed) for seed in (5, 5, 6))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
    assert ((X >= 0.0) & (X <= 1.0)).all()
    close = float(np.quantile(nearest(X), 0.25))
    if design == "uniform":
        assert close > 0.035
    else:
        assert close < 0.025
        assert np.median(y) > -0.5
        assert y.max() > 1.0


@pytest.mark.parametrize("name", ["marginal", estimators.PEER])
def test_a_good_estimate_is_near_the_truth(name: str) -> None:
    """On 100 uniform points length-scales are right within a third, and the variances roughly."""
    X, y = gp_samples.draw("uniform", 2, 100, 1)
    found = estimators.estimate(name, X, y)
    np.testing.assert_allclose(np.log(found.length_scales / LENGTH_SCALES), 0.0, atol=np.log(4 / 3))
    assert found.signal_variance == pytest.approx(1.0, rel=0.7)
    assert found.noise_variance < 20.0 * gp_samples.NOISE_VARIANCE
