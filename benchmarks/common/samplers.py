"""The samplers that benchmarks compare, by name: ours and the ones that no one here wrote.

A sampler is added by one entry of ``SAMPLERS``; a benchmark with entrants of its own has a mapping
of its own.  A sampler whose packages are not installed is skipped by name, loudly, never silently.
Each is built with its own defaults and the arguments shown here.  What a benchmark knows (seed,
number of start-up trials, budget, ...) is passed to those that have a parameter of that name.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import optuna
from optuna.samplers import BaseSampler

from benchmarks.common.report import Report, file_digest, package_digest

_OURS = "bbo-plugins"
_BOTORCH = ("torch", "gpytorch", "botorch")


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One sampler: how to build it, and what has to be installed for that.

    Attributes:
        name: What it is called in options, records and tables.
        target: ``module:callable`` that makes it; imported when it is built.
        arguments: Its own arguments, which go before what a benchmark knows.
        requires: The modules that have to be there besides Optuna and this package.
        distribution: The package whose release identifies it, unless it is ours.
        knows_budget: Whether its suggestions depend on the planned number of trials.
    """

    name: str
    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    distribution: str = _OURS
    knows_budget: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is one of ours."""
        return self.distribution == _OURS

    def build(self, seed: int, **known: Any) -> BaseSampler:
        """Return the sampler.

        Args:
            seed: Its seed.
            **known: What the benchmark knows, for the parameters of these names: the number of
                start-up trials as ``n_startup_trials``, that of all trials as ``budget``, the
                problem as ``problem``, ...
        """
        module, _, name = self.target.partition(":")
        make = getattr(importlib.import_module(module), name)
        names = inspect.signature(make).parameters
        given = {key: value for key, value in known.items() if key in names}
        sampler: BaseSampler = make(**{**given, "seed": seed, **self.arguments})
        return sampler

    def missing(self) -> tuple[str, ...]:
        """Return the modules that are needed and not installed."""
        return tuple(name for name in self.requires if importlib.util.find_spec(name) is None)

    def source(self) -> str:
        """Return what identifies its code: a release, or for ours a digest, and our module's."""
        version = importlib.metadata.version
        code = (
            f"source-{package_digest()}"
            if self.ours
            else f"{self.distribution}-{version(self.distribution)}"
        )
        module = self.target.partition(":")[0]
        return f"{code}-{file_digest(module)}" if module.startswith("benchmarks.") else code


def by_name(entrants: Iterable[Entrant]) -> Mapping[str, Entrant]:
    """Return entrants by their name, in their order."""
    return MappingProxyType({entrant.name: entrant for entrant in entrants})


def _ours(name: str, **arguments: Any) -> Entrant:
    """Return our first sampler."""
    return Entrant(name=name, target="bbo_plugins.optuna:UHEBOSampler", arguments=arguments)


def _peer(name: str, sampler: str, *requires: str, **arguments: Any) -> Entrant:
    """Return one of Optuna's samplers."""
    return Entrant(
        name=name,
        target=f"optuna.samplers:{sampler}",
        arguments=arguments,
        requires=requires,
        distribution="optuna",
    )


def _written_here(
    name: str, sampler: str, *requires: str, distribution: str | None = None
) -> Entrant:
    """Return another project's optimizer behind a sampler of ``benchmarks.common``."""
    target = f"benchmarks.common.{sampler}"
    code = distribution or name
    return Entrant(name=name, target=target, requires=requires, distribution=code)


SAMPLERS = by_name(
    (
        Entrant(name="bbo", target="bbo_plugins.optuna:BBOSampler"),
        _ours("ours-uhe"),
        _ours("ours-map", estimation="map"),
        _ours("ours-uhe-ucb", acquisition="ucb"),
        _ours("ours-map-ucb", acquisition="ucb", estimation="map"),
        _ours("ours-uhe-ei", acquisition="ei"),
        _ours("ours-map-ei", acquisition="ei", estimation="map"),
        Entrant(
            name="uhe-literal",
            target="benchmarks.common.literal_uhe_bo:LiteralUHEBOSampler",
            knows_budget=True,
        ),
        Entrant(name="go-ucb", target="bbo_plugins.optuna:GOUCBSampler"),
        _peer("gpsampler", "GPSampler", "torch", "scipy"),
        _peer("tpe", "TPESampler"),
        _peer("random", "RandomSampler"),
        # It leaves start-up points out and begins at the center of the box, as by default.
        _peer("cma-es", "CmaEsSampler", "cmaes", n_startup_trials=1),
        _written_here("botorch", "botorch_peer:BoTorchSampler", *_BOTORCH, distribution="botorch"),
        _written_here("hebo", "hebo_peer:HEBOSampler", "hebo", "pandas", "torch"),
        _written_here("smac", "smac_peer:SMACSampler", "smac", "ConfigSpace"),
        _written_here("scbo", "scbo:SCBOSampler", *_BOTORCH, distribution="botorch"),
        _written_here("turbo", "turbo:TuRBOSampler", *_BOTORCH, distribution="botorch"),
    )
)


def available(
    names: Iterable[str], report: Report, entrants: Mapping[str, Entrant] = SAMPLERS
) -> list[Entrant]:
    """Return the entrants that can run here, and skip the others by name in the report."""
    chosen = []
    for entrant in (entrants[name] for name in dict.fromkeys(names)):
        missing = entrant.missing()
        if missing:
            report.skip(entrant.name, f"not installed: {', '.join(missing)}")
        else:
            chosen.append(entrant)
    return chosen


def quiet() -> None:
    """Silence Optuna's per-trial log lines and experimental warnings; failures still raise."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
