"""What every benchmark hands back: Markdown tables, raw JSON lines, facts about the machine.

Records are appended one line at a time, so an interrupted benchmark keeps what it has measured and
may resume from it; a line cut short by the interruption is dropped when the file is read again.
"""

import datetime as dt
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = (
    "bbo-plugins",
    "numpy",
    "scipy",
    "optuna",
    "torch",
    "botorch",
    "gpytorch",
    "scikit-learn",
    "cmaes",
    "smac",
    "HEBO",
    "ray",
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def package_digest() -> str:
    """Return a digest of the package's source files that decide what its samplers suggest."""
    spec = importlib.util.find_spec("bbo_plugins")
    if spec is None or spec.origin is None:
        return "absent"
    root = Path(spec.origin).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] not in {"ray", "visualization"}:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def file_digest(module: str) -> str:
    """Return a digest of one module's source file."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return "absent"
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]


def machine_facts() -> dict[str, Any]:
    """Return what is needed to judge the figures: processor, versions, threads, load."""
    return {
        "date": dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {
            package: version for package in PACKAGES if (version := _version(package)) is not None
        },
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
        """Add a titled table to the report."""
        self.sections.append(f"## {title}\n\n{markdown_table(headers, rows)}")

    def note(self, text: str) -> None:
        """Add a paragraph to the report."""
        self.sections.append(text)

    def skip(self, what: str, why: str) -> None:
        """Say by name, here and in the report, that something was not measured."""
        text = f"SKIPPED {what}: {why}."
        self.progress(text)
        self.note(f"**{text}**")

    def text(self) -> str:
        """Return the whole report as Markdown."""
        versions = ", ".join(
            f"{package} {version}" for package, version in self.facts["versions"].items()
        )
        threads = ", ".join(
            f"{variable}={value}" for variable, value in self.facts["threads"].items()
        )
        head = (
            f"# {self.name}\n\n`{self.command}`, {self.facts['date']}\n\n"
            f"{self.facts['processor']}, {self.facts['cpus']} CPUs, "
            f"load {self.facts['load']} at the start; "
            f"{self.facts['system']}; Python {self.facts['python']}; "
            f"{versions}; package source {self.facts['source']}; {threads}"
        )
        return "\n\n".join([head, *self.sections]) + "\n"

    def finish(self) -> None:
        """Print the report and write it, with the machine's facts, beside the records."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / f"{self.name}.md").write_text(self.text(), encoding="utf-8")
        facts = json.dumps({"command": self.command, **self.facts}, indent=2)
        (self.directory / f"{self.name}.machine.json").write_text(facts + "\n", encoding="utf-8")
        print(self.text(), end="")
