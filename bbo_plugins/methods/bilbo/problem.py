"""A bilevel problem: the spaces of its two levels, its functions, and their observations.

Every function has observations of its own, as a query observes one function only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.space import SearchSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from bbo_plugins.space import Condition
    from bbo_plugins.space.dimension import FloatArray


@dataclass(frozen=True, kw_only=True)
class BilevelProblem:
    """The spaces of the two levels and the names of the functions.

    Attributes:
        upper_space: Space of x.
        lower_space: Space of z.
        upper: Name of the upper-level objective F.
        lower: Name of the lower-level objective f.
        upper_constraints: Names of the constraints of the upper level.
        lower_constraints: Names of the constraints of the lower level.
        conditions: Where parameters of either level are active in the joint space, as of
            :class:`SearchSpace`.

    Raises:
        ValueError: A parameter is on both levels, a level has none, or two functions share a name.
    """

    upper_space: SearchSpace
    lower_space: SearchSpace
    upper: str = "upper"
    lower: str = "lower"
    upper_constraints: tuple[str, ...] = ()
    lower_constraints: tuple[str, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the names."""
        for argument, space in (("upper", self.upper_space), ("lower", self.lower_space)):
            if not len(space):
                rule = "a space of at least one parameter"
                raise ValueError(errors.rule_message(f"{argument}_space", rule, space))
        both = sorted(set(self.upper_space.names) & set(self.lower_space.names))
        if both:
            rule = "on one level only"
            raise ValueError(errors.rule_message("parameters", rule, both))
        if len(set(self.functions)) < len(self.functions):
            rule = "different names"
            raise ValueError(errors.rule_message("functions", rule, self.functions))

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of all functions: F, f, then the constraints of the upper and the lower level."""
        return (self.upper, self.lower, *self.upper_constraints, *self.lower_constraints)

    @property
    def n_upper(self) -> int:
        """Number of upper-level coordinates."""
        return len(self.upper_space)

    @cached_property
    def space(self) -> SearchSpace:
        """The joint space: upper-level parameters first."""
        spaces = (self.upper_space, self.lower_space)
        return SearchSpace(
            {
                name: dimension
                for space in spaces
                for name, dimension in zip(space.names, space.dimensions, strict=True)
            },
            self.conditions,
        )

    @cached_property
    def features(self) -> FeatureMap:
        """The kernel's feature map of the joint space."""
        return FeatureMap.of(self.space)


@dataclass(frozen=True, kw_only=True)
class FunctionData:
    """The observations and the pending queries of one function.

    Attributes:
        X: Observed joint points, shape (n, d).
        y: Values there, an objective's to be maximized, a constraint's at least 0 where it holds;
            finite, shape (n,).
        pending: Joint points of queries without a value, running or failed, shape (p, d).
        failed: Joint points of failed queries, the latest of them also in ``pending``, shape
            (k, d), or None.
        failed_order: Numbers that grow in the order in which queries of any function failed, shape
            (k,); None if that is not known.
        noise_variance: Known noise variances in squared units of ``y``, NaN where unknown, shape
            (n,), or None.

    Raises:
        ValueError: The shapes disagree or a value is not finite.
    """

    X: FloatArray
    y: FloatArray
    pending: FloatArray
    failed: FloatArray | None = None
    failed_order: NDArray[np.int64] | None = None
    noise_variance: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check shapes and finiteness."""
        n, d = self.X.shape
        noise = self.y if self.noise_variance is None else self.noise_variance
        failed = self.X[:0] if self.failed is None else self.failed
        order = np.arange(len(failed)) if self.failed_order is None else self.failed_order
        for name, array, shape in (
            ("y", self.y, (n,)),
            ("noise_variance", noise, (n,)),
            ("pending", self.pending, (len(self.pending), d)),
            ("failed", failed, (len(failed), d)),
            ("failed_order", order, (len(failed),)),
        ):
            if array.shape != shape:
                message = f"{name} must have shape {shape}, but got {array.shape}."
                raise ValueError(message)
        if not np.isfinite(self.y).all():
            raise ValueError(errors.rule_message("y", "finite", self.y))
