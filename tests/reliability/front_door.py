"""Every class of the front door, made the same way, and what must hold of whatever it suggests."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bbo_plugins.optuna import (
    BBOSampler,
    BILBOSampler,
    GOUCBSampler,
    RegretGapTerminator,
    UHEBOSampler,
)
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import BILEVEL_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord

DEFAULT = "bbo"
ESTIMATIONS = ("uhe", "map")  # of UHEBOSampler
# What models of one function suggest, by its observations; BILBO has several functions.
SINGLE = (DEFAULT, *ESTIMATIONS, "go-ucb")
BILEVEL = "bilbo"
SAMPLERS = (*SINGLE, BILEVEL)
N_STARTUP = 4
SPACE: dict[str, BaseDistribution] = {
    "c": CategoricalDistribution(["a", None, True, 2.5]),
    "lr": FloatDistribution(1e-5, 1.0, log=True),
    "n": IntDistribution(1, 9, step=2),
    "x": FloatDistribution(0.0, 1.0),
}
_UPPER, _LOWER = ("c", "lr"), ("n", "x")  # the levels of a bilevel study in this space
_QUERY: dict[str, BaseDistribution] = {"query": CategoricalDistribution(["upper", "lower"])}


def space_of(name: str) -> dict[str, BaseDistribution]:
    """Return the parameters that a study with this sampler asks for."""
    return {**SPACE, **_QUERY} if name == BILEVEL else dict(SPACE)


def sampler_of(name: str, seed: int = 0, **arguments: Any) -> BaseSampler:
    """Return a new sampler; one and the same seed makes it suggest the same."""
    arguments.setdefault("n_startup_trials", N_STARTUP)
    if name == BILEVEL:
        levels = arguments.pop("levels", (_UPPER, _LOWER))
        return BILBOSampler(*levels, seed=seed, **arguments)
    if name == DEFAULT:
        return BBOSampler(seed=seed, **arguments)
    if name == "go-ucb":
        return GOUCBSampler(seed=seed, **arguments)
    return UHEBOSampler(**{"estimation": name, "seed": seed, **arguments})


def terminator_of(**arguments: Any) -> RegretGapTerminator:
    """Return a new terminator that makes a record of every completion."""
    return RegretGapTerminator(min_n_trials=2, **arguments)


def study_of(name: str, storage: BaseStorage | None = None, **arguments: Any) -> Study:
    """Return a new study with a sampler of this name."""
    return optuna.create_study(storage=storage, sampler=sampler_of(name, **arguments))


def value_of(params: Mapping[str, Any]) -> float:
    """Return a value to be minimized that depends on every parameter of :data:`SPACE`.

    If the lower level's function is asked for, it is that one's.
    """
    if params.get("query") == "lower":
        return float((params["x"] - 0.1 * params["n"]) ** 2 + 0.1 * params["lr"])
    bowl = (params["x"] - 0.3) ** 2 + 0.1 * (math.log10(params["lr"]) + 2.0) ** 2
    return float(bowl + 0.01 * params["n"] + 0.1 * (params["c"] is None))


def run(study: Study, n: int, space: Mapping[str, BaseDistribution] | None = None) -> None:
    """Evaluate ``n`` more trials."""
    for _ in range(n):
        trial = ask(study, space)
        study.tell(trial, value_of(trial.params))


def ask(study: Study, space: Mapping[str, BaseDistribution] | None = None) -> Trial:
    """Ask for a trial and check that it is valid."""
    distributions = space_in(study) if space is None else dict(space)
    trial = study.ask(distributions)
    assert_valid(trial.params, distributions)
    return trial


def space_in(study: Study) -> dict[str, BaseDistribution]:
    """Return the parameters that the sampler of ``study`` can suggest."""
    return space_of(BILEVEL if isinstance(study.sampler, BILBOSampler) else DEFAULT)


def assert_valid(params: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> None:
    """Check that there is a value of each parameter, of the right type and in its range."""
    assert params.keys() == space.keys()
    for name, distribution in space.items():
        value = params[name]
        assert distribution._contains(distribution.to_internal_repr(value)), (name, value)
        if isinstance(distribution, FloatDistribution):
            assert type(value) is float, (name, value)
        elif isinstance(distribution, IntDistribution):
            assert type(value) is int, (name, value)
        else:
            assert isinstance(distribution, CategoricalDistribution)
            # JSON texts tell apart what == does not, as 1 and True, and take NaN for NaN.
            assert _text(value) in map(_text, distribution.choices), (name, value)


def _text(choice: Any) -> str:
    return json.dumps(choice)


def assert_modeled(study: Study, trial: Trial) -> None:
    """Check that a model or a bandit suggested this trial, and that what it stored can be read."""
    assert is_modeled(study.trials[trial.number])


def is_modeled(trial: FrozenTrial) -> bool:
    """Return whether what is stored with a trial says that a model or a bandit suggested it."""
    stored = stored_of(trial)
    if stored is None:
        return False
    if BILEVEL_KEY in trial.system_attrs:
        return bool(stored.fits)  # which come with every query by the models
    return bool(stored.criterion is not None and stored.fits) or stored.arm is not None


def stored_of(trial: FrozenTrial) -> Proposal | None:
    """Return what is stored with a trial, if it can be read."""
    return Proposal.from_attributes(trial.system_attrs)


def evaluate(study: Study) -> StoppingRecord:
    """Let a terminator look at every completion, and return its latest record."""
    record = terminator_of().evaluate(study)
    assert not math.isnan(record.value)
    assert not math.isnan(record.threshold)
    return record


def fallback_of(name: str) -> str:
    """Return what the warning says of a point that no model could suggest."""
    return "so the query fills the space" if name == BILEVEL else "so the point is random"


def warnings_in(caplog: pytest.LogCaptureFixture, of: str = "") -> list[str]:
    """Return the warnings that this package has logged, those with ``of`` in them.

    Those of the terminator are left out which say that it does not look at constraints, and that it
    cannot stop a study of several functions.
    """
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("bbo_plugins")
        and record.levelno >= logging.WARNING
        and of in record.getMessage()
        and "does not look at constraints" not in record.getMessage()
        and "values of the several functions" not in record.getMessage()
    ]
