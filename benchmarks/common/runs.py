"""The run loop: what is stored is not run again, and what is run is stored at once.

A run is a frozen dataclass whose fields are all that its result depends on.  Its record, one JSON
line, holds these fields and what was measured.  An interrupted benchmark therefore resumes, and a
change of an entrant's code, which a field names, repeats that entrant's runs only.
"""

import concurrent.futures
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypeAlias, TypeVar

from benchmarks.common.report import Report, read_records

Record: TypeAlias = dict[str, Any]
Case: TypeAlias = tuple[str, str, int]  # problem, entrant and budget
_UNTOLD = {"source", "fingerprint", "knows_budget"}  # fields that progress does not show


@dataclass(frozen=True, kw_only=True)
class Run:
    """What every run is known by; a benchmark may add its own fields.

    Attributes:
        source: What identifies the code that is measured.
        problem: Name of the problem.
        entrant: Name of the entrant.
        seed: Seed of the run.
        n_trials: Budget.
    """

    source: str
    problem: str
    entrant: str
    seed: int
    n_trials: int

    @property
    def key(self) -> Self:
        """What a record is found by: all fields, unless a subclass says otherwise."""
        return self

    def __str__(self) -> str:
        """Return the run as progress shows it."""
        return " ".join(
            f"{name} {value}" if isinstance(value, int | float) else str(value)
            for name, value in asdict(self).items()
            if name not in _UNTOLD
        )


AnyRun = TypeVar("AnyRun", bound=Run)


def stored(kind: type[AnyRun], records: Iterable[Mapping[str, Any]]) -> dict[AnyRun, Record]:
    """Return the records of one kind of run by their key; of several, that of most trials."""
    names = {field.name for field in fields(kind)}
    found: dict[AnyRun, Record] = {}
    for record in records:
        if record.get("kind") != kind.__name__ or not names <= record.keys():
            continue
        key = kind(**{name: record[name] for name in names}).key
        if key not in found or found[key]["n_trials"] < record["n_trials"]:
            found[key] = dict(record)
    return found


def completed(
    runs: Sequence[AnyRun],
    work: Callable[..., Mapping[str, Any]],
    report: Report,
    *,
    inputs: Callable[[AnyRun], tuple[Any, ...]] = lambda _run: (),
    jobs: int = 1,
    minutes: float | None = None,
) -> dict[AnyRun, Record]:
    """Execute what is not stored yet and return the records of all runs, in their order.

    Args:
        runs: All runs that are asked for, of one kind.
        work: Executes one and returns what was measured; other processes import it by name.
        report: Where records are, and go.
        inputs: What ``work`` is given besides the run.
        jobs: Number of processes.
        minutes: No run begins after so many; None for no limit.

    Returns:
        The records by run. Runs for which there was no time are not among them, unless a shorter
        one of them is stored; the report says how many.
    """
    if not runs:
        return {}
    kind = type(runs[0])
    known = stored(kind, read_records(report.records_path))
    todo = [run for run in dict.fromkeys(runs) if not _is_answered(run, known)]
    report.progress(f"{len(runs)} runs, {len(runs) - len(todo)} of them stored already")
    executed = _executed(todo, work, inputs, jobs, minutes)
    for done, (run, measured) in enumerate(executed, 1):
        report.record(kind=kind.__name__, **asdict(run), **measured)
        report.progress(f"[{done}/{len(todo)}] {run}")
    known = stored(kind, read_records(report.records_path))
    n_missing = sum(not _is_answered(run, known) for run in runs)
    if n_missing:
        report.note(f"**{n_missing} of {len(runs)} runs have not been made, or not to their end.**")
    return {run: known[run.key] for run in runs if run.key in known}


def grouped(
    records: Iterable[Mapping[str, Any]], *names: str
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return the records by their fields of these names, in their order."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return groups


def _is_answered(run: AnyRun, known: Mapping[AnyRun, Record]) -> bool:
    """Tell whether a record answers ``run``: a longer run answers a shorter one of its key."""
    return run.key in known and bool(known[run.key]["n_trials"] >= run.n_trials)


def _executed(
    runs: Sequence[AnyRun],
    work: Callable[..., Mapping[str, Any]],
    inputs: Callable[[AnyRun], tuple[Any, ...]],
    jobs: int,
    minutes: float | None,
) -> Iterator[tuple[AnyRun, Mapping[str, Any]]]:
    """Yield runs and what they measured, as soon as it is there."""
    end = None if minutes is None else time.monotonic() + 60.0 * minutes
    waiting = iter(runs)

    def following() -> AnyRun | None:
        return next(waiting, None) if end is None or time.monotonic() < end else None

    if jobs == 1:
        while (run := following()) is not None:
            yield run, work(run, *inputs(run))
        return
    # Spawned, not forked: torch and BLAS have threads, and locks, of their own.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        busy: dict[concurrent.futures.Future[Mapping[str, Any]], AnyRun] = {}
        while True:
            while len(busy) < jobs and (run := following()) is not None:
                busy[pool.submit(work, run, *inputs(run))] = run
            if not busy:
                return
            done, _ = concurrent.futures.wait(busy, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                yield busy.pop(future), future.result()
