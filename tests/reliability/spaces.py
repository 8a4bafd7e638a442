"""Random search spaces with conditional branches, and random histories of trials in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

CHOICES = (None, True, False, "", "a", "é", 0, 1, -7, 0.5, math.inf, math.nan, 10**12, "None")
_NOON = datetime(2024, 5, 17, 12, 0, 0)  # noqa: DTZ001 - Optuna's times have no zone
_PARENT = "c0"  # the parameter that branches depend on


@st.composite
def float_distributions(draw: st.DrawFn) -> FloatDistribution:
    """Return a float, on a linear or log scale, with or without steps, wide, narrow or single."""
    kind = draw(st.sampled_from(["linear", "log", "step"]))
    if kind == "log":
        low = 10.0 ** draw(st.integers(-300, 290))
        return FloatDistribution(low, low * 10.0 ** draw(st.integers(0, 10)), log=True)
    if kind == "linear":
        low = draw(st.sampled_from([0.0, -1.0, 1.0, -1e-12, 1e6, -1e300, 0.1]))
        width = draw(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 1e3, 1e12, 1e300]))
        return FloatDistribution(low, low + width)
    step, n = draw(st.sampled_from([0.1, 0.25, 3.0, 1e-3, 1e9])), draw(st.integers(0, 40))
    first = draw(st.sampled_from([0, -3, 1000]))
    low, high = (float(Decimal(str(step)) * k) for k in (first, first + n))
    return FloatDistribution(low, high, step=step)


@st.composite
def int_distributions(draw: st.DrawFn) -> IntDistribution:
    """Return an integer, on a linear or log scale, with or without steps."""
    if draw(st.booleans()):
        low = draw(st.sampled_from([1, 2, 1000, 2**40]))
        return IntDistribution(low, low + draw(st.sampled_from([0, 1, 7, 1000, 2**50])), log=True)
    low = draw(st.sampled_from([0, 1, -5, -(2**53), 2**52]))  # Optuna stores integers as floats
    step = draw(st.sampled_from([1, 1, 2, 10**6]))
    return IntDistribution(low, low + step * draw(st.sampled_from([0, 1, 2, 9, 10**6])), step=step)


def categorical_distributions() -> st.SearchStrategy[CategoricalDistribution]:
    """Return up to eight choices of several types, some of which Optuna takes for one."""
    choices = st.lists(st.sampled_from(CHOICES), min_size=1, max_size=8)
    return choices.map(CategoricalDistribution)


DISTRIBUTIONS: st.SearchStrategy[BaseDistribution] = st.one_of(
    float_distributions(), int_distributions(), categorical_distributions()
)


@dataclass(frozen=True)
class Tree:
    """A search space in which some parameters exist only for one choice of another.

    Attributes:
        always: Parameters of every trial.
        branches: Parameters that exist only for one of three choices of a further parameter.
    """

    always: dict[str, BaseDistribution]
    branches: tuple[dict[str, BaseDistribution], ...] = ()

    def parent(self) -> dict[str, BaseDistribution]:
        """Return the parameter that the branches depend on, if there are any."""
        if not self.branches:
            return {}
        return {_PARENT: CategoricalDistribution(list(range(len(self.branches))))}

    def suggest(self, suggest: Any) -> dict[str, Any]:
        """Ask for a value of each parameter that there is; return their distributions by name."""
        asked = {**self.parent(), **self.always}
        values = {name: suggest(name, distribution) for name, distribution in asked.items()}
        branch = self.branches[values[_PARENT]] if self.branches else {}
        for name, distribution in branch.items():
            suggest(name, distribution)
        return {**asked, **branch}


@st.composite
def trees(draw: st.DrawFn, *, least: int = 1, branching: bool = True) -> Tree:
    """Return a search space of 1 to 30 parameters, half of them with conditional ones."""
    n = draw(st.integers(least, 30) | st.integers(least, 4))
    distributions = [draw(DISTRIBUTIONS) for _ in range(n)]
    named = {f"p{i:02}": distribution for i, distribution in enumerate(distributions)}
    n_conditional = draw(st.integers(0, n - 1)) if branching and draw(st.booleans()) else 0
    names = list(named)
    always = {name: named[name] for name in names[n_conditional:]}
    if not n_conditional:
        return Tree(always)
    branches: tuple[dict[str, BaseDistribution], ...] = ({}, {}, {})
    for name in names[:n_conditional]:
        branches[draw(st.integers(0, 2))][name] = named[name]
    return Tree(always, branches)


VALUES = st.one_of(
    st.floats(-10.0, 10.0),
    st.sampled_from([0.0, 1.0, math.inf, -math.inf, 1.7e308, -1e300, 5e-324]),
    st.floats(allow_nan=False),
)
STATES = st.sampled_from([TrialState.COMPLETE] * 5 + list(TrialState))


@st.composite
def histories(draw: st.DrawFn, tree: Tree) -> list[FrozenTrial]:
    """Return up to 14 trials: of all states, with odd values, and with parameters missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    keeps_all = draw(st.booleans())
    trials = []
    for number in range(draw(st.integers(0, 14))):
        state = draw(STATES)
        distributions = tree.suggest(lambda _, distribution: _random_value(distribution, rng))
        if not keeps_all and draw(st.integers(0, 3)) == 0:
            kept = rng.random(len(distributions)) < 0.8
            pairs = zip(distributions.items(), kept, strict=True)
            distributions = dict(pair for pair, keep in pairs if keep)
        trials.append(_trial(draw, state, distributions, rng, number))
    return trials


def _trial(
    draw: st.DrawFn,
    state: TrialState,
    distributions: dict[str, BaseDistribution],
    rng: np.random.Generator,
    number: int,
) -> FrozenTrial:
    params = {name: _random_value(d, rng) for name, d in distributions.items()}
    reports: dict[int, float] = {}
    attributes: dict[str, Any] = {}
    if state in {TrialState.PRUNED, TrialState.RUNNING}:
        reports = {step: draw(VALUES) for step in range(draw(st.integers(0, 2)))}
    if draw(st.integers(0, 5)) == 0:
        attributes["constraints"] = draw(st.lists(VALUES, max_size=2))
    trial = create_trial(
        state=state,
        params=params,
        distributions=distributions,
        value=draw(VALUES) if state is TrialState.COMPLETE else None,
        intermediate_values=reports,
        system_attrs=attributes,
    )
    if state.is_finished():
        trial.datetime_start = _NOON + timedelta(minutes=number)
        trial.datetime_complete = _NOON + timedelta(minutes=draw(st.integers(0, 20)))
    return trial


def _random_value(distribution: BaseDistribution, rng: np.random.Generator) -> Any:
    """Return a random value of ``distribution``, a bound every now and then."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(rng.integers(len(distribution.choices)))]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    u = float(np.clip(rng.uniform(-0.2, 1.2), 0.0, 1.0))
    if isinstance(distribution, IntDistribution):
        return low + distribution.step * int(u * ((high - low) // distribution.step))
    if step is not None:
        return min(low + step * round(u * (high - low) / step), high)
    if distribution.log:
        return float(np.clip(math.exp((1 - u) * math.log(low) + u * math.log(high)), low, high))
    return float(np.clip((1.0 - u) * low + u * high, low, high))
