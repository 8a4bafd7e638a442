"""The README's picture."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.picture.run import DRAWN, N_TRIALS, curves_of, draw
from benchmarks.problems.functions import PROBLEMS


def test_curves_are_means_over_the_problems_that_all_have(tmp_path: Path) -> None:
    """A median over seeds, in units of a random point's regret; a problem one lacks is left out."""
    problems = dict(list(PROBLEMS.items())[:3])
    scales = [problem.scale for problem in problems.values()]
    rows = [
        {"problem": name, "entrant": entrant, "seed": seed, "regrets": [value * scale] * N_TRIALS}
        for name, scale, values in zip(problems, scales, [(0.1, 0.4), (0.9, 0.9)], strict=False)
        for entrant in DRAWN
        for seed, value in enumerate((values[0], values[0], values[1]))
    ]
    rows.append({**rows[0], "problem": list(problems)[2]})
    stored = tmp_path / "regret.jsonl"
    stored.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    curves, n_problems = curves_of(stored, problems)
    assert n_problems == 2
    for entrant in DRAWN:
        assert curves[entrant] == pytest.approx(np.full(N_TRIALS, 0.3))
    draw({"one": curves, "other": curves}, tmp_path / "picture.svg", ink="#222222")
    assert (tmp_path / "picture.svg").stat().st_size > 5_000
