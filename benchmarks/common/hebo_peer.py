"""HEBO behind Optuna's sampler interface, with its own defaults.

Its random start is replaced by the start-up points that every entrant of a benchmark begins with.
HEBO 0.3.6 pins NumPy below 1.25 and GPy; it runs with newer ones when installed with ``--no-deps``
beside ``catboost``, ``disjoint-set``, ``gpy``, ``gpytorch``, ``pandas<3`` and ``pymoo``.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution

from benchmarks.common.peer import Floats, Peer, Points, Space, from_positions, limits, to_positions


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
        design_space.parse([parameter(name, each) for name, each in space.items()])
        # At least two points are asked for by HEBO before its model may be fitted.
        optimizer = hebo(design_space, rand_sample=2, scramble_seed=seed)
        optimizer.observe(pandas.DataFrame([coded(space, each) for each in points]), -y[:, None])
        (suggested,) = optimizer.suggest(1).to_dict("records")
        return from_positions(space, suggested)


def parameter(name: str, distribution: BaseDistribution) -> dict[str, Any]:
    """Return HEBO's description of a parameter; categories and levels of a step are counted."""
    low, high, log = limits(distribution)
    if isinstance(distribution, CategoricalDistribution):
        return {"name": name, "type": "cat", "categories": [str(i) for i in range(high + 1)]}
    if log:
        kind = "pow_int" if isinstance(high, int) else "pow"
        return {"name": name, "type": kind, "lb": low, "ub": high, "base": 10}
    kind = "int" if isinstance(high, int) else "num"
    return {"name": name, "type": kind, "lb": low, "ub": high}


def coded(space: Space, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point as HEBO is told it: a category's index as text."""
    told = to_positions(space, point)
    texts = {n: str(told[n]) for n, d in space.items() if isinstance(d, CategoricalDistribution)}
    return told | texts
