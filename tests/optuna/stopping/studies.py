"""Studies that several tests of the terminator use, and what its records should be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.regret_gap.algorithm import evaluate
from bbo_plugins.methods.regret_gap.rule import StoppingRule
from bbo_plugins.optuna.stopping.completions import (
    CompletedTrials,
    LearnedSpace,
    completions_of,
    in_order,
)
from bbo_plugins.optuna.study.trials import TrialReader
from bbo_plugins.space import Dimension, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.study import Study

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord
    from bbo_plugins.space.dimension import FloatArray

PLANE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
}
UNIT_SQUARE = SearchSpace({"x": Dimension.floats(0.0, 1.0), "y": Dimension.floats(0.0, 1.0)})
START = datetime(2024, 5, 17, 8, 0, 0)  # noqa: DTZ001 - Optuna's times have no zone


def converging(n: int = 30, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return points (n, 2) that explore and then stay near the minimum, and values to minimize."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    X[12:] = np.clip(0.4 + 0.01 * rng.standard_normal((max(n - 12, 0), 2)), 0.0, 1.0)
    return X, np.square(X - 0.4).sum(axis=1)


def new_study(
    storage: BaseStorage | str | None = None,
    direction: Literal["minimize", "maximize"] = "minimize",
    **options: Any,
) -> Study:
    """Return a study without trials."""
    options.setdefault("sampler", optuna.samplers.RandomSampler(seed=0))
    return optuna.create_study(storage=storage, direction=direction, **options)


def add(
    study: Study,
    params: Mapping[str, Any],
    value: float | None,
    *,
    state: TrialState = TrialState.COMPLETE,
    minute: int | None = None,
    distributions: dict[str, BaseDistribution] | None = None,
    **options: Any,
) -> None:
    """Add a finished trial that takes the minute before ``minute``; by default one after another.

    Args:
        study: The study.
        params: The trial's parameters.
        value: Its value.
        state: Its state.
        minute: When it completed; the trial's number if None.
        distributions: Its distributions, those of the plane by default.
        options: Others of ``optuna.trial.create_trial``.
    """
    trial = create_trial(
        state=state,
        params=dict(params),
        distributions=PLANE if distributions is None else distributions,
        value=value,
        **options,
    )
    end = START + timedelta(
        minutes=len(study.get_trials(deepcopy=False)) if minute is None else minute
    )
    trial.datetime_start, trial.datetime_complete = end - timedelta(minutes=1), end
    study.add_trial(trial)


def add_all(study: Study, X: FloatArray, values: FloatArray) -> None:
    """Add a complete trial in the plane for each row of X (n, 2)."""
    for (x, y), value in zip(X.tolist(), values.tolist(), strict=True):
        add(study, {"x": x, "y": y}, value)


def expected_records(
    X: FloatArray, values: FloatArray, rule: StoppingRule | None = None, **options: Any
) -> list[StoppingRecord]:
    """Return the records of all completions of values to minimize, each given those before it."""
    steps = [values[:n] for n in range(1, len(values) + 1)]
    return records_of_steps(X, steps, rule or StoppingRule(), **options)


def records_of_steps(
    X: FloatArray, steps: Sequence[FloatArray], rule: StoppingRule, **options: Any
) -> list[StoppingRecord]:
    """Return the records of the first points with the values to minimize that they had by then.

    A fit starts from what the fit before it has left, as it is stored.
    """
    records: list[StoppingRecord] = []
    warm_start = None
    for y in steps:
        found = evaluate(
            UNIT_SQUARE,
            X[: len(y)],
            -y,
            rule=rule,
            previous=records,
            warm_start=warm_start,
            **options,
        )
        records.append(found.record)
        if found.warm_start is not None:
            warm_start = WarmStart.from_json(found.warm_start.to_json())
    return records


def completed_in(study: Study, n: int | None = None) -> CompletedTrials:
    """Return the first ``n`` completions of a study, all by default."""
    order = in_order(completions_of(TrialReader().read(study)), {})
    completed = CompletedTrials.of(order[:n], LearnedSpace())
    assert completed is not None
    return completed


def assert_same(
    found: Sequence[StoppingRecord], expected: Sequence[StoppingRecord], *, rel: float = 1e-5
) -> None:
    """Compare records of two computations: a BLAS may round the same product in two ways."""
    for one, other in zip(found, expected, strict=True):
        assert (one.n_trials, one.terminate) == (other.n_trials, other.terminate)
        assert one.value == pytest.approx(other.value, rel=rel)
        assert one.threshold == pytest.approx(other.threshold, rel=rel)
        assert one.terms == pytest.approx(other.terms, rel=rel, abs=1e-9)
