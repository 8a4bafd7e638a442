"""The length-scales that were estimated in the course of a study, as records to be drawn."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optuna.distributions import BaseDistribution, CategoricalDistribution

from bbo_plugins.optuna.go_ucb_sampler import FIT_NAME, GOUCBSampler
from bbo_plugins.visualization._data.objective import SuggestionRecord, suggestions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

TITLE = "Estimated length-scales"


X_TITLE = "Trial"


Y_TITLE = "Length-scale (1 = the parameter's whole range)"


RANDOM_LABEL = "bandit: suggested at random"


MODEL_LABEL = "bandit: left to the model"


_RUG_SHARE = 0.08  # of the axis, kept free for the marks of the arms


_MARGIN = 0.05


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScaleLine:
    """The estimates for one parameter.

    Attributes:
        name: The parameter.
        label: Its name with what its length-scale refers to, where that is not the plain range.
        points: Trial number and length-scale, in units of the parameter's range, of each trial
            whose suggestion an estimate by the study's usual loss stands behind, by number.
        detached: The same of the estimates by other losses, which are no part of the line.
    """

    name: str
    label: str
    points: tuple[tuple[int, float], ...]
    detached: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class LengthscalesInfo:
    """What the plot shows.

    Attributes:
        lines: One per parameter, sorted by name; empty if nothing was estimated.
        random: Numbers of the trials for which a bandit pulled its random arm.
        last: Number of the last trial shown.
        detached_label: What the estimates by other losses are called; empty if there are none.
        model: Numbers of the trials for which a bandit pulled the model's arm.
    """

    lines: tuple[ScaleLine, ...]
    random: tuple[int, ...]
    last: int
    detached_label: str = ""
    model: tuple[int, ...] = ()

    @property
    def rugs(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """The marks at the bottom: a label, "tick" or "dot", and the trials, of which are some."""
        rugs = ((RANDOM_LABEL, "tick", self.random), (MODEL_LABEL, "dot", self.model))
        return tuple(rug for rug in rugs if rug[2])

    @property
    def x_range(self) -> tuple[float, float]:
        """Ends of the trials' axis: start-up, which has no estimates, is left blank."""
        margin = 0.5 + 0.02 * self.last
        return -margin, self.last + margin

    @property
    def log10_range(self) -> tuple[float, float]:
        """Ends of the length-scales' axis as decimal logarithms; always shows 1."""
        lines = [(*line.points, *line.detached) for line in self.lines]
        logs = [math.log10(scale) for points in lines for _, scale in points]
        low, high = min(0.0, *logs), max(0.0, *logs)
        height = max(high - low, 1.0)
        below = _RUG_SHARE if self.rugs else _MARGIN
        return low - below * height, high + _MARGIN * height


def lengthscales_info(study: Study) -> LengthscalesInfo:
    """Read the estimates from the storage of ``study``; a warning in the log says if it has none.

    Raises:
        TypeError: ``study`` is not a study.
    """
    records = suggestions_of(study)
    names = sorted({name for record in records for name in record.length_scales})
    if not names:
        by_network = any(record.loss == FIT_NAME for record in records)
        if by_network or isinstance(study.sampler, GOUCBSampler):
            _logger.warning(
                "There is no length-scale to plot: the model of GOUCBSampler is a network, which "
                "has none. plot_posterior(study) shows how the network's prediction varies along "
                "each parameter."
            )
        else:
            _logger.warning(
                "The study has no stored estimates, so there is no length-scale to plot: "
                "UHEBOSampler stores one with each trial that its model suggests."
            )
        return LengthscalesInfo((), (), 0)
    losses = Counter(record.loss for record in records if record.length_scales)
    usual = losses.most_common(1)[0][0]
    others = sorted(_in_words(loss) for loss in losses if loss != usual)
    return LengthscalesInfo(
        lines=tuple(_line(name, records, usual) for name in names),
        random=tuple(record.number for record in records if record.arm == "random"),
        last=records[-1].number,
        detached_label=f"hollow: by {', '.join(others)}" if others else "",
        model=tuple(record.number for record in records if record.arm == "model"),
    )


def _line(name: str, records: Sequence[SuggestionRecord], usual: str | None) -> ScaleLine:
    known = [record for record in records if name in record.length_scales]
    distributions = [record.distributions.get(name) for record in known]
    points: dict[bool, list[tuple[int, float]]] = {True: [], False: []}
    for record in known:
        points[record.loss == usual].append((record.number, record.length_scales[name]))
    return ScaleLine(
        name=name,
        label=_label(name, next(filter(None, reversed(distributions)), None)),
        points=tuple(points[True]),
        detached=tuple(points[False]),
    )


def _in_words(loss: str | None) -> str:
    """Return the name of a loss with spaces between its words."""
    return "another loss" if loss is None else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", loss).lower()


def _label(name: str, distribution: BaseDistribution | None) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return f"{name} (categorical)"
    if getattr(distribution, "log", False):
        return f"{name} (log scale)"
    return name
