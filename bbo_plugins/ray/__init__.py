"""The Ray Tune front door: a search algorithm, a scheduler and a stopper for ``tune.Tuner``.

Needs the extra ``ray``; importing this package without it raises a
:class:`~bbo_plugins.errors.MissingExtraError` that says how to install it.
"""

from __future__ import annotations

from bbo_plugins.errors import MissingExtraError

try:
    import ray.tune  # noqa: F401 - says whether the extra is there, before anything is used
except ImportError as error:
    raise MissingExtraError("bbo_plugins.ray", "ray") from error

from bbo_plugins.ray.scheduler import InnerHorizonScheduler
from bbo_plugins.ray.search import BBOSearch
from bbo_plugins.ray.stopper import RegretGapStopper

__all__ = ["BBOSearch", "InnerHorizonScheduler", "RegretGapStopper"]
