"""The plot of length-scales shows what is stored."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.optuna import GOUCBSampler
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.visualization._data.lengthscales import plot_lengthscales
from bbo_plugins.visualization._data.objective import suggestions_of
from tests.visualization.parts import labels, part, xy
from tests.visualization.studies import MIXED, N_STARTUP, N_TRIALS, modeled_study

if TYPE_CHECKING:
    from optuna.study import Study

    from bbo_plugins.visualization._data.panels import Panel

LABELS = {
    "choice": "choice (categorical)",
    "layers": "layers",
    "lr": "lr (log scale)",
    "units": "units (log scale)",
    "x": "x",
}
RANDOM_LABEL, MODEL_LABEL = "bandit: suggested at random", "bandit: left to the model"


def _panel(study: Study) -> Panel:
    (panel,) = plot_lengthscales(study).panels
    return panel


def _suggested(criterion: str, log_scale: float) -> Proposal:
    fit = WarmStart(np.array([log_scale, 0.0, 0.0]), np.eye(3), -1.0, 5).to_json()
    return Proposal({"x": 0.5}, {criterion: fit}, criterion=criterion)


def _study(*proposals: Proposal) -> Study:
    """Return a study in which each trial was proposed so."""
    study = optuna.create_study()
    for proposal in proposals:
        attributes = proposal.to_attributes()
        study.add_trial(optuna.trial.create_trial(value=1.0, system_attrs=attributes))
    return study


def test_lines_are_what_is_stored() -> None:
    """One per parameter over the trials with an estimate; start-up is blank, and 1 in sight."""
    study = modeled_study()
    panel = _panel(study)
    assert sorted(labels(panel)) == sorted(LABELS.values())
    stored = [record for record in suggestions_of(study) if record.length_scales]
    for name in MIXED:
        line = part(panel, LABELS[name])
        assert line.x == list(range(N_STARTUP, N_TRIALS))
        assert line.y == [record.length_scales[name] for record in stored]
    assert panel.x.limits is not None
    assert panel.x.limits[0] < 0.0 < N_TRIALS - 1 < panel.x.limits[1]
    shown = [scale for record in stored for scale in record.length_scales.values()]
    assert panel.y.log
    assert panel.y.limits is not None
    assert panel.y.limits[0] < min(*shown, 1.0) < max(*shown, 1.0) < panel.y.limits[1]


def test_other_losses_are_hollow() -> None:
    """The line follows the more frequent loss; the others' estimates are points, named once."""
    rows = (("Usual", 0.0), ("LeaveOneOut", 2.0), ("Usual", 0.5), ("Usual", 0.25))
    panel = _panel(_study(*[_suggested(*row) for row in rows]))
    _, line, hollow, name = panel.items
    assert [item.label for item in (line, hollow)] == ["x", "x"]  # type: ignore[union-attr]
    np.testing.assert_allclose(xy(line), [[0, 1], [2, np.exp(0.5)], [3, np.exp(0.25)]])
    np.testing.assert_allclose(xy(hollow), [[1, np.exp(2.0)]])
    assert hollow.style.color is None  # type: ignore[union-attr]
    assert hollow.style.edge == line.style.color  # type: ignore[union-attr]
    assert name.label == "hollow: by leave one out"  # type: ignore[union-attr]
    assert panel.y.limits is not None
    assert panel.y.limits[1] > np.exp(2.0)


def test_a_kernel_with_cosines_leaves_the_line_as_it_is() -> None:
    """The line is of the usual kernel's estimates, which are stored in such trials, too."""
    proposals = []
    for i, name in enumerate(("MarginalCosinesUsed", "Marginal", "MarginalCosinesNotUsed")):
        usual, other = _suggested("Marginal", float(i)), _suggested("Cosines", 9.0)
        proposals.append(replace(usual, fits={**other.fits, **usual.fits}, criterion=name))
    _, line = _panel(_study(*proposals)).items
    np.testing.assert_allclose(xy(line), [[i, np.exp(i)] for i in range(3)])


def test_axis_ends_at_a_hundred_ranges() -> None:
    """A parameter that does not matter leaves the panel; the others stay apart."""
    panel = _panel(_study(_suggested("Usual", -1.0), _suggested("Usual", 15.0)))
    assert panel.y.limits is not None
    assert panel.y.limits[0] < np.exp(-1.0)
    assert 100.0 < panel.y.limits[1] < 200.0


@pytest.mark.parametrize("n_trials", [2, 6])
def test_a_network_has_something_else(n_trials: int, caplog: pytest.LogCaptureFixture) -> None:
    """The warning of a GO-UCB study, in start-up and after it, names the plot of its network."""
    sampler = GOUCBSampler(n_startup_trials=3, hidden_units=3, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=n_trials)
    if n_trials > 3:  # whoever looks at it later
        study.sampler = optuna.samplers.RandomSampler()
    caplog.clear()
    plot_lengthscales(study)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "GOUCBSampler is a network, which has none. plot_posterior(" in record.getMessage()


def test_what_cannot_be_drawn_is_refused() -> None:
    """What is no study, and a study whose trials have an estimate for each of its objectives."""
    no_study: Any = 3
    with pytest.raises(TypeError, match="study must be an Optuna study, but got 3"):
        plot_lengthscales(no_study)
    with pytest.raises(ValueError, match="study must have one objective, but got 2"):
        plot_lengthscales(optuna.create_study(directions=["minimize", "maximize"]))


def test_arms_of_a_bandit_have_different_marks() -> None:
    """At the bottom, below all lines: those suggested at random, and those left to the model."""
    proposals = [_suggested("Usual", -0.3 * number) for number in range(4)]
    assert labels(_panel(_study(*proposals))) == ["x"]
    proposals = [replace(one, arm="model") for one in proposals]
    proposals[2] = replace(proposals[2], arm="random", fits={}, criterion=None)
    panel = _panel(_study(*proposals))
    random, model = part(panel, RANDOM_LABEL), part(panel, MODEL_LABEL)
    assert (random.x, model.x) == ([2], [0, 1, 3])
    assert random.style.marker != model.style.marker
    assert panel.y.limits is not None
    low, shortest, high = np.log10([panel.y.limits[0], np.exp(-0.9), panel.y.limits[1]])
    for marks in (random, model):
        np.testing.assert_allclose((np.log10(marks.y) - low) / (high - low), 0.02)
    assert (shortest - low) / (high - low) > 0.05
