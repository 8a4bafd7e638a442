"""The highdim benchmark: same start for everyone, resuming in pieces, statistics of uneven runs."""

import argparse
import dataclasses
import importlib.util
import inspect
import math
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from scipy.stats import qmc

from bbo_plugins.optuna import UHEBOSampler
from benchmarks import highdim, highdim_speed, highdim_tables, highdim_turbo
from benchmarks.highdim_entrants import (
    EXPENSIVE,
    LITERAL,
    OURS,
    PEERS,
    UHE_BO,
    LiteralSampler,
    competes,
    entrants,
    source_of,
)
from benchmarks.highdim_problems import CASES
from benchmarks.problem import from_unit, space_filling
from benchmarks.report import Report, append_record, read_records

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "botorch")),
    reason="torch and botorch are not installed",
)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="highdim", directory=tmp_path, command="test")


def options(**values: object) -> argparse.Namespace:
    """Return the options of a tiny run."""
    given: dict[str, object] = {
        "parts": None,
        "problems": ["f1", "rosenbrock-20"],
        "samplers": ["tpe", "random"],
        "seeds": 2,
        "expensive_seeds": None,
        "trials": None,
        "minutes": None,
        "quick": True,
    }
    return argparse.Namespace(**(given | values))


def a_run(sampler: str, **values: object) -> highdim.Run:
    """Return one small run."""
    case = CASES["alpine-20"]
    run = highdim.Run(
        problem=case.name,
        fingerprint=case.fingerprint(),
        sampler=sampler,
        source=source_of(entrants(1)[sampler]),
        seed=100,
        n_trials=14,
    )
    return dataclasses.replace(run, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [OURS, UHE_BO, "literal", "tpe", "cma-es", "random"])
def test_everyone_starts_alike(name: str) -> None:
    """The first values of every entrant are those of the Latin hypercube of the seed."""
    if entrants(1)[name].missing():
        pytest.skip("a peer is not installed")
    case = CASES["f2"]
    record = highdim.execute(a_run(name, problem="f2", n_trials=11))
    points = space_filling(case.n_startup, 20, np.random.default_rng(100))
    expected = [case.value(from_unit(case.space, point)) for point in points]
    assert record["values"][: case.n_startup] == pytest.approx(expected, rel=1e-8)
    assert len(record["values"]) == len(record["seconds"]) == 11
    assert len(set(record["values"])) == 11


def test_a_run_repeats_exactly() -> None:
    """The values of a run are a function of its key."""
    first, second = (highdim.execute(a_run(OURS, n_trials=12)) for _ in range(2))
    assert first["values"] == second["values"]
    assert first["values"] != highdim.execute(a_run(OURS, n_trials=12, seed=101))["values"]


def test_interrupted_benchmark_resumes(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    """Without time nothing is run and it is said so; then only what is missing is run."""
    report.directory.mkdir(exist_ok=True)
    highdim.run(options(problems=["f1"]), report)
    assert len(read_records(report.records_path)) == 4
    capsys.readouterr()
    tables = Report(name="highdim", directory=report.directory, command="test")
    highdim.run(options(minutes=0.0), tables)
    assert "**4 of 8 runs have not been made, or not to their end.**" in tables.text()
    assert "stopped after 0 minutes: 4 runs left" in capsys.readouterr().err
    highdim.run(options(parts=["d20"]), report)
    records = read_records(report.records_path)
    assert len(records) == 8
    assert len(highdim.stored_runs([*records, {"broken": True}])) == 8


def test_another_definition_or_code_is_another_run() -> None:
    """A changed problem or entrant, or more evaluations, must not be answered from the records."""
    run = a_run("random")
    stored = highdim.stored_runs([highdim.execute(run)])
    assert highdim.is_stored(run, stored)
    changes: tuple[dict[str, object], ...] = (
        {"source": "x"},
        {"n_trials": 15},
        {"fingerprint": "y"},
        {"seed": 101},
    )
    for change in changes:
        assert not highdim.is_stored(dataclasses.replace(run, **change), stored)  # type: ignore[arg-type]


def test_a_longer_run_answers_a_shorter_one() -> None:
    """For entrants that do not know the budget a run begins like a longer one; the longest counts.

    The literal variants know it, so theirs are answered by runs of the same length alone.
    """
    short, long = (highdim.execute(a_run("tpe", n_trials=n)) for n in (12, 20))
    assert long["values"][:12] == short["values"]
    for records in ([short, long], [long, short]):
        stored = highdim.stored_runs(records)
        assert len(stored) == 1
        assert highdim.is_stored(a_run("tpe", n_trials=20), stored)
        assert highdim.is_stored(a_run("tpe", n_trials=11), stored)
    literal = dataclasses.asdict(a_run("literal", n_trials=20)) | {"values": [0.0] * 20}
    stored = highdim.stored_runs([literal])
    assert highdim.is_stored(a_run("literal", n_trials=20), stored)
    assert not highdim.is_stored(a_run("literal", n_trials=12), stored)


def test_trials_shorten_runs_and_never_lengthen_them(report: Report) -> None:
    """The option bounds the budget; every number that was reached has a row."""
    chosen = {"problems": ["alpine-20"], "parts": ["d20"], "seeds": 1, "quick": False}
    highdim.run(options(samplers=["random"], trials=120, **chosen), report)
    highdim.run(options(samplers=["tpe"], trials=101, **chosen), report)
    lengths = {r["sampler"]: len(r["values"]) for r in read_records(report.records_path)}
    assert lengths == {"random": 120, "tpe": 101}
    fresh = Report(name="highdim", directory=report.directory, command="test")
    highdim.run(options(trials=500, minutes=0.0, **chosen), fresh)
    text = " ".join(fresh.text().split())
    assert "**2 of 2 runs have not been made, or not to their end.**" in text
    assert "| alpine-20 | held out | 100 |" in text
    assert text.count("not run") == 1


def test_expensive_entrants_have_fewer_seeds_and_literal_ones_fewer_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seeds are counted from the first fresh one, by part; ``seeds`` bounds the expensive too."""
    monkeypatch.setattr(highdim, "source_of", lambda entrant: entrant.name)
    cases = [CASES["f1"], CASES["rosenbrock-50"]]
    everyone = [OURS, *LITERAL, *EXPENSIVE]

    def seeds_of(name: str, problem: str, seeds: int | None, few: int | None) -> list[int]:
        runs = highdim.planned_runs(
            cases, everyone, seeds=seeds, expensive_seeds=few, n_trials=None
        )
        return [run.seed for run in runs if (run.sampler, run.problem) == (name, problem)]

    assert seeds_of(OURS, "rosenbrock-50", None, None) == list(range(100, 105))
    assert seeds_of("turbo", "rosenbrock-50", None, None) == [100, 101, 102]
    assert seeds_of("turbo", "rosenbrock-50", 2, None) == [100, 101]
    assert seeds_of("gpsampler", "rosenbrock-50", None, 4) == [100, 101, 102, 103]
    assert seeds_of("literal", "rosenbrock-50", None, None) == []
    assert seeds_of("literal", "f1", None, None) == list(range(100, 105))


def test_who_is_in_which_part() -> None:
    """With 10 and 30 parameters our two samplers only; UHE-BO in no part of larger functions."""
    everyone = (OURS, UHE_BO, *LITERAL, *PEERS)

    def present(part: str) -> set[str]:
        return {name for name in everyone if competes(name, part)}

    assert present("d10") == present("d30") == {OURS, UHE_BO}
    assert present("d20") == {OURS, UHE_BO, *PEERS}
    assert present("hpo") == set(everyone)
    assert present("d100") == {OURS, *PEERS}
    assert present("paper") == {OURS, *LITERAL, *PEERS}


def test_uhe_bo_is_the_default_sampler_with_the_start_up_of_all() -> None:
    """Its suggestions are those of ``UHEBOSampler`` with the run's seed and start-up."""
    case = CASES["alpine-20"]
    values = []
    for sampler in (entrants(12)[UHE_BO].build(5, None), UHEBOSampler(seed=5, n_startup_trials=12)):
        study = optuna.create_study(sampler=sampler)
        for _ in range(14):
            trial = study.ask(dict(case.space))
            study.tell(trial, case.value(trial.params))
        values.append([trial.value for trial in study.trials])
    assert values[0] == values[1]


def test_uhe_bo_is_compared_in_pairs_and_has_no_rank(report: Report) -> None:
    """The ranks of ours and its peers do not change when our other sampler is there."""
    records = [
        {"problem": "alpine-20", "sampler": name, "seed": 100, "values": [value], "seconds": [0.1]}
        for name, value in {OURS: 20.0, UHE_BO: 10.0, "random": 30.0}.items()
    ]
    highdim_tables.add_moved_tables(report, records, [OURS, UHE_BO, "random"], "d20")
    text = " ".join(report.text().split())
    assert "| 1 | held out | 1 | 1.00 | 2.00 |" in text
    assert "| ours against uhe-bo | 1 | all | 0 / 0 / 1 | 2 [nan, nan] | alpine-20 (2x) |" in text


def test_a_peers_source_includes_the_module_that_runs_it() -> None:
    """TuRBO is known by BoTorch's release and by our loop around it, TPE by Optuna's alone."""
    assert source_of(entrants(1)["tpe"]) == f"optuna-{optuna.__version__}"
    ours = entrants(1)[OURS]
    assert source_of(ours) == ours.source()


def test_statistics_of_uneven_runs() -> None:
    """Ranks and ratios are over common runs only and agree with a hand calculation."""
    cells = {
        ("rosenbrock-20", 0): {"a": 1.0, "b": 2.0, "c": 3.0},
        ("rosenbrock-20", 1): {"a": 4.0, "b": 2.0},
        ("alpine-20", 0): {"a": 8.0, "b": 1.0, "c": 8.0},
    }
    ranks, n = highdim_tables.mean_ranks(cells, ["a", "b", "c"], "all")
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.75, 1.5, 2.75], 2)
    ranks, n = highdim_tables.mean_ranks(cells, ["a", "b"], "seen")
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.5, 1.5], 2)
    assert highdim_tables.mean_ranks(cells, ["a", "d"], "all") == (None, 0)
    result = highdim_tables.paired(cells, "a", "b", "all")
    assert result is not None
    assert (result["wins"], result["ties"], result["losses"]) == (1, 0, 2)
    # Rosenbrock: the mean of log 1/2 and log 2 is 0; Alpine: log 8.
    assert result["ratio"] == pytest.approx(math.sqrt(8.0))
    assert highdim_tables.paired(cells, "a", "d", "all") is None
    held_out = highdim_tables.paired(cells, "a", "c", "held out")
    assert held_out is not None
    assert (held_out["ratio"], held_out["ties"]) == (1.0, 1)
    assert highdim_tables.lost_problems(cells, "a", "b") == pytest.approx(
        {"alpine-20": 8.0, "rosenbrock-20": 1.25}
    )
    assert highdim_tables.lost_problems(cells, "a", "c") == {}


def test_a_run_counts_up_to_its_length() -> None:
    """After five trials a run of three is not compared; after three both are, floored."""
    values = {"alpine-20": {"a": {100: np.array([9.0, 8, 7, 6, 0])}, "b": {100: np.full(3, 4.0)}}}
    assert highdim_tables.cells_after(values, 3) == {("alpine-20", 100): {"a": 7.0, "b": 4.0}}
    scale = CASES["alpine-20"].scale
    assert scale is not None
    floor = highdim_tables.RELATIVE_FLOOR * scale()
    assert highdim_tables.cells_after(values, 5) == {("alpine-20", 100): {"a": floor}}


def test_regret_tables_show_losses(report: Report) -> None:
    """Medians, counts of seeds, ranks and the problems that ours loses are in the text."""
    values = {OURS: [50.0, 40.0, 30.0], "turbo": [60.0, 20.0, 10.0], "random": [90.0, 80.0, 95.0]}
    records = [
        {"problem": "alpine-20", "sampler": name, "seed": seed, "values": series, "seconds": [0.1]}
        for name, series in values.items()
        for seed in ((100,) if name == "turbo" else (100, 101))
    ]
    highdim_tables.add_moved_tables(report, records, [OURS, "turbo", "random"], "d20")
    text = " ".join(report.text().split())
    assert "| 30 [30, 30] (2) | **10 [10, 10] (1)** | 80 [80, 80] (2) |" in text
    assert "| 3 | held out | 1 | 2.00 | 1.00 | 3.00 |" in text
    assert "| 3 | held out | 2 | 1.00 | 2.00 |" in text
    assert "| ours against turbo | 3 | all | 0 / 0 / 1 | 3 [nan, nan] | alpine-20 (3x) |" in text
    assert "Runs in d20: ours 2, turbo 1, random 2." in text


def test_cumulative_regret_of_the_papers_cases(report: Report) -> None:
    """Sums over all evaluations and over Phase II, with the paper's error bar."""
    series = {100: [-20.0] * 5 + [-26.0, -25.0], 101: [-20.0] * 5 + [-24.0, -25.0]}
    records = [
        {"problem": "f1", "sampler": OURS, "seed": seed, "values": values, "seconds": [0.1]}
        for seed, values in series.items()
    ]
    highdim_tables.add_paper_table(report, records, [OURS, "tpe"])
    text = " ".join(report.text().split())
    half = 1.96 * math.sqrt(2.0) / math.sqrt(2.0)
    assert f"| f1 | cumulative | 32 ± {half:.2g} (2) | not run |" in text
    assert f"| f1 | cumulative after the start-up | 2 ± {half:.2g} (2) | not run |" in text
    assert f"| f1 | simple | 0.5 ± {0.5 * half:.2g} (2) | not run |" in text


def test_tuning_regret_is_against_the_best_of_all(report: Report) -> None:
    """The optimum of a tuning task is the least error that any entrant has met."""
    records = [
        {"problem": "forest7", "sampler": name, "seed": 100, "values": values, "seconds": [0.1]}
        for name, values in ((OURS, [0.5, 0.25]), ("tpe", [0.5, 0.125]))
    ]
    highdim_tables.add_tuning_table(report, records, [OURS, "tpe"])
    text = " ".join(report.text().split())
    assert "| forest7 | cumulative | 0.5 (1) | 0.375 (1) |" in text
    assert "Least error rate met on forest7: 0.12500." in text


def test_growth_of_the_suggestion_time() -> None:
    """The exponent of 25-fold time for five times the trials is 2."""
    times = {200: {OURS: [1.0, 2.0, 3.0]}, 1000: {OURS: [50.0, 40.0, 60.0]}}
    assert highdim_speed.exponent(times) == pytest.approx(2.0)


def test_stored_times_make_the_table(report: Report) -> None:
    """Ratios are of the same step, and a size without the peer has no ratio."""
    path = report.directory / "highdim-speed.jsonl"
    for n, entrant, cpu in (
        (200, OURS, (0.01, 0.02)),
        (200, "gpsampler", (0.05, 0.06)),
        (1000, OURS, (0.03, 0.03)),
    ):
        for step, seconds in enumerate(cpu):
            append_record(path, {"n": n, "entrant": entrant, "step": step, "cpu": seconds})
    highdim_speed.add_speed(report, [OURS, "gpsampler"], quick=True, record=False)
    text = " ".join(report.text().split())
    assert "| 200 | 15 [10, 20] | 55 | 4.0 | 3.0 - 5.0 |" in text
    assert "| 1000 | 30 [30, 30] | | | |" in text


class Recorder:
    """Stands in for the literal method: keeps what it is told and suggests a fixed point."""

    def __init__(self, bounds: np.ndarray) -> None:
        """Keep the limits."""
        self.bounds = bounds
        self.told: list[tuple[list[float], float]] = []

    def ask(self) -> np.ndarray:
        """Return the upper ends."""
        return self.bounds[:, 1]

    def tell(self, x: np.ndarray, y: float) -> None:
        """Keep the pair."""
        self.told.append((x.tolist(), y))


def test_literal_adapter_tells_everything_once_with_the_sign_turned() -> None:
    """The method maximizes: it is told negated values, each once and in order."""
    made: list[Recorder] = []

    def make(bounds: np.ndarray) -> Recorder:
        made.append(Recorder(bounds))
        return made[-1]

    study = optuna.create_study(sampler=LiteralSampler(make, seed=0))
    space = {"b": FloatDistribution(-1.0, 2.0), "a": FloatDistribution(0.0, 5.0)}
    study.enqueue_trial({"a": 1.0, "b": 0.5})
    for value in (3.0, 1.0, 2.0):
        trial = study.ask(dict(space))
        study.tell(trial, value)
    (method,) = made
    assert method.bounds.tolist() == [[0.0, 5.0], [-1.0, 2.0]]
    assert method.told == [([1.0, 0.5], -3.0), ([5.0, 2.0], -1.0)]
    assert study.trials[1].params == {"a": 5.0, "b": 2.0}


def test_turbo_region_follows_the_tutorials_rules() -> None:
    """Ten successes double the length up to the longest, d failures in a row halve it."""
    region = highdim_turbo.Region(first=0, best=0.0)
    for i in range(9):
        region.update(float(i + 1), 6)
    assert region.length == 0.8
    region.update(10.0, 6)
    assert (region.length, region.successes) == (1.6, 0)
    for i in range(10):
        region.update(20.0 + i, 6)
    assert region.length == 1.6
    for _ in range(5):
        region.update(29.0 * (1.0 + 1e-4), 6)  # too small a rise
    assert (region.length, region.failures) == (1.6, 5)
    region.update(0.0, 6)
    assert (region.length, region.failures) == (0.8, 0)
    for _ in range(4):
        region.update(0.0, 2)
    assert region.length == 0.4


@pytest.mark.skipif(
    "rng" not in inspect.signature(qmc.Sobol).parameters, reason="the peer needs a newer SciPy"
)
def test_turbo_candidates_lie_in_the_shaped_box() -> None:
    """Sides are proportional to the length-scales and have the length as geometric mean."""
    center, scales = np.full(4, 0.5), np.array([1.0, 2.0, 4.0, 8.0])
    points = highdim_turbo.candidates(center, scales, 0.1, seed=0)
    assert points.shape == (2000, 4)
    sides = 0.1 * scales / 64.0**0.25
    spread = np.abs(points - center).max(axis=0)
    assert (spread <= 0.5 * sides + 1e-12).all()
    assert spread == pytest.approx(0.5 * sides, rel=0.01)
    many = highdim_turbo.candidates(np.full(100, 0.5), np.ones(100), 0.8, seed=0)
    changed = (many != 0.5).sum(axis=1)
    assert len(many) == 5000
    assert changed.mean() == pytest.approx(20.0, abs=0.3)
    assert changed.min() >= 1
    edge = highdim_turbo.candidates(np.zeros(4), np.ones(4), 1.6, seed=0)
    assert edge.min() >= 0.0
    assert edge.max() <= 1.0


@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when BoTorch loads
def test_turbo_closes_in_on_a_bowl() -> None:
    """On a quadratic of six parameters it ends well below the best of its start-up points."""
    study = optuna.create_study(sampler=highdim_turbo.TuRBOSampler(seed=0, n_startup_trials=6))
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(6)}
    for _ in range(35):
        trial = study.ask(dict(space))
        study.tell(trial, sum((x - 0.3) ** 2 for x in trial.params.values()))
    values = [trial.value or 0.0 for trial in study.trials]
    assert min(values) < 0.5 * min(values[:6])


@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when BoTorch loads
def test_turbo_starts_over_with_fresh_points() -> None:
    """After the box has become too short, new space-filling points come and old data are left."""
    sampler = highdim_turbo.TuRBOSampler(seed=0, n_startup_trials=4)
    study = optuna.create_study(sampler=sampler)
    space = {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(2)}
    for number in range(5 + 4 * 7 + 6):
        trial = study.ask(dict(space))
        study.tell(trial, float(number))  # every trial is worse than the one before
    assert sampler._region.first > 4
    assert sampler._region.length > 0.4
