"""Ray's search spaces: what is taken over, and what is refused by name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.search.sample import Domain

from bbo_plugins.ray import BBOSearch, RegretGapStopper
from bbo_plugins.ray.tune.spaces import flattened, read_space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def test_domains_become_distributions_by_path() -> None:
    """Every domain that Optuna can express, with Ray's bounds, and constants kept apart."""
    tree = read_space(
        "space",
        {
            "lr": tune.loguniform(1e-4, 1.0),
            "net": {"width": tune.randint(1, 5), "kind": tune.choice(["a", None, 3])},
            "step": tune.quniform(0.0, 1.0, 0.25),
            "even": tune.qrandint(2, 8, 2),
            "within": tune.qrandint(-3, 10, 4),
            "ones": tune.qrandint(1, 10, 1),
            "big": tune.lograndint(1, 100),
            "given": FloatDistribution(0.0, 2.0),
            "data": {"seed": 3, "sizes": [1, 2]},
            "empty": {},
        },
    )
    assert tree.distributions == {
        "lr": FloatDistribution(1e-4, 1.0, log=True),
        "net/width": IntDistribution(1, 4),
        "net/kind": CategoricalDistribution(["a", None, 3]),
        "step": FloatDistribution(0.0, 1.0, step=0.25),
        "even": IntDistribution(2, 8, step=2),
        "within": IntDistribution(0, 8, step=4),  # multiples of 4, as Ray draws them
        "ones": IntDistribution(1, 9),
        "big": IntDistribution(1, 99, log=True),
        "given": FloatDistribution(0.0, 2.0),
    }
    assert not tree.is_conditional
    assert tree.constants == {"data/seed": 3, "data/sizes": [1, 2], "empty": {}}


@pytest.mark.parametrize("low, high, q", [(0.0, 0.3, 0.1), (0.1, 0.7, 0.1), (0.9, 1.8, 0.3)])
def test_steps_that_rounding_puts_beyond_the_range_are_values(
    low: float, high: float, q: float
) -> None:
    """Ray draws 3 * 0.1, which is more than 0.3; a value farther away is none."""
    tree = read_space("space", {"x": tune.quniform(low, high, q)})
    drawn = {float(x) for x in tune.quniform(low, high, q).sample(size=200)}
    assert min(drawn) < low or max(drawn) > high
    for x in drawn:
        (found,) = tree.read({"x": x})[0].values()
        assert low <= found <= high
        assert found == pytest.approx(x, rel=1e-15)
    for other in (high + 1e-12, math.nan, math.inf, None, "0.3"):
        with pytest.raises(ValueError, match="must be a value of FloatDistribution"):
            tree.read({"x": other})


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
        (tune.qrandint(5, 7, 4), "holds no multiple of 4, but got '5 to 7'"),
        (tune.qrandint(1, 10, 2.5), "with a whole step, but got 2.5"),
        (tune.randn(0.0, 1.0), "tune.uniform"),
        (tune.qrandn(0.0, 1.0, 0.1), "tune.quniform"),
        (tune.sample_from(lambda _: 1), "in the trainable"),
        ({"eval": "1"}, "in the trainable"),
        (tune.grid_search([1, 2]), "tune.choice"),
        ([1, tune.uniform(0.0, 1.0)], "use a dict"),
        ([{"inner": tune.grid_search([1])}], "use a dict"),
    ],
)
def test_what_cannot_be_searched_is_refused(domain: Any, remedy: str) -> None:
    """The message has the parameter's name and what to write instead."""
    with pytest.raises(ValueError, match=rf"space\['outer/p'\] must .*{remedy}"):
        read_space("space", {"ok": tune.uniform(0.0, 1.0), "outer": {"p": domain}})


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution:UserWarning")
def test_choices_among_arrays_are_refused_with_the_remedy() -> None:
    """Nobody can tell which of them a value is; Optuna says so of the first trial."""
    arrays = [np.zeros(2), np.ones(2)]
    for domain in (tune.choice(arrays), CategoricalDistribution(arrays)):  # type: ignore[arg-type]
        message = (
            r"^space\['x'\] must be .* compared, such as array.tolist\(\) for an array, but got"
        )
        with pytest.raises(ValueError, match=message):
            BBOSearch({"x": domain}, "loss", "min")
        with pytest.raises(ValueError, match=message):
            RegretGapStopper("loss", "min", {"x": domain})


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution:UserWarning")
def test_lists_and_tuples_are_equal() -> None:
    """Ray's HyperOptSearch returns choices among lists as tuples; an equal one comes first."""
    units = [[8, 8], [16], (16,), {"sizes": [1, 2]}]
    tree = read_space(
        "space", {"u": tune.choice(units), "v": tune.choice([[[4], 2], tune.uniform(0.0, 1.0)])}
    )
    assert tree.read({"u": (8, 8), "v": ((4,), 2)})[0] == {"u": [8, 8], "v": "0"}
    assert tree.read({"u": (16,), "v": 0.5})[0] == {"u": (16,), "v": "1", "v/1": 0.5}
    assert tree.read({"u": {"sizes": (1, 2)}, "v": 0.5})[0]["u"] == {"sizes": [1, 2]}
    with pytest.raises(ValueError, match=r"config\['u'\] must be a value of"):
        tree.read({"u": (8,), "v": 0.5})


MODELS = {
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-3, 1e3)},
            {"kind": "forest", "depth": tune.randint(1, 20), "leaf": {"size": tune.randint(1, 5)}},
            {"kind": "none"},
        ]
    ),
    "scale": tune.choice([None, tune.uniform(0.5, 2.0)]),
    "net": tune.choice(
        [
            {"flat": {"w": tune.randint(1, 9)}},
            {
                "deep": {
                    "net": tune.choice(
                        [{"lr": tune.uniform(0.0, 1.0)}, {"lr": tune.uniform(2.0, 3.0)}]
                    )
                }
            },
        ]
    ),
    "seed": 7,
}


def test_choices_among_dicts_have_parameters_of_their_own() -> None:
    """Labels are what tells dicts apart: a constant, the only key, else the number."""
    tree = read_space("space", MODELS)
    assert tree.is_conditional
    assert tree.constants == {"seed": 7}
    assert tree.distributions == {
        "model": CategoricalDistribution(["svm", "forest", "none"]),
        "model/svm/C": FloatDistribution(1e-3, 1e3, log=True),
        "model/forest/depth": IntDistribution(1, 19),
        "model/forest/leaf/size": IntDistribution(1, 4),
        "scale": CategoricalDistribution([None, "1"]),
        "scale/1": FloatDistribution(0.5, 2.0),
        "net": CategoricalDistribution(["flat", "deep"]),
        "net/flat/w": IntDistribution(1, 8),
        "net/deep/net": CategoricalDistribution(["0", "1"]),
        "net/deep/net/0/lr": FloatDistribution(0.0, 1.0),
        "net/deep/net/1/lr": FloatDistribution(2.0, 3.0),
    }


def test_labels_are_distinct() -> None:
    """Values that Optuna or a name could not tell apart do not become labels."""
    x = tune.uniform(0.0, 1.0)
    for categories in ([{"k": 1, "x": x}, {"k": "1", "x": x}], [{"k": "a/b", "x": x}, {"k": "c"}]):
        labels = read_space("space", {"p": tune.choice(categories)}).distributions["p"]
        assert labels == CategoricalDistribution(["0", "1"])
    mixed = read_space("space", {"p": tune.choice(["a", {"a": x}])}).distributions
    assert mixed.keys() == {"p", "p/1/a"}


@given(st.data())
def test_configs_of_conditional_spaces_are_read_back(data: st.DataObject) -> None:
    """What is suggested becomes a config, nested and by path, and the same parameters again."""
    tree = read_space("space", MODELS)
    params: dict[str, Any] = {}

    def suggest(name: str, distribution: BaseDistribution) -> Any:
        if isinstance(distribution, CategoricalDistribution):
            value = data.draw(st.sampled_from(distribution.choices))
        elif isinstance(distribution, IntDistribution):
            value = data.draw(st.integers(distribution.low, distribution.high))
        else:
            assert isinstance(distribution, FloatDistribution)
            value = data.draw(st.floats(distribution.low, distribution.high))
        params[name] = value
        return value

    config = tree.value_by(suggest)
    assert config["seed"] == 7
    assert not any(isinstance(leaf, Domain) for leaf in flattened(config, ()).values())
    assert tree.read(config)[0] == params
    for given_config in (config, flattened(config, ()), params):
        assert tree.params_of("point", given_config, tree.constants) == params


def test_parts_of_conditional_configs() -> None:
    """What is left out is left to the sampler; what tells no choice from another is refused."""
    tree = read_space("space", MODELS)

    def params(config: dict[str, Any]) -> dict[str, Any]:
        return tree.params_of("point", config, tree.constants)

    assert params({"model": {"kind": "svm"}}) == {"model": "svm"}
    assert params({"model": "svm", "seed": 7}) == {"model": "svm"}
    assert params({"model/C": 3.0}) == {"model": "svm", "model/svm/C": 3.0}
    assert params({"model": {"leaf": {"size": 2}}}) == {
        "model": "forest",
        "model/forest/leaf/size": 2,
    }
    assert params({"model": {"kind": "none"}, "scale": 0.75}) == {
        "model": "none",
        "scale": "1",
        "scale/1": 0.75,
    }
    bad: list[dict[str, Any]] = [
        {"model": {}},
        {"model": {"C": 1e4}},
        {"model": {"kind": "svm", "depth": 3}},
    ]
    for config in bad:
        with pytest.raises(ValueError, match=r"point\['model'\] must be one of the choices \['svm"):
            params(config)
    with pytest.raises(ValueError, match="which has no 'mode'"):
        params({"mode": "svm"})
    with pytest.raises(ValueError, match=r"config\['model'\] must be one of the choices"):
        tree.read({"model": {"kind": "svm"}, "scale": None, "net": {"flat": {"w": 3}}})


def test_names_are_checked() -> None:
    """A slash would be taken for nesting; other keys than strings are no names."""
    with pytest.raises(ValueError, match="'a/b'"):
        read_space("space", {"a/b": tune.uniform(0.0, 1.0)})
    with pytest.raises(TypeError, match="a name in space must be a string, but got 3"):
        read_space("space", {3: tune.uniform(0.0, 1.0)})
    with pytest.raises(TypeError, match="space must be a dict"):
        read_space("space", [tune.uniform(0.0, 1.0)])
