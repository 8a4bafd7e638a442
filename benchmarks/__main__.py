"""Command line: ``python -m benchmarks NAME [--quick] [--seeds K] [--out DIR]``.

A benchmark is a folder whose ``run`` module has three public names: ``DESCRIPTION`` (one line for
the help), ``add_arguments(parser)`` and ``run(options, report)``; and ``SIZES`` and ``QUICK`` if it
has sizes by default (see ``benchmarks.common.options``).  A new folder is found by itself.
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

BENCHMARKS = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/run.py")))


def name_parser() -> argparse.ArgumentParser:
    """Return the parser of the first word only, so that ``--help`` loads no benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument(
        "name", choices=BENCHMARKS, help="the benchmark to run; NAME --help shows its options"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return the process's exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name: str = name_parser().parse_args(words[:1]).name
    module = importlib.import_module(f"benchmarks.{name}.run")
    # Not at the top: they load numpy, after the thread counts are set.
    from benchmarks.common import options as common  # noqa: PLC0415
    from benchmarks.common.report import Report  # noqa: PLC0415
    from benchmarks.common.samplers import quiet  # noqa: PLC0415

    sizes, quick = getattr(module, "SIZES", {}), getattr(module, "QUICK", {})
    defaults = ", ".join(f"{size} {value}" for size, value in sizes.items())
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.DESCRIPTION,
        epilog=f"defaults: {defaults}" if sizes else None,
    )
    common.add_common(parser)
    module.add_arguments(parser)
    options = parser.parse_args(words[1:])
    common.fill(options, sizes, quick)

    quiet()
    command = " ".join(["python -m benchmarks", *words])
    report = Report(name=name, directory=options.out, command=command)
    module.run(options, report)
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
