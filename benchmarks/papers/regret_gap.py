"""Ishibashi et al. (2023): when each rule stops a run on the six test functions.

As in section 5.1: GP-LCB (and EI and PI, appendix H.1), Matérn kernel, hyperparameters by marginal
likelihood at every step, δ = 0.1, patience 1, thresholds 0.01 of the median of the first 20
criteria, or Eq. (7), or 0.01 for the probability; ten seeds of the initial points. There is no
floor under the fitted noise but the fit's own. The criteria are exactly those of
:mod:`bbo_plugins.methods.regret_gap.bound`.

What the text leaves open, and this file chooses: 10 initial points; 100 evaluations in all;
μ - 2σ (GPyOpt's default) and ξ = 0.01 as the acquisition functions' parameters; Θ is 1,000 Sobol
points and the observed ones; values are z-scores.

The paper's data sets for tuning are not to be had. Three tables of scikit-learn's own data (support
vectors, a forest, a logistic regression; ``benchmarks.problems.tuning``) stand in for them, with
the rest of section 5.2: GP-LCB, 10 initial points, the median of the first 10 criteria, discrete
values as continuous ones, SR-cv with Eq. (5); five folds instead of ten.

``optuna-emmr`` is the GP-LCB run again, judged after every fifth evaluation by Optuna's terminator
for the same criterion (``benchmarks.stopping.replay``).
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import create_trial

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods.regret_gap.bound import (
    Update,
    confidence_multiplier,
    cross_validation_threshold,
    gap_terms,
    improvement,
    regret_bound,
)
from bbo_plugins.methods.regret_gap.model import StoppingModel, predict_with_observed
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.plain_gp import Acquisition, Model, Uninformative, next_point
from benchmarks.common.report import Report
from benchmarks.common.runs import Case, grouped
from benchmarks.common.tables import mean_and_sd
from benchmarks.problems.problem import Problem, space_filling
from benchmarks.problems.tuning import table_named
from benchmarks.stopping.problems import problem_named
from benchmarks.stopping.replay import PEER, peer_is_missing, terminator_of

SEEDS = 10
FUNCTIONS = ("holder_table", "cross_in_tray", "six_hump_camel", "easom", "rosenbrock2", "booth")
FIGURES: Mapping[Acquisition, str] = {"ucb": "2 and 9", "ei": "11 and 12", "pi": "13 and 14"}
TABLES = ("svr_diabetes", "forest_diabetes", "logistic_cancer")
N_INITIAL, N_TRIALS = 10, 100
QUICK_TRIALS = 32
PARAMETER: Mapping[Acquisition, float] = {"ucb": 2.0, "ei": 0.01, "pi": 0.01}
DELTA, ETA, N_MEDIAN, N_MEDIAN_OF_TABLES, PROBABILITY = 0.1, 0.01, 20, 10, 0.01
PEER_EVERY = 5
RUNS = {PEER: 5}  # instead of SEEDS, for its cost
SR_CV, N_TOP = "SR-cv", 10
RULES = ("PI", "EI-med", "SR-med", "Ours-auto", "Ours-med")
SERIES = ("gap", "auto", "mean_change", "incumbent_change", "information", "sr", "ei", "pi")
CHECKPOINTS = (20, 40, 60, 80, 100)
_N_CANDIDATES = 1000
_NEAR = 0.02  # of the box: an optimum is found within this distance of it
_EDGE = 0.01


def missing() -> list[tuple[str, str]]:
    """Return what cannot be run here, and why."""
    absent = peer_is_missing()
    return [(PEER, f"not installed: {', '.join(absent)}")] if absent else []


def cases(*, quick: bool) -> list[Case]:
    """Return what is run per seed."""
    names = FUNCTIONS[-1:] if quick else FUNCTIONS
    n_trials = QUICK_TRIALS if quick else N_TRIALS
    tables = () if quick else TABLES
    entrants = ("ucb",) if quick else (*FIGURES, *([] if missing() else [PEER]))
    on_functions = [(name, entrant, n_trials) for entrant in entrants for name in names]
    return [*((name, "ucb", n_trials) for name in tables), *on_functions]


def criteria(
    after: GaussianProcess, z: FloatArray, fresh: FloatArray, delta: float = DELTA
) -> dict[str, float]:
    """Return every criterion after the newest observation, in z-scores.

    Args:
        after: The posterior p_t, the newest of the t observations last.
        z: Maximized targets, shape (t,).
        fresh: Points that stand for Θ beside the observed ones, shape (m, d).
        delta: δ.
    """
    t, before = len(z), StoppingModel(after, None, ()).before()
    multiplier = confidence_multiplier(t + len(fresh), t, delta)
    posterior = predict_with_observed(before, np.concatenate([after.X[-1:], fresh]))
    upper, lower = regret_bound(*posterior, t - 1, multiplier)
    best = int(np.argmax(z[:-1]))
    mean, covariance = before.predict_joint(after.X[[best, -1]])
    update = Update(
        mean_best=float(mean[0]),
        mean_new=float(mean[1]),
        variance_best=float(covariance[0, 0]),
        variance_new=float(covariance[1, 1]),
        covariance=float(covariance[0, 1]),
        target=float(z[-1]),
        noise_variance=float(after.noise[-1]),
        improved=bool(z[-1] > z[best]),
    )
    terms = gap_terms(update, upper - lower, delta)
    mean_after, variance_after = predict_with_observed(after, fresh)
    upper, lower = regret_bound(mean_after, variance_after, t, multiplier)
    expected, probability = improvement(mean_after, variance_after, float(z.max()))
    return {
        "gap": terms.value,
        "auto": terms.auto_threshold,
        "mean_change": terms.mean_change,
        "incumbent_change": terms.incumbent_change,
        "information": terms.information,
        "sr": upper - lower,
        "ei": expected,
        "pi": probability,
    }


def execute(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Optimize one function to the end of the budget; returns what every criterion said."""
    name: Acquisition = "ucb" if run["entrant"] == PEER else run["entrant"]
    problem, rng = problem_named(run["problem"], directory), np.random.default_rng([run["seed"], 1])
    X = space_filling(N_INITIAL, problem.dimension, np.random.default_rng(run["seed"]))
    y = np.array([-problem.value(problem.cube.decode(x)) for x in X])
    fresh = shifted_sobol(_N_CANDIDATES, problem.dimension, np.random.default_rng(0))
    prior, warm_start = Uninformative(problem.dimension), None
    series: dict[str, list[float]] = {key: [] for key in (*SERIES, "cv", "signal", "length_scale")}
    for t in range(N_INITIAL, run["n_trials"] + 1):
        model = Model.fit(X, y, prior, warm_start=warm_start)
        warm_start = model.warm_start
        if t > N_INITIAL:
            # the criteria are in the values' own units, which a later trial does not change
            found = criteria(model.process, model.process.y, fresh)
            for key, value in found.items():
                series[key].append(value * (1.0 if key == "pi" else model.std))
            if problem.fold_scores is not None:
                best = problem.cube.decode(X[int(y.argmax())])
                series["cv"].append(cross_validation_threshold(problem.fold_scores(best)))
            at = model.process.hyperparameters
            series["signal"].append(at.signal_variance)
            series["length_scale"].append(float(np.exp(np.log(at.length_scales).mean())))
        if t < run["n_trials"]:
            x = next_point(model.process, name, PARAMETER[name], rng)
            X = np.concatenate([X, x[None]])
            y = np.append(y, -problem.value(problem.cube.decode(x)))
    regrets = np.minimum.accumulate(-y - problem.minimum) / problem.largest_regret
    peer = {"peer_stop": _peer_stop(problem, X, y, run["seed"])} if run["entrant"] == PEER else {}
    top = {}
    if run["problem"] in TABLES:
        values = np.sort(table_named(run["problem"], directory).scores.mean(axis=1))
        top = {"top": float((values[N_TOP - 1] - problem.minimum) / problem.largest_regret)}
    return {
        **peer,
        **top,
        "regrets": [float(f"{max(regret, 0.0):.4g}") for regret in regrets],
        "points": np.round(X, 5).tolist(),
        **{key: [float(f"{value:.6g}") for value in values] for key, values in series.items()},
    }


def _peer_stop(problem: Problem, X: FloatArray, y: FloatArray, seed: int) -> int | None:
    """Return the number of evaluations at which Optuna's terminator stops, None for never."""
    terminator, study = terminator_of(PEER, seed), optuna.create_study()
    for n, (x, value) in enumerate(zip(X, y.tolist(), strict=True), start=1):
        params = problem.cube.decode(x)
        study.add_trial(
            create_trial(params=params, distributions=dict(problem.space), value=-value)
        )
        if n % PEER_EVERY == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated, and experimental
                if terminator.should_terminate(study):
                    return n
    return None


def add_tables(report: Report, records: Sequence[Mapping[str, Any]]) -> None:
    """Add the tables of all figures."""
    tables = [r for r in records if "top" in r]
    _add_stops(report, tables, (*RULES, SR_CV), "Like Figs. 3, 15, 16 (ucb), on other data")
    by_entrant = grouped((r for r in records if "top" not in r), "entrant")
    for acquisition, figures in FIGURES.items():
        chosen = by_entrant.get((acquisition,), [])
        _add_stops(report, chosen, RULES, f"Figs. {figures} ({acquisition})")
    peer = by_entrant.get((PEER,), [])
    _add_stops(report, peer, (*RULES, PEER), "Fig. 2 (ucb) with Optuna's terminator beside")
    if ("ucb",) in by_entrant:
        _add_sequences(report, by_entrant["ucb",])


def stop_of(record: Mapping[str, Any], rule: str) -> int | None:
    """Return the number of evaluations at which a rule stops, patience 1; None for never."""
    if rule == PEER:
        stop: int | None = record["peer_stop"]
        return stop
    key = {"PI": "pi", "EI-med": "ei", "SR-med": "sr", SR_CV: "sr"}.get(rule, "gap")
    values = np.array(record[key])
    if rule == "PI":
        below = values < PROBABILITY
    elif rule in {"Ours-auto", SR_CV}:
        below = values <= np.array(record["auto" if rule == "Ours-auto" else "cv"])
    else:
        n_median = N_MEDIAN_OF_TABLES if "top" in record else N_MEDIAN
        if len(values) < n_median:
            return None
        # section 4.3: the rule starts when the first criteria are there
        below = values <= ETA * np.median(values[:n_median])
        below[: n_median - 1] = False
    return N_INITIAL + 1 + int(np.argmax(below)) if below.any() else None


def minimizers(name: str) -> FloatArray:
    """Return the global minimizers of a function in its own coordinates, shape (k, 2); Fig. 8."""
    problem = problem_named(name, Path())
    first = np.array(list(problem.argmin.values()))
    if name in {"holder_table", "cross_in_tray"}:
        return np.array([[a, b] for a in (first[0], -first[0]) for b in (first[1], -first[1])])
    return np.array([first, -first]) if name == "six_hump_camel" else first[None]


def found_optimum(record: Mapping[str, Any], n: int) -> bool:
    """Return whether the best of the first ``n`` points is near a global minimizer.

    In a table: whether it is among the ten best configurations.
    """
    if "top" in record:
        return bool(record["regrets"][n - 1] <= record["top"] * (1.0 + 1e-3))
    problem = problem_named(record["problem"], Path())
    optima = problem.cube.encode(
        [dict(zip(problem.space, at.tolist(), strict=True)) for at in minimizers(record["problem"])]
    )
    best = int(np.argmin([round(r, 12) for r in record["regrets"][:n]]))
    distances = np.abs(optima - np.array(record["points"][best])).max(axis=1)
    return bool(distances.min() <= _NEAR)


def _add_stops(
    report: Report, records: Sequence[Mapping[str, Any]], rules: Sequence[str], title: str
) -> None:
    rows: list[list[object]] = []
    for (name,), group in grouped(records, "problem").items():
        for rule in (*rules, "whole budget"):
            stops = [None if rule == "whole budget" else stop_of(r, rule) for r in group]
            ends = [stop or r["n_trials"] for stop, r in zip(stops, group, strict=True)]
            found = [found_optimum(r, n) for r, n in zip(group, ends, strict=True)]
            regrets = [r["regrets"][n - 1] for r, n in zip(group, ends, strict=True)]
            stopped = [float(stop) for stop in stops if stop]
            rows.append(
                [name, rule, f"{len(stopped)} of {len(group)}", mean_and_sd(stopped),
                 mean_and_sd(regrets), f"{sum(found)} of {len(found)}"]
            )  # fmt: skip
    headers = ["function", "rule", "stopped", "evaluations at the stop", "normalized regret",
               "optimum found (in a table: one of the ten best)"]  # fmt: skip
    report.table(
        f"{title}: stops; those that never stop count with the whole budget", headers, rows
    )


def _add_sequences(report: Report, records: Sequence[Mapping[str, Any]]) -> None:
    n_trials = records[0]["n_trials"]
    checkpoints = [t for t in CHECKPOINTS if t <= n_trials]
    at = [t - N_INITIAL - 1 for t in checkpoints]
    shares, hyperparameters, values, places = [], [], [], []
    for (name,), group in grouped(records, "problem").items():
        series = {
            key: np.array([r[key] for r in group]) for key in (*SERIES, "signal", "length_scale")
        }
        largest = np.maximum(series["mean_change"], series["incumbent_change"])
        share = f"{np.median(series['information'] / series['gap']):.3f}"
        shares.append([name, share, f"{np.mean(series['information'] > largest):.3f}"])
        for key in ("signal", "length_scale"):
            cells = [f"{median:.3g}" for median in np.median(series[key][:, at], axis=0)]
            late = np.abs(np.log(series[key][:, -1] / series[key][:, -11]))
            hyperparameters.append([name, key, *cells, f"{np.median(late):.2g}"])
        for key in ("gap", "sr", "ei", "pi"):
            start = np.median(series[key][:, :N_MEDIAN], axis=1, keepdims=True)
            relative = series[key][:, at] / np.maximum(start, 1e-300)
            values.append([name, key, *(f"{m:.2g}" for m in np.median(relative, axis=0))])
        points = np.concatenate([np.array(r["points"])[N_INITIAL:] for r in group])
        edge = (np.minimum(points, 1.0 - points) < _EDGE).any(axis=1)
        optima = "; ".join(f"({a:.4g}, {b:.4g})" for a, b in minimizers(name))
        places.append([name, optima, f"{np.mean(edge):.2f}"])
    report.table(
        "Fig. 4: share of the third term in the bound, and how often it is the largest",
        ["function", "median share", "largest in"],
        shares,
    )
    after = [f"t = {t}" for t in checkpoints]
    report.table(
        "Figs. 5 and 6: kernel's variance and length-scale, median over seeds; z-scores, unit cube",
        ["function", "", *after, "log change over the last 10"],
        hyperparameters,
    )
    report.table(
        "Fig. 7: criterion over the median of its first 20 values, median over seeds",
        ["function", "criterion", *after],
        values,
    )
    report.table(
        "Figs. 8 and 10: global minimizers, and share of evaluations on the edge of the box",
        ["function", "minimizers", "on the edge"],
        places,
    )
