"""Ray's search spaces: what is taken over, and what is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune

from bbo_plugins.ray import BBOSearch, RegretGapStopper
from bbo_plugins.ray.tune.conversions import flattened, split_space

if TYPE_CHECKING:
    from collections.abc import Callable


def test_domains_become_distributions_by_path() -> None:
    """Every domain that Optuna can express, with Ray's bounds, and constants kept apart."""
    distributions, constants = split_space(
        "space",
        {
            "lr": tune.loguniform(1e-4, 1.0),
            "net": {"width": tune.randint(1, 5), "kind": tune.choice(["a", None, 3])},
            "step": tune.quniform(0.0, 1.0, 0.25),
            "even": tune.qrandint(2, 8, 2),
            "big": tune.lograndint(1, 100),
            "given": FloatDistribution(0.0, 2.0),
            "data": {"seed": 3, "sizes": [1, 2]},
            "empty": {},
        },
    )
    assert distributions == {
        "lr": FloatDistribution(1e-4, 1.0, log=True),
        "net/width": IntDistribution(1, 4),
        "net/kind": CategoricalDistribution(["a", None, 3]),
        "step": FloatDistribution(0.0, 1.0, step=0.25),
        "even": IntDistribution(2, 8, step=2),
        "big": IntDistribution(1, 99, log=True),
        "given": FloatDistribution(0.0, 2.0),
    }
    assert constants == {"data/seed": 3, "data/sizes": [1, 2], "empty": {}}


@pytest.mark.parametrize(
    "space, example",
    [
        ({"x": (0, 1)}, r"tune.uniform\(0, 1\) for 'x'"),
        ({"c": 3, "net": {"width": [0.5, 2.0]}}, r"tune.uniform\(0.5, 2.0\) for 'net/width'"),
        ({"x": (1, 1)}, r"tune.choice\(\[1, 1\]\) for 'x'"),
        ({"kind": ["a", "b"]}, r"tune.choice\(\['a', 'b'\]\) for 'kind'"),
        ({"x": 3}, r"tune.uniform\(0, 1\), but got"),
        ({}, r"tune.uniform\(0, 1\), but got"),
    ],
)
def test_space_of_constants_is_refused_with_the_remedy(space: dict[str, Any], example: str) -> None:
    """A tuple is no domain, and what was meant can be seen from it."""
    message = f"a search space with at least one domain.*, such as {example}"
    with pytest.raises(ValueError, match=f"^space must be {message}"):
        BBOSearch(space)
    with pytest.raises(ValueError, match=f"^param_space must be {message}"):
        BBOSearch().set_search_properties("loss", "min", space)
    with pytest.raises(ValueError, match=f"^space must be {message}"):
        RegretGapStopper("loss", "min", space)


@pytest.mark.parametrize(
    "domain, remedy",
    [
        (tune.qloguniform(1.0, 10.0, 1.0), "tune.loguniform"),
        (tune.qlograndint(1, 10, 2), "tune.lograndint"),
        (tune.randn(0.0, 1.0), "tune.uniform"),
        (tune.qrandn(0.0, 1.0, 0.1), "tune.quniform"),
        (tune.sample_from(lambda _: 1), "in the trainable"),
        ({"eval": "1"}, "in the trainable"),
        (tune.grid_search([1, 2]), "tune.choice"),
        (tune.choice([{"inner": tune.uniform(0.0, 1.0)}, 1]), "a place of their own"),
        ([1, tune.uniform(0.0, 1.0)], "use a dict"),
        ([{"inner": tune.grid_search([1])}], "use a dict"),
    ],
)
@pytest.mark.parametrize("by", ["search", "tuner"])
def test_what_cannot_be_searched_is_refused(domain: Any, remedy: str, by: str) -> None:
    """The message has the parameter's name and what to write instead, wherever the space is."""
    space = {"ok": tune.uniform(0.0, 1.0), "outer": {"p": domain}}
    takes: dict[str, Callable[[], object]] = {
        "search": lambda: BBOSearch(space, "loss", "min"),
        "tuner": lambda: BBOSearch().set_search_properties("loss", "min", space),
    }
    with pytest.raises(ValueError, match=rf"\['outer/p'\] must .*{remedy}"):
        takes[by]()


@pytest.mark.parametrize("space", [{}, {"constant": 3}, {"nested": {"constant": [1, 2]}}])
def test_space_without_parameters_is_refused(space: dict[str, Any]) -> None:
    """A space of constants leaves nothing to suggest."""
    with pytest.raises(ValueError, match="param_space must be a search space with at least one"):
        BBOSearch().set_search_properties("loss", "min", space)


def test_names_are_checked() -> None:
    """A slash would be taken for nesting; other keys than strings are no names."""
    with pytest.raises(ValueError, match="'a/b'"):
        split_space("space", {"a/b": tune.uniform(0.0, 1.0)})
    with pytest.raises(TypeError, match="a name in space must be a string, but got 3"):
        split_space("space", {3: tune.uniform(0.0, 1.0)})
    with pytest.raises(TypeError, match="space must be a dict"):
        split_space("space", [tune.uniform(0.0, 1.0)])


def test_configs_are_flattened_by_what_the_space_has() -> None:
    """Choices may be dicts themselves; these are values, not nesting."""
    config = {"a": {"b": {"c": 1}, "d": 2}, "e/f": 3, "g": {}}
    assert flattened(config, {"a/b"}) == {"a/b": {"c": 1}, "a/d": 2, "e/f": 3, "g": {}}
    assert flattened(config, ()) == {"a/b/c": 1, "a/d": 2, "e/f": 3, "g": {}}


def test_space_of_the_search_brings_its_constants() -> None:
    """Unlike Ray's, our search passes on constants of a space that it was given itself."""
    search = BBOSearch(
        {"x": tune.uniform(0.0, 1.0), "n": {"c": 3, "k": tune.choice([1, 2])}}, "loss", "min"
    )
    config = search.suggest("a")
    assert isinstance(config, dict)
    assert config["n"]["c"] == 3
    assert config["n"].keys() == {"c", "k"}
