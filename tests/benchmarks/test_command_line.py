"""``python -m benchmarks``: what it accepts, and that a missing peer is said, not passed over."""

import dataclasses
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from bbo_plugins.methods.gp_bo import DEFAULT_BETA
from bbo_plugins.optuna import UHEBOSampler
from benchmarks import __main__ as command_line
from benchmarks import formulas, peers
from benchmarks.report import Report, package_digest


@pytest.mark.parametrize("words", [["nosuch"], [], ["latency", "--seeds", "0"], ["regret", "--x"]])
def test_bad_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown names, no name, and senseless options end with status 2 and a usage line."""
    with pytest.raises(SystemExit) as stop:
        command_line.main(words)
    assert stop.value.code == 2
    assert "usage: python -m benchmarks" in capsys.readouterr().err


def test_unknown_name_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The message of an unknown name tells what there is."""
    with pytest.raises(SystemExit):
        command_line.main(["nosuch"])
    message = capsys.readouterr().err
    assert all(name in message for name in command_line.BENCHMARKS)


def test_threads_are_limited_before_numpy_loads(tmp_path: Path) -> None:
    """In a fresh process the variables are set, and the report says so."""
    words = [sys.executable, "-m", "benchmarks", "regret", "--functions", "branin"]
    words += ["--samplers", "random", "--seeds", "1", "--trials", "11", "--jobs", "1"]
    done = subprocess.run(
        [*words, "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert "OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1" in done.stdout
    assert (tmp_path / "regret.md").read_text(encoding="utf-8") == done.stdout


def test_missing_peer_is_skipped_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entrant whose module cannot be found is left out, and the report says which and why."""
    monkeypatch.setattr(peers, "_importable", lambda module: module != "torch")
    report = Report(name="demo", directory=tmp_path, command="test")
    chosen = peers.available(["tpe", "gpsampler", "tpe"], report)
    assert [entrant.name for entrant in chosen] == ["tpe"]
    assert "SKIPPED gpsampler: not installed: torch." in report.text()
    assert "SKIPPED gpsampler" in capsys.readouterr().err


def test_sources_identify_the_code() -> None:
    """Peers are known by their release, ours by a digest of its files."""
    assert peers.SAMPLERS["tpe"].source().startswith("optuna-")
    assert peers.SAMPLERS["ours-map"].source() == f"source-{package_digest()}"


def test_an_entrant_of_this_folder_is_known_by_its_file_too() -> None:
    """What a module here builds is not taken for what another version of it has built."""
    plain = peers.SAMPLERS["ours-map"]
    sources = {
        dataclasses.replace(plain, module=module).source()
        for module in (None, "benchmarks.formulas", "benchmarks.problem", "benchmarks.nosuch")
    }
    assert len(sources) == 4
    digest = hashlib.sha256(Path(formulas.__file__).read_bytes()).hexdigest()[:12]
    assert f"source-{package_digest()}-{digest}" in sources


def test_baselines_differ_in_the_estimation_only() -> None:
    """Each entrant of ours that is compared by group has a baseline that is one of ours as well."""
    baselines = {name: entrant.baseline for name, entrant in peers.SAMPLERS.items()}
    assert baselines["ours-uhe"] == "ours-map"
    assert baselines["ours-uhe-ucb"] == baselines["uhe-literal"] == "ours-map-ucb"
    assert baselines["ours-uhe-ei"] == "ours-map-ei"
    for baseline in filter(None, baselines.values()):
        assert peers.SAMPLERS[baseline].ours
        assert baselines[baseline] is None


@pytest.mark.parametrize(
    "name, acquisition", [("ours-map", "logei"), ("ours-map-ucb", "ucb"), ("ours-map-ei", "ei")]
)
def test_names_say_the_acquisition(name: str, acquisition: str) -> None:
    """The entrant is built with the acquisition function that its name says, and GP-UCB's 1.96."""
    sampler = peers.SAMPLERS[name].build(0, None)
    assert isinstance(sampler, UHEBOSampler)
    assert sampler._acquisition == acquisition
    assert DEFAULT_BETA == 1.96
