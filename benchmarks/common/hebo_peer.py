"""HEBO behind Optuna's sampler interface, by its suggest/observe API, with its own defaults.

Its pins ask for an environment of its own. It begins with the start-up points of the benchmark in
place of its own random ones.
"""

import importlib
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from benchmarks.common.peer import Floats, Peer, Points, Space, from_positions, limits, to_positions


class HEBOSampler(Peer):
    """HEBO for one study from its first trial on, which is to be minimized."""

    def __init__(self, *, seed: int, n_startup_trials: int = 10) -> None:
        """Make HEBO at the first suggestion."""
        super().__init__(seed=seed, n_startup_trials=n_startup_trials)
        self._hebo: Any = None
        self._n_told = 0

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Tell HEBO what it has not been told yet, and ask it."""
        del number
        pandas = importlib.import_module("pandas")
        if self._hebo is None:
            self._hebo = self._made(space)
        told = [to_positions(space, point) for point in points[self._n_told :]]
        self._hebo.observe(pandas.DataFrame(told), -y[self._n_told :, None])
        self._n_told = len(y)
        (row,) = self._hebo.suggest(n_suggestions=1).to_dict("records")
        return from_positions(space, row)

    def _made(self, space: Space) -> Any:
        design = importlib.import_module("hebo.design_space.design_space").DesignSpace()
        design.parse([parameter(name, distribution) for name, distribution in space.items()])
        # It draws from the global generators.
        np.random.seed(self._seed)  # noqa: NPY002
        importlib.import_module("torch").manual_seed(self._seed)
        make = importlib.import_module("hebo.optimizers.hebo").HEBO
        return make(design, rand_sample=self._n_startup_trials, scramble_seed=self._seed)


def parameter(name: str, distribution: BaseDistribution) -> dict[str, Any]:
    """Return a parameter as HEBO's design space reads it."""
    low, high, log = limits(distribution)
    if isinstance(distribution, CategoricalDistribution):
        return {"name": name, "type": "cat", "categories": list(range(high + 1))}
    whole = isinstance(distribution, IntDistribution) or isinstance(high, int)
    kind = ("pow_int" if log else "int") if whole else ("pow" if log else "num")
    return {"name": name, "type": kind, "lb": low, "ub": high}
