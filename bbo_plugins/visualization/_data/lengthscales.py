"""The length-scales that were estimated in the course of a study."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from optuna.distributions import BaseDistribution, CategoricalDistribution

from bbo_plugins.methods.go_ucb.algorithm import FIT_NAME
from bbo_plugins.optuna.go_ucb_sampler import GOUCBSampler
from bbo_plugins.optuna.study.parameters import dimension_of
from bbo_plugins.optuna.study.storage import inner_sampler
from bbo_plugins.optuna.study.trials import check_one_function
from bbo_plugins.visualization._data.objective import SuggestionRecord, suggestions_of
from bbo_plugins.visualization._data.panels import (
    MARGIN,
    Axis,
    Item,
    Line,
    Panel,
    Plot,
    Points,
    Rule,
)
from bbo_plugins.visualization._style import (
    DOT,
    GRAY,
    STACK,
    TICK,
    LineStyle,
    MarkerStyle,
    hollow,
    line_styles,
    marked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optuna.study import Study

_TITLE = "Estimated length-scales"
_Y_TITLE = "Length-scale (1 = the parameter's whole range)"
_RUGS = {
    "random": ("bandit: suggested at random", TICK),
    "model": ("bandit: left to the model", MarkerStyle(DOT, (8, 5.0), GRAY)),
}
_AT = 0.02  # of the panel's height, where the marks of the bandit's arms are
_RUG_SHARE = 0.08  # of the axis, kept free for these marks
_LONGEST = 2.0  # power of ten at which the axis ends: that parameter does not matter
_HOVER = "trial %{x}: %{y:.3g}"
_logger = logging.getLogger(__name__)


def plot_lengthscales(study: Study) -> Plot:
    """Plot the length-scale of each parameter that was estimated before each trial.

    A short length-scale says that the objective changes a lot along that parameter, one well above
    1 that it hardly does. Everything is read from the study's storage; nothing is fitted. A trial
    without an estimate (start-up, enqueued, suggested at random) has no point; those suggested at
    random by a sampler that chose so have a mark at the bottom. If a sampler estimates in more than
    one way, the line connects the estimates of the more frequent one and the others are hollow.

    Args:
        study: A study whose trials a sampler of this package suggested.

    Returns:
        Plotly's figure, or matplotlib's axes. Empty, with a warning in the log, if no estimate is
        stored.

    Raises:
        TypeError: ``study`` is not a study.
        ValueError: The study has several objectives, or is one of ``BILBOSampler``.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization import plot_lengthscales

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            figure = plot_lengthscales(study)
            figure.write_html("lengthscales.html")
    """
    check_one_function(study)
    records = suggestions_of(study)
    names = sorted({name for record in records for name in record.length_scales})
    if not names:
        _warn(study, records)
        return Plot(_TITLE)
    usages = Counter(record.criterion for record in records if record.length_scales)
    usual = usages.most_common(1)[0][0]
    items: list[Item] = [Rule(1.0)]
    for index, (name, style) in enumerate(zip(names, line_styles(len(names)), strict=True)):
        items += _estimates(name, records, usual, style, index)
    others = sorted(_in_words(criterion) for criterion in usages if criterion != usual)
    if others:
        label = f"hollow: by {', '.join(others)}"
        items.append(Points(label, (None,), (None,), hollow(LineStyle(GRAY))))
    scales = [scale for record in records for scale in record.length_scales.values()]
    low, high = _scale_limits(scales, rugs=any(record.arm in _RUGS for record in records))
    items += _arms(records, low ** (1.0 - _AT) * high**_AT)
    last = records[-1].number
    margin = 0.5 + 0.02 * last  # start-up, which has no estimates, is left blank
    x = Axis("Trial", limits=(-margin, last + margin), whole=True)
    y_axis = Axis(_Y_TITLE, log=True, limits=(low, high))
    return Plot(_TITLE, (Panel(x, y_axis, tuple(items)),), STACK)


def _arms(records: Sequence[SuggestionRecord], height: float) -> Iterator[Item]:
    """Return the marks of the trials in which a bandit chose, at that height."""
    for arm, (label, look) in _RUGS.items():
        numbers = [record.number for record in records if record.arm == arm]
        if numbers:
            yield Points(label, numbers, [height] * len(numbers), look, hover="trial %{x}")


def _warn(study: Study, records: Sequence[SuggestionRecord]) -> None:
    """Say why there is nothing to plot."""
    by_network = any(record.criterion == FIT_NAME for record in records)
    if by_network or isinstance(inner_sampler(study), GOUCBSampler):
        _logger.warning(
            "There is no length-scale to plot: the model of GOUCBSampler is a network, which "
            "has none. plot_posterior(study) shows how the network's prediction varies along "
            "each parameter."
        )
    else:
        _logger.warning(
            "The study has no stored estimates, so there is no length-scale to plot: "
            "BBOSampler and UHEBOSampler store one with each trial that their process suggests."
        )


def _estimates(
    name: str, records: Sequence[SuggestionRecord], usual: str | None, style: LineStyle, index: int
) -> Iterator[Item]:
    """Return the line of a parameter, and the estimates that are no part of it."""
    known = [record for record in records if name in record.length_scales]
    distributions = [record.distributions.get(name) for record in known]
    label = _label(name, next(filter(None, reversed(distributions)), None))
    on_line = [record for record in known if record.criterion == usual]
    x, y = _by_trial(name, on_line)
    yield Line(label, x, y, style, marked=marked(len(x), index), hover=_HOVER)
    if len(on_line) < len(known):
        x, y = _by_trial(name, [record for record in known if record.criterion != usual])
        yield Points(label, x, y, hollow(style), hover=_HOVER)


def _by_trial(name: str, records: Sequence[SuggestionRecord]) -> tuple[list[int], list[float]]:
    """Return numbers and length-scales, in units of the parameter's range."""
    return [one.number for one in records], [one.length_scales[name] for one in records]


def _scale_limits(scales: Sequence[float], *, rugs: bool) -> tuple[float, float]:
    """Return the ends of the length-scales' axis, which always shows 1 and ends at 100."""
    logs = [min(math.log10(scale), _LONGEST) for scale in scales]
    low, high = min(0.0, *logs), max(0.0, *logs)
    height = max(high - low, 1.0)
    below = _RUG_SHARE if rugs else MARGIN
    return 10.0 ** (low - below * height), 10.0 ** (high + MARGIN * height)


def _in_words(criterion: str | None) -> str:
    """Return the name of a fit criterion with spaces between its words."""
    if criterion is None:
        return "another criterion"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", criterion).lower()


def _label(name: str, distribution: BaseDistribution | None) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return f"{name} ({dimension_of(distribution).kind})"
    if getattr(distribution, "log", False):
        return f"{name} (log scale)"
    return name
