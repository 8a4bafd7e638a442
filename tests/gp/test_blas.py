"""One BLAS thread while the package computes, and the user's setting before and after."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import scipy.linalg  # noqa: F401 - loads the BLAS that the tests below look at
from threadpoolctl import threadpool_info, threadpool_limits

from bbo_plugins.gp.blas import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = 3
THREAD_VARIABLES = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

FORKED = """
import os, sys
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from bbo_plugins.gp.blas import one_blas_thread

def threads():
    return [row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"]

with threadpool_limits(3, user_api="blas"):
    with one_blas_thread():
        child = os.fork()
        if child == 0:
            before = threads()
            with one_blas_thread():
                inside = threads()
            print(set(before), set(inside), set(threads()), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
"""

SUGGESTIONS = """
import optuna
import numpy as np
from bbo_plugins.optuna import (
    BBOSampler,
    BILBOSampler,
    GOUCBSampler,
    RegretGapTerminator,
    UHEBOSampler,
)

optuna.logging.set_verbosity(optuna.logging.ERROR)

def objective(trial):
    x = np.array([trial.suggest_float(f"x{i}", 0, 1) for i in range(6)])
    return float(np.sum((x - 0.3) ** 2) + np.sin(9 * x).sum())

def filled(sampler, n):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=n)
    study.sampler = sampler
    study.optimize(objective, n_trials=1)
    return study

for sampler in (BBOSampler(seed=2), GOUCBSampler(seed=2), UHEBOSampler(seed=2)):
    study = filled(sampler, 150)
    print(study.trials[-1].params)
print(RegretGapTerminator(seed=0).evaluate(study))

sampler = BILBOSampler(["x"], ["z"], seed=3)

def bilevel(trial):
    query = trial.suggest_categorical("query", sampler.functions)
    x, z = trial.suggest_float("x", 0, 1), trial.suggest_float("z", 0, 1)
    return (x - 0.3) ** 2 + (z - 0.5) ** 2 if query == "upper" else (z - x) ** 2

study = optuna.create_study(sampler=sampler)
study.optimize(bilevel, n_trials=16)
print([trial.params for trial in study.trials[-3:]], sampler.solution(study))
"""


def threads() -> set[int]:
    """Return the numbers of threads of the loaded BLAS libraries."""
    return {row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def users_setting() -> Iterator[None]:
    """A user who has asked for three threads, on whatever machine."""
    with threadpool_limits(USERS, user_api="blas"):
        if threads() != {USERS}:
            pytest.skip("this BLAS does not take a number of threads")
        yield


def test_one_thread_inside_and_the_users_own_afterwards() -> None:
    """Nested computations share the limit; the last one to leave lifts it."""
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {USERS}


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_concurrent_computations(first_leaves_first: bool) -> None:
    """Two threads that overlap: one thread until the second has left, in whatever order."""
    entered, leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def compute(which: int) -> None:
        with one_blas_thread():
            entered[which].set()
            leave[which].wait(30)

    computing = [threading.Thread(target=compute, args=(which,)) for which in range(2)]
    for which, thread in enumerate(computing):
        thread.start()
        assert entered[which].wait(30)
    for count, which in enumerate((0, 1) if first_leaves_first else (1, 0)):
        assert threads() == {1}, f"after {count} of 2 have left"
        leave[which].set()
        computing[which].join(30)
    assert threads() == {USERS}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_without_the_limit() -> None:
    """A child forked during a suggestion has the user's setting, and its own suggestions too."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "{3} {1} {3}"


def test_the_same_bits_whatever_the_environment_says() -> None:
    """Suggestions, stopping records and solutions do not depend on the number of threads."""
    clean = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environments = [clean, {**clean, "OMP_NUM_THREADS": "8"}]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SUGGESTIONS], stdout=subprocess.PIPE, text=True, env=environment
        )
        for environment in environments
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    assert "regret_bound" in printed[0]
    assert len(set(printed)) == 1
