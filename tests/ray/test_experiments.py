"""Whole experiments on real Ray: search algorithm, scheduler and stopper under Tune."""

from __future__ import annotations

import math
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import RegretGapTerminator, continued_from
from bbo_plugins.optuna.study.continuations import steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")


from ray import tune
from ray.tune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    PopulationBasedTraining,
    ResourceChangingScheduler,
    TrialScheduler,
)
from ray.tune.search import Searcher

from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler, RegretGapStopper
from bbo_plugins.ray.tune.restoring import saved_trials
from bbo_plugins.visualization._data.horizon import plot_horizon
from bbo_plugins.visualization._data.panels import Line
from tests.ray.trainables import Training, evaluate, loss_of, train, train_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPACE = {"x": tune.uniform(0.0, 20.0), "chunk": 5}
N = 20
pytestmark = pytest.mark.usefixtures("local_ray")


def _tuner(
    folder: Path,
    trainable: Any,
    *,
    search: Searcher | None = None,
    scheduler: TrialScheduler | None = None,
    n_samples: int = 4,
    max_failures: int = 0,
    at_a_time: int | None = 1,
    **options: Any,
) -> tune.Tuner:
    # One trial after another needs one process of Ray's, and its start takes longest of all.
    limit = {} if search is None else {"max_concurrent_trials": at_a_time}
    if at_a_time == 4:
        # Of two trials of a bracket that end at the same time, Ray's HyperBand leaves one paused
        # for ever. Where each takes both processors, one runs at a time.
        trainable = tune.with_resources(trainable, {"cpu": 2})
    return tune.Tuner(
        trainable,
        param_space={**SPACE, **options.pop("constants", {})},
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=scheduler,
            metric="loss",
            mode="min",
            num_samples=n_samples,
            reuse_actors=options.pop("reuse_actors", True),
            time_budget_s=options.pop("time_budget_s", None),
            **limit,
        ),
        run_config=tune.RunConfig(
            name="experiment",
            storage_path=str(folder),
            failure_config=tune.FailureConfig(max_failures=max_failures),
            verbose=0,
            **options,
        ),
    )


def _study(search: BBOSearch) -> optuna.Study:
    study = search._ot_study
    assert isinstance(study, optuna.Study)
    return study


def _states(search: BBOSearch) -> Counter[str]:
    return Counter(trial.state.name for trial in _study(search).trials)


def _more_resources(
    controller: Any, trial: Any, result: dict[str, Any], scheduler: Any
) -> tune.PlacementGroupFactory:
    del controller, trial, scheduler
    return tune.PlacementGroupFactory([{"CPU": 1 if result["sgd_steps"] < 10 else 2}])


BASES: dict[str, Callable[[], TrialScheduler]] = {
    "asha": lambda: ASHAScheduler(
        time_attr="sgd_steps", max_t=100, grace_period=5, reduction_factor=2
    ),
    # Brackets of two trials: the first is never halved, the second one after the first report.
    "hyperband": lambda: HyperBandScheduler(
        time_attr="sgd_steps", max_t=12, reduction_factor=12, stop_last_trials=False
    ),
    "resources": lambda: ResourceChangingScheduler(BASES["asha"](), _more_resources),
}
# The fourth is far off, and the base schedulers find that out at its first report.
POINTS = [{"x": 3.0}, {"x": 3.5}, {"x": 2.5}, {"x": 20.0}]


def _slow(*names: str) -> list[Any]:
    """Return cases that the quick ones and the tests of the scheduler stand for."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def _at_a_time(name: str | None) -> int:
    """Return how many trials may run: HyperBand waits for the second one of a bracket."""
    return 4 if name == "hyperband" else 1


MODELS = {
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-3, 1e3)},
            {"kind": "forest", "trees": {"depth": tune.randint(1, 20), "c": 0.0}},
        ]
    )
}


def test_nested_space(tmp_path: Path) -> None:
    """Each trial has one of the dicts with values, and after a restore it goes on like that."""
    point = {"model": {"kind": "forest", "trees": {"depth": 3}}}
    search = BBOSearch(seed=0, points_to_evaluate=[point])
    stopper = RegretGapStopper("loss", "min", MODELS)
    options: dict[str, Any] = {"constants": MODELS, "stop": stopper}
    results = _tuner(tmp_path, train_model, search=search, n_samples=14, **options).fit()
    assert not results.errors
    assert len(results) == 14
    assert _states(search) == {"COMPLETE": 14}
    assert len(stopper.history()) == 14
    configs = [result.config["model"] for result in results]
    assert {config["kind"] for config in configs} == {"svm", "forest"}
    assert _study(search).trials[0].params["model/forest/trees/depth"] == 3
    for trial in _study(search).trials:
        other = {"svm": "model/svm/C", "forest": "model/forest/trees/depth"}[trial.params["model"]]
        assert trial.params.keys() == {"model", other, "x"}
    # What Ray has saved of it can be read by a blank search.
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path / "experiment"))
    assert len(_study(restored).trials) == 14
    config = restored.suggest("next")
    assert isinstance(config, dict)
    assert config["model"].keys() in ({"kind", "C"}, {"kind", "trees"})


@pytest.mark.parametrize("name", ["asha", *_slow("hyperband", "resources")])
def test_horizon_with_a_base_scheduler(tmp_path: Path, name: str) -> None:
    """Each of Tune's schedulers stops what is bad before its horizon, and none goes beyond."""
    # Where actors cannot be used again, each trial takes seconds to start.
    points = [POINTS[0], POINTS[3]] if name == "resources" else POINTS
    search = BBOSearch(seed=0, points_to_evaluate=points)
    scheduler = InnerHorizonScheduler(
        InnerHorizon(n_outer=4, constant=5.0), base_scheduler=BASES[name]()
    )
    results = _tuner(
        tmp_path,
        train,
        search=search,
        scheduler=scheduler,
        n_samples=len(points),
        at_a_time=_at_a_time(name),
        reuse_actors=name != "resources",  # Tune's condition
    ).fit()
    assert results.num_errors == 0
    assert results.num_terminated == len(results) == len(points)
    assert all(result.metrics["config"]["inner_horizon"] == N for result in results)
    assert all(result.metrics["step_size"] == pytest.approx(N**-0.5) for result in results)
    steps = {result.metrics["config"]["x"]: result.metrics["sgd_steps"] for result in results}
    assert (steps[3.0], steps[20.0]) == (N, 5)
    states = {trial.params["x"]: trial.state.name for trial in _study(search).trials}
    assert states == {x: "COMPLETE" if n == N else "PRUNED" for x, n in steps.items()}


def test_hyperband_by_itself(tmp_path: Path) -> None:
    """Trials that it ends while they are paused are complete if they have had all iterations."""
    # A bracket of two trials to iteration 12; two of another one, of which one is dropped at 1.
    scheduler = HyperBandScheduler(max_t=12, reduction_factor=12)
    search = BBOSearch(seed=0, points_to_evaluate=POINTS)
    results = _tuner(tmp_path, Training, search=search, scheduler=scheduler, at_a_time=4).fit()
    assert results.num_errors == 0
    of_tune = {result.metrics["config"]["x"]: result.metrics for result in results}
    assert sorted(m["training_iteration"] for m in of_tune.values()) == [1, 12, 12, 12]
    trials = _study(search).trials
    for trial in trials:
        metrics = of_tune[trial.params["x"]]
        assert trial.value == metrics["loss"]
        if metrics["training_iteration"] == 12:
            assert trial.state is TrialState.COMPLETE
            assert trial.user_attrs["sgd_steps"] == metrics["sgd_steps"]
    best = min(metrics["loss"] for metrics in of_tune.values())
    assert _study(search).best_value == best
    _, values = plot_horizon(results, metric="loss").panels  # as Tune returns them
    lines = [item for item in values.items if isinstance(item, Line)]
    drawn = [y for line in lines for y in line.y if not math.isnan(y)]
    assert len(drawn) == len(results)  # without files of reports the last ones
    assert min(drawn) == best


def test_the_plot_of_the_horizon_reads_data_frames() -> None:
    """As Tune makes them of the files of reports; a trial that never reported has an empty one."""
    pd = pytest.importorskip("pandas")
    reports = pd.DataFrame({"loss": [3.0, 2.0], "sgd_steps": [1, 4]})
    frames = [pd.DataFrame(), reports, None]
    results = [SimpleNamespace(metrics_dataframe=one, metrics={}) for one in frames]
    above, _ = plot_horizon(results, metric="loss").panels
    (line,) = above.items
    assert isinstance(line, Line)
    assert [*zip(line.x, line.y, strict=True)][:2] == [(1, 1), (1, 4)]


@pytest.mark.slow
def test_horizon_with_population_based_training(tmp_path: Path) -> None:
    """The bad half of the population goes on as a copy of the good one, up to the same horizon."""
    base = PopulationBasedTraining(
        time_attr="sgd_steps",
        perturbation_interval=10,
        synch=True,
        hyperparam_mutations={"x": tune.uniform(0.0, 5.0)},
    )
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=4, constant=5.0), base_scheduler=base)
    # Tune does not let it have a search algorithm.
    results = _tuner(
        tmp_path,
        train,
        scheduler=scheduler,
        n_samples=1,
        constants={"x": tune.grid_search([3.0, 20.0])},
    ).fit()
    assert results.num_errors == 0
    steps = sorted(result.metrics["sgd_steps"] for result in results)
    assert steps[1] == N
    assert steps[0] > N // 2  # seen once: the copy ended one report before its horizon
    assert all(result.metrics["config"]["inner_horizon"] == N for result in results)
    assert sorted(result.metrics["config"]["x"] == 3.0 for result in results) == [False, True]
    assert max(result.metrics["config"]["x"] for result in results) <= 5.0


@pytest.mark.parametrize("name", [None, *_slow("hyperband")])
def test_growing_horizon(tmp_path: Path, name: str | None) -> None:
    """The best trials are continued from their checkpoints, and their values replaced."""
    search = BBOSearch(seed=0, points_to_evaluate=POINTS)
    horizon = InnerHorizon.growing(constant=2.0, promote=2)
    base = None if name is None else BASES[name]()
    scheduler = InnerHorizonScheduler(horizon, base_scheduler=base)
    results = _tuner(
        tmp_path,
        train,
        search=search,
        scheduler=scheduler,
        n_samples=5,
        at_a_time=2 if name is None else _at_a_time(name),
    ).fit()
    assert results.num_errors == 0
    assert results.num_terminated == 5
    trials = _study(search).trials
    last: dict[float, optuna.trial.FrozenTrial] = {}
    for trial in trials:
        assert trial.state.is_finished()
        source = continued_from(trial)
        if source is not None:
            assert trial.params == trials[source].params
            assert trial.user_attrs["resumed_at"] == trials[source].user_attrs["sgd_steps"]
            assert trial.value == loss_of(trial.params["x"], trial.user_attrs["sgd_steps"])
            # What it continues is no value on its way.
            assert trials[source].value not in trial.intermediate_values.values()
        last[trial.params["x"]] = trial
    assert len(last) == 5
    assert any(continued_from(trial) is not None for trial in trials)
    if name is None:  # nothing was stopped early
        best = sorted(last.values(), key=lambda trial: trial.value or math.inf)[:2]
        assert [trial.user_attrs["sgd_steps"] for trial in best] == [50, 50]
    else:
        assert last[20.0].state.name == "PRUNED"
        assert last[3.0].state.name == "COMPLETE"
        assert last[3.0].user_attrs["sgd_steps"] == 50
    # Tune's results are those of the longest training too.
    for result in results:
        trial = last[result.metrics["config"]["x"]]
        # One that is stopped while it is paused is stopped without its result.
        known = 5 if trial.params["x"] == 20.0 and name is not None else None
        assert result.metrics["sgd_steps"] == trial.user_attrs.get("sgd_steps", known)


class Forgetting(Searcher):  # type: ignore[misc,unused-ignore] # Any without Ray
    """Forgets a trial that has completed, as Ray's HyperOptSearch and others do."""

    def __init__(self) -> None:
        """Start without any trial."""
        super().__init__()
        self.live: dict[str, float] = {}
        self.completed: list[str] = []

    def set_search_properties(self, *_: Any, **__: Any) -> bool:
        """Take whatever space there is."""
        return True

    def suggest(self, trial_id: str) -> dict[str, float]:
        """Return the next of a few points."""
        self.live[trial_id] = 3.0 + len(self.live) + len(self.completed)
        return {"x": self.live[trial_id]}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Look at what the trial was to try."""
        assert result["config/x"] == self.live[trial_id]

    def on_trial_complete(self, trial_id: str, *_: Any, **__: Any) -> None:
        """Forget the trial."""
        self.completed.append(trial_id)
        del self.live[trial_id]


@pytest.mark.parametrize("at_a_time", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_growing_horizon_beside_a_search_that_forgets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at_a_time: int | None
) -> None:
    """It hears of the end of each trial once; else Tune would try to end some for ever."""
    search, budget = Forgetting(), 60.0
    horizon = InnerHorizon.growing(constant=2.0, promote=1)
    started = time.monotonic()
    results = _tuner(
        tmp_path,
        train,
        search=search,
        scheduler=InnerHorizonScheduler(horizon),
        at_a_time=at_a_time,
        time_budget_s=budget,
    ).fit()
    assert time.monotonic() - started < budget  # it has ended by itself
    assert (results.num_errors, results.num_terminated) == (0, 4)
    assert len(set(search.completed)) == len(search.completed) == 4
    steps = {r.metrics["config"]["x"]: r.metrics["sgd_steps"] for r in results}
    assert steps[3.0] == horizon.steps(3)  # the first trial, which is continued
    assert "tells Forgetting of each trial the first value only" in caplog.text


@pytest.mark.slow
def test_growing_horizon_of_a_class_to_a_budget(tmp_path: Path) -> None:
    """A class that only counts steps is paused and continued; the budget ends the search."""
    search = BBOSearch(seed=0)
    horizon = InnerHorizon.growing(constant=2.0, promote=1, total_steps=100)
    scheduler = InnerHorizonScheduler(horizon)
    results = _tuner(
        tmp_path, Training, search=search, scheduler=scheduler, n_samples=-1, constants={"chunk": 1}
    ).fit()
    assert results.num_errors == 0
    assert sum(result.metrics["sgd_steps"] for result in results) == 100
    assert all(r.metrics["config"]["inner_horizon"] == r.metrics["sgd_steps"] for r in results)
    assert any(continued_from(trial) is not None for trial in _study(search).trials)


def test_retried_trial_keeps_its_horizon(tmp_path: Path) -> None:
    """A failure sends a trial back to its checkpoint, and is not told to the search algorithm."""
    search = BBOSearch(seed=0, points_to_evaluate=[{"x": 3.0}])
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=4, constant=5.0))
    results = _tuner(
        tmp_path,
        train,
        search=search,
        scheduler=scheduler,
        n_samples=2,
        max_failures=1,
        constants={"fail_once": str(tmp_path / "failed")},
    ).fit()
    assert (tmp_path / "failed").exists()
    assert results.num_errors == 0
    assert [result.metrics["sgd_steps"] for result in results] == [N, N]
    assert sorted(result.metrics["resumed_at"] for result in results) == [0, 5]
    assert _states(search) == {"COMPLETE": 2}
    assert [steps_taken(trial) for trial in _study(search).trials] == [N, N]


def test_unusable_results_and_restart_of_failed_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trial is accounted for, and failed ones get a second life from a restore."""
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    search = BBOSearch(seed=0, points_to_evaluate=[{"x": x + 0.5} for x in range(5)])
    repaired = tmp_path / "repaired"
    # Ray hides the functions from the search.
    constants = {"repaired": str(repaired), "act": tune.choice([math.sin, math.cos])}
    results = _tuner(tmp_path, evaluate, search=search, n_samples=6, constants=constants).fit()
    assert results.num_errors == 1
    assert [trial.state.name for trial in _study(search).trials] == [
        "FAIL",
        "FAIL",
        "PRUNED",
        "FAIL",
        "COMPLETE",
        "COMPLETE",
    ]
    assert _study(search).trials[4].user_attrs == {"other": 1.0}
    # What a restore reads of the experiment is there, in the place where it looks.
    saved = saved_trials(tmp_path / "experiment")
    assert saved is not None
    assert Counter(trial.status for trial in saved.values()) == {"TERMINATED": 5, "ERROR": 1}
    assert saved.keys() == search._ot_trials.keys()
    assert {
        trial_id: trial.last_result["loss"]
        for trial_id, trial in saved.items()
        if math.isfinite(trial.last_result.get("loss", math.nan))
    } == {
        trial_id: trial.value
        for trial_id, known in search._ot_trials.items()
        if (trial := _study(search).trials[known.number]).state.name == "COMPLETE"
    }
    repaired.touch()
    tuner = tune.Tuner.restore(
        str(tmp_path / "experiment"), trainable=evaluate, restart_errored=True
    )
    results = tuner.fit()
    assert results.num_errors == 0
    assert len(results) == 6
    restored = _study(tuner._local_tuner._tune_config.search_alg).trials
    assert len(restored) == 7
    assert restored[6].params == {"x": 3.5, "act": restored[3].params["act"]}
    assert restored[6].value == 0.25


def test_terminator_ends_an_experiment(tmp_path: Path) -> None:
    """Trials that run are finished and recorded, and no others are begun."""
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=4, constant=5.0))
    terminator = RegretGapTerminator(threshold=1e6, min_n_trials=4, patience=1)
    search = BBOSearch(seed=0, terminator=terminator)
    results = _tuner(
        tmp_path, train, search=search, scheduler=scheduler, n_samples=50, at_a_time=2
    ).fit()
    assert 4 <= len(results) <= 12
    assert results.num_terminated == len(results)
    assert not _states(search)["RUNNING"]
    assert terminator.history(_study(search))[-1].terminate


def test_stopper_ends_an_experiment(tmp_path: Path) -> None:
    """All three together: trials that run at the decision make all their steps."""
    stopper = RegretGapStopper("loss", "min", SPACE, threshold=1e6, min_n_trials=3, patience=1)
    search = BBOSearch(seed=0)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=4, constant=5.0))
    results = _tuner(
        tmp_path, train, search=search, scheduler=scheduler, n_samples=50, at_a_time=2, stop=stopper
    ).fit()
    steps = Counter((result.metrics or {}).get("sgd_steps") for result in results)
    assert steps[N] >= 3
    assert len(results) < 50
    assert results.num_errors == 0
    # The study knows of each whole training. Those that began after the decision are none, and Tune
    # says nothing of those that have not reported when it ends the experiment.
    trials = _study(search).trials
    assert _states(search)["COMPLETE"] == steps[N]
    for trial in trials:
        expected = {N: "COMPLETE", None: "RUNNING"}.get(trial.user_attrs.get("sgd_steps"), "PRUNED")
        assert trial.state.name == expected


class Ending(Training):
    """Says by itself that it has made its steps."""

    def step(self) -> dict[str, Any]:
        """Make one chunk of steps."""
        return {**super().step(), "done": self.done >= N}


def test_stopper_waits_for_the_last_checkpoint(tmp_path: Path) -> None:
    """Tune saves it after the last result, and ends the trial after that."""
    stopper = RegretGapStopper("loss", "min", SPACE, threshold=1e6, min_n_trials=2, patience=1)
    search = BBOSearch(seed=0)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=4, constant=5.0))
    options: dict[str, Any] = {
        "stop": stopper,
        "checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True),
    }
    results = _tuner(tmp_path, Ending, search=search, scheduler=scheduler, **options).fit()
    assert _states(search)["COMPLETE"] == 2
    whole = [result for result in results if (result.metrics or {}).get("sgd_steps") == N]
    assert len(whole) == 2
    assert all(result.checkpoint is not None for result in whole)
