"""Experiments of which something dies, on a cluster of a head and two workers.

The tests with a cluster are slow ones; in the quick one a driver dies beside the other tests' Ray.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import bbo_plugins
from bbo_plugins.optuna import continued_from
from bbo_plugins.optuna.study.continuations import steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import cloudpickle

from bbo_plugins.ray.tune.recording import NOT_COUNTED
from tests.ray.driver import GROWING, N_TRIALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIVER = Path(__file__).with_name("driver.py")
HOST = Path(__file__).with_name("cluster_host.py")
# A node that is killed is missed within seconds.
HEALTH = {
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "1000",
}
PATIENCE = 300.0  # seconds that a driver may take in all, on a machine that is busy
TOKEN = Path.home() / ".ray" / "auth_token"

Line = dict[str, Any]


def _command_of(entry: Path) -> str:
    """Return the command line of a process, which is empty if it has ended."""
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _processes_of(folder: str) -> list[str]:
    """Return the command lines of the processes that work in a folder."""
    commands = map(_command_of, Path("/proc").glob("[0-9]*"))
    return [command for command in commands if folder in command]


class Cluster:
    """A head that runs no trials and two workers of one processor each, in another process."""

    def __init__(self, folder: str) -> None:
        """Start it."""
        self._log = (Path(folder) / "host.log").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(HOST), folder],
            env={**os.environ, **HEALTH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.address = self._answer()

    def ask(self, command: str) -> None:
        """Have a command carried out."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return line.split()[1]
        pytest.fail(Path(self._log.name).read_text(encoding="utf-8")[-4_000:])

    def close(self) -> None:
        """Shut it down."""
        try:
            self.process.communicate(timeout=PATIENCE)  # closes its input
        finally:
            self.process.kill()
            self._log.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests here; nothing of it is left afterwards."""
    had_token = TOKEN.exists()
    folder = tempfile.mkdtemp(prefix="bbo", dir="/tmp")  # paths of sockets must be short
    cluster = Cluster(folder)
    yield cluster
    cluster.close()
    deadline = time.monotonic() + 30.0
    while _processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = _processes_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left
    assert TOKEN.exists() == had_token


class Driver:
    """A driver in a process of its own."""

    def __init__(self, address: str, folder: Path, **job: bool) -> None:
        """Start it; ``job`` says what it is to do."""
        self.folder = folder
        given = {"address": address, "folder": str(folder), "reuse_actors": True}
        package = str(Path(bbo_plugins.__file__).parents[1])
        self._log = (folder / "driver.log").open("a", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps({**given, "restore": False, **job})],
            env={**os.environ, "PYTHONPATH": package},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._deadline = time.monotonic() + PATIENCE

    def __enter__(self) -> Self:
        """Return the driver."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        self.process.kill()
        self.process.wait()
        self._log.close()

    def lines(self) -> list[Line]:
        """Return the results so far."""
        path = self.folder / "progress.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def wait_until(self, reached: Callable[[list[Line]], bool]) -> list[Line]:
        """Return the results as soon as they are as wanted."""
        while not reached(lines := self.lines()):
            assert self.process.poll() is None, self._said()
            assert time.monotonic() < self._deadline, self._said()
            time.sleep(0.05)
        return lines

    def kill(self) -> None:
        """Kill it at a moment when Tune's own state can be restored.

        Tune writes its state in place, and counts the trials in another file than the one with the
        trials: a kill between those loses the experiment, of which a restore then makes a new one
        with a single trial, or it loses one of its trials.
        """
        while True:
            self.process.send_signal(signal.SIGSTOP)
            while not self._is_stopped():
                time.sleep(0.001)
            if self._has_state():
                break
            self.process.send_signal(signal.SIGCONT)
            assert time.monotonic() < self._deadline, self._said()
            time.sleep(0.05)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _is_stopped(self) -> bool:
        """Return whether all its threads stand still.

        The signal only asks them to. One that copies the state may still empty the file that is
        about to be read, in a call to the system that it had begun, as long as it waits for a
        processor.
        """
        assert self.process.poll() is None, self._said()
        try:
            stats = [s.read_text() for s in Path(f"/proc/{self.process.pid}/task").glob("*/stat")]
        except OSError:  # a thread has ended meanwhile
            return False
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def _has_state(self) -> bool:
        """Return whether the state of the experiment can be read, and counts its trials."""
        experiment = self.folder / "experiment"
        try:
            state = json.loads(max(experiment.glob("experiment_state-*.json")).read_bytes())
            search = cloudpickle.loads(max(experiment.glob("search_gen_state-*.json")).read_bytes())
            cloudpickle.loads(max(experiment.glob("searcher-state-*.pkl")).read_bytes())
        except (ValueError, EOFError, pickle.UnpicklingError):
            return False
        return bool(0 < search["counter"] == len(state["trial_data"]))

    def summary(self) -> dict[str, Any]:
        """Wait for the end, and return what came out."""
        assert self.process.wait(max(self._deadline - time.monotonic(), 1.0)) == 0, self._said()
        read: dict[str, Any] = json.loads((self.folder / "summary.json").read_bytes())
        return read

    def _said(self) -> str:
        return (self.folder / "driver.log").read_text(encoding="utf-8")[-4_000:]


def _study(folder: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    return optuna.load_study(study_name="optuna", storage=storage)


def _targets(lines: list[Line]) -> dict[str, list[int]]:
    """Return the horizons of each trial in the order in which it had them."""
    targets: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line["n"] not in targets[line["trial"]]:
            targets[line["trial"]].append(line["n"])
    return dict(targets)


def _check_steps(result: dict[str, Any], folder: Path) -> None:
    """Check that the study has as many steps as Tune, but for the trials that it lists."""
    study = _study(folder)
    listed = [v for key, v in study.user_attrs.items() if key.startswith(NOT_COUNTED)]
    left_out = {number for numbers in listed for number in numbers}
    counted = [steps_taken(t) for t in study.trials if t.number not in left_out]
    assert sum(counted) == sum(trial["done"] for trial in result["trials"])


def _check_growing(result: dict[str, Any], folder: Path) -> None:
    """Check what came out: the best have all steps, and none went back.

    What was reported between Tune's last save and a driver's death is recorded once more.
    """
    assert [trial["n"] for trial in result["trials"]].count(GROWING.steps(N_TRIALS - 1)) >= 3
    trials = _study(folder).trials
    steps = {trial.number: trial.user_attrs.get("sgd_steps", 0) for trial in trials}
    for trial in trials:
        source = continued_from(trial)
        if source is not None and trial.state.name == "COMPLETE":
            assert steps[trial.number] >= steps[source]


@pytest.mark.slow
@pytest.mark.parametrize("growing", [False, True])
def test_worker_dies(cluster: Cluster, tmp_path: Path, growing: bool) -> None:
    """A worker is killed under a trial: it goes on elsewhere, with the same horizon."""
    hold = tmp_path / "hold"
    hold.touch()  # as long as it is there, trials wait in the middle of their steps

    def held(lines: list[Line]) -> list[Line]:
        """Return the results of trials that wait; of continued ones if the horizon grows."""
        if growing:
            return [line for line in lines if line["n"] > line["done"] > line["resumed_at"] > 0]
        return [line for line in lines if line["done"] == 32]

    # Ray may give a trial up, whatever max_failures is, if an actor dies that it was to take over.
    with Driver(cluster.address, tmp_path, growing=growing, reuse_actors=False) as driver:
        before = driver.wait_until(lambda lines: bool(held(lines)))
        killed = held(before)[0]
        cluster.ask(f"kill {killed['node']}")
        worker = Path(f"/proc/{killed['pid']}")  # which ends soon after its node
        driver.wait_until(lambda _: not _command_of(worker))
        hold.unlink()
        result = driver.summary()
        lines = driver.lines()
    cluster.ask("add")
    assert (result["errors"], result["terminated"]) == (0, N_TRIALS)
    assert all(trial["n"] == trial["done"] for trial in result["trials"])
    on = [line for line in lines[len(before) :] if line["trial"] == killed["trial"]]
    assert on[-1]["node"] != killed["node"]
    assert on[-1]["resumed_at"] > 0
    states = [trial.state.name for trial in _study(tmp_path).trials]
    _check_steps(result, tmp_path)
    if growing:
        assert on[0]["n"] == killed["n"]
        assert set(states) <= {"COMPLETE", "PRUNED"}
        _check_growing(result, tmp_path)
        return
    # T from the tuner, N = 8 T.
    assert all(targets == [8 * N_TRIALS] for targets in _targets(lines).values())
    assert states == ["COMPLETE"] * N_TRIALS


@pytest.fixture
def address(request: pytest.FixtureRequest, where: str) -> str:
    """Return the address of the cluster, or of the Ray of the other tests."""
    started = request.getfixturevalue(where)
    known = started.address if where == "cluster" else started.get_runtime_context().gcs_address
    return str(known)


@pytest.mark.parametrize(
    "growing, where",
    [
        (True, "local_ray"),
        pytest.param(True, "cluster", marks=pytest.mark.slow),
        pytest.param(False, "cluster", marks=pytest.mark.slow),
    ],
)
def test_driver_dies(address: str, tmp_path: Path, growing: bool) -> None:
    """The driver is killed and its experiment restored: no trial is lost, no horizon changes."""
    with Driver(address, tmp_path, growing=growing) as driver:
        wanted = 8 if growing else 6
        driver.wait_until(lambda lines: len(lines) >= wanted)
        driver.kill()
        before = driver.lines()
    with Driver(address, tmp_path, growing=growing, restore=True) as driver:
        result = driver.summary()
        lines = driver.lines()
    assert "Failed to restore" not in (tmp_path / "driver.log").read_text(encoding="utf-8")
    assert len(lines) > len(before)
    assert (result["errors"], result["terminated"]) == (0, N_TRIALS)
    assert all(trial["n"] == trial["done"] for trial in result["trials"])
    targets = _targets(lines)
    for trial_id, early in _targets(before).items():
        assert targets[trial_id][: len(early)] == early
    assert all(trial.state.is_finished() for trial in _study(tmp_path).trials)
    _check_steps(result, tmp_path)
    if growing:
        _check_growing(result, tmp_path)
    else:
        assert all(known == [8 * N_TRIALS] for known in targets.values())
