"""Command line: ``python -m benchmarks NAME [--quick] [--seeds K] [--out DIR]``.

A benchmark is a folder whose ``run`` module has three public names: ``DESCRIPTION`` (one line for
the help), ``add_arguments(parser)`` and ``run(options, report)``.  A new one is a folder and a line
in ``BENCHMARKS``.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

if __name__ == "__main__":
    # Before anything below can load numpy: BLAS reads these once, at import.
    for _variable in THREAD_VARIABLES:
        os.environ[_variable] = "1"

BENCHMARKS = {
    "bilevel": "benchmarks.bilevel.run",
    "estimation": "benchmarks.estimation.run",
    "highdim": "benchmarks.highdim.run",
    "horizon": "benchmarks.horizon.run",
    "imports": "benchmarks.imports.run",
    "latency": "benchmarks.latency.run",
    "memory": "benchmarks.memory.run",
    "parallel": "benchmarks.parallel.run",
    "ray": "benchmarks.ray.run",
    "regret": "benchmarks.regret.run",
    "scale": "benchmarks.scale.run",
    "stopping": "benchmarks.stopping.run",
}
DEFAULT_OUT = Path("benchmark-results")


def positive_int(text: str) -> int:
    """Parse a command-line count, refusing anything below one."""
    value = int(text)
    if value < 1:
        message = f"must be at least 1, but got {value}"
        raise argparse.ArgumentTypeError(message)
    return value


def name_parser() -> argparse.ArgumentParser:
    """Return the parser of the first word only, so that ``--help`` loads no benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument(
        "name",
        choices=sorted(BENCHMARKS),
        help="the benchmark to run; NAME --help shows its options",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the process's exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name: str = name_parser().parse_args(words[:1]).name
    module = importlib.import_module(BENCHMARKS[name])

    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}", description=module.DESCRIPTION
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, for the exit status and never for the figures",
    )
    parser.add_argument(
        "--seeds",
        type=positive_int,
        metavar="K",
        help="number of seeds (default: the benchmark's own)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIR",
        help="where results go (default: %(default)s)",
    )
    module.add_arguments(parser)
    options = parser.parse_args(words[1:])

    from benchmarks.common.report import Report  # noqa: PLC0415 - after the thread counts are set

    command = " ".join(["python -m benchmarks", *words])
    report = Report(name=name, directory=options.out, command=command)
    module.run(options, report)
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
