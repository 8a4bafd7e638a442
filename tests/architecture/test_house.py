"""The house as the contributors' page tells it: no circles, and faces that lead to the lines."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "bbo_plugins"
FACES = sorted(PACKAGE.glob("methods/*/__init__.py"))
_KINDS = "Algorithm|Theorem|Lemma|Definition|Section|Appendix|Table"
REFERENCE = re.compile(rf"Eq\. \([\d.A-Z]+\)|(?:{_KINDS}) [A-Z]?[\d.]*\d(?:, lines? \d+(?:-\d+)?)?")
HEAD = ["equation or step", "function", "file"]


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def _imported(tree: ast.Module) -> Iterator[str]:
    """List the modules of the package that a module imports, lazily or for its types included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in submodules if name in MODULES)
            if any(name not in MODULES for name in submodules):
                yield node.module


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports, empty if there is none."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for other in sorted(graph[module]):
            found = walk(other, [*path, module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := walk(module, []))), [])


def test_a_circle_is_found() -> None:
    """The check below is able to fail."""
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]


def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports for types and lazy ones count. The public names at the top are looked up lazily."""
    graph = {name: set(_imported(tree)) for name, tree in MODULES.items() if name != "bbo_plugins"}
    graph = {name: others & graph.keys() for name, others in graph.items()}
    assert _circle(graph) == []


def test_no_function_is_longer_than_a_page() -> None:
    """Sixty lines at most, the docstring included."""
    functions = [
        (module, node.name)
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert functions == []


def _table(face: Path) -> list[list[str]]:
    """Return the rows of the table in the docstring of a paper's face, its head left out."""
    doc = ast.get_docstring(ast.parse(face.read_text("utf-8"))) or ""
    lines = [line.strip() for line in doc.splitlines() if line.strip().startswith("|")]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    starts = [index for index, row in enumerate(rows) if row == HEAD]
    assert starts, f"{face} has no table with the columns {HEAD}"
    return [row for row in rows[starts[0] + 2 :] if len(row) == len(HEAD)]


def _sources(path: Path) -> dict[str, str]:
    """Return the source of each function, class and method of a file, by its name."""
    text = path.read_text("utf-8")
    found = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[prefix + node.name] = ast.get_source_segment(text, node) or ""
                if isinstance(node, ast.ClassDef):
                    collect(node.body, f"{prefix}{node.name}.")

    collect(ast.parse(text).body, "")
    return found


def _comments(source: str) -> str:
    """Return the comments of a piece of source, in one text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return " ".join(token.string for token in tokens if token.type == tokenize.COMMENT)


def test_five_papers_have_a_face() -> None:
    """One folder for each of them."""
    papers = ["bilbo", "go_ucb", "inner_horizon", "regret_gap", "uhe_bo"]
    assert [face.parent.name for face in FACES] == papers


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.parent.name)
def test_face_leads_to_the_lines(face: Path) -> None:
    """Each function of the table exists in its file and names the equation in a comment."""
    rows = _table(face)
    assert len(rows) >= 3
    for equation, name, file in rows:
        sources = _sources(face.parent / file)
        assert name in sources, f"{file} has no {name}"
        wanted = REFERENCE.findall(equation)
        assert wanted, f"{equation!r} names no equation, algorithm, theorem or section"
        comments = _comments(sources[name])
        missing = [reference for reference in wanted if reference not in comments]
        assert not missing, f"{name} in {file} has no comment with {missing}"
