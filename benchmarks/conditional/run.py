"""Studies in which some trials have parameters that others have not.

All entrants start from the same ten random trials. Of a synthetic problem the regret is the value
of the best trial, as its minimum is 0; of a real one what stands in the tables as regret is the
error rate. What was chosen on which problems is said in ``benchmarks.problems.conditional``.
"""

from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.common.sampler_benchmark import SamplerBenchmark
from benchmarks.common.samplers import SAMPLERS, Entrant, by_name
from benchmarks.common.tables import CheckpointTables
from benchmarks.problems.conditional import PROBLEMS


def gpsampler_with_tpe(*, seed: int, n_startup_trials: int) -> BaseSampler:
    """Return a Gaussian process for what all trials share, and TPE for the other parameters."""
    independent = TPESampler(seed=seed, n_startup_trials=n_startup_trials)
    return GPSampler(seed=seed, n_startup_trials=n_startup_trials, independent_sampler=independent)


DESCRIPTION = "Regret in define-by-run studies with conditional parameters, synthetic and real."
_TPE_GROUP = Entrant(
    name="tpe-group",
    target="optuna.samplers:TPESampler",
    arguments={"multivariate": True, "group": True},
    distribution="optuna",
)
_GPSAMPLER_TPE = Entrant(
    name="gpsampler-tpe",
    target=f"{__name__}:{gpsampler_with_tpe.__name__}",
    requires=("torch",),
    distribution="optuna",
)
ENTRANTS = by_name(
    (
        *(SAMPLERS[name] for name in ("bbo", "ours-uhe", "ours-map", "go-ucb", "tpe")),
        _TPE_GROUP,
        SAMPLERS["gpsampler"],
        _GPSAMPLER_TPE,
        *(SAMPLERS[name] for name in ("smac", "random")),
    )
)
SIZES = {"problems": tuple(PROBLEMS), "samplers": tuple(ENTRANTS), "seeds": 10}
QUICK = {
    "problems": ("three_branches", "preprocessing_and_model"),
    "samplers": ("bbo", "tpe", "tpe-group"),
    "trials": 12,
    "seeds": 1,
}


BENCHMARK = SamplerBenchmark.of(
    "benchmarks.problems.conditional",
    tables=CheckpointTables(name="conditional", trials=(30, 60)),
    first=["bbo", "ours-uhe"],
    entrants=ENTRANTS,
)
add_arguments, run = BENCHMARK.add_arguments, BENCHMARK.run
