"""Every public argument is checked when the sampler is made, and the message helps."""

from __future__ import annotations

import inspect
import math
import re
from typing import TYPE_CHECKING, Any

import optuna
import pytest

from bbo_plugins import InnerHorizon
from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.optuna.sampling.base import ModelSampler

SHARED: list[tuple[str, Any, type[Exception]]] = [
    ("noise_func", 0.1, TypeError),
    ("n_trials", 0, ValueError),
    ("n_trials", 10.0, TypeError),
    ("n_startup_trials", -1, ValueError),
    ("n_startup_trials", 10.5, TypeError),
    ("deterministic_objective", 1, TypeError),
    ("constraints_func", [0.0], TypeError),
    ("independent_sampler", optuna.samplers.RandomSampler, TypeError),
    ("warn_independent_sampling", "no", TypeError),
    ("seed", -1, ValueError),
    ("seed", "0", TypeError),
]
BAD: dict[type[ModelSampler], list[tuple[str, Any, type[Exception]]]] = {
    UHEBOSampler: [
        ("acquisition", "pi", ValueError),
        ("acquisition", None, TypeError),
        ("estimation", "mle", ValueError),
        ("estimation", True, TypeError),
        ("beta", 0.0, ValueError),
        ("beta", math.nan, ValueError),
        ("beta", "bilevel", ValueError),
        ("beta", [1.0], TypeError),
        ("horizon", 100, TypeError),
    ],
    GOUCBSampler: [
        ("hidden_units", 0, ValueError),
        ("beta", 0.0, ValueError),
        ("regularization", math.inf, ValueError),
    ],
    BBOSampler: [("horizon", 3, TypeError)],
}


@pytest.mark.parametrize("kind", BAD)
def test_every_argument_is_in_the_table(kind: type[ModelSampler]) -> None:
    """A new argument comes with a test of its check."""
    parameters = inspect.signature(kind).parameters
    assert {argument for argument, _, _ in SHARED + BAD[kind]} == set(parameters)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())


@pytest.mark.parametrize(
    "kind, argument, value, error",
    [(kind, *row) for kind, rows in BAD.items() for row in SHARED + rows],
)
def test_bad_arguments_are_refused(
    kind: Callable[..., ModelSampler], argument: str, value: Any, error: type[Exception]
) -> None:
    """The error names argument, rule and value."""
    arguments = {argument: value}
    if argument == "beta" and kind is UHEBOSampler:
        arguments["acquisition"] = "ucb"
    pattern = rf"^{argument} must be .+, but got {re.escape(repr(value))}\.$"
    with pytest.raises(error, match=pattern):
        kind(**arguments)


@pytest.mark.parametrize("beta", [2.0, "bilevel"])
def test_beta_without_ucb_is_refused(beta: Any) -> None:
    """A multiplier that would have no effect is an error, not a silent no-op."""
    rule = rf"^beta must be None with .*'ucb'.*, but got {beta!r}\.$"
    with pytest.raises(ValueError, match=rule):
        UHEBOSampler(beta=beta, horizon=InnerHorizon(n_outer=9))


@pytest.mark.parametrize("argument, value", [("acquisition", "ei"), ("beta", "bilevel")])
def test_what_the_paper_does_not_have_is_refused(argument: str, value: Any) -> None:
    """Run to the letter, the acquisition function is the paper's, with a constant."""
    rule = rf"^{argument} must be .+ with estimation='uhe-paper', but got '{value}'\.$"
    with pytest.raises(ValueError, match=rule):
        UHEBOSampler(estimation="uhe-paper", **{argument: value})
