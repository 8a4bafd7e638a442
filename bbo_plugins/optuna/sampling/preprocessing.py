"""What the first complete trials decide on before values are modeled.

Which ranges are stretched (:mod:`bbo_plugins.methods.input_warping`), which values are too bad to
be modeled (:mod:`bbo_plugins.methods.penalties`), and which ones went wrong
(:mod:`bbo_plugins.methods.outliers`). Each is decided by the trials that were the first to finish.
How many decide grows in steps, so that decisions are few, stay for a while, and are the same in a
process that reads the study later. A decision takes longer than a suggestion, so those in use are
stored with a suggestion: other workers, and a process that resumes the study, find them there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.likelihood import MARGINAL
from bbo_plugins.methods.gp_bo import MARGINAL_NAMES, objective_name
from bbo_plugins.methods.input_warping import warps_of
from bbo_plugins.methods.observations import Observations, failures_with_value, with_values
from bbo_plugins.methods.outliers import outliers_of
from bbo_plugins.methods.penalties import cutoff_of
from bbo_plugins.optuna.study.constraints import constraint_table
from bbo_plugins.optuna.study.parameters import hull_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.distributions import BaseDistribution

    from bbo_plugins.optuna.study.points import PlacedTrials
    from bbo_plugins.optuna.study.trials import StudyTrials, TrialRow
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_Outcome = TypeVar("_Outcome")

FIRST_DECISION = 12  # complete trials
_LAST_WARPING, _LAST_CUTOFF, _LAST_OUTLIERS = 120, 300, 300
_LEAST_KEPT = 10  # values that a cutoff has to leave
_WARPS, _CUTOFF, _OUTLIERS = "warps", "cutoff", "outliers"
_MAX_LOOKED_AT = 32  # stored proposals that are searched for a decision
_RULES = 1  # of deciding; stored decisions by another number of them are made again


@dataclass(frozen=True)
class Preprocessing:
    """What is done to the trials before a model sees them.

    Attributes:
        warps: Input warping, by the parameter's name.
        cutoff: The value, maximized, below which others count as failures.
        outliers: Numbers of the trials whose values are left out.
        digests: For each of these that is as the trials have decided, by its name, a digest of what
            the decision was made of.
    """

    warps: Mapping[str, float] = field(default_factory=dict)
    cutoff: float = -math.inf
    outliers: frozenset[int] = frozenset()
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Decision(Generic[_Outcome]):
    """A decision.

    Attributes:
        outcome: What was decided.
        digest: A digest of what it was made of; empty if there was nothing to decide.
    """

    outcome: _Outcome
    digest: str = ""


_NO_WARPS: Final[_Decision[Mapping[str, float]]] = _Decision({})
_NO_CUTOFF: Final = _Decision(-math.inf)
_NO_OUTLIERS: Final[_Decision[frozenset[int]]] = _Decision(frozenset())


class Preprocessor:
    """Decides on the preprocessing of one study, and remembers what it decided last.

    Only a cache: a new one finds the same decisions in the study, or makes them again.

    Args:
        preprocessing_from: From how many complete trials on these decide on input warping and on a
            cutoff; never before :data:`FIRST_DECISION`, None for never.
        outliers_from: The same for outliers.
    """

    def __init__(self, preprocessing_from: int | None, outliers_from: int | None) -> None:
        """Start with nothing decided."""
        self._preprocessing_from = preprocessing_from
        self._outliers_from = outliers_from
        # The last ones by their kind, each with what it was made of.
        self._decisions: dict[str, tuple[object, _Decision[Any]]] = {}

    def decide(
        self,
        trials: StudyTrials,
        placed: PlacedTrials,
        held: Mapping[str, Any],
        warps: Mapping[str, float] | None,
    ) -> Preprocessing:
        """Return what the trials decide on.

        Args:
            trials: The study's trials.
            placed: Their places in the latest ranges.
            held: Values at which parameters are held.
            warps: Input warping; None for that which the trials decide on.
        """
        # A range on an unsuitable scale looks as if it had penalties, so it is stretched first.
        warping = self._warps(trials, placed) if warps is None else _Decision(warps)
        cutoff = self._cutoff(trials, placed, warping.outcome)
        least = self._preprocessing_from or 0
        if not _is_reached(trials, placed, held, cutoff.outcome, least):
            cutoff = _NO_CUTOFF
        outliers = self._outliers(trials, placed, warping.outcome, cutoff.outcome)
        decisions: dict[str, _Decision[Any]] = {
            _WARPS: warping,
            _CUTOFF: cutoff,
            _OUTLIERS: outliers,
        }
        digests = {kind: one.digest for kind, one in decisions.items() if one.digest}
        return Preprocessing(warping.outcome, cutoff.outcome, outliers.outcome, digests)

    def _decision(
        self,
        kind: str,
        trials: StudyTrials,
        deciding: Sequence[TrialRow],
        made_of: tuple[object, ...],
        decide: Callable[[], _Outcome],
    ) -> _Decision[_Outcome]:
        """Return the last decision if it was made of the same, else one that is stored, or make it.

        Args:
            kind: What is decided on.
            trials: The study's trials.
            deciding: Those that decide.
            made_of: What the decision depends on beside them, and which ones they are.
            decide: Makes the decision.
        """
        if kind not in self._decisions or self._decisions[kind][0] != made_of:
            digest = digest_of(deciding, (kind, *made_of))
            stored = _stored_outcome(trials, kind, digest)
            outcome = decide() if stored is None else stored
            self._decisions[kind] = made_of, _Decision(outcome, digest)
        return self._decisions[kind][1]

    def _warps(self, trials: StudyTrials, placed: PlacedTrials) -> _Decision[Mapping[str, float]]:
        """Return the input warping that the first complete trials decide on."""
        least = self._preprocessing_from
        if least is None:
            return _NO_WARPS
        deciding = _deciding(trials, least, _LAST_WARPING, 3)
        if not deciding:
            return _NO_WARPS
        known, X = placed.place(deciding)
        space = placed.space

        def decide() -> Mapping[str, float]:
            table = constraint_table(known)[1] if trials.have_constraints else None
            observations = Observations.of_complete(X, np.zeros(len(known)), table)
            everything = [observations] * trials.n_objectives
            values = np.array([row.values for row in known], dtype=np.float64)
            objectives = with_values(
                everything, values.reshape(len(known), trials.n_objectives), space
            )
            return warps_of(space, objectives) if len(objectives[0].valued.y) >= least else {}

        # Today's ranges, as it is them that are stretched.
        numbers = [row.number for row in known]
        arrays = X.tobytes(), space.active(X).tobytes()
        made_of = numbers, space.names, space.conditions, *arrays, least
        return self._decision(_WARPS, trials, deciding, made_of, decide)

    def _cutoff(
        self, trials: StudyTrials, placed: PlacedTrials, warps: Mapping[str, float]
    ) -> _Decision[float]:
        """Return the value below which the first complete trials make others count as failures."""
        space, least = placed.space, self._preprocessing_from
        if least is None or trials.n_objectives > 1 or space.is_conditional:
            return _NO_CUTOFF
        deciding = _deciding(trials, least, _LAST_CUTOFF, 3)
        known = placed.place(deciding)[0]
        if not known or any(row.constraints for row in known):
            return _NO_CUTOFF
        ranges = _ranges_of(known, deciding, trials.parameters.dependent)

        def decide() -> float:
            kept = _without_failures(placed, ranges, deciding, warps)
            if kept is None:
                return -math.inf
            space, _, X, values = kept
            return cutoff_of(space, X, values[:, 0], least_kept=max(least, _LEAST_KEPT))

        # Not only those that have a place today: they had one at the time.
        numbers = [row.number for row in deciding]
        made_of = numbers, space.names, ranges, warps, least
        return self._decision(_CUTOFF, trials, deciding, made_of, decide)

    def _outliers(
        self, trials: StudyTrials, placed: PlacedTrials, warps: Mapping[str, float], cutoff: float
    ) -> _Decision[frozenset[int]]:
        """Return which of the first complete trials have a value that is an outlier."""
        if self._outliers_from is None:
            return _NO_OUTLIERS
        deciding = _deciding(trials, self._outliers_from, _LAST_OUTLIERS, 16)
        space, known = placed.space, placed.place(deciding)[0]
        if not known:
            return _NO_OUTLIERS
        latest = _ranges_of(known, deciding, trials.parameters.dependent)
        ranges = placed.distributions if space.is_conditional else latest

        def decide() -> frozenset[int]:
            kept = _without_failures(placed, ranges, deciding, warps, cutoff)
            if kept is None:
                return frozenset()
            space, rows, X, values = kept
            starts = _stored_fits(deciding, space, values)
            found = np.flatnonzero(outliers_of(space, X, values, warm_starts=starts))
            return frozenset(rows[row].number for row in found.tolist())

        numbers = [row.number for row in deciding]
        made_of = numbers, space.names, ranges, space.conditions, warps, cutoff
        return self._decision(_OUTLIERS, trials, deciding, made_of, decide)


def _ranges_of(
    known: Sequence[TrialRow], deciding: Sequence[TrialRow], dependent: frozenset[str]
) -> dict[str, BaseDistribution]:
    """Return the ranges at the time of a decision.

    Args:
        known: The deciding trials that have a place, by number: the last one's ranges are taken.
        deciding: All that decide: of a dependent range the one that holds all of theirs is taken.
        dependent: Names of parameters whose range depends on others.
    """
    ranges = dict(known[-1].trial.distributions)
    for name in dependent & ranges.keys():
        having = (row.trial.distributions for row in deciding)
        ranges[name] = hull_of(one[name] for one in having if name in one)
    return ranges


def digest_of(deciding: Sequence[TrialRow], made_of: Sequence[object]) -> str:
    """Return a digest of what a decision depends on, the same in every process.

    A finished trial's attributes go with its number and values.

    Args:
        deciding: The deciding trials.
        made_of: What the decision depends on beside them.
    """
    rows = [
        (row.number, row.values, _ordered(row.params), _ordered(row.constraints))
        for row in deciding
    ]
    text = repr((_RULES, rows, [_ordered(one) for one in made_of]))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _ordered(thing: object) -> object:
    """Return the items of a mapping in an order that every process has, anything else as it is."""
    return sorted(thing.items()) if isinstance(thing, Mapping) else thing


def _stored_outcome(trials: StudyTrials, kind: str, digest: str) -> Any:
    """Return what is stored as decided with one of the latest proposals, None if it is not.

    Numbers of outliers are those of this study, as the digest has the trials' numbers.
    """
    latest = islice((row for row in reversed(trials.rows) if row.has_proposal), _MAX_LOOKED_AT)
    for proposal in (row.outline for row in latest):
        if proposal is not None and proposal.digests.get(kind) == digest:
            if kind == _WARPS:
                return proposal.warps
            if kind == _OUTLIERS:
                return frozenset(proposal.outliers)
            return -math.inf if proposal.cutoff is None else proposal.cutoff
    return None


def _deciding(trials: StudyTrials, least: int, most: int, divisor: int) -> list[TrialRow]:
    """Return the complete trials that decide on something, by number: the first ones to finish.

    How many there are grows in steps, so that decisions are few and stay for a while.

    Args:
        trials: The study's trials.
        least: How many there have to be.
        most: How many may decide.
        divisor: A step is the number before, divided by this.
    """
    complete = trials.by_completion  # by number a late one would change what was decided before it
    last, step = 0, FIRST_DECISION
    while len(complete) >= least and step <= min(len(complete), most):
        last, step = step, step + max(step // divisor, 1)
    return sorted(complete[:last], key=attrgetter("number"))


def _stored_fits(
    rows: Sequence[TrialRow], space: SearchSpace, values: FloatArray
) -> list[WarmStart | None]:
    """Return the objectives' latest fits that were stored with one of these trials.

    The trials have them wherever they are read, so that every process starts from the same. None
    are returned if outliers were left out of them: they are of other data then.

    Args:
        rows: The trials.
        space: The search space that they have to be of.
        values: The n values of k objectives that are to be fitted, shape (n, k). The fits are
            returned as if they were of as many, as one that has grown much is checked by a fit
            from nothing, and the sampler does that with its own.
    """
    n, k = values.shape
    for row in reversed(rows):
        outline = None if row.is_retry else row.outline
        if outline is None or outline.criterion not in MARGINAL_NAMES:
            continue
        proposal = row.proposal
        if proposal is None or MARGINAL.name not in proposal.fits:
            continue
        if proposal.names == space.names and proposal.warps == space.warps:
            if proposal.outliers:
                return []
            # Many objectives have one fit together, under the name of the first.
            together = proposal.fits[MARGINAL.name]
            stored = [proposal.fits.get(objective_name(MARGINAL, j), together) for j in range(k)]
            fits = map(WarmStart.from_json, stored)
            return [None if fit is None else replace(fit, n_points=n) for fit in fits]
    return []


def _is_reached(
    trials: StudyTrials, placed: PlacedTrials, held: Mapping[str, Any], cutoff: float, least: int
) -> bool:
    """Return whether enough values are as good as a cutoff in what is searched now.

    The ranges may have moved since it was decided, or parameters may be held, to where all values
    are below it.

    Args:
        trials: The study's trials.
        placed: Their places in the latest ranges.
        held: Values at which parameters are held.
        cutoff: The value, maximized, below which others count as failures.
        least: How many values there have to be; never fewer than ten.
    """
    if cutoff == -math.inf:
        return True
    rows = placed.place(trials.observed)[0]
    there = [row for row in rows if row.params.items() >= held.items()]
    if there and all(row.value < cutoff for row in there):
        return False
    return sum(row.value >= cutoff for row in rows) >= max(least, _LEAST_KEPT)


def _without_failures(
    placed: PlacedTrials,
    ranges: Mapping[str, BaseDistribution],
    deciding: Sequence[TrialRow],
    warps: Mapping[str, float],
    cutoff: float = -math.inf,
) -> tuple[SearchSpace, list[TrialRow], FloatArray, FloatArray] | None:
    """Return the space at the time of the deciding trials, and those whose values are no failures.

    Args:
        placed: The trials' places.
        ranges: Distributions of the parameters at that time.
        deciding: The trials.
        warps: Input warping.
        cutoff: The value, maximized, below which others count as failures.

    Returns:
        The space, n trials, their X (n, d) and values (n, k); None if these are too few, or have no
        places.
    """
    then = placed.at_the_time(ranges)
    if then is None:
        return None
    rows, X = then.place(deciding)
    if len(rows) < FIRST_DECISION:  # by the ranges of that time
        return None
    space = then.space.warped(warps)
    X = space.stretched(X)
    values = np.array([row.values for row in rows])
    violated = np.array([row.violates for row in rows], dtype=np.bool_)
    has_failed = failures_with_value(X, values, space.active(X), violated, cutoff=cutoff)
    kept = np.flatnonzero(np.isfinite(values).all(axis=1) & ~has_failed)
    if len(kept) < FIRST_DECISION:
        return None
    return space, [rows[row] for row in kept.tolist()], X[kept], values[kept]
