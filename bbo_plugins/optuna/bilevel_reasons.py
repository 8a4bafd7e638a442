"""Why a bilevel query was made, as it is stored with its trial, and what that says of the trial.

It is one system attribute, in whose place a shared storage may hold anything:

    bbo_plugins:bilevel = {
        "v": 1, "reason": "optimism", "infeasible": false, "near_failure": false, "bounds": {...}
    }
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbo_plugins.optuna.proposals import is_finite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.bilbo import Query
    from bbo_plugins.optuna.bilevel_roles import Roles

REASON_KEY = "bbo_plugins:bilevel"
_VERSION = 1
# A trial counts for study.best_trial if no regret but F's can exceed so many deviations.
_TRUSTED_BOUND = 0.2


def store_reason(study: Study, trial: FrozenTrial, query: Query) -> None:
    """Write why ``trial`` makes ``query``."""
    said = {
        "v": _VERSION,
        "reason": query.reason,
        "infeasible": query.infeasible,
        "near_failure": query.near_failure,
        "bounds": {name: round(bound, 6) for name, bound in query.regret_bounds.items()},
    }
    study._storage.set_trial_system_attr(trial._trial_id, REASON_KEY, said)


def doubt(trial: FrozenTrial, roles: Roles, fixed: Mapping[str, Any]) -> float:
    """Return a constraint value: at most 0 if ``study.best_trial`` may take the trial.

    Args:
        trial: A complete trial of a study with one direction.
        roles: Which parameters and functions play which part.
        fixed: Its parameters that somebody else has chosen.
    """
    fits = roles.fits(trial.distributions, coupled=False)
    if not fits or trial.params[roles.query_param] != roles.upper:
        return 1.0
    # Only where the query came from the trusted sets do the bounds bound its regrets; a response
    # that was fixed was the best of one.
    said = trial.system_attrs.get(REASON_KEY)
    if not isinstance(said, dict) or said.get("v") != _VERSION or said.get("reason") != "optimism":
        return 1.0
    if said.get("near_failure") or not fixed.keys().isdisjoint(roles.lower_params):
        return 1.0
    bounds = said.get("bounds")
    others = [name for name in roles.functions if name != roles.upper]
    if not isinstance(bounds, dict) or not all(is_finite(bounds.get(name)) for name in others):
        return 1.0
    if min(bounds[name] for name in others) < 0.0:
        return 1.0
    return float(max(bounds[name] for name in others)) - _TRUSTED_BOUND
