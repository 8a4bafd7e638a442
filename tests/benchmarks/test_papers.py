"""The papers' formulas in ``benchmarks.papers``, each against an independent computation."""

import math

import numpy as np
import pytest
from scipy import stats

from bbo_plugins.gp.fit import LogPrior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.plain_gp import GammaPrior, Model, PlainAcquisition, Uninformative
from benchmarks.papers import bilbo, regret_gap, uhe_bo
from tests.oracles.differences import numeric_gradient

NOISE = 0.05


def _process(n: int, d: int, seed: int) -> GaussianProcess:
    rng = np.random.default_rng(seed)
    at = Hyperparameters(
        length_scales=0.3 + rng.random(d), signal_variance=1.7, noise_variance=NOISE
    )
    X, y = rng.random((n, d)), rng.standard_normal(n)
    return GaussianProcess.from_data(X, y, at, FeatureMap((0,) * d))


def _dense(process: GaussianProcess, n: int, P: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance at ``P`` given the first ``n`` observations, by inversion."""
    at = process.hyperparameters

    def kernel(A: FloatArray, B: FloatArray) -> FloatArray:
        r = math.sqrt(5.0) * np.linalg.norm((A[:, None] - B[None]) / at.length_scales, axis=2)
        K: FloatArray = at.signal_variance * (1.0 + r + r**2 / 3.0) * np.exp(-r)
        return K

    X = process.X[:n]
    K_inv = np.linalg.inv(kernel(X, X) + at.noise_variance * np.eye(n))
    k = kernel(P, X)
    return k @ K_inv @ process.y[:n], kernel(P, P) - k @ K_inv @ k.T


def test_gamma_prior_is_the_density_of_the_logarithms() -> None:
    """Differences are those of SciPy's Gamma density times the Jacobian; so is the gradient."""
    prior = GammaPrior(2, 1e-3, 10.0)
    a, b = np.array([-1.0, 0.3, -2.0, -5.0]), np.array([0.2, -0.4, 0.1, -3.0])

    def log_density(theta: FloatArray) -> float:
        return float((stats.gamma(1e-3, scale=0.1).logpdf(np.exp(theta)) + theta).sum())

    found = prior.value_and_gradient(a)[0] - prior.value_and_gradient(b)[0]
    assert found == pytest.approx(log_density(a) - log_density(b), rel=1e-9)
    densities: list[LogPrior] = [prior, Uninformative(2)]
    for density in densities:

        def value(theta: FloatArray, of: LogPrior = density) -> float:
            return of.value_and_gradient(theta)[0]

        gradient = density.value_and_gradient(a)[1]
        numeric = numeric_gradient(value, a)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["ucb", "ei", "pi"])
def test_acquisition_is_the_textbook_one(name: str) -> None:
    """GP-UCB, GP-EI and GP-PI by SciPy's normal distribution; the gradient by differences."""
    process = _process(8, 2, 0)
    P = np.random.default_rng(1).random((5, 2))
    mean, covariance = _dense(process, 8, P)
    sd = np.sqrt(covariance.diagonal())
    gain = mean - process.y.max() - 0.01
    textbook = {
        "ucb": mean + 0.01 * sd,
        "ei": np.log(gain * stats.norm.cdf(gain / sd) + sd * stats.norm.pdf(gain / sd)),
        "pi": stats.norm.logcdf(gain / sd),
    }[name]
    acquisition = PlainAcquisition(process, name, 0.01)  # type: ignore[arg-type]
    np.testing.assert_allclose(acquisition.value(P), textbook, rtol=1e-7)
    gradient = acquisition.value_and_gradient(P[:1])[1][0]
    numeric = numeric_gradient(lambda p: float(acquisition.value(p[None])[0]), P[0])
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_stopping_criteria_by_dense_matrices(seed: int) -> None:
    """Eq. (2), Eq. (7), κ, the regret bound, EI and PI by inverted matrices, as printed."""
    process = _process(7, 2, seed)
    y, fresh = process.y, np.random.default_rng(9).random((11, 2))
    found = regret_gap.criteria(process, y, fresh)
    everything = np.concatenate([process.X, fresh])
    t, best, best_before = len(y), int(y.argmax()), int(y[:-1].argmax())
    root_beta = math.sqrt(2.0 * math.log(len(everything) * t**2 * math.pi**2 / 0.6))
    mean_0, cov_0 = _dense(process, t - 1, everything)
    mean_1, cov_1 = _dense(process, t, everything)
    sd_0, sd_1 = np.sqrt(cov_0.diagonal()), np.sqrt(cov_1.diagonal())
    kappa = (mean_0 + root_beta * sd_0).max() - (mean_0 - root_beta * sd_0)[: t - 1].max()
    v2 = cov_1[best, best] - 2.0 * cov_1[best, best_before] + cov_1[best_before, best_before]
    v, difference = math.sqrt(max(v2, 0.0)), mean_1[best_before] - mean_1[best]
    second = 0.0
    if best != best_before:
        second = v * stats.norm.pdf(difference / v) + difference * stats.norm.cdf(difference / v)
    s2, error = cov_0[t - 1, t - 1], y[-1] - mean_0[t - 1]
    kl = 0.5 * (math.log(1.0 + s2 / NOISE) - s2 / (s2 + NOISE) + s2 * error**2 / (s2 + NOISE) ** 2)
    first = abs(mean_0[best_before] - mean_1[best])
    assert found["gap"] == pytest.approx(first + second + kappa * math.sqrt(kl / 2.0), rel=1e-7)
    c = math.sqrt(-2.0 * math.log(0.1))
    auto = (sd_0[best] + kappa / 2.0) * math.sqrt(s2) * c * math.sqrt(NOISE) / (s2 + NOISE)
    assert found["auto"] == pytest.approx(auto, rel=1e-7)
    bound = (mean_1 + root_beta * sd_1).max() - (mean_1 - root_beta * sd_1)[:t].max()
    assert found["sr"] == pytest.approx(bound, rel=1e-7)
    gain = mean_1 - y.max()
    expected = gain * stats.norm.cdf(gain / sd_1) + sd_1 * stats.norm.pdf(gain / sd_1)
    assert found["ei"] == pytest.approx(expected.max(), rel=1e-6)
    assert found["pi"] == pytest.approx(stats.norm.cdf((gain / sd_1)[expected.argmax()]), rel=1e-6)


def test_stops_are_the_first_below_the_threshold() -> None:
    """Patience 1: "auto" from the first criterion on, the median's rule from the twentieth on."""
    gap = [1.0] * 10 + [0.001] + [1.0] * 9 + [0.009, 0.5]
    record = {"gap": gap, "auto": [0.5] * 22, "pi": [0.5] * 21 + [0.001], "ei": gap[:5], "sr": gap}
    stops = {rule: regret_gap.stop_of(record, rule) for rule in regret_gap.RULES}
    assert stops == {"PI": 32, "EI-med": None, "SR-med": 31, "Ours-auto": 21, "Ours-med": 31}


@pytest.mark.parametrize("many_responses", [True, False])
def test_trusted_sets_point_by_point(many_responses: bool) -> None:
    """Eqs. (4.3) to (4.5) and (4.7) with the reassignment, by loops over a random grid."""
    rng = np.random.default_rng(3)
    names = ("upper", "lower", "below", "above")
    shape, root = (6, 5), 1.3
    beliefs = bilbo.Beliefs(
        {name: rng.standard_normal(shape) for name in names},
        {name: 0.2 + 0.3 * rng.random(shape) for name in names},
    )
    beliefs.mean["below"][2] = -9.0  # no response to this x can be feasible
    both, responses, z_bar = bilbo.trusted(
        beliefs, root, ["below"], ["above"], many_responses=many_responses
    )

    def bound(name: str, i: int, j: int, sign: float) -> float:
        return float(beliefs.mean[name][i, j] + sign * root * beliefs.sd[name][i, j])

    for i in range(6):
        feasible = [j for j in range(5) if bound("below", i, j, 1.0) >= 0.0]
        bounds = [bound("lower", i, j, 1.0) for j in feasible]
        best = feasible[int(np.argmax(bounds))] if feasible else -1
        assert z_bar[i] == best
        for j in range(5):
            trusted = j in feasible and (
                bound("lower", i, j, 1.0) >= bound("lower", i, best, -1.0)
                if many_responses
                else j == best
            )
            assert responses[i, j] == trusted
            assert both[i, j] == (trusted and bound("above", i, j, 1.0) >= 0.0)
            widths = {name: 2.0 * root * beliefs.sd[name][i, j] for name in names}
            if j != best:
                widths["lower"] += 2.0 * root * beliefs.sd["lower"][i, best]
            name, at, largest = bilbo.function_query(beliefs, root, (i, j), best)
            assert largest == pytest.approx(max(widths.values()))
            assert widths[name] == pytest.approx(largest)
            moves = name == "lower" and beliefs.sd["lower"][i, best] > beliefs.sd["lower"][i, j]
            assert at == ((i, best) if moves else (i, j))


def test_grid_has_the_known_solution() -> None:
    """On the paper's grid the best answer is next to the known one, and has no regret."""
    grid = bilbo.grid_of("branin-goldstein")
    x, z = grid.nearest(np.array([0.5180049647796, 0.2563568739387]))
    assert sum(grid.regrets(x, z).values()) < 0.05
    rows = np.arange(100)
    answers = grid.truth["lower"].argmax(axis=1)
    best = int(grid.truth["upper"][rows, answers].argmax())
    assert sum(grid.regrets(best, int(answers[best])).values()) == 0.0
    assert abs(best - x) <= 1


def test_wang_shortens_length_scales_no_more_than_it_has_to() -> None:
    """At the point that is returned σ is at least κ; with the length-scales before it was not."""
    X = np.linspace(0.0, 1.0, 9)[:, None]
    model = Model.fit(X, np.sin(3.0 * X[:, 0]), Uninformative(1))
    before = model.process.hyperparameters.length_scales
    found, x = uhe_bo.wang_model(model, 1.96, np.random.default_rng(0))
    factor = float(before[0] / found.process.hyperparameters.length_scales[0])
    assert factor > 1.0
    assert math.sqrt(found.process.predict(x[None])[1][0]) >= uhe_bo.KAPPA
    longer = model.with_length_scales(2.0**0.25 / factor)
    at = np.linspace(0.0, 1.0, 2001)[:, None]
    mean, variance = longer.process.predict(at)
    assert math.sqrt(variance[(mean + 1.96 * np.sqrt(variance)).argmax()]) < uhe_bo.KAPPA
