"""Encodings of the peers, without torch."""

import numpy as np
import pytest

from benchmarks.common import botorch_peer, hebo_peer
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import from_unit


@pytest.mark.parametrize(
    "name", ["mixed_sphere6", "mixed_interaction5", "stepped_ackley5", "log_sphere5"]
)
def test_botorch_encoding_round_trips(name: str) -> None:
    """Encoding and decoding give the same parameters, and corners decode to legal ones."""
    space = PROBLEMS[name].space
    rng = np.random.default_rng(0)
    for point in rng.random((20, len(space))):
        params = from_unit(space, point)
        encoded = np.array(botorch_peer.encode(space, params))
        assert ((encoded >= 0.0) & (encoded <= 1.0)).all()
        again = botorch_peer.decode(space, encoded)
        for key, value in params.items():
            expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert again[key] == expected
    for corner in (np.zeros(len(encoded)), np.ones(len(encoded))):
        for key, value in botorch_peer.decode(space, corner).items():
            assert space[key]._contains(space[key].to_internal_repr(value))


@pytest.mark.parametrize(
    "name", ["mixed_sphere6", "mixed_interaction5", "stepped_ackley5", "log_sphere5"]
)
def test_hebo_encoding_round_trips(name: str) -> None:
    """HEBO is told values that decode to the same parameters."""
    space = PROBLEMS[name].space
    for point in np.random.default_rng(0).random((20, len(space))):
        for key, value in from_unit(space, point).items():
            again = hebo_peer.decoded(space[key], hebo_peer.coded(space[key], value))
            assert again == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)
