"""Conditional problems have the minimum that they claim; SMAC3 is told their conditions."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import FixedTrial

from benchmarks.common.peer import from_positions
from benchmarks.common.smac_peer import config_space, parameters_of
from benchmarks.problems.conditional import PROBLEMS, REAL, SYNTHETIC

_BEST_OF_FORTY = np.random.default_rng(0).uniform(0.1, 0.9, 4).tolist()
# Where each synthetic problem is 0.
ARGMIN: dict[str, dict[str, Any]] = {
    "three_branches": {"branch": "c", "c0": 1.3, "c1": 1.3, "c2": 1.3},
    "layer_widths": {"n_layers": 3, "width0": 0.3, "width1": 0.45, "width2": 0.6},
    "two_parents": {"p": 1, "p1x": 0.4, "p1y": 0.6, "q": 2, "q2x": 0.5, "q2y": 0.6},
    "float_parent": {"x": 0.75, "y": 0.4, "z": 0.3},
    "depth_two": {"side": "left", "kind": "z", "lz": 0.8, "lzv": 0.1},
    "rare_branch": {"choice": 7, "x7": 0.65, "y7": 0.25},
    "forty_parameters": {
        "choice": 0,
        "k0": 1,
        **{f"x0_{i}": x for i, x in enumerate(_BEST_OF_FORTY)},
    },
    "network_depth": {
        "depth": 4,
        **{f"activation{i}": kind for i, kind in enumerate("rtsr")},
        **{f"width{i}": width for i, width in enumerate((8, 16, 32, 8))},
    },
    "moving_optimum": {"kind": "b", "rate": 10.0**-2.5, "own_b": 0.9},
    "threshold_and_switch": {"size": 10.0**0.5, "use": True, "share": 0.35, "order": 4},
    "small_rate": {"rate": 10.0**-2.6, "start": 0.7, "period": 13, "floor": 0.31},
    "three_levels": {
        "family": "network",
        "rate": 10.0**-1.8,
        "optimizer": "sgd",
        "momentum": 0.8,
        "schedule": "step",
        "every": 11,
        "factor": 0.3,
    },
    "one_kind_has_layers": {
        "kind": "network",
        "n_layers": 2,
        "units0": 64,
        "dropout0": 0.15,
        "units1": 32,
        "dropout1": 0.25,
    },
    "sharp_and_flat": {"kind": "sharp", "shift": 0.43, "scale": 10.0**1.29, "order": 6},
}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_minimum_is_zero(name: str) -> None:
    """It is reached where it is said to be, with exactly these parameters, and nowhere undercut."""
    problem = SYNTHETIC[name]
    trial: Any = FixedTrial(ARGMIN[name])  # an objective does not tell it from a Trial
    assert problem.function(trial) == pytest.approx(0.0, abs=1e-12)
    assert trial.params.keys() == ARGMIN[name].keys()
    values = [seen.values[0] for seen in problem.random_trials(300, 5)]
    assert min(values) > 0.0


@pytest.mark.parametrize("name", PROBLEMS)
def test_trials_differ_in_their_parameters(name: str) -> None:
    """Some parameter is conditional; values are numbers, and error rates are between 0 and 1."""
    problem = PROBLEMS[name]
    trials = problem.random_trials(4 if name in REAL else 40, 0)
    assert len({frozenset(trial.params) for trial in trials}) > 1
    values = np.array([trial.values[0] for trial in trials])
    assert np.isfinite(values).all()
    if name in REAL:
        assert values.min() >= 0.0
        assert values.max() <= 1.0
        assert problem.scale == 1.0
        # The folds and the models are fixed, so that stored runs are not made again.
        again = problem.random_trials(1, 0)[0]
        assert again.values == trials[0].values


@pytest.mark.parametrize("name", SYNTHETIC)
def test_smac_knows_which_parameters_exist(name: str) -> None:
    """A random configuration has the parameters that the objective asks for, up to a threshold."""
    pytest.importorskip("ConfigSpace", reason="ConfigSpace is not installed")
    problem = SYNTHETIC[name]
    space = config_space(parameters_of(problem), 0)
    n_right = 0
    for configuration in space.sample_configuration(200):
        params = from_positions(parameters_of(problem).distributions, dict(configuration))
        trial: Any = FixedTrial(params)
        try:
            problem.function(trial)
        except ValueError:  # a parameter is missing
            continue
        n_right += trial.params.keys() == params.keys()
    assert n_right >= 196


def test_published_ratios_are_those_of_the_published_medians() -> None:
    """Every problem has its row, and the table of all benchmarks counts the ratios there."""
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "results" / "conditional.md").read_text(encoding="utf-8")
    of_five = r"^\| (\w+) \(\d+\) \|((?:[^|]+\|){4}[^|]+)\| (\S+) \|$"
    rows = re.findall(of_five, page, re.MULTILINE)
    assert {name for name, *_ in rows} == PROBLEMS.keys()
    n_met = 0
    for name, cells, ratio in rows:
        ends = [float(cell.split("/")[-1].strip("* ")) for cell in cells.split("|")]
        ours, _uhe, tpe, group, _random = ends
        assert float(ratio) == pytest.approx(ours / min(tpe, group), rel=0.1)
        n_met += name in SYNTHETIC and float(ratio) <= 0.1
    summary = (docs / "benchmarks.md").read_text(encoding="utf-8")
    (counts,) = re.findall(r"a tenth of the better TPE's on (\d+) of (\d+)", summary)
    assert counts == (str(n_met), str(len(SYNTHETIC)))
