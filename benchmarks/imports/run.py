"""What it costs to import the package and to install it, beside GPSampler and its torch.

Times are taken in fresh interpreters, the statements in turn, and reported relative to ``import
optuna`` in the same round.  Sizes are those of the installed files of a distribution and of
everything it requires, extras excluded.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.common.report import Report
from benchmarks.common.tables import verdict

DESCRIPTION = "Import time, modules loaded, and installed size, beside GPSampler's."
SIZES, QUICK = {"seeds": 11}, {"seeds": 2}
REFERENCE = "import optuna"
LIMIT_SECONDS = 0.5
LIMITED = "import bbo_plugins.optuna"
# statement: modules it needs; the last two are what a first suggestion loads.
STATEMENTS: Mapping[str, tuple[str, ...]] = {
    REFERENCE: (),
    "import bbo_plugins": ("bbo_plugins",),
    LIMITED: ("bbo_plugins",),
    "from bbo_plugins.optuna import UHEBOSampler; import bbo_plugins.methods.gp_bo": (
        "bbo_plugins",
    ),
    "from optuna.samplers import GPSampler; import scipy.optimize, torch": ("torch",),
}
WATCHED = ("optuna", "ray", "torch", "scipy", "sklearn", "matplotlib", "plotly")
GP_SAMPLER_REQUIRES = ("optuna", "scipy", "torch")
MEGABYTE = 1e6

_PROBE = """
import json, sys, time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
watched = [name for name in {watched!r} if name in sys.modules]
print(json.dumps({{"seconds": seconds, "modules": len(sys.modules), "loaded": watched}}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: ``--seeds`` is the number of rounds."""
    del parser


def probe(statement: str) -> dict[str, Any]:
    """Execute one statement in a fresh interpreter and return its time and what it loaded."""
    code = _PROBE.format(statement=statement, watched=WATCHED)
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own text
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def project_requirements() -> list[str]:
    """Return the package's own hard requirements, from this source tree."""
    pyproject = Path(__file__).resolve().parents[2] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return [Requirement(text).name for text in project["dependencies"]]


def closure(roots: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the installed distributions that the roots need, and those that are missing."""
    found: set[str] = set()
    missing: set[str] = set()
    waiting = [canonicalize_name(root) for root in roots]
    while waiting:
        name = waiting.pop()
        if name in found or name in missing:
            continue
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            missing.add(name)
            continue
        found.add(name)
        waiting += [
            canonicalize_name(requirement.name)
            for requirement in map(Requirement, requirements)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return found, missing


def installed_bytes(distribution: str) -> int:
    """Return the size of a distribution's installed files."""
    files = importlib.metadata.files(distribution) or []
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())


def package_bytes() -> int:
    """Return the size of this package's source files."""
    root = Path(__file__).resolve().parents[2] / "bbo_plugins"
    return sum(path.stat().st_size for path in root.rglob("*.py"))


def _time_imports(report: Report, rounds: int) -> None:
    """Measure the statements in turn and add their table."""
    statements = []
    for statement, modules in STATEMENTS.items():
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        if absent:
            report.skip(f"`{statement}`", f"not installed: {', '.join(absent)}")
        else:
            probe(statement)  # fills the file cache and writes the byte code
            statements.append(statement)
    results: dict[str, list[dict[str, Any]]] = {statement: [] for statement in statements}
    for number in range(rounds):
        for statement in statements:
            result = probe(statement)
            results[statement].append(result)
            report.record(kind="import", round=number, statement=statement, **result)
    rows = []
    for statement in statements:
        seconds = [result["seconds"] for result in results[statement]]
        pairs = zip(seconds, results[REFERENCE], strict=True)
        ratios = [own / reference["seconds"] for own, reference in pairs]
        median = statistics.median(seconds)
        limited = statement == LIMITED
        rows.append(
            [
                f"`{statement}`",
                f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]",
                f"{1e3 * median:.0f}",
                f"< {1e3 * LIMIT_SECONDS:.0f}: {verdict(median < LIMIT_SECONDS)}"
                if limited
                else "",
                results[statement][0]["modules"],
                ", ".join(results[statement][0]["loaded"]) or "none of them",
            ]
        )
    watched = f"loads (of {', '.join(WATCHED)})"
    headers = ["statement", f"time / `{REFERENCE}` [range]", "ms", "target", "modules", watched]
    report.table(f"Import in a fresh interpreter, median of {rounds} rounds", headers, rows)


def _measure_sizes(report: Report) -> None:
    """Add the table of installed sizes."""
    ours, ours_missing = closure(project_requirements())
    peer, peer_missing = closure(GP_SAMPLER_REQUIRES)
    ours_bytes = package_bytes() + sum(map(installed_bytes, ours))
    rows: list[list[object]] = []
    if ours_missing:
        report.skip("installed size of bbo-plugins", f"not installed: {', '.join(ours_missing)}")
    else:
        rows.append(
            ["bbo-plugins", len(ours) + 1, f"{ours_bytes / MEGABYTE:.0f}", _largest(ours), "1.00"]
        )
    if peer_missing:
        absent = ", ".join(sorted(peer_missing))
        report.skip("installed size of GPSampler's requirements", f"not installed: {absent}")
    else:
        size = sum(map(installed_bytes, peer))
        ratio = f"{size / ours_bytes:.2f}"
        rows.append(
            [
                "GPSampler (optuna + scipy + torch)",
                len(peer),
                f"{size / MEGABYTE:.0f}",
                _largest(peer),
                ratio,
            ]
        )
    for row in rows:
        report.record(kind="size", what=row[0], distributions=row[1], megabytes=row[2])
    headers = ["installed", "distributions", "MB", "largest (MB)", "relative to ours"]
    report.table("Installed size with all hard requirements", headers, rows)


def _largest(distributions: Iterable[str]) -> str:
    """Name the three largest distributions."""
    sizes = sorted(((installed_bytes(name), name) for name in distributions), reverse=True)
    return ", ".join(f"{name} {size / MEGABYTE:.0f}" for size, name in sizes[:3])


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure imports and sizes."""
    report.restart()
    _time_imports(report, options.seeds)
    _measure_sizes(report)
