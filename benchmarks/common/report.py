"""What every benchmark hands back: Markdown tables, raw JSON lines, facts about the machine.

Records are appended one line at a time, so an interrupted benchmark keeps what it has measured and
may resume from it; a line cut short by the interruption is dropped when the file is read again.
"""

import contextlib
import datetime as dt
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bbo_plugins
from benchmarks.__main__ import THREAD_VARIABLES

PACKAGES = (
    *("bbo-plugins", "numpy", "scipy", "optuna", "torch", "botorch", "gpytorch"),
    *("scikit-learn", "cmaes", "smac", "HEBO", "ray"),
)


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table whose columns are padded, so that it reads well in a terminal."""
    cells = [[_cell(value) for value in row] for row in rows]
    for row in cells:
        if len(row) != len(headers):
            message = f"every row must have {len(headers)} cells, but got {len(row)}: {row}."
            raise ValueError(message)
    widths = [
        max(3, len(header), *(len(row[i]) for row in cells)) for i, header in enumerate(headers)
    ]
    lines = [list(headers), ["-" * width for width in widths], *cells]
    return "\n".join(
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def _cell(value: object) -> str:
    """Format one table cell; a pipe would end the cell, so it is escaped."""
    text = format(value, ".4g") if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append one record to a JSON-lines file, starting a new line if the last one was cut short."""
    line = json.dumps(record, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        if end:
            stream.seek(end - 1)
            if stream.read(1) != b"\n":
                stream.write(b"\n")
        stream.write(line.encode() + b"\n")


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file; a line that an interrupted run has cut short is dropped."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def _processor() -> str:
    """Return the processor's model name where the platform tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    """Return the installed releases of the packages that decide figures."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def package_digest() -> str:
    """Return a digest of the package's source files that decide what its samplers suggest."""
    root = Path(bbo_plugins.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] not in {"ray", "visualization"}:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def file_digest(module: str) -> str:
    """Return a digest of one module's source file."""
    source = inspect.getsource(importlib.import_module(module))
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def machine_facts() -> dict[str, Any]:
    """Return what is needed to judge the figures: processor, versions, threads, load."""
    return {
        "date": dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": _versions(),
        "source": package_digest(),
        "threads": {variable: os.environ.get(variable, "unset") for variable in THREAD_VARIABLES},
    }


@dataclass(kw_only=True)
class Report:
    """One benchmark's output: ``NAME.jsonl`` (raw), ``NAME.md`` (tables), ``NAME.machine.json``."""

    name: str
    directory: Path
    command: str
    facts: dict[str, Any] = field(default_factory=machine_facts)
    sections: list[str] = field(default_factory=list)

    @property
    def records_path(self) -> Path:
        """The JSON-lines file that raw records are appended to."""
        return self.directory / f"{self.name}.jsonl"

    def record(self, **values: Any) -> None:
        """Append one raw record."""
        append_record(self.records_path, values)

    def restart(self) -> None:
        """Forget the records of an earlier run, where measurements do not mix with older ones."""
        self.records_path.unlink(missing_ok=True)

    def progress(self, text: str) -> None:
        """Show progress on the error stream; the standard output is kept for the report."""
        print(text, file=sys.stderr, flush=True)

    def table(self, title: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a titled table to the report, unless it has no rows."""
        if rows := list(rows):
            self.sections.append(f"## {title}\n\n{markdown_table(headers, rows)}")

    def note(self, text: str) -> None:
        """Add a paragraph to the report."""
        self.sections.append(text)

    def skip(self, what: str, why: str) -> None:
        """Say by name, here and in the report, that something was not measured."""
        text = f"**SKIPPED {what}: {why}.**"
        if text not in self.sections:
            self.progress(text)
            self.note(text)

    def text(self) -> str:
        """Return the whole report as Markdown."""
        facts = self.facts
        versions = ", ".join(map(" ".join, facts["versions"].items()))
        threads = ", ".join(map("=".join, facts["threads"].items()))
        head = (
            f"# {self.name}\n\n`{self.command}`, {facts['date']}\n\n{facts['processor']}, "
            f"{facts['cpus']} CPUs, load {facts['load']} at the start; {facts['system']}; "
            f"Python {facts['python']}; {versions}; package source {facts['source']}; {threads}"
        )
        return "\n\n".join([head, *self.sections]) + "\n"

    def finish(self) -> None:
        """Print the report and write it, with the machine's facts, beside the records."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / f"{self.name}.md").write_text(self.text(), encoding="utf-8")
        facts = json.dumps({"command": self.command, **self.facts}, indent=2)
        (self.directory / f"{self.name}.machine.json").write_text(facts + "\n", encoding="utf-8")
        print(self.text(), end="")
