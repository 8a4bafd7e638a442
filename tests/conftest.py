"""Settings shared by all tests."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import optuna
import pytest

from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.optuna.messages import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

# Optuna's conformance classes assert; without the rewriting a failure says only "AssertionError".
pytest.register_assert_rewrite("optuna.testing")

# The smoke tests run in an environment that has nothing but the wheel and pytest.
if find_spec("hypothesis") is not None:
    from hypothesis import settings

    # Wall-clock deadlines fail on a busy machine for reasons no test can do anything about.
    settings.register_profile("bbo_plugins", deadline=None, derandomize=True, max_examples=40)
    settings.load_profile("bbo_plugins")


RAY, EXAMPLES = "tests/ray", "tests/test_examples.py"
# Tests that take longest, mostly waiting for other processes. One of them that begins last keeps
# one worker busy long after the others have ended.
LONGEST_FIRST = (RAY, "tests/reliability", EXAMPLES, "tests/test_docs.py", "tests/optuna")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first."""

    def place(item: pytest.Item) -> int:
        matches = (i for i, name in enumerate(LONGEST_FIRST) if item.nodeid.startswith(name))
        return next(matches, len(LONGEST_FIRST))

    items.sort(key=place)


# The smoke tests run without xdist.
if find_spec("xdist") is not None:
    from xdist.scheduler import LoadFileScheduling

    class _FilesTogether(LoadFileScheduling):  # type: ignore[misc] # Any
        """Gives each file to one worker, and all of Ray's to the same: several Rays would wait.

        Examples run in processes of their own, so each of them may go to another worker. Not by
        xdist's own groups, which do nothing with pytest 9.2 (pytest-xdist, issue 1386).
        """

        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(RAY):
                return RAY
            return nodeid if nodeid.startswith(EXAMPLES) else str(super()._split_scope(nodeid))

    def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
        """Return who says which worker runs which test."""
        return _FilesTogether(config, log)

    def pytest_xdist_auto_num_workers() -> int:
        """Return one worker more than processors, up to four: those of Ray wait for others."""
        return min((os.cpu_count() or 1) + 1, 4)


# Folders of tests that call what a suggestion calls, past the method that limits BLAS.
BELOW_THE_LIMIT = {"acquisition", "benchmarks", "gp", "methods"}


@pytest.fixture(autouse=True, scope="module")
def blas_as_in_a_suggestion(request: pytest.FixtureRequest) -> Iterator[None]:
    """Limit BLAS to one thread where the package's parts are tested, as the whole does for them.

    Nothing else is limited: the tests of the front doors run as a user's program does.
    """
    folders = set(request.path.relative_to(request.config.rootpath).parts)
    if folders & BELOW_THE_LIMIT and request.path.stem != "test_blas":
        with one_blas_thread():
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def messages_reach_caplog(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pytest see the package's messages, which go to Optuna's logger and not to the root's."""
    logger = logging.getLogger(OURS)
    monkeypatch.setattr(logger, "propagate", True)
    level = logger.level
    logger.setLevel(logging.NOTSET)
    yield
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's own log lines out of the tests' output."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(level)
