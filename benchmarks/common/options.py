"""The one command line of all benchmarks: its options, and the sizes of what is not given.

A benchmark's ``run`` module says in ``SIZES`` how large it is by default and in ``QUICK`` how large
with ``--quick``: a mapping from names of options to values, which stand in for the options that are
not given.  Names that are no option are fine: they are sizes that nobody chooses.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DEFAULT_OUT = Path("benchmark-results")


def positive_int(text: str) -> int:
    """Parse a command-line count, refusing anything below one."""
    value = int(text)
    if value < 1:
        message = f"must be at least 1, but got {value}"
        raise argparse.ArgumentTypeError(message)
    return value


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that every benchmark has."""
    small = "small sizes, for the exit status and never for the figures"
    parser.add_argument("--quick", action="store_true", help=small)
    add_count(parser, "--seeds", "number of seeds, or of rounds where there are none")
    where = "where results go (default: %(default)s)"
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help=where)


def add_count(parser: argparse.ArgumentParser, flag: str, what: str) -> None:
    """Add an option that is a number of things, at least one."""
    parser.add_argument(flag, type=positive_int, metavar="N", help=what)


def add_names(
    parser: argparse.ArgumentParser, flag: str, names: Iterable[str], what: str = "only these"
) -> None:
    """Add an option that chooses some of ``names``."""
    choices = tuple(names)
    parser.add_argument(
        flag, nargs="+", choices=choices, metavar="NAME", help=f"{what}, of {', '.join(choices)}"
    )


def add_effort(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how much is run, in how many processes and for how long."""
    add_count(parser, "--jobs", "processes, each with one thread (default: %(default)s)")
    parser.set_defaults(jobs=2)
    what = "begin no further run after M minutes; 0 makes the tables from what is stored"
    parser.add_argument("--minutes", type=float, metavar="M", help=what)


def fill(options: argparse.Namespace, sizes: Mapping[str, Any], quick: Mapping[str, Any]) -> None:
    """Put a benchmark's sizes where nothing was given.

    Args:
        options: What was given; None stands for nothing.
        sizes: The usual sizes.
        quick: Those that ``--quick`` replaces.
    """
    for name, value in {**sizes, **(quick if options.quick else {})}.items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)
