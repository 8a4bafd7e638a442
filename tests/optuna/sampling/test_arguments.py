"""Every public argument is checked when the sampler is made, and the message helps."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import optuna
import pytest

from bbo_plugins.optuna import UHEBOSampler

BAD: list[tuple[str, Any, type[Exception]]] = [
    ("acquisition", "pi", ValueError),
    ("acquisition", "LogEI", ValueError),
    ("acquisition", 1, TypeError),
    ("acquisition", None, TypeError),
    ("acquisition", math.nan, TypeError),
    ("estimation", "UHE", ValueError),
    ("estimation", "mle", ValueError),
    ("estimation", None, TypeError),
    ("estimation", True, TypeError),
    ("beta", -1.0, ValueError),
    ("beta", 0.0, ValueError),
    ("beta", math.nan, ValueError),
    ("beta", math.inf, ValueError),
    ("beta", "bilevel", ValueError),
    ("beta", "large", ValueError),
    ("beta", [1.0], TypeError),
    ("beta", True, TypeError),
    ("horizon", 100, TypeError),
    ("horizon", "convex", TypeError),
    ("noise_func", 0.1, TypeError),
    ("noise_func", "noise", TypeError),
    ("noise_func", math.nan, TypeError),
    ("n_trials", 0, ValueError),
    ("n_trials", -5, ValueError),
    ("n_trials", math.nan, ValueError),
    ("n_trials", 10.0, TypeError),
    ("n_trials", "100", TypeError),
    ("n_trials", True, TypeError),
    ("n_startup_trials", -1, ValueError),
    ("n_startup_trials", math.nan, ValueError),
    ("n_startup_trials", 10.5, TypeError),
    ("n_startup_trials", None, TypeError),
    ("n_startup_trials", "10", TypeError),
    ("deterministic_objective", 1, TypeError),
    ("deterministic_objective", "yes", TypeError),
    ("deterministic_objective", None, TypeError),
    ("deterministic_objective", math.nan, ValueError),
    ("constraints_func", [0.0], TypeError),
    ("constraints_func", -1, TypeError),
    ("constraints_func", math.nan, TypeError),
    ("independent_sampler", "random", TypeError),
    ("independent_sampler", optuna.samplers.RandomSampler, TypeError),
    ("independent_sampler", math.nan, TypeError),
    ("warn_independent_sampling", 0, TypeError),
    ("warn_independent_sampling", "no", TypeError),
    ("warn_independent_sampling", math.nan, ValueError),
    ("seed", -1, ValueError),
    ("seed", math.nan, ValueError),
    ("seed", 1.5, TypeError),
    ("seed", "0", TypeError),
    ("seed", True, TypeError),
]


def test_every_argument_is_in_the_table() -> None:
    """A new argument comes with a test of its check."""
    parameters = inspect.signature(UHEBOSampler).parameters
    assert {argument for argument, _, _ in BAD} == set(parameters)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())


@pytest.mark.parametrize("argument, value, error", BAD)
def test_bad_arguments_are_refused(argument: str, value: Any, error: type[Exception]) -> None:
    """The error names argument, rule and value, and no trial has been created."""
    study = optuna.create_study()
    arguments = {argument: value}
    if argument == "beta":
        arguments["acquisition"] = "ucb"
    pattern = rf"^{argument} must be .+, but got {re.escape(repr(value))}\.$"
    with pytest.raises(error, match=pattern):
        study.sampler = UHEBOSampler(**arguments)
    assert not isinstance(study.sampler, UHEBOSampler)
    assert study.trials == []


@pytest.mark.parametrize("acquisition", ["logei", "ei"])
def test_beta_without_ucb_is_refused(acquisition: Any) -> None:
    """A multiplier that would have no effect is an error, not a silent no-op."""
    with pytest.raises(ValueError, match=r"^beta must be None with .*'ucb'.*, but got 2\.0\.$"):
        UHEBOSampler(acquisition=acquisition, beta=2.0)


@pytest.mark.parametrize("argument, value", [("acquisition", "ei"), ("beta", "bilevel")])
def test_what_the_paper_does_not_have_is_refused(argument: str, value: Any) -> None:
    """Run to the letter, the acquisition function is the paper's, with a constant."""
    rule = rf"^{argument} must be .+ with estimation='uhe-paper', but got '{value}'\.$"
    with pytest.raises(ValueError, match=rule):
        UHEBOSampler(estimation="uhe-paper", **{argument: value})
