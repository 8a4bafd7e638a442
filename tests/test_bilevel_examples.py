"""The two bilevel examples: what they compute is right, and they run as scripts do."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

from benchmarks.bilevel_problems import branin_goldstein_price
from tests.example_scripts import load_example

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


def _run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    module.main()


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Close what a test has drawn."""
    yield
    plt.close("all")


# ------------------------------------------------------------------------------------ robust digits


@pytest.fixture
def robust(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the example with little data and a coarse grid."""
    module = load_example("robust_digits", monkeypatch)
    monkeypatch.setattr(module, "N_TRAIN", 250)
    monkeypatch.setattr(module, "GRID", (5, 3))
    return module


def test_shifts_of_images_are_what_they_are_called(robust: Any) -> None:
    """No shift changes nothing, a right angle turns, blur spreads; each image may have its own."""
    images = np.random.default_rng(0).random((3, 8, 8))
    np.testing.assert_allclose(robust.shifted(images, 0.0, 0.0), images, atol=1e-12)
    turned = np.rot90(images, k=-1, axes=(1, 2))
    sharp = robust.shifted(images, 90.0, 0.0)
    assert min(np.abs(sharp - other).max() for other in (turned, turned[:, ::-1, ::-1])) < 1e-9
    dot = np.zeros((1, 8, 8))
    dot[0, 3, 4] = 1.0
    blurred = robust.shifted(dot, 0.0, 0.8)[0]
    assert int(np.argmax(blurred)) == 3 * 8 + 4
    assert blurred[3, 4] == pytest.approx(0.25, abs=0.03)  # of a Gaussian: 1 / (2 pi 0.8**2)
    each = robust.shifted(images, np.array([0.0, 20.0, -20.0]), np.array([0.0, 0.5, 0.2]))
    np.testing.assert_allclose(each[1], robust.shifted(images[1:2], 20.0, 0.5)[0])


def test_small_tilts_are_small_shifts(robust: Any) -> None:
    """The borders of an image do not vanish as soon as it is tilted."""
    images = np.random.default_rng(0).random((2, 8, 8))
    assert np.abs(robust.shifted(images, 0.01, 0.0) - images).max() < 0.01


def test_the_check_looks_at_the_whole_grid(robust: Any) -> None:
    """The worst shift is at least as bad as each single one, and not on what was trained on."""
    digits = robust.Digits.split(0)
    parts = [set(part.tolist()) for part in digits.parts.values()]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(digits.images)
    model = robust.train(digits, {"C": 10.0, "augmentation": 0.0})
    largest, tilt, blur = robust.worst(model, digits, "validation")
    assert largest == robust.loss(model, digits, "validation", tilt, blur)
    for tilt, blur in ((40.0, 0.0), (-40.0, 0.8), (0.0, 0.0), (20.0, 0.4)):
        assert robust.loss(model, digits, "validation", tilt, blur) <= largest
    assert largest > 2.0 * robust.loss(model, digits, "validation")


def test_robust_digits_runs(
    robust: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small budget gives the table, the ratio of its rows, and the picture."""
    _run(robust, monkeypatch, "--n-trials", "8", "--out", str(tmp_path))
    out = capsys.readouterr().out
    rows = dict(
        re.findall(
            r"^(naive tuning|against the worst) +\S+ +\S+ +\S+ +(\S+)", out, flags=re.MULTILINE
        )
    )
    (ratio,) = re.findall(r"worst case is (\S+) times", out)
    expected = float(rows["naive tuning"]) / float(rows["against the worst"])
    assert float(ratio) == pytest.approx(expected, abs=0.06 + 0.01 * expected)
    assert (tmp_path / "bilevel.png").stat().st_size > 20_000


# ------------------------------------------------------------------------- Branin, Goldstein-Price


def test_functions_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to shift and scale, those of the benchmark; so is the solution."""
    module = load_example("bilevel", monkeypatch)
    task = branin_goldstein_price()
    points = np.random.default_rng(0).random((20, 2))
    for name, function in (("upper", module.branin), ("lower", module.goldstein_price)):
        ours = [function(x, z) for x, z in points.tolist()]
        theirs = [task.value(name, {"x0": x, "z0": z}) for x, z in points.tolist()]
        assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert task.solution is not None
    expected = (task.solution["x0"], task.solution["z0"])
    assert module.true_solution() == pytest.approx(expected, abs=0.01)


def test_bilevel_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints the solution it found beside the true one and writes both pictures."""
    module = load_example("bilevel", monkeypatch)
    _run(module, monkeypatch, "--n-trials", "45", "--out", str(tmp_path), "--html")
    out = capsys.readouterr().out
    found, true = re.findall(
        r"^(?:BILBO|true) +(\S+) +(\S+) +(\S+) +(\S+)$", out, flags=re.MULTILINE
    )
    assert float(found[1]) == pytest.approx(float(found[2]), abs=0.05)
    assert float(found[3]) == pytest.approx(float(true[3]), abs=2.0)
    assert (tmp_path / "bilevel.png").stat().st_size > 20_000
    assert (tmp_path / "bilevel.html").is_file()


def test_too_few_queries_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one query one of the two functions would be unknown."""
    with pytest.raises(SystemExit):
        _run(load_example("bilevel", monkeypatch), monkeypatch, "--n-trials", "1")
    assert "--n-trials: must be at least 2" in capsys.readouterr().err
