"""Cross-validation scores that an objective reports, kept with its trial.

    bbo_plugins:cv_scores:0 = '{"v":1,"scores":[0.91,0.93,0.9,0.95,0.92]}'

Scores reported by ``optuna.terminator.report_cross_validation_scores`` are read as well. The
storage is shared and may hold anything under these keys: malformed scores count as not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import BaseTrial, FixedTrial, FrozenTrial, Trial

from bbo_plugins import errors
from bbo_plugins.optuna.study.storage import (
    CV_SCORES_KEY,
    decoded,
    is_finite,
    joined_chunks,
    of_version,
    set_trial_attribute,
    to_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREFIX = "bbo_plugins:cv_scores:"
_VERSION = 1
_MAX_SCORES = 4_096
_RULE = f"two to {_MAX_SCORES} finite numbers"


def report_cross_validation_scores(trial: BaseTrial, scores: Iterable[float]) -> None:
    """Report, inside an objective, the scores of the folds that its value is the mean of.

    ``RegretGapTerminator(threshold="cross-validation")`` stops once less is to be gained than these
    scores scatter. A drop-in replacement for Optuna's function of the same name. Reporting again
    replaces what was reported. On a ``FixedTrial`` or ``FrozenTrial``, as in
    ``objective(study.best_trial)``, nothing happens. Report before the trial is told: a finished
    one cannot take scores.

    Args:
        trial: The trial that the objective was called with.
        scores: One score per fold, in units of the objective; NumPy arrays are fine.

    Raises:
        TypeError: ``trial`` is no trial, or a score is not a real number.
        ValueError: There are fewer than two scores or too many, or one is not finite.
    """
    values = _checked(scores)
    if isinstance(trial, FixedTrial | FrozenTrial):
        return
    if not isinstance(trial, Trial):
        raise TypeError(errors.rule_message("trial", "an Optuna trial", trial))
    chunks = to_chunks(_PREFIX, {"v": _VERSION, "scores": values})
    chunks[f"{_PREFIX}{len(chunks)}"] = ""  # the end, also if more were reported before
    for key, chunk in chunks.items():
        set_trial_attribute(trial.study, trial, key, chunk)


def scores_of(attributes: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the scores in a trial's system attributes, empty if there are none to be read."""
    if f"{_PREFIX}0" not in attributes:
        return _usable(attributes.get(CV_SCORES_KEY))
    content = of_version(decoded(joined_chunks(_PREFIX, attributes)), _VERSION)
    return _usable(content.get("scores")) if content else ()


def _checked(scores: Any) -> list[float]:
    if isinstance(scores, str | bytes):
        raise TypeError(errors.rule_message("scores", _RULE, scores))
    try:
        values = [errors.check_finite("scores", score) for score in scores]
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(errors.rule_message("scores", _RULE, scores)) from error
    if not 2 <= len(values) <= _MAX_SCORES:
        raise ValueError(errors.rule_message("scores", _RULE, scores))
    return values


def _usable(stored: Any) -> tuple[float, ...]:
    """Return ``stored`` as scores if it is a list of two or more finite numbers, else nothing."""
    if isinstance(stored, np.ndarray) and stored.size <= _MAX_SCORES:
        stored = stored.tolist()  # as Optuna's function leaves it in memory
    if not isinstance(stored, list | tuple) or not 2 <= len(stored) <= _MAX_SCORES:
        return ()
    return tuple(float(score) for score in stored) if all(map(is_finite, stored)) else ()
