"""Records: criteria, thresholds and units, what stops a study, and what must not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.methods.regret_gap.algorithm import Evaluation, evaluate
from bbo_plugins.methods.regret_gap.bound import confidence_multiplier, cross_validation_threshold
from bbo_plugins.methods.regret_gap.model import StandardizedTargets, StoppingModel
from bbo_plugins.methods.regret_gap.rule import CRITERIA, THRESHOLDS, StoppingRecord, StoppingRule
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles import dense, normal, posteriors
from tests.oracles.problems import unit_box

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

SHARED = Hyperparameters(np.array([0.3, 0.6]), 1.5, 0.05)
SMOOTH = Hyperparameters(np.array([0.3, 0.6]), 1.5, 1e-4)
RELATIVE = StoppingRule()


def _history(seed: int, n: int = 25, d: int = 2) -> tuple[FloatArray, FloatArray]:
    """Return random points and the noisy values of a function with several maxima."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(7.0 * X[:, 0]) + np.cos(5.0 * X[:, -1]) + 0.1 * rng.standard_normal(n)


def _converged(n: int = 40) -> tuple[FloatArray, FloatArray]:
    """Return a history that explores a parabola and then stays at its top."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    X[15:] = 0.4 + 0.01 * rng.standard_normal((n - 15, 2))
    return X, -np.square(X - 0.4).sum(axis=1)


def _replay(
    X: FloatArray, y: FloatArray, rule: StoppingRule = RELATIVE, *, first: int = 2, **options: Any
) -> list[StoppingRecord]:
    """Return the records of the completions from the ``first`` on, each given those before it."""
    records: list[StoppingRecord] = []
    for n in range(first, len(y) + 1):
        found = evaluate(unit_box(X.shape[1]), X[:n], y[:n], rule=rule, previous=records, **options)
        assert found.notes == ()
        records.append(found.record)
    return records


# -------------------------------------------------------------------------------------- thresholds
def test_relative_threshold_is_a_share_of_the_standard_deviation() -> None:
    """η times the standard deviation of the values so far, in their units."""
    X, y = _history(1)
    record = evaluate(unit_box(2), X, y, rule=StoppingRule(eta=0.25), shared=SHARED).record
    assert record.threshold == pytest.approx(0.25 * float(y.std()), rel=1e-12)
    assert record.terms["std"] == pytest.approx(float(y.std()), rel=1e-12)


def test_median_threshold_is_that_of_the_first_values() -> None:
    """None before there are n_initial values, and the same one from then on."""
    X, y = _history(2, n=14)
    rule = StoppingRule(threshold="median", eta=0.5, n_initial=5)
    records = _replay(X, y, rule, shared=SHARED)
    assert [record.threshold for record in records[:4]] == [-math.inf] * 4
    median = sorted(record.value for record in records[:5])[2]
    assert {record.threshold for record in records[4:]} == {0.5 * median}
    # once it is there, the first records are needed no more
    last = evaluate(unit_box(2), X, y, rule=rule, previous=records[-2:-1], shared=SHARED)
    assert last.record == records[-1]


def test_number_is_a_threshold_in_the_units_of_the_objective() -> None:
    """Just above the criterion it stops, just below it does not."""
    X, y = _history(6)
    value = evaluate(unit_box(2), X, y, rule=RELATIVE, shared=SHARED).record.value
    for factor, stops in ((1.001, True), (0.999, False)):
        rule = StoppingRule(threshold=factor * value, patience=1)
        record = evaluate(unit_box(2), X, y, rule=rule, shared=SHARED).record
        assert record.threshold == factor * value
        assert record.terminate is stops


# ---------------------------------------------------------------------------------------- criteria
@pytest.mark.parametrize("newest", ["uncertain", "safe"])
def test_kappa_bounds_the_regret_before_the_observation(newest: str) -> None:
    """Largest upper bound over Θ, θ_t included; largest lower bound over the points before θ_t.

    Once θ_t has the largest upper bound of all, once a larger lower bound than all observed.
    """
    space = SearchSpace({"n": Dimension.integers(0, 40)})
    levels = {"uncertain": [5, 2, 8, 4, 6, 29], "safe": [2, 38, 17, 18, 22, 23, 20]}[newest]
    points = space.enumerate()
    X, n = points[levels], len(levels)
    y = -np.square(np.array(levels) - 20.0) / 100.0
    shared = Hyperparameters(np.array([0.3]), 1.0, 0.5)
    record = evaluate(space, X, y, rule=RELATIVE, shared=shared).record
    targets = StandardizedTargets.of(y)
    before = StoppingModel.fit(X, targets.z, FeatureMap((0,)), shared=shared).before()
    mean, variance = before.predict(points)
    width = confidence_multiplier(41, n, 0.1) * np.sqrt(variance)
    upper, lower = mean + width, mean - width
    expected = float(upper.max() - lower[levels[:-1]].max())
    assert record.terms["kappa"] == pytest.approx(targets.std * expected, rel=1e-7)
    if newest == "uncertain":
        assert int(np.argmax(upper)) == levels[-1]
    else:
        assert lower[20] > lower[levels[:-1]].max()


@pytest.mark.parametrize(
    "threshold, deterministic, floor",
    [
        ("relative", False, 1e-2),
        (0.5, False, 1e-2),
        ("median", False, 1e-4),
        ("auto", False, 1e-6),
        ("relative", True, 1e-6),
    ],
)
def test_gap_is_that_of_its_parts(
    threshold: str | float, deterministic: bool, floor: float
) -> None:
    """The change of the mean, KL and the sum, from posteriors with and without the newest value.

    The noise is the fitted one, but at least what belongs to the threshold.
    """
    X, y = _history(7, n=8)
    y[-1] = y.max() + 1.0
    rule = StoppingRule(threshold=threshold, deterministic_objective=deterministic)
    assert rule.noise_floor == floor
    record = evaluate(unit_box(2), X, y, rule=rule, shared=SMOOTH).record
    terms = record.terms
    targets = StandardizedTargets.of(y)
    model = StoppingModel.fit(
        X,
        targets.z,
        FeatureMap((0, 0)),
        minimum_noise=floor,
        deterministic=deterministic,
        shared=SMOOTH,
    )
    before, found = model.before(), model.after.hyperparameters
    assert found.noise_variance >= floor
    prior = dense.covariance(X, X, found.length_scales, found.signal_variance)
    kl = posteriors.kl_of_posteriors(prior, found.noise_variance, targets.z)
    assert terms["kl"] == pytest.approx(kl, rel=1e-7)
    new_mean = model.after.predict_mean(X[-1:])[0]
    old_mean = before.predict_mean(X[[np.argmax(y[:-1])]])[0]
    assert terms["mean_change"] == pytest.approx(targets.std * abs(new_mean - old_mean), rel=1e-7)
    covariance = model.after.predict_joint(X[[-1, int(np.argmax(y[:-1]))]])[1]
    v = math.sqrt(covariance[0, 0] - 2.0 * covariance[0, 1] + covariance[1, 1])
    assert terms["v"] == pytest.approx(targets.std * v, rel=1e-5)
    assert terms["information"] == pytest.approx(terms["kappa"] * math.sqrt(kl / 2.0), rel=1e-7)
    parts = ("mean_change", "incumbent_change", "information")
    assert record.value == pytest.approx(sum(terms[part] for part in parts), rel=1e-12)


def test_rivals_are_those_of_the_posterior_after_the_observation() -> None:
    """Over a whole finite space: Eq. (1), the largest expected improvement and its probability.

    The noise is the sampler's, however small.
    """
    X, y = _history(8, n=9)
    y[-1] = y.max() + 1.0  # its lower bound is the largest, as it counts among the observed ones
    space = SearchSpace({"x": Dimension.integers(1, 5), "y": Dimension.integers(1, 4)})
    X, points = space.snap(X), space.enumerate()
    targets = StandardizedTargets.of(y)
    after = StoppingModel.fit(X, targets.z, FeatureMap((0, 0)), shared=SMOOTH).after
    n_unseen = len({row.tobytes() for row in points} - {row.tobytes() for row in X})
    width = confidence_multiplier(9 + n_unseen, 9, 0.1)
    mean, variance = after.predict(points)
    observed, observed_variance = after.predict(X)
    upper = float((mean + width * np.sqrt(variance)).max())
    lower = float((observed - width * np.sqrt(observed_variance)).max())
    incumbent = float(observed.max())
    expected = [
        normal.expected_improvement(m, v, incumbent) for m, v in zip(mean, variance, strict=True)
    ]
    best = int(np.argmax(expected))
    z = (mean[best] - incumbent) / math.sqrt(variance[best])
    for criterion, value in (
        ("regret-bound", targets.std * (upper - lower)),
        ("expected-improvement", targets.std * expected[best]),
        ("probability-of-improvement", math.exp(normal.log_cdf(z)[0])),
    ):
        rule = StoppingRule(criterion=criterion)
        found = evaluate(space, X, y, rule=rule, shared=SMOOTH).record
        assert found.value == pytest.approx(value, rel=1e-6)


def test_study_that_converges_stops_and_one_that_does_not_goes_on() -> None:
    """The default ends 25 evaluations at one spot, not 40 random ones of a rugged function."""
    X, y = _converged()
    records = _replay(X, y)
    stops = [record.n_trials for record in records if record.terminate]
    assert stops
    assert stops[0] >= 20
    rng = np.random.default_rng(1)
    X = rng.random((40, 3))
    y = np.sin(12.0 * X).sum(axis=1)
    assert not any(record.terminate for record in _replay(X, y, first=18))


# -------------------------------------------------------------------------------------- invariance
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(1e-4, 1e4),
    shift=st.floats(-100.0, 100.0),
    criterion=st.sampled_from(CRITERIA),
    threshold=st.sampled_from(THRESHOLDS),
    fitted=st.booleans(),
)
def test_affine_change_of_the_objective_changes_units_only(
    seed: int, scale: float, shift: float, criterion: str, threshold: str, *, fitted: bool
) -> None:
    """For a y + b values and thresholds are a times as large, and all decisions the same."""
    probability = criterion == "probability-of-improvement"
    if threshold == "auto" and criterion != "regret-gap":
        threshold = "relative"
    if threshold == "cross-validation" and probability:
        threshold = "median"
    rule = StoppingRule(
        criterion=criterion, threshold=threshold, n_initial=2, patience=1, min_n_trials=2
    )
    X, y = _history(seed, n=12)
    first, unit = 10, 1.0 if probability else scale
    options = {} if fitted else {"shared": SHARED}
    scores = np.array([0.1, 0.5, 0.2])
    one = _replay(X, y, rule, first=first, fold_scores=scores.tolist(), **options)
    moved, scores = scale * y + scale * shift, scale * scores + scale * shift
    other = _replay(X, moved, rule, first=first, fold_scores=scores.tolist(), **options)
    for a, b in zip(one, other, strict=True):
        assert b.value == pytest.approx(unit * a.value, rel=1e-5)
        assert b.threshold == pytest.approx(unit * a.threshold, rel=1e-5)
        assert a.terminate is b.terminate
        if threshold == "auto":
            assert a.threshold == a.terms["auto_threshold"]
        elif threshold == "cross-validation":
            assert a.threshold == cross_validation_threshold([0.1, 0.5, 0.2])


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("outlier, where", [(1e6, 3), (-1e6, 22)])
def test_one_outlier_stops_nothing(criterion: str, outlier: float, where: int) -> None:
    """Good or bad, at the start or just now: no criterion falls below a hundredth of the scale.

    Without limits to the targets all others would look equal, and everything relative to their
    standard deviation would vanish.
    """
    X, y = _history(9, n=26)
    y[where] = outlier
    rule = StoppingRule(criterion=criterion, eta=0.01)
    for record in _replay(X, y, rule, first=20):
        assert not record.is_below
        assert record.threshold < 0.1


@pytest.mark.parametrize("threshold", [*THRESHOLDS, 1.0])
@pytest.mark.parametrize("outlier", [None, 1e6])
def test_constant_objective_gives_no_signal(threshold: str | float, outlier: float | None) -> None:
    """Neither zero variance nor one odd value stops a study of equal values; records say why."""
    X, _ = _history(10, n=30)
    y = np.full(30, 7.0)
    if outlier is not None:
        y[4] = outlier
    records = _replay(X, y, StoppingRule(threshold=threshold), first=1, fold_scores=[1.0, 2.0])
    assert {record.value for record in records[5:]} == {math.inf}
    assert records[-1].terms == {}
    assert not any(record.terminate for record in records)


# ----------------------------------------------------------------------------------------- records


def test_unusable_model_is_no_signal() -> None:
    """A fit of the sampler's that is damaged stops nothing and is said in the notes."""
    X, y = _history(16)
    broken = Hyperparameters(np.array([math.nan, 1.0]), 1.0, 0.1)
    found = evaluate(unit_box(2), X, y, rule=RELATIVE, shared=broken)
    assert isinstance(found, Evaluation)
    assert found.record.value == math.inf
    assert not found.record.is_below
    assert "no model could be used" in found.notes[0]
