"""Choices among numbers, such as 16, 32 and 64: what is near may be alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import optuna
import pytest

from bbo_plugins.optuna import BBOSampler, UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.samplers import BaseSampler
    from optuna.trial import Trial

SIZES = [2**i for i in range(40)]


def _tried(sampler: BaseSampler, choices: Sequence[Any], n_trials: int) -> list[int]:
    """Return the sizes that a study tries, whose best one is 2²³."""

    def objective(trial: Trial) -> float:
        size = int(trial.suggest_categorical("size", choices))
        return (math.log2(size) - 23.0) ** 2 + (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=n_trials)
    return [int(trial.params["size"]) for trial in study.trials]


@pytest.mark.parametrize("make", [BBOSampler, UHEBOSampler])
def test_a_size_that_was_not_tried_is_found_between_those_that_were(make: Any) -> None:
    """The start-up tries ten of forty sizes; without an order no other one promises more."""
    tried = _tried(make(seed=0), SIZES, 16)
    assert 2**23 not in tried[:10]
    assert 2**23 in tried[10:]
    labels = _tried(make(seed=0), [str(size) for size in SIZES], 16)
    assert 2**23 not in labels


def test_the_order_in_which_numbers_are_listed_does_not_matter() -> None:
    """It is their size that counts, in the start-up as well."""
    there, back = (_tried(BBOSampler(seed=1), choices, 14) for choices in (SIZES, SIZES[::-1]))
    assert there == back
