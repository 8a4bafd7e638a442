"""The search space of complete trials in their order, which follows from these trials alone.

It has all parameters that any of the trials has, each with its latest range; a value outside of
that is placed at the nearest end. One that some trial lacks has a condition
(:mod:`bbo_plugins.optuna.study.parameters`). A parameter whose values are not of one kind, as a
number and then a category, has no common scale and is left out.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from bbo_plugins.optuna.study.parameters import ParameterLearner, conditions_among
from bbo_plugins.optuna.study.points import PlacedTrials

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.optuna.study.trials import TrialRow
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray


class LearnedSpace:
    """Places trials in the space that they span; one more trial is added to what is known.

    Only a cache: a pickled copy starts anew.
    """

    def __init__(self) -> None:
        """Start without a trial."""
        self._forget()
        self._placed = PlacedTrials({})

    def __reduce__(self) -> tuple[type[LearnedSpace], tuple[()]]:
        """Leave everything out."""
        return LearnedSpace, ()

    def _forget(self) -> None:
        self._rows: list[TrialRow] = []
        self._learner = ParameterLearner()

    def place(self, rows: Sequence[TrialRow]) -> tuple[SearchSpace, FloatArray]:
        """Return the space of complete trials, d dimensions, and their points (n, d).

        Args:
            rows: The trials, each inside its own ranges. Those of the last call need not be read
                again if they are the first ones now.
        """
        n_known = len(self._rows)
        if len(rows) < n_known or not all(map(is_, rows, self._rows)):
            self._forget()
        for row in rows[len(self._rows) :]:
            self._rows.append(row)
            self._learner.add(row.trial)
        known, disputed = self._learner.parameters(), self._learner.disputed
        distributions = {
            name: distribution
            for name, distribution in known.distributions.items()
            if name not in disputed
        }
        conditions = conditions_among(distributions, known.conditions)
        if self._placed.distributions == distributions:
            self._placed.set_conditions(conditions)
        else:
            self._placed = PlacedTrials(distributions, conditions)
        _, X = self._placed.place(rows)
        return self._placed.space, X
