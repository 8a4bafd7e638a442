"""Settings of the tests of the Ray front door, which are skipped where Ray is not installed."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Read when Ray is imported or started: no token in the home folder, no usage report, no log files
# but Tune's own state, and that state as soon as something happens. Processes
# that are not niced: beside other tests they would starve.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "0",
}
os.environ.update(SETTINGS)
# Ray keeps the locks of files in one folder of the machine, which belongs to its first user.
_FOLDER = Path(tempfile.gettempdir()) / f"ray-{getpass.getuser()}"
_FOLDER.mkdir(exist_ok=True)
os.environ.setdefault("RAY_TMPDIR", str(_FOLDER))


@pytest.fixture(scope="session")
def local_ray() -> Iterator[Any]:
    """One Ray instance of two processors for all tests that run experiments in this process."""
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield ray
    ray.shutdown()
