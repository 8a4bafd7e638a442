"""The promises of pyproject.toml that no tool checks."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import bbo_plugins

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTED_EXTRAS = ("plot", "ray", "examples", "test")


def _lower_bounds() -> dict[str, Version]:
    """Return the lower bound of every requirement that the lowest-versions run installs."""
    lines = [*PROJECT["dependencies"]]
    for extra in TESTED_EXTRAS:
        lines += PROJECT["optional-dependencies"][extra]
    bounds = {}
    for requirement in map(Requirement, lines):
        if requirement.name != PROJECT["name"]:
            (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
            bounds[requirement.name] = Version(bound)
    return bounds


def _pins(python: str) -> dict[str, Version]:
    """Return what the constraints file installs for a version of Python."""
    pins = {}
    for line in (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            if pin.marker is None or pin.marker.evaluate({"python_version": python}):
                assert pin.name not in pins, f"{pin.name} is pinned twice for Python {python}"
                (specifier,) = pin.specifier
                assert specifier.operator == "=="
                pins[pin.name] = Version(specifier.version)
    return pins


def test_lowest_versions_run_installs_the_lower_bounds() -> None:
    """The oldest supported Python gets exactly the bounds that pyproject.toml promises."""
    assert PROJECT["requires-python"] == ">=3.11"
    assert _pins("3.11") == _lower_bounds()


@pytest.mark.parametrize("python", ["3.12", "3.13", "3.14"])
def test_newer_pythons_get_pins_within_the_bounds(python: str) -> None:
    """A newer Python gets one pin for each requirement, never below the bound."""
    pins, bounds = _pins(python), _lower_bounds()
    assert pins.keys() == bounds.keys()
    assert all(pins[name] >= bound for name, bound in bounds.items())


def test_dependencies_stay_small() -> None:
    """The package needs numpy, scipy, Optuna and threadpoolctl; anything heavier is an extra."""
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert names == {"numpy", "scipy", "optuna", "threadpoolctl"}


def test_changelog_has_a_place_for_this_version() -> None:
    """A development version writes under Unreleased, a release under its own heading."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = Version(bbo_plugins.__version__)
    heading = "Unreleased" if version.is_devrelease else str(version)
    assert re.search(rf"^## \[{re.escape(heading)}\]", changelog, flags=re.MULTILINE)


def test_extras_known_to_the_package_are_declared() -> None:
    """Each extra that an error message may recommend exists, and brings what is missing."""
    declared = PROJECT["optional-dependencies"]
    for extra, modules in bbo_plugins._EXTRAS.items():
        brought = {Requirement(line).name for line in declared[extra]}
        assert {module.partition(".")[0] for module in modules} <= brought


def test_citation_names_this_version() -> None:
    """The version is written once in the package; the citation repeats it, as its format asks."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [bbo_plugins.__version__]


def test_addresses_are_those_of_the_readme_and_the_citation() -> None:
    """The package index shows addresses, and none that the project does not give elsewhere."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CITATION.cff")]
    known = "\n".join(texts).replace("arXiv:", "https://arxiv.org/abs/")
    assert PROJECT["urls"]
    assert all(url in known for url in PROJECT["urls"].values())


def test_links_of_the_readme_become_absolute() -> None:
    """Each relative link names a file; a package index gets none of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.compile(r'(?:\]\(|\bsrc(?:set)?=")(?!https?:|#)([^)"#]+)')
    assert relative.findall(readme)
    assert all((ROOT / path).is_file() for path in relative.findall(readme))
    absolute = runpy.run_path(str(ROOT / ".ci" / "absolute_links.py"))["absolute"]
    changed = absolute(readme, "owner/name", "v1.2.3")
    assert not relative.findall(changed)
    for path in relative.findall(readme):
        assert f"/{path}" in changed
    assert "https://raw.githubusercontent.com/owner/name/v1.2.3/docs/images/" in changed
