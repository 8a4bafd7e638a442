"""The entrants of the ``highdim`` benchmark, by name: ours, the paper's literal variant, the peers.

``ours`` is GO-UCB, ``bbo`` the sampler in which it takes turns with a Gaussian process.

``literal`` has the paper's settings; ``literal-exact`` solves the paper's optimization problems
instead of following them for its numbers of steps, with its other settings. ``uhe-bo`` is this
package's other sampler, for the question which of the two to use. All are told how many
start-up points there are, where they have an argument for it; the rest are their own defaults.
CMA-ES ignores the start-up points and begins at the center of the box, as Optuna's does by default.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common import peer
from benchmarks.common.peer import Floats, Peer, Points, Space
from benchmarks.common.samplers import SAMPLERS, Entrant, by_name
from benchmarks.highdim.literal import LiteralGOUCB

OURS = "ours"
BBO = "bbo"
UHE_BO = "uhe-bo"
LITERAL = ("literal", "literal-exact")
PEERS = ("gpsampler", "hebo", "smac", "turbo", "tpe", "cma-es", "random")


class LiteralSampler(Peer):
    """The paper's Algorithm 1 with its printed settings, for one study of floats, minimized.

    The start-up points are the study's own first trials: uniform like the paper's Phase I, and the
    same ones for all entrants.
    """

    def __init__(self, *, seed: int, budget: int, n_startup_trials: int, exact: bool) -> None:
        """Keep the budget, of which ``n_startup_trials`` are Phase I."""
        super().__init__(seed=seed, n_startup_trials=1)
        self._settings: dict[str, Any] = {
            "n_rounds": max(budget - n_startup_trials, 2),
            "rng": np.random.default_rng(seed),
            "n_startup": n_startup_trials,
            "exact": exact,
        }
        self._method: LiteralGOUCB | None = None

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Tell the method what it has not been told yet, and ask it."""
        del number
        if self._method is None:
            limits = np.array([peer.limits(at)[:2] for at in space.values()])
            self._method = LiteralGOUCB(limits, **self._settings)
        X = np.array([[point[name] for name in space] for point in points])
        return dict(zip(space, self._method.suggest(X, y).tolist(), strict=True))


ENTRANTS = by_name(
    (
        replace(SAMPLERS["go-ucb"], name=OURS),
        SAMPLERS[BBO],
        replace(SAMPLERS["ours-uhe"], name=UHE_BO),
        *(
            Entrant(
                name=name,
                target=f"{__name__}:LiteralSampler",
                arguments={"exact": name == "literal-exact"},
                knows_budget=True,
            )
            for name in LITERAL
        ),
        *(SAMPLERS[name] for name in PEERS),
    )
)
