"""Encodings of the peers; nothing of theirs has to be installed."""

import numpy as np
import pytest

from benchmarks.common import botorch_peer, hebo_peer, peer
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import cube_of

WHOLE = ("int", "pow_int", "cat")


@pytest.mark.parametrize(
    "name", ["mixed_sphere6", "mixed_interaction5", "stepped_ackley5", "log_sphere5"]
)
def test_botorch_encoding_round_trips(name: str) -> None:
    """Encoding and decoding give the same parameters, and corners decode to legal ones."""
    space = PROBLEMS[name].space
    rng = np.random.default_rng(0)
    for point in rng.random((20, len(space))):
        params = cube_of(space).decode(point)
        encoded = np.array(botorch_peer.encode(space, params))
        assert ((encoded >= 0.0) & (encoded <= 1.0)).all()
        again = botorch_peer.decode(space, encoded)
        for key, value in params.items():
            expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert again[key] == expected
    for corner in (np.zeros(len(encoded)), np.ones(len(encoded))):
        for key, value in botorch_peer.decode(space, corner).items():
            assert space[key]._contains(space[key].to_internal_repr(value))


@pytest.mark.parametrize("name", ["mixed_sphere6", "stepped_ackley5", "log_sphere5"])
def test_positions_round_trip(name: str) -> None:
    """HEBO and SMAC are told positions of categories and steps, within the limits they know."""
    space = PROBLEMS[name].space
    for point in np.random.default_rng(0).random((20, len(space))):
        params = cube_of(space).decode(point)
        told = peer.to_positions(space, params)
        for key, value in told.items():
            low, high, _ = peer.limits(space[key])
            assert low <= value <= high
            assert isinstance(value, int) == (hebo_peer.parameter(key, space[key])["type"] in WHOLE)
        assert peer.from_positions(space, told) == params
        assert peer.from_positions(space, hebo_peer.coded(space, params)) == params
