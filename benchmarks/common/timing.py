"""Measurements: times of entrants that are asked in turn, and what a fresh interpreter measures."""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from benchmarks.common.tables import verdict

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One timed step of one entrant, in seconds."""

    entrant: str
    seed: int
    step: int
    wall: float
    cpu: float


def timed(call: Callable[[], Result]) -> tuple[Result, float, float]:
    """Return what a call returns, and its wall and CPU time in seconds."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def in_fresh_process(code: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
    """Return what Python code, given some words, prints as JSON in an interpreter of its own."""
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own text
        [sys.executable, "-c", code, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return json.loads(done.stdout)


RATIO_HEADERS = ("ratio", "spread", "CPU time", "peer ms", "our ms", "goal", "verdict")
RATIO_NOTE = (
    "Ratios are medians over medians of wall time; the spread is the least and the largest ratio "
    'of two calls of the same step; "CPU time" is the ratio of median CPU times, which other work '
    "on the machine does not disturb. Milliseconds are median / mean / 95th percentile: context, "
    "not results."
)


def ratio_cells(timings: Iterable[Timing], ours: str, peer: str, goal: float | None) -> list[str]:
    """Return how long the peer takes, divided by how long ours does, of the same steps.

    Args:
        timings: Those of both, and of others.
        ours: The name of ours.
        peer: That of the peer.
        goal: The least ratio that will do; None for none.

    Returns:
        The cells under ``RATIO_HEADERS``.
    """
    by_entrant: dict[str, dict[tuple[int, int], Timing]] = {ours: {}, peer: {}}
    for timing in timings:
        by_entrant.setdefault(timing.entrant, {})[timing.seed, timing.step] = timing
    own, theirs = by_entrant[ours], by_entrant[peer]
    pairs = [theirs[key].wall / own[key].wall for key in own]
    walls = [[t.wall for t in found.values()] for found in (theirs, own)]
    wall, cpu = (
        statistics.median(getattr(t, clock) for t in theirs.values())
        / statistics.median(getattr(t, clock) for t in own.values())
        for clock in ("wall", "cpu")
    )
    judged = ("", "") if goal is None else (f">= {goal:g}", verdict(wall >= goal))
    spread = f"{min(pairs):.1f} - {max(pairs):.1f}"
    return [f"{wall:.1f}", spread, f"{cpu:.1f}", *map(_milliseconds, walls), *judged]


def _milliseconds(walls: Sequence[float]) -> str:
    """Return median, mean and 95th percentile of times in seconds."""
    figures = (statistics.median(walls), statistics.mean(walls), np.percentile(walls, 95))
    return " / ".join(f"{1e3 * figure:.1f}" for figure in figures)
