"""The samplers that benchmarks compare, by name: ours and the ones that no one here wrote.

A later issue adds a sampler by adding one entry to ``SAMPLERS``.  A sampler whose packages are not
installed is skipped by name, loudly, never silently.  Each is built with its own defaults; ours is
built with the arguments shown here.
"""

import argparse
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import optuna
from optuna.samplers import BaseSampler

from benchmarks.report import Report, package_digest


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """One entrant: how to build it from a seed, and what has to be installed for that."""

    name: str
    build: Callable[[int], BaseSampler]
    requires: tuple[str, ...]
    distribution: str
    ours: bool = False

    def missing(self) -> tuple[str, ...]:
        """Return the modules that are needed and not installed."""
        return tuple(module for module in self.requires if not _importable(module))

    def source(self) -> str:
        """Return what identifies the entrant's code: a release, or for ours a digest of it."""
        if self.ours:
            return f"source-{package_digest()}"
        return f"{self.distribution}-{importlib.metadata.version(self.distribution)}"


def _importable(module: str) -> bool:
    """Tell whether a module can be found, without importing it (its parents are imported)."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _ours_map(seed: int) -> BaseSampler:
    from bbo_plugins.optuna import UHEBOSampler  # noqa: PLC0415 - a missing package is reported by name

    sampler: BaseSampler = UHEBOSampler(estimation="map", seed=seed)
    return sampler


def _gp_sampler(seed: int) -> BaseSampler:
    return optuna.samplers.GPSampler(seed=seed)


def _tpe_sampler(seed: int) -> BaseSampler:
    return optuna.samplers.TPESampler(seed=seed)


def _random_sampler(seed: int) -> BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


def _botorch(seed: int) -> BaseSampler:
    from benchmarks.botorch_peer import BoTorchSampler  # noqa: PLC0415 - needs torch

    return BoTorchSampler(seed=seed)


_ENTRIES = (
    Sampler(
        name="ours-map",
        build=_ours_map,
        requires=("bbo_plugins", "bbo_plugins.optuna"),
        distribution="bbo-plugins",
        ours=True,
    ),
    Sampler(
        name="gpsampler", build=_gp_sampler, requires=("torch", "scipy"), distribution="optuna"
    ),
    Sampler(name="tpe", build=_tpe_sampler, requires=(), distribution="optuna"),
    Sampler(name="random", build=_random_sampler, requires=(), distribution="optuna"),
    Sampler(
        name="botorch",
        build=_botorch,
        requires=("torch", "gpytorch", "botorch"),
        distribution="botorch",
    ),
)
SAMPLERS: Mapping[str, Sampler] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def add_entrant_arguments(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """Add the options that choose entrants."""
    names = sorted(SAMPLERS)
    parser.add_argument(
        "--samplers",
        nargs="+",
        choices=names,
        default=list(default),
        metavar="NAME",
        help=f"entrants, of {', '.join(names)} (default: {' '.join(default)})",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=names,
        default=[],
        metavar="NAME",
        help="entrants in addition to those",
    )


def available(names: Iterable[str], report: Report) -> list[Sampler]:
    """Return the entrants that can run here, and skip the others by name in the report."""
    chosen = []
    for name in dict.fromkeys(names):
        sampler = SAMPLERS[name]
        missing = sampler.missing()
        if missing:
            report.skip(name, f"not installed: {', '.join(missing)}")
        else:
            chosen.append(sampler)
    return chosen


def quiet() -> None:
    """Silence Optuna's per-trial log lines and experimental warnings; failures still raise."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
