"""Random numbers of a trial, derived from the sampler's seed and the trial's number.

Nothing here has a state that a draw would advance. So a resumed study continues the sequence of an
uninterrupted one, and workers that share a seed do not repeat each other: their trials have
different numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.optuna.sampling.branches import with_balanced_parents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.space import Dimension, SearchSpace
    from bbo_plugins.space.dimension import FloatArray

# What a generator is for: the same trial draws different numbers for different purposes.
_MODEL, _INDEPENDENT, _SHIFT, _REDRAW = range(4)

_SEQUENCE_LENGTH = 2**12  # trials that share one space-filling sequence
_N_REDRAWS = 256
_N_DRAWS = 16  # random points of which an irregular one is taken
_MAX_ENUMERATED = 20_000
_RESOLUTION = 2.0**40  # points whose coordinates agree to this fraction are the same point


def fresh_entropy() -> int:
    """Return 128 random bits from the operating system."""
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


def mix(seed: int, entropy: int) -> int:
    """Return a seed that depends on both numbers."""
    words = np.random.SeedSequence([seed, entropy]).generate_state(2, np.uint64)
    return int(words[0]) << 64 | int(words[1])


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, *key]))


def model_generator(seed: int, number: int, attempt: int = 0) -> np.random.Generator:
    """Return the generator for everything a model draws in one attempt to suggest a trial."""
    return _generator(seed, number, _MODEL, attempt)


def uniform_value(dimension: Dimension, seed: int, number: int, name: str) -> Any:
    """Return a uniformly random value of parameter ``name`` of trial ``number``."""
    u = _generator(seed, number, _INDEPENDENT, crc32(name.encode("utf-8", "surrogatepass")))
    return dimension.decode(float(u.random()))


def design_point(
    space: SearchSpace,
    seed: int,
    number: int,
    taken: Sequence[FloatArray],
    *,
    irregular: bool = False,
) -> FloatArray:
    """Return the point of trial ``number`` in a space-filling design.

    Trials with consecutive numbers take consecutive points of one shifted Sobol sequence. A
    discrete parameter that decides whether others exist takes the value that has been taken least.
    In a finite space a point that is taken is replaced by one that is not, as long as there is one.

    The first points of the sequence lie on a few lines, between which all that is valid may lie. An
    irregular point is the one of several random points that is furthest from those taken.

    Args:
        space: The d parameters.
        seed: The sampler's seed, which fixes the shift.
        number: The trial's number, which fixes the place in the sequence.
        taken: Points (d,) not to repeat.
        irregular: Whether the point is to be irregular; in a finite space none is.

    Returns:
        (d,) a snapped point.
    """
    if irregular and space.size is None and len(taken):
        draws = space.snap(_generator(seed, number, _REDRAW).random((_N_DRAWS, len(space))))
        gaps = space.distances(draws, np.stack(taken)).min(axis=1)
        furthest: FloatArray = draws[np.argmax(gaps)]
        return furthest
    sequence, index = divmod(number, _SEQUENCE_LENGTH)
    shift = _generator(seed, sequence, _SHIFT)
    point = shifted_sobol(index + 1, len(space), shift)[index:]
    x: FloatArray = space.snap(point)[0]
    if space.is_conditional:
        x = with_balanced_parents(space, point, np.array([*taken]).reshape(-1, len(space)))
    if space.size is None:
        return x
    known = {_key(row) for row in taken}
    if _key(x) not in known:
        return x
    rng = _generator(seed, number, _REDRAW)
    if space.size <= _MAX_ENUMERATED:
        candidates = rng.permutation(space.enumerate())
    else:
        candidates = space.snap(rng.random((_N_REDRAWS, len(space))))
    return next((row for row in candidates if _key(row) not in known), x)


def _key(x: FloatArray) -> bytes:
    return np.rint(x * _RESOLUTION).tobytes()
