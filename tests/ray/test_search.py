"""The search algorithm: what it is given, and what it suggests."""

from __future__ import annotations

import logging
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna import RegretGapTerminator, UHEBOSampler

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.impl.placeholder import (
    create_resolvers_map,
    inject_placeholders,
    resolve_placeholders,
)
from ray.tune.search import ConcurrencyLimiter, Searcher

from bbo_plugins.ray import BBOSearch
from tests.ray.searches import (
    MODELS,
    SPACE,
    make_search,
    result_of,
    states_of,
    stored_in,
    suggested,
    trials_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.trial import Trial


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"metric": ["a", "b"], "mode": "min"}, ValueError, "mode must be a list of modes, one"),
        ({"metric": ["a", "b"], "mode": ["min", "up"]}, ValueError, "mode must be one of"),
        (
            {"metric": ["a", "b"], "mode": ["min"] * 2, "terminator": RegretGapTerminator()},
            ValueError,
            "terminator must be None with several objectives",
        ),
        ({"metric": 3}, TypeError, "metric must be the name of a result, but got 3"),
        ({"sampler": "tpe"}, TypeError, "sampler must be an Optuna sampler, but got 'tpe'"),
        ({"sampler": UHEBOSampler(), "seed": 0}, ValueError, "seed must be None with a sampler"),
        ({"storage": "sqlite:///x"}, TypeError, r"storage must be .* RDBStorage\(url\)"),
        ({"study_name": 3}, TypeError, "study_name must be a string or None, but got 3"),
        ({"terminator": object()}, TypeError, "terminator must be an object with a method"),
        ({"terminator": RegretGapTerminator}, TypeError, "must be an object with a method"),
        ({"points_to_evaluate": {"x": 1}}, TypeError, "points_to_evaluate must be a list"),
        ({"evaluated_rewards": 1.0}, TypeError, "evaluated_rewards must be a list of numbers"),
        ({"points_to_evaluate": [1]}, TypeError, r"points_to_evaluate\[0\] must be a dict"),
        ({"evaluated_rewards": [1.0]}, ValueError, "as long as points_to_evaluate, which has 0"),
        (
            {"points_to_evaluate": [{"x": 1}], "evaluated_rewards": ["0.3"]},
            TypeError,
            r"evaluated_rewards\[0\] must be None, a number, or a list .* got '0.3'",
        ),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each message names the argument, the rule and the value."""
    with pytest.raises(error, match=message):
        BBOSearch(**arguments)


def test_objective_may_come_from_the_tuner() -> None:
    """A search with its own space gets metric and mode later; Ray's would maximize silently."""
    search = BBOSearch({"x": FloatDistribution(0.0, 1.0)})
    with pytest.raises(RuntimeError, match=r"has no mode: .* BBOSearch\(space, metric"):
        search.suggest("a")
    with pytest.raises(RuntimeError, match="search space"):
        BBOSearch().suggest("a")
    assert not search.set_search_properties("loss", "min", {"constant": 1})
    assert search._ot_study.direction is optuna.study.StudyDirection.MINIMIZE
    assert search.metric == "loss"
    assert 0.0 <= suggested(search, "a")["x"] <= 1.0


def test_a_trial_without_the_unnamed_metric_fails() -> None:
    """Ray lets it pass, and no trial would have a value then. One without any result is nothing."""
    search = BBOSearch(SPACE, mode="min")
    configs = [suggested(search, trial_id) for trial_id in "abcd"]
    with pytest.raises(ValueError, match="metric must be given to the tuner or to BBOSearch"):
        search.on_trial_complete("b", result_of(configs[1]))
    search.on_trial_complete("c", {"_metric": 3.0})
    search.on_trial_complete("d", {"done": True})
    assert states_of(search) == ["RUNNING", "FAIL", "COMPLETE", "PRUNED"]
    assert trials_of(search)[2].value == 3.0


@pytest.mark.parametrize("spec", [None, {"constant": 1}])
def test_another_experiment_gives_up_the_trials_of_the_one_before(
    spec: dict[str, Any] | None,
) -> None:
    """Else they would take the places of its own; with an empty config Ray says less of it."""
    search = BBOSearch(SPACE, "loss", "min")
    for _ in range(2):
        search.set_max_concurrency(2)
        if spec is not None:
            search.set_search_properties(None, None, spec)
        n = len(trials_of(search))
        assert [search.suggest(f"{n}{trial_id}") is None for trial_id in "abc"] == [0, 0, 1]
    assert states_of(search) == ["FAIL"] * 2 + ["RUNNING"] * 2


def test_constants_alone_tell_of_another_experiment() -> None:
    """As Ray passes them on, without a limit to the trials at a time."""
    search = BBOSearch(SPACE, "loss", "min")
    suggested(search, "a")
    assert not search.set_search_properties(None, None, {"constant": 1})
    assert states_of(search) == ["FAIL"]


def test_a_suggestion_that_fails_leaves_no_running_trial() -> None:
    """The error is the function's own."""

    def space(trial: optuna.Trial) -> None:
        trial.suggest_float("x", 0.0, 1.0)
        if trial.number:
            raise ArithmeticError("of the user")

    search = BBOSearch(space, "loss", "min")
    suggested(search, "a")
    with pytest.raises(ArithmeticError, match="of the user"):
        search.suggest("b")
    assert states_of(search) == ["FAIL", "FAIL"]


def test_a_terminator_that_fails_leaves_no_running_trial() -> None:
    """Ray ends the experiment then as well."""

    class Broken:
        """Can answer as long as there are no trials."""

        def should_terminate(self, study: optuna.Study) -> bool:
            """Return whether the study is over."""
            if study.trials:
                raise ArithmeticError("of the user")
            return False

    search = BBOSearch(SPACE, "loss", "min", terminator=Broken())
    suggested(search, "a")
    with pytest.raises(ArithmeticError, match="of the user"):
        search.suggest("b")
    assert states_of(search) == ["FAIL"]


def test_a_stored_study_must_have_the_same_kinds_of_parameters(tmp_path: Path) -> None:
    """Optuna would refuse them at the first suggestion; a range may change."""
    suggested(make_search(storage=stored_in(tmp_path)), "a")
    wider = {**SPACE, "x": tune.uniform(-1.0, 30.0)}
    suggested(make_search(wider, storage=stored_in(tmp_path)), "b")
    other = {**SPACE, "n": {"k": tune.choice(["a", "b", "c"])}}
    message = r"the parameter 'n/k' must be as in the stored study 'optuna', Cat.* but got Cat.*'c'"
    with pytest.raises(ValueError, match=message):
        make_search(other, storage=stored_in(tmp_path))
    search = BBOSearch(seed=0, storage=stored_in(tmp_path))
    with pytest.raises(ValueError, match=message):
        search.set_search_properties("loss", "min", other)
    assert search.set_search_properties("loss", "min", wider)  # after the mistake
    assert len(trials_of(search)) == 2


def test_numbers_of_numpy_are_stored_as_python_has_them(tmp_path: Path) -> None:
    """In points and in choices, of a space and of a define-by-run function."""
    widths = np.array([16, 32])
    space = {"x": tune.uniform(0.0, 1.0), "w": tune.choice(widths), "b": tune.choice([True, False])}
    point = {"x": np.float32(0.5), "w": np.int64(32), "b": np.bool_(True)}
    search = make_search(space, storage=stored_in(tmp_path), points_to_evaluate=[point])
    assert suggested(search, "a") == {"x": 0.5, "w": 32, "b": True}
    assert trials_of(search)[0].distributions["w"] == CategoricalDistribution([16, 32])

    def by_run(trial: optuna.Trial) -> None:
        trial.suggest_float("x", 0.0, 1.0)

    search = BBOSearch(
        by_run,
        "loss",
        "min",
        storage=stored_in(tmp_path),
        study_name="by_run",
        points_to_evaluate=[{"x": np.float32(0.25)}],
    )
    assert suggested(search, "a") == {"x": 0.25}


def test_choices_among_what_ray_hides_have_labels(tmp_path: Path) -> None:
    """A tuner puts placeholders in place of objects, which a storage would change."""
    hidden = create_resolvers_map()
    space = {
        "f": tune.choice([math.sin, None, np.int64(3)]),
        "n": {"k": tune.choice([{"g": math.cos}, {"g": math.tan}])},
    }
    space = inject_placeholders(space, hidden)
    points = [{"f": "2", "n/k": "1"}, {"f": None, "n": {"k": "0"}}]
    search = make_search(space, storage=stored_in(tmp_path), points_to_evaluate=points)
    configs = [suggested(search, trial_id) for trial_id in "ab"]
    for config in configs:
        resolve_placeholders(config, hidden)
    assert configs == [
        {"f": 3, "n": {"k": {"g": math.tan}}},
        {"f": None, "n": {"k": {"g": math.cos}}},
    ]
    assert [trial.params for trial in trials_of(search)] == [
        {"f": "2", "n/k": "1"},
        {"f": None, "n/k": "0"},
    ]
    message = r"points_to_evaluate\[0\]\['f'\] must be one of the labels .*Ray hides .* but got 3"
    with pytest.raises(ValueError, match=message):
        make_search(space, points_to_evaluate=[{"f": 3}])
    with pytest.raises(ValueError, match=r"such as tune.uniform\(0, 1\)"):
        make_search(inject_placeholders({"f": math.sin}, hidden))


def test_a_bad_point_is_found_before_the_study_is_made(tmp_path: Path) -> None:
    """And before a good one is stored."""
    points = [{"x": 1.0, "n": {"k": "a"}}, {"x": 99.0, "n": {"k": "a"}}]
    with pytest.raises(ValueError, match=r"points_to_evaluate\[1\]\['x'\]"):
        make_search(
            storage=stored_in(tmp_path), points_to_evaluate=points, evaluated_rewards=[1.0, 2.0]
        )
    assert optuna.get_all_study_names(stored_in(tmp_path)) == []


def test_objective_must_not_be_contradicted() -> None:
    """What the tuner says again must be the same."""
    search = BBOSearch(metric="loss", mode="min")
    with pytest.raises(ValueError, match="mode must be 'min', as BBOSearch was told so, but got"):
        search.set_search_properties("loss", "max", SPACE)
    assert search.set_search_properties("loss", "min", SPACE)


def test_points_may_be_nested_flat_or_partial() -> None:
    """Points are run first, in order; what one leaves out is suggested."""
    points = [{"x": 3.0, "n": {"k": "b", "c": 7}}, {"n/k": "a", "x": 4.0}, {"n": {"k": "b"}}]
    search = make_search(points_to_evaluate=points)
    first, second, third = (suggested(search, str(number)) for number in range(3))
    assert first == {"x": 3.0, "n": {"k": "b"}}
    assert second == {"x": 4.0, "n": {"k": "a"}}
    assert third["n"] == {"k": "b"}
    assert 0.0 <= third["x"] <= 20.0


def test_points_are_shared_by_searches_on_one_study(tmp_path: Path) -> None:
    """What another search has begun is not begun again; one's own points may be equal."""
    points = [{"x": 3.0}, {"x": 3.0}, {"x": 4.0}]
    first, second = (
        make_search(storage=stored_in(tmp_path), points_to_evaluate=points) for _ in "ab"
    )
    assert [suggested(first, trial_id)["x"] for trial_id in "ab"] == [3.0, 3.0]
    assert suggested(second, "c")["x"] == 4.0
    assert suggested(first, "d")["x"] not in {3.0, 4.0}


def test_enqueued_trials_of_others_are_taken(tmp_path: Path) -> None:
    """A trial that somebody enqueues in the stored study is run like a point of one's own."""
    search = make_search(storage=stored_in(tmp_path))
    study = optuna.load_study(study_name="optuna", storage=stored_in(tmp_path))
    study.enqueue_trial({"x": 5.0, "n/k": "b"})
    assert suggested(search, "a") == {"x": 5.0, "n": {"k": "b"}}
    suggested(search, "b")
    assert states_of(search) == ["RUNNING"] * 2


@pytest.mark.parametrize(
    "point, message",
    [
        ({"y": 1.0}, r"points_to_evaluate\[0\] must be a point of the search space.* no 'y'"),
        ({"x": 21.0}, r"points_to_evaluate\[0\]\['x'\] must be a value of Float.*got 21.0"),
        ({"n": {"k": "c"}}, r"\['n/k'\] must be a value of Categorical"),
    ],
)
def test_points_outside_the_space_are_refused(point: dict[str, Any], message: str) -> None:
    """A misspelled name or a value out of range is an error before anything runs."""
    with pytest.raises(ValueError, match=message):
        make_search(points_to_evaluate=[point])


def test_points_of_integers_are_integers_of_the_grid() -> None:
    """What the trainable gets is what the study has; a number between two of them is refused."""
    space = {"n": tune.randint(0, 5), "even": tune.qrandint(0, 10, 2)}
    search = make_search(space, points_to_evaluate=[{"n": 2.0, "even": 4}])
    config = suggested(search, "a")
    assert config == {"n": 2, "even": 4}
    assert isinstance(config["n"], int)
    for point in ({"n": 2.5}, {"even": 3}):
        with pytest.raises(ValueError, match=r"points_to_evaluate\[0\].*must be a value of Int"):
            make_search(space, points_to_evaluate=[point])


def test_points_by_name_are_of_the_same_numbers() -> None:
    """In a space with choices that have parameters of their own."""
    point = {"model": "forest", "model/forest/depth": 2.0}
    config = suggested(make_search(MODELS, points_to_evaluate=[point]), "a")
    assert config["model"] == {"kind": "forest", "depth": 2}
    assert isinstance(config["model"]["depth"], int)
    with pytest.raises(ValueError, match=r"points_to_evaluate\[0\]"):
        make_search(MODELS, points_to_evaluate=[{**point, "model/forest/depth": 2.5}])


def test_evaluated_point_needs_a_parameter() -> None:
    """A config that has nothing to do with the space is no observation of it."""
    with pytest.raises(ValueError, match="parameters must be a config with parameters of"):
        make_search().add_evaluated_point({"other": 1.0}, 3.0)
    with pytest.raises(ValueError, match=r"parameters\['x'\] must be a value of"):
        make_search().add_evaluated_point({"x": -1.0}, 3.0)
    with pytest.raises(RuntimeError, match="search space"):
        BBOSearch().add_evaluated_point({"x": 1.0}, 3.0)


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution:UserWarning")
def test_choices_that_a_storage_would_change_are_refused(tmp_path: Path) -> None:
    """It returns tuples as lists, so that the second trial would have another parameter."""
    space = {"x": tune.uniform(0.0, 20.0), "h": {"units": tune.choice([(8, 8), (16,)])}}
    with pytest.raises(ValueError, match=r"\['h/units'\] must be .* lists in place of tuples"):
        make_search(space, storage=stored_in(tmp_path))
    search = make_search(space)
    assert suggested(search, "a")["h"]["units"] in {(8, 8), (16,)}
    space["h"] = {"units": tune.choice([[8, 8], [16]])}
    search = make_search(space, storage=stored_in(tmp_path))
    for trial_id in "abc":
        config = suggested(search, trial_id)
        search.on_trial_complete(trial_id, {"loss": config["x"], "training_iteration": 1})
    assert states_of(search) == ["COMPLETE"] * 3
    assert config["h"]["units"] in [[8, 8], [16]]


def test_define_by_run_space() -> None:
    """A function of the trial is a space too; constants that it returns are passed on."""

    def space(trial: optuna.Trial) -> dict[str, Any]:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("x", 0.0, 1.0)
        return {"constant": 5}

    search = BBOSearch(space, "loss", "min", seed=0, points_to_evaluate=[{"kind": "a", "x": 0.5}])
    assert suggested(search, "first") == {"kind": "a", "x": 0.5, "constant": 5}
    search.on_trial_complete("first", {"loss": 1.0, "training_iteration": 1})
    for number in range(14):
        config = suggested(search, str(number))
        assert config.keys() - {"x"} == {"kind", "constant"}
        search.on_trial_complete(str(number), {"loss": 1.0, "training_iteration": 1})
    search.add_evaluated_point({"kind": "b", "constant": 5}, 3.0)
    assert (trials_of(search)[-1].params, trials_of(search)[-1].value) == ({"kind": "b"}, 3.0)
    with pytest.raises(ValueError, match=r"all that the define-by-run function asks for .*'x'"):
        search.add_evaluated_point({"kind": "a"}, 3.0)


def test_nested_points_and_their_rewards(tmp_path: Path) -> None:
    """Points are nested, by path or by name; results of them are in the study, and stay once."""
    arguments: dict[str, Any] = {
        "points_to_evaluate": [
            {"model": {"kind": "svm", "C": 10.0}, "rate": 0.25, "seed": 7},
            {"model/kind": "forest", "model/depth": 7},
            {"model": "svm", "model/svm/C": 1.0, "rate": 0.5},
        ],
        "evaluated_rewards": [0.25, None, None],
    }
    search = make_search(MODELS, storage=stored_in(tmp_path), **arguments)
    (known,) = trials_of(search)
    assert known.params == {"model": "svm", "model/svm/C": 10.0, "rate": 0.25}
    assert known.value == 0.25
    assert suggested(search, "a")["model"] == {"kind": "forest", "depth": 7}
    assert suggested(search, "b") == {"model": {"kind": "svm", "C": 1.0}, "rate": 0.5}
    again = make_search(MODELS, storage=stored_in(tmp_path), **arguments)
    assert len(trials_of(again)) == 3
    again.add_evaluated_point({"model": {"kind": "forest", "depth": 3}, "rate": 0.5}, 1.0)
    assert trials_of(again)[-1].params == {"model": "forest", "model/forest/depth": 3, "rate": 0.5}
    with pytest.raises(ValueError, match=r"points_to_evaluate\[0\]\['model'\] must be one of"):
        make_search(MODELS, points_to_evaluate=[{"model": {"kind": "tree"}}])


def test_a_reward_for_each_metric(tmp_path: Path) -> None:
    """Another number of them is refused by name, before anything is stored."""
    with pytest.raises(
        ValueError, match=r"evaluated_rewards\[1\] must be a number for each metric"
    ):
        make_search(
            storage=stored_in(tmp_path),
            points_to_evaluate=[{"x": 0.5}, {"x": 0.6}],
            evaluated_rewards=[1.0, [1.0, 2.0]],
        )
    assert not optuna.get_all_study_names(stored_in(tmp_path))


def test_a_point_that_has_failed_stays_once(tmp_path: Path) -> None:
    """Also where a study is continued."""
    for _ in range(3):
        search = make_search(
            storage=stored_in(tmp_path),
            points_to_evaluate=[{"x": 0.5}],
            evaluated_rewards=[math.nan],
        )
        assert states_of(search) == ["FAIL"]


def test_warnings_of_a_define_by_run_function_are_its_users() -> None:
    """Only Optuna's, of a value out of its range, is left out: that value is refused."""

    def space(trial: Trial) -> None:
        warnings.warn("mine", UserWarning, stacklevel=2)
        trial.suggest_float("x", 0.0, 1.0)

    search = BBOSearch(space, metric="loss", mode="min")
    with pytest.warns(UserWarning, match="mine"):
        search.add_evaluated_point({"x": 0.5}, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="'x'"):
            search.add_evaluated_point({"x": 2.0}, 1.0)
    assert [str(warning.message) for warning in caught] == ["mine"]


def test_hyperband_for_bohb_is_refused_by_name() -> None:
    """With the remedy, and without a trial that stays RUNNING."""
    search = make_search()
    suggested(search, "a")
    limited = ConcurrencyLimiter(search, max_concurrent=2)  # as the tuner wraps it
    with pytest.raises(ValueError, match=r"HyperBandForBOHB with BBOSearch.*Take HyperBandS"):
        limited.on_pause("a")
    assert trials_of(search)[0].state is TrialState.FAIL


def test_regret_gap_terminator_ends_the_search(caplog: pytest.LogCaptureFixture) -> None:
    """The terminator of the Optuna front door does, on a function whose minimum is soon found."""
    caplog.set_level(logging.INFO)
    terminator = RegretGapTerminator(min_n_trials=5, patience=2)
    search = make_search(terminator=terminator)
    for number in range(60):
        config = search.suggest(str(number))
        if config == Searcher.FINISHED:
            break
        assert isinstance(config, dict)
        result = result_of(config, loss=(config["x"] - 7.0) ** 2)
        search.on_trial_complete(str(number), result)
    assert 5 <= len(trials_of(search)) < 60
    final = terminator.history(search._ot_study)[-1]
    assert final.terminate
    lines = [record.getMessage() for record in caplog.records]
    (reason,) = [line for line in lines if "stops the study" in line]
    (end,) = [line for line in lines if "suggests no more trials" in line]
    assert f"after {final.n_trials} complete trials" in reason
    assert f"in a row, at last {final.value:.4g} <= {final.threshold:.4g}" in reason
    assert "RegretGapTerminator ends the search; running trials are finished." in end
