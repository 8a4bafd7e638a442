"""What the scripts of this folder share, none of which a study of your own needs.

Their options, how they save a plot, and that they say in the end how long they took.
"""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def add_count(
    parser: argparse.ArgumentParser,
    option: str,
    default: int | None,
    what: str,
    *,
    minimum: int = 1,
    metavar: str = "N",
) -> None:
    """Add an option for a whole number, such as the budget; ``what`` says of what."""
    parser.add_argument(
        option,
        type=_whole_number(minimum),
        default=default,
        metavar=metavar,
        help=what if default is None else f"{what} (default: %(default)s)",
    )


def add_out(parser: argparse.ArgumentParser, default: str, what: str) -> None:
    """Add ``--out``, the folder for ``what`` the script leaves behind."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(default),
        metavar="DIR",
        help=f"folder for {what} (default: ./%(default)s)",
    )


def add_seed(parser: argparse.ArgumentParser, of_what: str) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed", type=int, default=0, help=f"seed of {of_what} (default: %(default)s)"
    )


def _whole_number(minimum: int) -> Callable[[str], int]:
    """Return the parser of a whole number that is large enough."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, but got {text!r}") from None
        if number < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, but got {number}")
        return number

    return parse


def save_plot(axes: Any, path: Path) -> None:
    """Save what a function of ``bbo_plugins.visualization.matplotlib`` has drawn.

    Args:
        axes: What it returned, either the axes of a figure or an array of them.
        path: Where the picture goes.
    """
    np.ravel(axes)[0].figure.savefig(path, dpi=150)


@contextmanager
def timed() -> Iterator[None]:
    """Print how long it took, unless it ends by an error."""
    started = time.perf_counter()
    yield
    print(f"Took {time.perf_counter() - started:.0f} s.")
