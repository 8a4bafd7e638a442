"""Tables of ``regret --paper``: the curves of the UHE paper's Fig. 2, prediction errors of Fig. 4.

The prediction error of a run after t trials is the mean squared difference of a Gaussian process's
posterior mean and the true function at uniform points of the box, over the function's variance
there: 1 is what a constant achieves.  As in the paper, the process has plainly standardized targets
(no output transform), so that runs differ by their points and by the estimate alone: the MAP
estimate for all but ``uhe-literal``, which has its own loss and priors, and ``ours-uhe-ucb``, which
has the loss that its default turns to.  Deviation: 10,000 test points, not 216,000 to 250,000.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods.uhe_bo.algorithm import EXPLORE_WHEN_STAGNATED
from benchmarks.common.report import Report
from benchmarks.common.tables import mean_and_error
from benchmarks.estimation.estimators import LOSSES, FloatArray, estimate
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import from_unit

CHECKPOINTS = (25, 50, 100)
# Loss (key of ``estimators.LOSSES``) of the entrants that do not use the MAP estimate.
_DEFAULT_LOSS = next(
    name for name, loss in LOSSES.items() if loss == EXPLORE_WHEN_STAGNATED.criterion
)
LOSS_OF = {"uhe-literal": "literal-gamma", "ours-uhe-ucb": _DEFAULT_LOSS}
MAP = "marginal"
_N_TEST_POINTS = 10_000


@functools.cache
def _test_data(name: str) -> tuple[FloatArray, FloatArray]:
    """Return uniform points (m, d) of the unit cube and a problem's true values there (m,)."""
    problem = PROBLEMS[name]
    points = np.random.default_rng(2).random((_N_TEST_POINTS, problem.dimension))
    return points, np.array([problem.value(from_unit(problem.space, point)) for point in points])


def prediction_error(name: str, points: FloatArray, loss: str) -> float:
    """Return the relative mean squared error of the prediction from evaluations of a problem.

    Args:
        name: The problem, noise-free.
        points: Evaluated points of the unit cube, shape (n, d).
        loss: Key of ``estimators.LOSSES``.
    """
    problem = PROBLEMS[name]
    y = np.array([problem.value(from_unit(problem.space, point)) for point in points])
    hyperparameters = estimate(loss, points, y)
    features = FeatureMap((0,) * problem.dimension)
    process = GaussianProcess.from_data(points, y - y.mean(), hyperparameters, features)
    test_points, truth = _test_data(name)
    predicted = y.mean() + process.predict_mean(test_points)
    return float(np.mean((predicted - truth) ** 2) / truth.var())


def add_paper_tables(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add the mean regret and the prediction error after several numbers of trials."""
    budget = max((record["n_trials"] for record in records), default=0)
    checkpoints = [t for t in CHECKPOINTS if t < budget] + [budget]
    regret_rows, error_rows = [], []
    for name in dict.fromkeys(record["problem"] for record in records):
        for t in checkpoints:
            regrets, errors = [], []
            for sampler in samplers:
                chosen = [r for r in records if (r["problem"], r["entrant"]) == (name, sampler)]
                regrets.append(mean_and_error([record["regrets"][t - 1] for record in chosen]))
                loss = LOSS_OF.get(sampler, MAP)
                errors.append(
                    mean_and_error(
                        [prediction_error(name, np.array(r["points"][:t]), loss) for r in chosen]
                    )
                )
            regret_rows.append([name, t, *regrets])
            error_rows.append([name, t, *errors])
    headers = ["problem", "trials", *samplers]
    report.table("Simple regret (Fig. 2): mean ± standard error", headers, regret_rows)
    report.table("Relative prediction error (Fig. 4): mean ± standard error", headers, error_rows)
    losses = ", ".join(f"{name}: {LOSS_OF.get(name, MAP)}" for name in samplers)
    report.note(
        "The error is that of the posterior mean at uniform points, over the function's variance. "
        f"Losses of the estimates: {losses}."
    )
