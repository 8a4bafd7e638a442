"""Reports: tables, records that survive an interruption, and the files that are written."""

from pathlib import Path

import pytest

from benchmarks.common.report import append_record, markdown_table, read_records


def test_table_is_markdown() -> None:
    """Cells are padded, floats are shortened, and a pipe cannot end a cell."""
    text = markdown_table(["name", "x"], [["a|b", 0.123456], ["c", 2]])
    assert text.splitlines() == [
        "| name | x      |",
        "| ---- | ------ |",
        "| a\\|b | 0.1235 |",
        "| c    | 2      |",
    ]


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
