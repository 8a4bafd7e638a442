"""Learn from the trials where each parameter exists.

A complete trial tells of every parameter whether it exists there, a pruned or failed one only which
do: it may have been cut off before it asked for the others. What those lack counts at levels at
which no complete trial was, as at a category at which every trial fails.

For each parameter that some complete trial lacks, the rule is the decision tree of largest
evidence: mostly a single split on one other parameter that separates the trials with it from those
without. The evidence of a split is the probability of the presences in its cells, each cell with a
Beta(1/2, 1/2) prior, less a price for the choice of a threshold. Parents that were asked for before
their child, and that exist everywhere, are preferred.

A threshold lies in the middle between the values on its two sides, so that a search that hopes for
the parameter, or to be without it, halves the gap with each trial; if the parameter was seen once,
at that one value, as it may be a coincidence. Where the trials cannot tell, as at a category that
no trial had, a parameter counts as active: it is suggested, and a trial that does not use it is
placed where it was suggested (:mod:`bbo_plugins.optuna.study.points`).

A single split follows from counts and extremes, to which each trial is added once. A tree over
several parents is grown anew each time the number of trials has grown by an eighth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from bbo_plugins.space import Condition, Split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from optuna.trial import FrozenTrial

    from bbo_plugins.space import Dimension
    from bbo_plugins.space.dimension import FloatArray, IntArray

_MAX_TABLED = 16  # numeric parameters with so many levels at most are split level by level
_OUT_OF_ORDER = 20.0  # nats against a parent that was asked for after its child
_CONDITIONAL = 10.0  # nats against a parent that has a condition itself
_THRESHOLD_PRICE = 1.0  # nats against a threshold, on top of the choice among the values
MAX_CHILDREN = 400  # parameters whose conditions are learned
_MAX_DEPTH = 4
_REGROWN = 8  # a tree is grown anew when an eighth of the trials has come since


@dataclass(frozen=True)
class Column:
    """How one parameter may serve as a parent.

    Attributes:
        dimension: Its dimension.
        n_levels: Levels that are told apart, 0 if it is split by a threshold.
        price: Evidence against choosing it.
    """

    dimension: Dimension
    n_levels: int
    price: float

    def number_of(self, value: Any) -> float | None:
        """Return the level of a value, or the value itself; None if it is of another type."""
        try:
            u = self.dimension.encode([value])
            return float(self.dimension.level_of(u)[0] if self.n_levels else value)
        except (TypeError, ValueError, OverflowError):
            return None

    @classmethod
    def of(cls, dimension: Dimension, *, is_fixed: bool) -> Column:
        """Return how it serves; where the range has changed, levels are not comparable."""
        n_levels = dimension.n_levels or 0
        if dimension.has_choices:
            return cls(dimension, n_levels, 0.0)
        return cls(dimension, n_levels if is_fixed and n_levels <= _MAX_TABLED else 0, 0.5)

    def cut_between(self, low: float, high: float) -> float:
        """Return the coordinate in the middle between two values; infinite if it is out of range.

        Values outside of the range are encoded as its ends, which are not on their side.
        """
        if low >= self.dimension.high:
            return math.inf
        if high <= self.dimension.low:
            return -math.inf
        return float(np.mean(self.dimension.encode([low, high])))

    def split(self, name: str, cells: Sequence[Condition], absent: Condition) -> Split:
        """Return the split by levels."""
        positions = self.dimension.position_of(np.arange(self.n_levels))
        cuts = 0.5 * (positions[1:] + positions[:-1])
        return Split(name, tuple(cuts.tolist()), (*cells, absent))


class Evidence:
    """Counts and extremes over the trials, for each pair of a parent and a child.

    Rows stand for the cells of all parents one after the other: the levels of each, or one cell if
    it is split by a threshold, and last the cell of trials without it. P parameters have R rows. A
    trial that was cut off shows which parameters it had, and perhaps which it would not have had.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """Start with nothing counted."""
        self._names = list(columns)
        self._column_of = {name: column for column, name in enumerate(self._names)}
        self._columns = [*columns.values()]
        self._trees: dict[str, tuple[bytes, Condition]] = {}
        P = len(self._names)
        widths = [max(one.n_levels, 1) + 1 for one in self._columns]
        self._first = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
        self._last = np.cumsum(widths).astype(np.int64) - 1
        R = sum(widths)
        self._counts = np.zeros((2, R, P), dtype=np.int64)  # trials without the child, and with it
        self._perhaps_without = np.zeros((R, P), dtype=np.bool_)  # by trials that were cut off
        self._low = np.full((2, P, P), np.inf)
        self._high = np.full((2, P, P), -np.inf)
        self._reversed = np.zeros((P, P), dtype=np.int64)  # child asked for first
        self._together = np.zeros((P, P), dtype=np.int64)
        self._values: list[FloatArray] = []
        self._known: list[NDArray[np.bool_]] = []
        self._numbers: list[int] = []

    def holds_for(self, columns: Mapping[str, Column]) -> bool:
        """Return whether what was counted holds for these parameters."""
        return [*columns] == self._names and all(
            new == old if new.n_levels or old.n_levels else True
            for new, old in zip(columns.values(), self._columns, strict=True)
        )

    def update(self, columns: Mapping[str, Column], trials: Sequence[FrozenTrial]) -> None:
        """Take over ranges that have changed, and count those of all trials that are new."""
        if self._columns != [*columns.values()]:
            self._columns = [*columns.values()]
            self._trees.clear()
        for trial in trials[len(self._numbers) :]:
            values, known, position = self._read(trial)
            exists = ~np.isnan(values)
            cells = self._cells(values, known)
            self._perhaps_without[np.ix_(cells, np.flatnonzero(~exists))] = True
            self._numbers.append(trial.number)
            self._values.append(values)
            self._known.append(known)
            for has, children in ((0, known & ~exists), (1, exists)):
                self._counts[has][np.ix_(cells, np.flatnonzero(children))] += 1
                pair = exists[:, None] & children[None, :]
                column = np.broadcast_to(values[:, None], pair.shape)
                low, high = self._low[has], self._high[has]
                low[pair] = np.minimum(low[pair], column[pair])
                high[pair] = np.maximum(high[pair], column[pair])
            both = exists[:, None] & exists[None, :]
            self._together += both
            self._reversed += both & (position[:, None] > position[None, :])

    def _read(self, trial: FrozenTrial) -> tuple[FloatArray, NDArray[np.bool_], IntArray]:
        """Return values (NaN where absent), what is known, and the order of asking, each (P,)."""
        values = np.full(len(self._names), np.nan)
        known = np.full(len(self._names), trial.state is TrialState.COMPLETE)
        position = np.zeros(len(self._names), dtype=np.int64)
        for place, (name, value) in enumerate(trial.params.items()):
            column = self._column_of.get(name)
            if column is not None:
                position[column] = place
                number = self._columns[column].number_of(value)
                known[column] = number is not None
                values[column] = math.nan if number is None else number
        return values, known, position

    def _cells(self, values: FloatArray, known: NDArray[np.bool_]) -> IntArray:
        """Return the rows (k,) of the cells that a trial is known to be in."""
        cells = []
        for column, (parent, value) in enumerate(zip(self._columns, values, strict=True)):
            if math.isnan(value):
                if known[column]:
                    cells.append(self._last[column])
            else:
                cells.append(self._first[column] + (int(value) if parent.n_levels else 0))
        return np.array(cells, dtype=np.int64)

    def conditions(self, missing: Sequence[str], cut_off: Sequence[str]) -> dict[str, Condition]:
        """Return the conditions of the parameters that are missing in some trial.

        Args:
            missing: Those that some complete trial lacks.
            cut_off: Those that only trials lack which were cut off.
        """
        learned = dict.fromkeys(missing, True) | self._of_missing(missing[:MAX_CHILDREN])
        return _without_circles(learned | self._of_cut_off(cut_off[:MAX_CHILDREN]))

    def _of_missing(self, children: Sequence[str]) -> dict[str, Condition]:
        """Return the condition of each child."""
        columns = [self._column_of[child] for child in children]
        scores = self._scores()[:, columns]
        found: dict[str, Condition] = {}
        for child, column, score in zip(children, columns, scores.T, strict=True):
            parent = int(np.argmax(score))
            decides = math.isfinite(score[parent])
            if decides and not self._reversed[parent, column]:
                found[child] = self._single_split(parent, column)
                continue
            # A sibling that was asked for later exists where it does, but is no reason.
            found[child] = self._tree(column)
            if decides and found[child] is True:
                found[child] = self._single_split(parent, column)
        return found

    def _of_cut_off(self, children: Sequence[str]) -> dict[str, Condition]:
        """Return the conditions of those children that are missing at levels of some parent.

        Every complete trial has these children. A level counts if only trials that were cut off are
        known of it, and a parent if it was asked for first.
        """
        found: dict[str, Condition] = {}
        for child in children:
            column = self._column_of[child]
            missing = self._perhaps_without[:, column] & (self._counts[1][:, column] == 0)
            missing[self._last] = False
            first = (self._together[:, column] > 0) & (self._reversed[:, column] == 0)
            first &= np.logical_or.reduceat(missing, self._first)
            parents = np.flatnonzero(first)
            if len(parents):
                found[child] = self._single_split(int(parents[0]), column)
        return found

    def _scores(self) -> FloatArray:
        """Return the evidence (P, P) of each parent for each child, -inf if it does not decide."""
        without, having = self._counts
        evidence = np.add.reduceat(_log_evidence(having, without), self._first, axis=0)
        mixed = (having > 0) & (without > 0)
        tabled = np.array([one.n_levels > 0 for one in self._columns])
        mixed[self._first[~tabled]] = False  # that one cell has both sides of the threshold
        undecided = np.logical_or.reduceat(mixed, self._first, axis=0)
        rows = self._first[~tabled]
        above = self._high[0] < self._low[1]
        below = self._high[1] < self._low[0]
        n_with, n_without = having[rows], without[rows]
        both = (n_with > 0) & (n_without > 0)
        undecided[~tabled] |= ~(above | below)[~tabled]
        split = _log_evidence(n_with, 0) + _log_evidence(0, n_without)
        split -= _THRESHOLD_PRICE + np.log1p(n_with + n_without)
        whole = _log_evidence(n_with, n_without)
        evidence[~tabled] += np.where(both, split, 0.0) - np.where(both, whole, 0.0)
        evidence -= np.array([one.price for one in self._columns])[:, None]
        evidence -= _OUT_OF_ORDER * (self._reversed > 0)
        evidence[without[self._last].any(axis=1)] -= _CONDITIONAL
        undecided |= self._together == 0
        np.fill_diagonal(undecided, val=True)
        return np.where(undecided, -np.inf, evidence)

    def _single_split(self, parent: int, child: int) -> Condition:
        """Return the split of a parent that decides by itself."""
        column, name = self._columns[parent], self._names[parent]
        rows = slice(self._first[parent], self._last[parent] + 1)
        without, having = self._counts[:, rows, child]
        holds = (having > 0) | ~self._perhaps_without[rows, child]
        if column.n_levels:
            return column.split(name, holds[:-1].tolist(), bool(holds[-1]))
        if not without[0]:
            return Split(name, (), (bool(holds[0]), bool(holds[-1])))
        low, high = self._low[:, parent, child], self._high[:, parent, child]
        if high[0] < low[1]:
            ends, cells = (float(high[0]), float(low[1])), (False, True)
        else:
            ends, cells = (float(high[1]), float(low[0])), (True, False)
        cut = column.cut_between(*ends)
        if having[0] == 1 and math.isfinite(cut):
            # Active from there on only: going there again confirms or refutes it.
            below, above = column.dimension.encode(ends).tolist()
            cut = above if cells[1] else math.nextafter(below, math.inf)
        return Split(name, (cut,), (*cells, bool(holds[-1])))

    def _tree(self, child: int) -> Condition:
        """Return a tree over several parents; True where they do not decide."""
        n = len(self._numbers)
        n -= n % max(1, n // _REGROWN)
        order = np.argsort(self._numbers, kind="stable")[:n]
        grown_from = np.array(self._numbers)[order].tobytes()
        name = self._names[child]
        if name not in self._trees or self._trees[name][0] != grown_from:
            values, known = np.array(self._values)[order], np.array(self._known)[order]
            rows = np.flatnonzero(known[:, child])
            first = (self._together[:, child] > 0) & (self._reversed[:, child] == 0)
            parents = [int(one) for one in np.flatnonzero(first) if one != child]
            grower = _Tree(self._names, self._columns, values, known, child)
            self._trees[name] = grown_from, grower.grown(rows, parents, _MAX_DEPTH)
        return self._trees[name][1]


@dataclass(frozen=True)
class _Tree:
    """Grows a decision tree for one child, greedily by evidence.

    Attributes:
        names: Names of the P parameters.
        columns: How each may serve as a parent.
        values: Their values in each trial, NaN where absent, shape (n, P).
        known: Whether presence or absence is known, shape (n, P).
        child: Column of the child.
    """

    names: Sequence[str]
    columns: Sequence[Column]
    values: FloatArray
    known: NDArray[np.bool_]
    child: int

    def grown(self, rows: IntArray, parents: Sequence[int], depth: int) -> Condition:
        """Return the tree for the trials ``rows`` (k,)."""
        has = ~np.isnan(self.values[rows, self.child])
        if not len(rows) or has.all():
            return True
        if not has.any():
            return False
        if not depth:
            return True
        best, split = 0.0, None
        for parent in parents:
            # A trial that was cut off before it asked for the parent says nothing of its split.
            known = self.known[rows, parent]
            among, having_child = rows[known], has[known]
            whole = float(_log_evidence(having_child.sum(), (~having_child).sum()))
            for threshold in self._thresholds(among, parent):
                cell = self._cells(among, parent, threshold)
                n = int(cell.max(initial=0)) + 1
                having = np.bincount(cell[having_child], minlength=n)
                without = np.bincount(cell[~having_child], minlength=n)
                score = float(_log_evidence(having, without).sum()) - self.columns[parent].price
                if not math.isnan(threshold):
                    score -= _THRESHOLD_PRICE + math.log1p(len(among))
                if score - whole > best:
                    best, split = score - whole, (among, cell, parent, threshold)
        return True if split is None else self._split(*split, parents, depth)

    def _thresholds(self, rows: IntArray, parent: int) -> list[float]:
        """Return the values above which a numeric parent may be cut, NaN for a split by level."""
        if self.columns[parent].n_levels:
            return [math.nan]
        seen = np.unique(self.values[rows, parent])
        seen = seen[~np.isnan(seen)]
        return seen[:-1].tolist() or [math.inf]

    def _cells(self, rows: IntArray, parent: int, threshold: float) -> IntArray:
        """Return the cell (k,) of each trial, the last one where the parent is absent."""
        value = self.values[rows, parent]
        absent = np.isnan(value)
        if math.isnan(threshold):
            n = self.columns[parent].n_levels
            return np.where(absent, n, np.where(absent, 0.0, value)).astype(np.int64)
        return np.where(absent, 2, value > threshold).astype(np.int64)

    def _split(
        self,
        rows: IntArray,
        cells: IntArray,
        parent: int,
        threshold: float,
        parents: Sequence[int],
        depth: int,
    ) -> Condition:
        """Return the split at this place, its cells grown further."""
        column, name = self.columns[parent], self.names[parent]
        n = column.n_levels or 2
        inner = [self.grown(rows[cells == i], parents, depth - 1) for i in range(n + 1)]
        if column.n_levels:
            return column.split(name, inner[:-1], inner[-1])
        values = self.values[rows, parent]
        following = values[values > threshold].min(initial=math.inf)
        cut = column.cut_between(threshold, float(following)) if threshold < math.inf else math.inf
        return Split(name, (cut,), tuple(inner))


def _log_evidence(having: Any, without: Any) -> FloatArray:
    """Return the log probability of presences with a Beta(1/2, 1/2) prior, any shape."""
    from scipy.special import betaln  # noqa: PLC0415 - would slow the package's import

    evidence: FloatArray = betaln(np.add(having, 0.5), np.add(without, 0.5)) - math.log(math.pi)
    return evidence


def _without_circles(conditions: dict[str, Condition]) -> dict[str, Condition]:
    """Return the conditions with True in place of one that would look at its own parameter."""
    done: dict[str, Condition] = {}

    def reaches(name: str, target: str, seen: set[str]) -> bool:
        condition = done.get(name, True)
        if name == target or name in seen or not isinstance(condition, Split):
            return name == target
        seen.add(name)
        return any(reaches(parent, target, seen) for parent in condition.parents())

    for name, condition in conditions.items():
        parents = condition.parents() if isinstance(condition, Split) else ()
        done[name] = True if any(reaches(one, name, set()) for one in parents) else condition
    return done
