"""Record what samplers, terminator and Ray classes do on fixed studies, or compare with a record.

``python tests/record_suggestions.py write FILE`` stores it; ``compare FILE`` lists the studies that
differ and exits with 1 if there are any. Public names only, so that it survives any move inside.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.trial import TrialState, create_trial

import bbo_plugins
from bbo_plugins import InnerHorizon
from bbo_plugins.optuna import (
    BILBOSampler,
    GOUCBSampler,
    PromotionCallback,
    RegretGapTerminator,
    UHEBOSampler,
    inner_steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

N = 25


def box(trial: Trial) -> float:
    """Three floats."""
    x = [trial.suggest_float(f"x{i}", -2.0, 3.0) for i in range(3)]
    return sum((v - 0.4) ** 2 for v in x) + math.sin(4.0 * x[0])


def mixed(trial: Trial) -> float:
    """Float, log, step, integer, log integer and category."""
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    width = trial.suggest_int("width", 1, 64, log=True)
    depth = trial.suggest_int("depth", 1, 5)
    share = trial.suggest_float("share", 0.0, 1.0, step=0.25)
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    bonus = {"a": 0.0, "b": -0.3, "c": 0.4}[kind]
    return (
        (math.log10(rate) + 3) ** 2 + (depth - 2) ** 2 / 4 + abs(share - 0.5) + bonus + width / 64
    )


def constrained(trial: Trial) -> float:
    """Two constraints, kept in user attributes."""
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    trial.set_user_attr("c", [x + y - 1.2, 0.3 - x * y])
    return (x - 1.0) ** 2 + (y - 1.0) ** 2


def limits(trial: FrozenTrial) -> list[float]:
    """Return the constraints of :func:`constrained`."""
    values: list[float] = trial.user_attrs["c"]
    return values


def noise(trial: FrozenTrial) -> float:
    """Return a known noise variance, which some trials lack."""
    return math.nan if trial.number % 5 == 0 else 0.01 * (1 + trial.number % 3)


def troubled(trial: Trial) -> float:
    """Fail, prune with and without a report, and return infinity, by number."""
    value = box(trial)
    if trial.number % 11 == 7:
        return math.nan
    if trial.number % 9 == 4:
        trial.report(value + 1.0, 1)
        raise optuna.TrialPruned
    if trial.number % 13 == 5:
        raise optuna.TrialPruned
    return math.inf if trial.number == 12 else value


def stagnating(trial: Trial) -> float:
    """Nearly flat but for a narrow well, so that UHE-BO's bandit is asked."""
    x = trial.suggest_float("x", 0.0, 1.0)
    return -0.2 * math.exp(-(((x - 0.3) / 0.2) ** 2)) - math.exp(-(((x - 0.9) / 0.01) ** 2))


def run(sampler: BaseSampler, objective: Callable[[Trial], float], n: int = N) -> list[Any]:
    """Return the parameters of ``n`` trials after ten of the sampler's start-up."""
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=10 + n)
    return params_of(study)


def params_of(study: optuna.Study, n: int = N) -> list[Any]:
    """Return numbers and parameters of the latest ``n`` trials."""
    return [[t.number, exact(t.params)] for t in study.get_trials(deepcopy=False)[-n:]]


def exact(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with floats as texts without loss."""
    return {k: v.hex() if isinstance(v, float) else v for k, v in params.items()}


def many(sampler: BaseSampler) -> list[Any]:
    """Continue a study of 1,100 trials."""
    study = optuna.create_study(sampler=RandomSampler(seed=5))
    study.optimize(box, n_trials=1100)
    study.sampler = sampler
    study.optimize(box, n_trials=N)
    return params_of(study)


def pending(sampler: BaseSampler) -> list[Any]:
    """Ask five times before telling, with trials enqueued in between."""
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for turn in range(7):
        if turn == 3:
            study.enqueue_trial({"x0": 0.5, "x2": 1.0})
        trials = [study.ask() for _ in range(5)]
        values = [-box(trial) for trial in trials]
        for trial, value in zip(trials, values, strict=True):
            study.tell(trial, value)
    return params_of(study)


def resumed(make: Callable[[], BaseSampler]) -> list[Any]:
    """Make a new sampler every five trials, on a study with a changed range."""
    study = optuna.create_study(sampler=make())
    for _ in range(5):
        study.sampler = make()
        study.optimize(mixed, n_trials=7)
    return params_of(study)


def continued() -> list[Any]:
    """A growing horizon with promotions, and noise that falls with the steps."""
    horizon = InnerHorizon.growing(constant=1.0, phi=0.3)
    sampler = UHEBOSampler(seed=8, horizon=horizon, acquisition="ucb", beta="bilevel")

    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        for step in inner_steps(trial, horizon):
            trial.report((x - 0.3) ** 2 + 1.0 / (step + 1), step)
        return (x - 0.3) ** 2 + 1.0 / horizon.steps(trial.number)

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=35, callbacks=[PromotionCallback(horizon)])
    return params_of(study)


def stopped(threshold: Any) -> list[Any]:
    """Return a terminator's records."""
    terminator = RegretGapTerminator(threshold=threshold, seed=3, min_n_trials=20)
    study = optuna.create_study(sampler=UHEBOSampler(seed=9, estimation="map"))
    study.optimize(box, n_trials=12)
    for _ in range(N):
        study.optimize(box, n_trials=1)
        terminator.evaluate(study)
    return [
        [r.n_trials, r.value.hex(), r.threshold.hex(), exact(r.terms), r.terminate]
        for r in terminator.history(study)
    ]


def bilevel(*, coupled: bool, many_responses: bool = False) -> list[Any]:
    """Return the queries and the solution of a bilevel study with a constraint."""
    sampler = BILBOSampler(
        ["x", "kind"], ["z"], seed=4, lower_constraints=["limit"], many_responses=many_responses
    )

    def functions(trial: Trial) -> dict[str, float]:
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", -1.0, 1.0)
        shift = 0.2 if trial.suggest_categorical("kind", ["p", "q"]) == "p" else 0.0
        upper = (x - 0.3) ** 2 + (z - 0.5) ** 2 + shift
        return {"upper": upper, "lower": (z - x) ** 2, "limit": z - 0.8}

    def one(trial: Trial) -> float:
        return functions(trial)[trial.suggest_categorical("query", sampler.functions)]

    def both(trial: Trial) -> tuple[float, float]:
        values = functions(trial)
        trial.set_constraint("limit", values["limit"])
        return values["upper"], values["lower"]

    directions: Any = ["minimize", "minimize"] if coupled else ["minimize"]
    study = optuna.create_study(directions=directions, sampler=sampler)
    study.optimize(both if coupled else one, n_trials=9 + N)
    solution = sampler.solution(study)
    found = {**solution.upper_params, **solution.lower_params}
    figures = [solution.upper_value, solution.lower_value, solution.regret_bound]
    return [params_of(study), exact(found), [f.hex() for f in figures], solution.feasible]


def ray_search() -> list[Any]:
    """Drive Ray's search by hand."""
    from ray import tune  # noqa: PLC0415 - an extra

    search = bbo_plugins.BBOSearch(
        {"x": tune.uniform(0, 1), "n": {"m": tune.randint(1, 9)}, "c": 3},
        metric="loss",
        mode="min",
        seed=2,
        points_to_evaluate=[{"x": 0.5, "n/m": 4}],
    )
    configs = []
    for number in range(10 + N):
        config: Any = search.suggest(f"t{number}")
        configs.append(json.loads(json.dumps(config)))
        if number % 6 == 5:
            search.on_trial_complete(f"t{number}", error=True)
            continue
        loss = (config["x"] - 0.2) ** 2 + config["n"]["m"] / 9
        search.on_trial_result(f"t{number}", {"loss": loss + 0.1, "training_iteration": 1})
        search.on_trial_complete(f"t{number}", {"loss": loss, "training_iteration": 2})
    return configs


def ray_experiment() -> list[Any]:
    """A small experiment with the scheduler, one trial at a time, and the stopper's records."""
    import os  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
        RAY_AUTH_MODE="disabled",
    )
    import ray  # noqa: PLC0415
    from ray import tune  # noqa: PLC0415

    space = {"x": tune.uniform(0.0, 1.0), "y": tune.uniform(0.0, 1.0)}
    stopper = bbo_plugins.RegretGapStopper("loss", "min", space, min_n_trials=5)

    def train(config: dict[str, Any]) -> None:
        for step in range(config["inner_horizon"]):
            loss = (config["x"] - 0.3) ** 2 + config["y"] + 1.0 / (step + 1)
            stopper_steps = {"loss": loss, "sgd_steps": step + 1}
            tune.report(stopper_steps)

    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            tuner = tune.Tuner(
                train,
                param_space=space,
                tune_config=tune.TuneConfig(
                    metric="loss",
                    mode="min",
                    num_samples=14,
                    max_concurrent_trials=1,
                    reuse_actors=True,
                    search_alg=bbo_plugins.BBOSearch(seed=6),
                    scheduler=bbo_plugins.InnerHorizonScheduler(n_outer=14, constant=0.3),
                ),
                run_config=tune.RunConfig(storage_path=folder, verbose=0),
            )
            results = tuner.fit()
    finally:
        ray.shutdown()
    rows = sorted(
        ([r.config["x"].hex(), r.config["y"].hex(), r.metrics["sgd_steps"]] for r in results),
        key=str,
    )
    for number, row in enumerate(rows):
        config = {"x": float.fromhex(row[0]), "y": float.fromhex(row[1])}
        result = {"loss": config["x"] + config["y"], "config": config, "done": True}
        stopper(f"s{number}", result)
    records = [[r.n_trials, r.value.hex(), r.threshold.hex()] for r in stopper.history()]
    return [rows, records]


def fixed() -> list[Any]:
    """Hold a parameter at a value."""
    study = optuna.create_study(sampler=UHEBOSampler(seed=11))
    study.optimize(mixed, n_trials=14)
    study.sampler = PartialFixedSampler({"kind": "c", "depth": 3}, UHEBOSampler(seed=11))
    study.optimize(mixed, n_trials=N)
    return params_of(study)


def stored() -> list[Any]:
    """Trials that another program added: zombies, foreign ranges, and no attributes of ours."""
    study = optuna.create_study(sampler=GOUCBSampler(seed=12, hidden_units=6))
    source = optuna.create_study(sampler=RandomSampler(seed=2))
    source.optimize(troubled, n_trials=20)
    study.add_trials(source.trials)
    study.add_trial(
        create_trial(
            state=TrialState.RUNNING,
            params={"x0": 1.0, "x1": 0.0, "x2": 0.5},
            distributions=source.trials[0].distributions,
        )
    )
    study.optimize(troubled, n_trials=N)
    return params_of(study)


STUDIES: dict[str, Callable[[], list[Any]]] = {
    "uhe box": lambda: run(UHEBOSampler(seed=1), box),
    "map ei box": lambda: run(UHEBOSampler(seed=1, estimation="map", acquisition="ei"), box),
    "ucb deterministic": lambda: run(
        UHEBOSampler(seed=1, acquisition="ucb", deterministic_objective=True), mixed
    ),
    "uhe stagnating": lambda: run(UHEBOSampler(seed=3, n_trials=60), stagnating, 45)[-N:],
    "go box": lambda: run(GOUCBSampler(seed=1), box),
    "go mixed": lambda: run(GOUCBSampler(seed=2, hidden_units=8), mixed),
    "uhe mixed": lambda: run(UHEBOSampler(seed=2), mixed),
    "uhe constrained": lambda: run(UHEBOSampler(seed=2, constraints_func=limits), constrained),
    "uhe noise": lambda: run(UHEBOSampler(seed=2, noise_func=noise), box),
    "uhe troubled": lambda: run(UHEBOSampler(seed=2), troubled),
    "go troubled": lambda: run(GOUCBSampler(seed=2, hidden_units=8), troubled),
    "uhe pending": lambda: pending(UHEBOSampler(seed=2)),
    "go pending": lambda: pending(GOUCBSampler(seed=2, hidden_units=8)),
    "resumed": lambda: resumed(functools.partial(UHEBOSampler, seed=7)),
    "fixed": fixed,
    "stored": stored,
    "uhe many": lambda: many(UHEBOSampler(seed=2)),
    "go many": lambda: many(GOUCBSampler(seed=2, hidden_units=5)),
    "continued": continued,
    "relative": lambda: stopped("relative"),
    "auto": lambda: stopped("auto"),
    "median": lambda: stopped("median"),
    "bilbo": lambda: bilevel(coupled=False),
    "bilbo coupled": lambda: bilevel(coupled=True, many_responses=True),
    "ray search": ray_search,
    "ray experiment": ray_experiment,
}


def main(word: str, file: Path, *names: str) -> int:
    """Write or compare; ``names`` limits the studies."""
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    warnings.simplefilter("ignore")
    made = {
        name: json.loads(json.dumps(make()))
        for name, make in STUDIES.items()
        if not names or name in names
    }
    if word == "write":
        file.write_text(json.dumps(made, indent=0), encoding="utf-8")
        return 0
    known = json.loads(file.read_text(encoding="utf-8"))
    different = [name for name, rows in made.items() if rows != known[name]]
    sys.stdout.write(f"{len(made)} studies, different: {different or 'none'}\n")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
