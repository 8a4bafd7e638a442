"""Solve a small bilevel problem, and see how its two levels are explored.

The upper level chooses x to minimize the Branin function of (x, z), but z is not for it to choose:
the lower level answers every x with the z that minimizes the Goldstein-Price function. This is the
first problem of the BILBO paper. :class:`bbo_plugins.optuna.BILBOSampler` says with every trial
which of the two functions to evaluate, and where, and hardly ever evaluates the upper one where z
is no answer::

    python examples/bilevel.py

leaves a picture of what it has learned; with ``--html`` also one to move around in (plotly).
"""

from __future__ import annotations

import argparse
import math

import matplotlib as mpl
import numpy as np
import optuna

from _script import add_count, add_out, add_seed, save_plot, timed
from bbo_plugins import visualization
from bbo_plugins.optuna import BILBOSampler
from bbo_plugins.visualization.matplotlib import plot_bilevel


def branin(x: float, z: float) -> float:
    """Return the upper objective."""
    u, v = 15.0 * x - 5.0, 15.0 * z
    valley = v - 5.1 / (4.0 * math.pi**2) * u**2 + 5.0 / math.pi * u - 6.0
    return valley**2 + (10.0 - 10.0 / (8.0 * math.pi)) * math.cos(u) + 10.0


def goldstein_price(x: float, z: float) -> float:
    """Return the lower objective, a logarithm of a function that spans six orders of magnitude."""
    u, v = 4.0 * x - 2.0, 4.0 * z - 2.0
    first = 19.0 - 14.0 * u + 3.0 * u**2 - 14.0 * v + 6.0 * u * v + 3.0 * v**2
    second = 18.0 - 32.0 * u + 12.0 * u**2 + 48.0 * v - 36.0 * u * v + 27.0 * v**2
    product = (1.0 + (u + v + 1.0) ** 2 * first) * (30.0 + (2.0 * u - 3.0 * v) ** 2 * second)
    return math.log(product)


def true_answer(x: float) -> float:
    """Return the lower level's answer to x, on a fine grid."""
    return float(min(np.linspace(0.0, 1.0, 1001), key=lambda z: goldstein_price(x, z)))


def true_solution() -> tuple[float, float]:
    """Return x and its answer at the bilevel optimum, on a grid."""
    pairs = [(float(x), true_answer(float(x))) for x in np.linspace(0.0, 1.0, 201)]
    return min(pairs, key=lambda pair: branin(*pair))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Solve a small bilevel problem.")
    add_count(parser, "--n-trials", 60, "function queries, one of either at least", minimum=2)
    add_out(parser, "bilevel_output", "the plot")
    add_seed(parser, "the search")
    parser.add_argument("--html", action="store_true", help="write a plotly figure, too")
    return parser.parse_args()


def main() -> None:
    """Run the study, compare its solution with the true one, and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    sampler = BILBOSampler(
        ["x"], ["z"], upper="Branin", lower="log Goldstein-Price", seed=args.seed
    )
    study = optuna.create_study(direction="minimize", sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        query = trial.suggest_categorical("query", sampler.functions)
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        return branin(x, z) if query == "Branin" else goldstein_price(x, z)

    study.optimize(objective, n_trials=args.n_trials)

    solution = sampler.solution(study)
    x, z = solution.upper_params["x"], solution.lower_params["z"]
    print(f"{'':12}{'x':>8}{'z':>8}{'answer':>8}{'Branin':>9}")
    for name, point in (("BILBO", (x, z)), ("true", true_solution())):
        print(
            f"{name:12}{point[0]:8.3f}{point[1]:8.3f}{true_answer(point[0]):8.3f}"
            f"{branin(*point):9.3f}"
        )
    asked = [trial.params["query"] for trial in study.trials]
    print("\nQueries: " + ", ".join(f"{asked.count(name)} of {name}" for name in sampler.functions))
    print(f"Branin could be better by {solution.regret_bound:.3f} at most, as far as is known.")

    picture = args.out / "bilevel.png"
    mpl.use("Agg")
    save_plot(plot_bilevel(study, sampler), picture)
    print(f"\nPlot: {picture}")
    if args.html:
        visualization.plot_bilevel(study, sampler).write_html(args.out / "bilevel.html")
        print(f"Plot: {args.out / 'bilevel.html'}")


if __name__ == "__main__":
    with timed():
        main()
