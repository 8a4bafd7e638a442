"""The entrants of the ``highdim`` benchmark, by name: ours, the paper's literal variant, the peers.

``literal`` has the paper's settings; ``literal-exact`` solves the paper's optimization problems
instead of following them for its numbers of steps, with its other settings. ``uhe-bo`` is this
package's other sampler, for the question which of the two to use. All are told how many
start-up points there are, where they have an argument for it; the rest are their own defaults.
CMA-ES ignores the start-up points and begins at the center of the box, as Optuna's does by default.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from benchmarks.common.report import Report, file_digest
from benchmarks.common.samplers import Build, Sampler

OURS = "ours"
UHE_BO = "uhe-bo"
LITERAL = ("literal", "literal-exact")
EXPENSIVE = ("gpsampler", "turbo")
PEERS = ("gpsampler", "turbo", "tpe", "cma-es", "random")
CROSSOVER_PARTS = ("d10", "d20", "d30", "hpo")
_NEEDED_BY_OURS = ("bbo_plugins", "bbo_plugins.optuna", "bbo_plugins.methods.go_ucb")


class LiteralSampler(BaseSampler):
    """The paper's Algorithm 1 with its printed settings, for one study of floats, minimized.

    The start-up points are the study's own first trials: uniform like the paper's Phase I, and the
    same ones for all entrants.
    """

    def __init__(self, make: Callable[[np.ndarray], Any], *, seed: int) -> None:
        """Keep ``make``, which builds the method from the box's limits (d, 2)."""
        self._make = make
        self._method: Any = None
        self._n_told = 0
        self._random = RandomSampler(seed=seed)
        self._search_space = IntersectionSearchSpace()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that every finished trial has."""
        del trial
        return dict(self._search_space.calculate(study))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Tell the method what it has not been told yet, and ask it."""
        del trial
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if not search_space or not trials:
            return {}
        if self._method is None:
            limits = [
                (at.low, at.high)
                for at in search_space.values()
                if isinstance(at, FloatDistribution)
            ]
            self._method = self._make(np.array(limits))
        for told in trials[self._n_told :]:
            x = np.array([told.params[name] for name in search_space])
            self._method.tell(x, -float(told.value or 0.0))
        self._n_told = len(trials)
        return dict(zip(search_space, self._method.ask().tolist(), strict=True))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a random value for a trial before the first complete one."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)


def entrants(n_startup: int) -> Mapping[str, Sampler]:
    """Return every entrant by name, told that ``n_startup`` points come before the model's own."""
    entries = (
        Sampler(
            name=OURS,
            build=_ours(n_startup),
            requires=_NEEDED_BY_OURS,
            distribution="bbo-plugins",
            ours=True,
        ),
        *(
            Sampler(
                name=name,
                build=_literal(n_startup, exact=name == "literal-exact"),
                requires=("benchmarks.highdim.literal",),
                distribution="bbo-plugins",
                ours=True,
                module=__name__,
            )
            for name in LITERAL
        ),
        Sampler(
            name=UHE_BO,
            build=_uhe_bo(n_startup),
            requires=("bbo_plugins", "bbo_plugins.optuna"),
            distribution="bbo-plugins",
            ours=True,
        ),
        Sampler(
            name="gpsampler",
            build=lambda seed, _n: optuna.samplers.GPSampler(seed=seed, n_startup_trials=n_startup),
            requires=("torch", "scipy"),
            distribution="optuna",
        ),
        Sampler(
            name="turbo",
            build=_turbo(n_startup),
            requires=("torch", "gpytorch", "botorch"),
            distribution="botorch",
            module="benchmarks.highdim.turbo",
        ),
        Sampler(
            name="tpe",
            build=lambda seed, _n: optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=n_startup
            ),
            requires=(),
            distribution="optuna",
        ),
        Sampler(
            name="cma-es",
            build=lambda seed, _n: optuna.samplers.CmaEsSampler(seed=seed),
            requires=("cmaes",),
            distribution="optuna",
        ),
        Sampler(
            name="random",
            build=lambda seed, _n: optuna.samplers.RandomSampler(seed=seed),
            requires=(),
            distribution="optuna",
        ),
    )
    return MappingProxyType({entry.name: entry for entry in entries})


def competes(name: str, part: str) -> bool:
    """Tell whether an entrant is run in a part: where only our two are compared, no one else is."""
    if name in LITERAL:
        return part in {"paper", "hpo"}
    if name == UHE_BO:
        return part in CROSSOVER_PARTS
    return name == OURS or part not in {"d10", "d30"}


def source_of(entrant: Sampler) -> str:
    """Return what identifies an entrant's code; a peer's includes the module here that runs it."""
    own = "" if entrant.ours or entrant.module is None else f"-{file_digest(entrant.module)}"
    return entrant.source() + own


def available(names: Sequence[str], report: Report) -> list[str]:
    """Return the names of entrants that can run here, and skip the others by name."""
    known = entrants(1)
    chosen = []
    for name in dict.fromkeys(names):
        missing = known[name].missing()
        if missing:
            report.skip(name, f"not installed: {', '.join(missing)}")
        else:
            chosen.append(name)
    return chosen


def _ours(n_startup: int) -> Build:
    def build(seed: int, _n_trials: int | None) -> BaseSampler:
        from bbo_plugins.optuna.go_ucb_sampler import GOUCBSampler  # noqa: PLC0415

        sampler: BaseSampler = GOUCBSampler(seed=seed, n_startup_trials=n_startup)
        return sampler

    return build


def _uhe_bo(n_startup: int) -> Build:
    def build(seed: int, _n_trials: int | None) -> BaseSampler:
        from bbo_plugins.optuna import UHEBOSampler  # noqa: PLC0415

        sampler: BaseSampler = UHEBOSampler(seed=seed, n_startup_trials=n_startup)
        return sampler

    return build


def _literal(n_startup: int, *, exact: bool) -> Build:
    def build(seed: int, n_trials: int | None) -> BaseSampler:
        from benchmarks.highdim.literal import LiteralGOUCB  # noqa: PLC0415

        def make(bounds: np.ndarray) -> Any:
            return LiteralGOUCB(
                bounds,
                n_rounds=max((n_trials or 0) - n_startup, 2),
                rng=np.random.default_rng(seed),
                n_startup=n_startup,
                exact=exact,
            )

        return LiteralSampler(make, seed=seed)

    return build


def _turbo(n_startup: int) -> Build:
    def build(seed: int, _n_trials: int | None) -> BaseSampler:
        from benchmarks.highdim.turbo import TuRBOSampler  # noqa: PLC0415 - needs torch

        return TuRBOSampler(seed=seed, n_startup_trials=n_startup)

    return build
