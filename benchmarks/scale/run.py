"""Which observations the model should have when there are too many for all of them, by regret.

Searches whose model has at most a fifth of the trials (60 of 300 by default), by each rule that
says which, from the same start-up points and seeds, beside the model of all trials. ``chosen`` is
the package's own rule with this limit. How long suggestions take on long histories is measured by
``python -m benchmarks latency --lengths``.
"""

from benchmarks.common.sampler_benchmark import SamplerBenchmark
from benchmarks.common.samplers import Entrant, by_name
from benchmarks.common.tables import CheckpointTables
from benchmarks.scale.rules import ALL, CHOSEN, RULES

DESCRIPTION = "What the model has of a very long study: regret by rule."
SIZES = {
    "problems": (
        *("hartmann6", "rosenbrock5", "ackley5", "levy10"),
        *("schwefel4", "michalewicz5", "mixed_interaction5", "noisy_hartmann6"),
    ),
    "samplers": tuple(RULES),
    "trials": 300,
    "seeds": 4,
}
QUICK = {"problems": ("hartmann6",), "samplers": (ALL, CHOSEN), "trials": 30, "seeds": 1}
ENTRANTS = by_name(
    Entrant(
        name=name,
        target="benchmarks.scale.rules:LimitedSampler",
        arguments={"rule": name},
        knows_budget=True,
    )
    for name in RULES
)
BENCHMARK = SamplerBenchmark.of(
    "benchmarks.problems.functions",
    tables=CheckpointTables(name="scale", trials=(100, 200)),
    first=[ALL],
    entrants=ENTRANTS,
)
add_arguments, run = BENCHMARK.add_arguments, BENCHMARK.run
