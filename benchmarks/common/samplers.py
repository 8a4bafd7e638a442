"""The samplers that benchmarks compare, by name: ours and the ones that no one here wrote.

A sampler is added by one entry of ``SAMPLERS``.  A sampler whose packages are not installed is
skipped by name, loudly, never silently.  Each is built with its own defaults; ours are built with
the arguments shown here.  The variants of ours that the public sampler does not offer (parts of
UHE-BO alone, and the paper's literal settings) are built by ``benchmarks.common.ablations``.
"""

import argparse
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import optuna
from optuna.samplers import BaseSampler

from benchmarks.common.report import Report, file_digest, package_digest

# From a seed and the planned number of trials, which most entrants neither know nor need.
Build: TypeAlias = Callable[[int, int | None], BaseSampler]
Acquisition: TypeAlias = Literal["logei", "ei", "ucb"]

_OURS = "bbo-plugins"
_NEEDED_BY_OURS = ("bbo_plugins", "bbo_plugins.optuna")
_NEEDED_BY_UHE = (*_NEEDED_BY_OURS, "bbo_plugins.methods.uhe_bo")


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """One entrant: how to build it, and what has to be installed for that.

    Attributes:
        name: What it is called in options, records and tables.
        build: Makes the sampler.
        requires: The modules that have to be there.
        distribution: The package whose release identifies it, unless it is ours.
        ours: Whether it is one of ours.
        module: The module of this folder that its suggestions depend on as well.
        baseline: The entrant that differs from it in the estimation only; they are compared by
            group.
    """

    name: str
    build: Build
    requires: tuple[str, ...]
    distribution: str
    ours: bool = False
    module: str | None = None
    baseline: str | None = None

    def missing(self) -> tuple[str, ...]:
        """Return the modules that are needed and not installed."""
        return tuple(module for module in self.requires if not _importable(module))

    def source(self) -> str:
        """Return what identifies the entrant's code: a release, or for ours a digest of it."""
        if self.ours:
            own = f"-{file_digest(self.module)}" if self.module else ""
            return f"source-{package_digest()}{own}"
        return f"{self.distribution}-{importlib.metadata.version(self.distribution)}"


def _importable(module: str) -> bool:
    """Tell whether a module can be found, without importing it (its parents are imported)."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _ours(estimation: Literal["uhe", "map"], acquisition: Literal["logei", "ei", "ucb"]) -> Build:
    def build(seed: int, _n_trials: int | None) -> BaseSampler:
        from bbo_plugins.optuna import UHEBOSampler  # noqa: PLC0415 - a missing package is reported by name

        sampler: BaseSampler = UHEBOSampler(
            estimation=estimation, acquisition=acquisition, seed=seed
        )
        return sampler

    return build


def _ablation(name: str) -> Build:
    def build(seed: int, n_trials: int | None) -> BaseSampler:
        from benchmarks.common import ablations  # noqa: PLC0415 - needs the package

        return ablations.build(name, seed=seed, n_trials=n_trials)

    return build


def _gp_sampler(seed: int, _n_trials: int | None) -> BaseSampler:
    return optuna.samplers.GPSampler(seed=seed)


def _tpe_sampler(seed: int, _n_trials: int | None) -> BaseSampler:
    return optuna.samplers.TPESampler(seed=seed)


def _random_sampler(seed: int, _n_trials: int | None) -> BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


def _botorch(seed: int, _n_trials: int | None) -> BaseSampler:
    from benchmarks.common.botorch_peer import BoTorchSampler  # noqa: PLC0415 - needs torch

    return BoTorchSampler(seed=seed)


def _our_entries() -> tuple[Sampler, ...]:
    """Return our entrants: each acquisition function with each estimation."""
    entries = []
    kinds: tuple[tuple[Acquisition, str], ...] = (("logei", ""), ("ucb", "-ucb"), ("ei", "-ei"))
    for acquisition, suffix in kinds:
        plain = Sampler(
            name=f"ours-map{suffix}",
            build=_ours("map", acquisition),
            requires=_NEEDED_BY_OURS,
            distribution=_OURS,
            ours=True,
        )
        uhe = Sampler(
            name=f"ours-uhe{suffix}",
            build=_ours("uhe", acquisition),
            requires=_NEEDED_BY_UHE,
            distribution=_OURS,
            ours=True,
            baseline=plain.name,
        )
        entries += [uhe, plain]
    return tuple(entries)


def _ablation_entries() -> tuple[Sampler, ...]:
    """Return parts of UHE-BO alone, and the paper's literal settings.

    All use log EI, as ``ours-uhe`` does, but the literal ones, which use the paper's GP-UCB.
    """
    baselines = {
        "uhe-loss-only": "ours-map",
        "uhe-arm-only": "ours-map",
        "uhe-both": "ours-map",
        "uhe-literal": "ours-map-ucb",
    }
    return tuple(
        Sampler(
            name=name,
            build=_ablation(name),
            requires=_NEEDED_BY_UHE,
            distribution=_OURS,
            ours=True,
            module="benchmarks.common.ablations",
            baseline=baseline,
        )
        for name, baseline in baselines.items()
    )


_PEERS = (
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
_ENTRIES = (*_our_entries(), *_ablation_entries(), *_PEERS)
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
