"""HEBO behind Optuna's sampler interface, with its own defaults.

Its random start is replaced by the start-up points that every entrant of a benchmark begins with.
HEBO 0.3.6 pins NumPy below 1.25 and GPy; it runs with newer ones when installed with ``--no-deps``
beside ``catboost``, ``disjoint-set``, ``gpy``, ``gpytorch``, ``pandas<3`` and ``pymoo``.
"""

import importlib
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from benchmarks.common.peer import Floats, Peer, Points, Space


class HEBOSampler(Peer):
    """HEBO without constraints; it is told all complete trials at every suggestion."""

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Return one suggestion of a HEBO that knows the complete trials."""
        pandas = importlib.import_module("pandas")
        torch = importlib.import_module("torch")
        design_space = importlib.import_module("hebo.design_space.design_space").DesignSpace()
        hebo = importlib.import_module("hebo.optimizers.hebo").HEBO
        seed = (self._seed * 100_003 + number) % 2**31
        np.random.seed(seed)  # noqa: NPY002 - HEBO and pymoo draw from the global generator
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        design_space.parse([_parameter(name, each) for name, each in space.items()])
        # At least two points are asked for by HEBO before its model may be fitted.
        optimizer = hebo(design_space, rand_sample=2, scramble_seed=seed)
        told = [{name: coded(d, point[name]) for name, d in space.items()} for point in points]
        optimizer.observe(pandas.DataFrame(told), -y[:, None])
        (suggested,) = optimizer.suggest(1).to_dict("records")
        return {name: decoded(d, suggested[name]) for name, d in space.items()}


def _parameter(name: str, distribution: BaseDistribution) -> dict[str, Any]:
    """Return HEBO's description of a parameter; levels of a stepped one are counted."""
    if isinstance(distribution, CategoricalDistribution):
        indices = [str(i) for i in range(len(distribution.choices))]
        return {"name": name, "type": "cat", "categories": indices}
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = distribution.low, distribution.high
    if distribution.log:
        kind = "pow" if isinstance(distribution, FloatDistribution) else "pow_int"
        return {"name": name, "type": kind, "lb": low, "ub": high, "base": 10}
    if distribution.step is not None:
        return {"name": name, "type": "int", "lb": 0, "ub": round((high - low) / distribution.step)}
    return {"name": name, "type": "num", "lb": low, "ub": high}


def coded(distribution: BaseDistribution, value: Any) -> Any:
    """Return what HEBO calls a value: a category's index as text, a step's number, or itself."""
    if isinstance(distribution, CategoricalDistribution):
        return str(distribution.choices.index(value))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if distribution.step is None or distribution.log:
        return value
    return round((value - distribution.low) / distribution.step)


def decoded(distribution: BaseDistribution, coded: Any) -> Any:
    """Return the parameter's value within its range."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(coded)]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    value = float(coded)
    if distribution.step is not None and not distribution.log:
        value = distribution.low + distribution.step * round(value)
    value = min(max(value, distribution.low), distribution.high)
    return round(value) if isinstance(distribution, IntDistribution) else value
