"""What ``BBOSearch`` adds to a Ray Tune experiment of short trials, beside Tune's random search.

The same experiment is run by the two in turn: trials that report one number and end, two at a time,
with actors used again. What one takes longer than the other of the same round is the overhead: it
is mostly the sampler's, as Tune waits for a suggestion. The time on the processor is that of the
driver alone and disturbed less by what else runs on the machine.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.common.options import add_count
from benchmarks.common.report import Report
from benchmarks.common.tables import verdict

DESCRIPTION = "Overhead of BBOSearch per Ray Tune trial, beside Tune's own random search."
N_WARM_UP = 4
SIZES, QUICK = {"trials": 20, "seeds": 5}, {"trials": 4, "seeds": 1}
LIMIT_MS = 50.0
OURS, PEER = "BBOSearch", "BasicVariantGenerator"
# Read when Ray is imported: no token in the home folder, no usage report, no log files.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the number of trials; ``--seeds`` is the number of rounds."""
    add_count(parser, "--trials", "trials of one experiment")


def evaluate(config: dict[str, Any]) -> None:
    """Report one number; this is what Ray Tune runs."""
    from ray import tune  # noqa: PLC0415 - after the settings

    tune.report({"loss": (config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2 + config["k"]})


def time_experiment(search: Any, n_trials: int) -> dict[str, float]:
    """Run one experiment and return its seconds on the clock and on the driver's processor."""
    from ray import tune  # noqa: PLC0415 - after the settings

    space = {"x": tune.uniform(0.0, 1.0), "y": tune.uniform(0.0, 1.0), "k": tune.randint(0, 3)}
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            evaluate,
            param_space=space,
            tune_config=tune.TuneConfig(
                search_alg=search,
                metric="loss",
                mode="min",
                num_samples=n_trials,
                max_concurrent_trials=2,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        wall, processor = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):  # it says where its results are
            results = tuner.fit()
        seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    assert results.num_terminated == n_trials
    return seconds


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure the two in turn."""
    report.restart()
    if importlib.util.find_spec("ray") is None:
        report.skip("everything", "not installed: ray")
        return
    os.environ.update(SETTINGS)
    import optuna  # noqa: PLC0415 - not at the top: Ray may be absent and comes after the settings
    import ray  # noqa: PLC0415
    from ray.tune.search import BasicVariantGenerator  # noqa: PLC0415

    from bbo_plugins.ray import BBOSearch  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    n_trials = options.trials
    makers: dict[str, Callable[[int], Any]] = {
        OURS: lambda seed: BBOSearch(seed=seed),
        PEER: lambda seed: BasicVariantGenerator(max_concurrent=2, random_state=seed),
    }
    rounds: list[Mapping[str, Mapping[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=80 * 2**20,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
        )
        try:
            for make in makers.values():  # which starts the workers and imports everything
                time_experiment(make(0), N_WARM_UP)
            for number in range(options.seeds):
                one = {}
                for name, make in makers.items():
                    one[name] = time_experiment(make(number), n_trials)
                    report.record(round=number, search=name, trials=n_trials, **one[name])
                rounds.append(one)
        finally:
            ray.shutdown()
    _add_table(report, rounds, n_trials)


def _add_table(
    report: Report, rounds: Sequence[Mapping[str, Mapping[str, float]]], n_trials: int
) -> None:
    rows = []
    for clock, title in (("wall", "on the clock"), ("processor", "on the driver's processor")):
        ours, peer = (
            [1e3 * one[name][clock] / n_trials for one in rounds] for name in (OURS, PEER)
        )
        more = [own - other for own, other in zip(ours, peer, strict=True)]
        median = statistics.median(more)
        rows.append(
            [
                title,
                f"{statistics.median(ours):.0f}",
                f"{statistics.median(peer):.0f}",
                f"{median:.1f} [{min(more):.1f}, {max(more):.1f}]",
                f"< {LIMIT_MS:.0f}: {verdict(median < LIMIT_MS)}",
            ]
        )
    report.table(
        f"ms per trial, {n_trials} trials of one report each, median of {len(rounds)} rounds",
        ["time", OURS, PEER, "overhead [range]", "target"],
        rows,
    )
