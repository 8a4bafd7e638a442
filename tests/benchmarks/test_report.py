"""Reports: tables, records that survive an interruption, and the files that are written."""

import json
from pathlib import Path

import pytest

from benchmarks.report import Report, append_record, machine_facts, markdown_table, read_records


def test_table_is_markdown() -> None:
    """Cells are padded, floats are shortened, and a pipe cannot end a cell."""
    text = markdown_table(["name", "x"], [["a|b", 0.123456], ["c", 2]])
    assert text.splitlines() == [
        "| name | x      |",
        "| ---- | ------ |",
        "| a\\|b | 0.1235 |",
        "| c    | 2      |",
    ]


def test_table_refuses_ragged_rows() -> None:
    """A row of another length is an error, not a broken table."""
    with pytest.raises(ValueError, match="must have 2 cells, but got 1"):
        markdown_table(["a", "b"], [["only"]])


def test_records_survive_a_cut_line(tmp_path: Path) -> None:
    """A line cut short is dropped, and the next record starts on a line of its own."""
    path = tmp_path / "deep" / "records.jsonl"
    append_record(path, {"a": 1})
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"a": 2, "b')
    append_record(path, {"a": 3})
    assert read_records(path) == [{"a": 1}, {"a": 3}]


def test_records_are_strict_json(tmp_path: Path) -> None:
    """NaN is refused rather than written as something that JSON readers reject."""
    with pytest.raises(ValueError, match="Out of range float values"):
        append_record(tmp_path / "records.jsonl", {"a": float("nan")})
    assert read_records(tmp_path / "records.jsonl") == []


def test_report_writes_tables_records_and_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is what is written; a skipped peer is named on both streams."""
    report = Report(name="demo", directory=tmp_path, command="python -m benchmarks demo")
    report.record(kind="x", value=1.5)
    report.table("A title", ["a"], [[1]])
    report.skip("somepeer", "not installed: torch")
    report.finish()
    printed = capsys.readouterr()
    written = (tmp_path / "demo.md").read_text(encoding="utf-8")
    assert printed.out == written
    assert "## A title\n\n| a   |" in written
    assert "SKIPPED somepeer: not installed: torch." in written
    assert "SKIPPED somepeer" in printed.err
    assert read_records(tmp_path / "demo.jsonl") == [{"kind": "x", "value": 1.5}]
    facts = json.loads((tmp_path / "demo.machine.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks demo"
    assert facts["versions"]["numpy"]


def test_machine_facts_hold_no_paths() -> None:
    """Facts describe the machine without naming anyone's folders."""
    facts = machine_facts()
    assert str(Path.home()) not in json.dumps(facts)
    assert set(facts["threads"]) == {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
