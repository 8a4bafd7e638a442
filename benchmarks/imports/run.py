"""What it costs to import the package and to install it, beside GPSampler and its torch.

Times are taken in fresh interpreters, the statements in turn, and reported relative to ``import
optuna`` in the same round.  Sizes are those of the installed files of a distribution and of
everything it requires, extras excluded.
"""

import argparse
import importlib.metadata
import importlib.util
import statistics
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.common.report import Report
from benchmarks.common.tables import verdict
from benchmarks.common.timing import in_fresh_process

DESCRIPTION = "Import time and installed size, beside GPSampler's."
SIZES, QUICK = {"seeds": 11}, {"seeds": 1}
REFERENCE = "import optuna"
LIMIT_SECONDS = 0.5
LIMITED = "import bbo_plugins.optuna"
# statement: the module it needs; the last two are what a first suggestion loads.
STATEMENTS: Mapping[str, str] = {
    REFERENCE: "optuna",
    "import bbo_plugins": "bbo_plugins",
    LIMITED: "bbo_plugins",
    "from bbo_plugins import BBOSampler": "bbo_plugins",
    "from optuna.samplers import GPSampler; import scipy.optimize, torch": "torch",
}
ROOT = Path(__file__).resolve().parents[2]

_PROBE = """
import json, sys, time
start = time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: ``--seeds`` is the number of rounds."""
    del parser


def add_requirements(name: str, found: set[str]) -> None:
    """Add a distribution and what it requires, extras excluded, to those found so far.

    Raises:
        PackageNotFoundError: One of them is not installed.
    """
    if name in found:
        return
    requirements = importlib.metadata.requires(name) or []
    found.add(name)
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            add_requirements(canonicalize_name(requirement.name), found)


def installed_bytes(distribution: str) -> int:
    """Return the size of a distribution's installed files."""
    files = importlib.metadata.files(distribution) or []
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _time_imports(report: Report, rounds: int) -> None:
    """Measure the statements in turn and add their table."""
    results: dict[str, list[dict[str, Any]]] = {}
    for statement, module in STATEMENTS.items():
        if importlib.util.find_spec(module) is None:
            report.skip(f"`{statement}`", f"not installed: {module}")
        else:
            results[statement] = []
    for number in range(-1, rounds):  # the first fills the file cache and writes the byte code
        for statement, found in results.items():
            result = in_fresh_process(_PROBE, statement)
            if number >= 0:
                found.append(result)
                report.record(kind="import", round=number, statement=statement, **result)
    rows = []
    for statement, found in results.items():
        seconds = [result["seconds"] for result in found]
        pairs = zip(seconds, results[REFERENCE], strict=True)
        ratios = [own / reference["seconds"] for own, reference in pairs]
        median = statistics.median(seconds)
        target = f"< {1e3 * LIMIT_SECONDS:.0f}: {verdict(median < LIMIT_SECONDS)}"
        ratio = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        judged = target if statement == LIMITED else ""
        rows.append([f"`{statement}`", ratio, f"{1e3 * median:.0f}", judged])
    headers = ["statement", f"time / `{REFERENCE}` [range]", "ms", "target"]
    report.table(f"Import in a fresh interpreter, median of {rounds} rounds", headers, rows)


def _measure_sizes(report: Report) -> None:
    """Add the table of installed sizes."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    own = [Requirement(text).name for text in tomllib.loads(pyproject)["project"]["dependencies"]]
    sources = sum(path.stat().st_size for path in (ROOT / "bbo_plugins").rglob("*.py"))
    rows = []
    for what, roots, more in (
        ("bbo-plugins", own, sources),
        ("GPSampler (optuna + scipy + torch)", ("optuna", "scipy", "torch"), 0),
    ):
        found: set[str] = set()
        try:
            for root in roots:
                add_requirements(canonicalize_name(root), found)
        except importlib.metadata.PackageNotFoundError as missing:
            report.skip(f"installed size of {what}", f"not installed: {missing.name}")
            continue
        megabytes = (more + sum(map(installed_bytes, found))) / 1e6
        rows.append([what, len(found), f"{megabytes:.0f}"])
        report.record(kind="size", what=what, distributions=len(found), megabytes=megabytes)
    report.table(
        "Installed size with all hard requirements", ["installed", "requirements", "MB"], rows
    )


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure imports and sizes."""
    report.restart()
    _time_imports(report, options.seeds)
    _measure_sizes(report)
