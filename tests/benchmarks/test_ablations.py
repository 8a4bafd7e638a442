"""The entrants that are parts of UHE-BO, and the paper's literal loss with its priors."""

import numpy as np
import optuna
import pytest
from scipy.stats import gamma

from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.losses import MARGINAL, NearestNeighborPseudoData
from bbo_plugins.gp.prior import default_prior
from bbo_plugins.methods.uhe_bo import DEFAULT_POLICY
from benchmarks import ablations
from benchmarks.functions import PROBLEMS
from benchmarks.gp_samples import draw
from benchmarks.peers import SAMPLERS

FEATURES = FeatureMap((0, 0))


@pytest.mark.parametrize("fit_noise", [True, False])
def test_literal_posterior_has_the_papers_priors(fit_noise: bool) -> None:
    """With the default prior added, the likelihood is weighted by SciPy's Gamma densities."""
    X, y = draw("uniform", 2, 12, 0)
    literal = ablations.LiteralLoss().criterion(X, y, FEATURES, fit_noise=fit_noise)
    pseudo = NearestNeighborPseudoData().criterion(X, y, FEATURES, fit_noise=fit_noise)
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


def test_literal_posterior_gradient() -> None:
    """The gradient agrees with central differences."""
    X, y = draw("uniform", 2, 12, 0)
    literal = ablations.LiteralLoss().criterion(X, y, FEATURES)
    theta = default_prior(2).location + np.array([0.2, -0.3, 0.1, 0.4])
    gradient = literal(theta)[1].copy()
    steps = 1e-5 * np.eye(4)
    numerical = [(literal(theta + step)[0] - literal(theta - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5, atol=1e-6)


def test_the_papers_priors_shorten_length_scales() -> None:
    """A rate of ten pulls every hyperparameter down, so the estimates are below the default's."""
    X, y = draw("uniform", 2, 25, 2)
    z = (y - y.mean()) / y.std()
    plain = fit_map(X, z, FEATURES, loss=NearestNeighborPseudoData()).hyperparameters
    literal = fit_map(X, z, FEATURES, loss=ablations.LiteralLoss()).hyperparameters
    assert (literal.length_scales < plain.length_scales).all()


def test_every_ablation_is_an_entrant() -> None:
    """The entrants of this module and the policies have the same names."""
    entrants = {name for name, entrant in SAMPLERS.items() if entrant.module is not None}
    assert entrants == set(ablations.POLICIES)


def test_each_ablation_leaves_out_what_its_name_says() -> None:
    """The policies differ from the default in the part that is named."""
    default, policies = DEFAULT_POLICY, ablations.POLICIES
    assert policies["uhe-loss-only"].loss == default.loss != MARGINAL
    assert not policies["uhe-loss-only"].explores
    assert policies["uhe-arm-only"].loss == MARGINAL
    assert policies["uhe-arm-only"].explores
    assert policies["uhe-both"].loss == default.loss
    assert policies["uhe-both"].explores
    assert not policies["uhe-both"].on_stagnation


@pytest.mark.parametrize("name", ablations.POLICIES)
def test_ablations_run_by_their_policy(name: str) -> None:
    """Each entrant's study differs from the plain sampler's as soon as its policy says so."""
    problem = PROBLEMS["deceptive2"]
    values = {}
    for entrant in (name, "ours-map-ucb" if name == "uhe-literal" else "ours-map"):
        study = optuna.create_study(sampler=SAMPLERS[entrant].build(1, 40))
        study.optimize(
            lambda trial: problem.value({p: trial.suggest_float(p, -5, 5) for p in problem.space}),
            n_trials=22,
        )
        values[entrant] = [trial.value for trial in study.trials]
    ours, plain = values.values()
    assert ours[:10] == plain[:10]  # the start-up
    if not ablations.POLICIES[name].on_stagnation:
        assert ours != plain


def test_only_the_literal_entrant_knows_the_budget() -> None:
    """The paper's rate needs T; the others are built as a user would."""
    for name in ablations.POLICIES:
        sampler = ablations.build(name, seed=0, n_trials=77)
        assert isinstance(sampler, ablations.PolicySampler)
        literal = name == "uhe-literal"
        assert sampler._n_trials == (77 if literal else None)
        assert sampler._acquisition == ("ucb" if literal else "logei")
        assert sampler._policy() is ablations.POLICIES[name]
