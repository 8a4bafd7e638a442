"""Arguments that take one of a few words list them in their type, for editors and type checkers."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import pytest

import bbo_plugins.visualization as plotly_plots
from bbo_plugins import BILBOSampler, InnerHorizon, RegretGapTerminator, UHEBOSampler
from bbo_plugins.visualization import matplotlib

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS: list[tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = [
    (UHEBOSampler, {}, ("acquisition", "estimation", "beta")),
    (RegretGapTerminator, {}, ("threshold", "criterion")),
    (BILBOSampler, {"upper_params": ["x"], "lower_params": ["y"]}, ("upper_direction",)),
    (BILBOSampler, {"upper_params": ["x"], "lower_params": ["y"]}, ("lower_direction",)),
    (InnerHorizon, {"n_outer": 3}, ("loss",)),
    (InnerHorizon.from_budget, {"total_steps": 99}, ("loss",)),
    (InnerHorizon(n_outer=3).promotions, {"values": [], "steps": []}, ("direction",)),
    (InnerHorizon.growing().promotions, {"values": [], "steps": []}, ("direction",)),
    (plotly_plots.plot_horizon, {"results": []}, ("mode",)),
    (matplotlib.plot_horizon, {"results": []}, ("mode",)),
]


def _words_of(function: Callable[..., Any], argument: str) -> tuple[Any, ...]:
    """Return the words in the type of an argument; empty if it is not a type of words."""
    text = inspect.signature(function).parameters[argument].annotation
    parts = re.findall(r"Literal\[.*?\]", text, flags=re.DOTALL)
    kinds = [eval(part, {"Literal": Literal}) for part in parts]  # noqa: S307 - our own source
    assert all(get_origin(kind) is Literal for kind in kinds)
    return tuple(word for kind in kinds for word in get_args(kind))


@pytest.mark.parametrize("function, given, names", WORDS)
def test_the_type_has_the_words_of_the_error(
    function: Callable[..., Any], given: dict[str, Any], names: tuple[str, ...]
) -> None:
    """A wrong word is refused with the words that are in the type, and no others."""
    for name in names:
        words = _words_of(function, name)
        assert words, name
        with pytest.raises(ValueError, match=f"{name} must be ") as refused:
            function(**given, **{name: "no such word"})
        accepted = str(refused.value).partition(", but got")[0]
        assert set(re.findall(r"'([^']+)'", accepted)) == set(words)
