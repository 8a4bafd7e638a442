"""Tables of cross-validated scores: what is in them, how they are stored and looked up."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from benchmarks import hpo_tables
from benchmarks.hpo_grids import GRIDS
from benchmarks.hpo_tables import Grid, Table, table_of
from benchmarks.problem import from_unit

pytest.importorskip("sklearn")
QUICK = GRIDS["quick_tree_wine"]
# Two parameters of a grid small enough to be computed in every test.
SMALL = dataclasses.replace(
    QUICK,
    name="small",
    space={"max_depth": IntDistribution(1, 3), "min_samples_leaf": IntDistribution(1, 21, step=10)},
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return a computed table."""
    return table_of(SMALL, tmp_path_factory.mktemp("tables"))


def test_grids_have_hundreds_of_configurations() -> None:
    """All but the quick one have several hundred, all different."""
    for grid in GRIDS.values():
        configurations = grid.configurations
        assert len({repr(params) for params in configurations}) == len(configurations)
        assert len(configurations) >= 250 or grid is QUICK
        assert len(configurations) <= 700


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", GRIDS)
def test_scores_are_scikit_learns(name: str) -> None:
    """One fold of one configuration has the score that scikit-learn's own metric gives it."""
    from sklearn import metrics  # noqa: PLC0415

    grid = GRIDS[name]
    X, y = hpo_tables._data(grid.data)
    model = grid.model(grid.configurations[len(grid.configurations) // 3])
    assert len(y) <= 400
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-9)
    train = np.arange(len(y)) % 4 > 0
    model.fit(X[train], y[train])
    found = hpo_tables._score(grid.metric, model, X[~train], y[~train])
    if grid.metric == "mean squared error":
        expected = metrics.mean_squared_error(y[~train], model.predict(X[~train]))
    elif grid.metric == "error rate":
        expected = 1.0 - metrics.accuracy_score(y[~train], model.predict(X[~train]))
    else:
        expected = metrics.log_loss(
            y[~train], model.predict_proba(X[~train]), labels=model.classes_
        )
    assert found == pytest.approx(expected, rel=1e-6)


def test_every_configuration_is_cross_validated(table: Table) -> None:
    """The scores are those of scikit-learn's cross-validation on the same folds."""
    from sklearn.model_selection import PredefinedSplit, cross_val_score  # noqa: PLC0415

    X, y = hpo_tables._data(SMALL.data)
    fold_of = np.random.default_rng(0).permutation(len(y)) % hpo_tables.N_FOLDS
    folds = PredefinedSplit(fold_of)
    assert table.scores.shape == (9, hpo_tables.N_FOLDS)
    for params in SMALL.configurations[::3]:
        accuracy = cross_val_score(SMALL.model(params), X, y, cv=folds)
        np.testing.assert_allclose(table.fold_scores(params), 1.0 - accuracy, atol=1e-12)


def test_a_stored_table_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read back exactly; another definition or a missing line makes it anew."""
    computed: list[str] = []

    def scores_of(grid: Grid, configurations: list[Any]) -> np.ndarray:
        computed.append(grid.name)
        return np.random.default_rng(len(computed)).random((len(configurations), 5))

    monkeypatch.setattr(hpo_tables, "_computed", scores_of)
    first = table_of(SMALL, tmp_path)
    assert np.array_equal(table_of(SMALL, tmp_path).scores, first.scores)
    assert computed == ["small"]

    path = tmp_path / hpo_tables.FOLDER / "small.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:10], encoding="utf-8")
    table_of(SMALL, tmp_path)
    wider = dataclasses.replace(SMALL, space={**SMALL.space, "max_depth": IntDistribution(2, 4)})
    elsewhere = dataclasses.replace(SMALL, model=copy.copy)  # a function of another file
    assert len({SMALL.digest, wider.digest, elsewhere.digest}) == 3
    table_of(wider, tmp_path)
    assert len(computed) == 3
    assert [entry.name for entry in path.parent.iterdir()] == ["small.jsonl"]


def test_look_up_finds_every_configuration() -> None:
    """Values of every kind of parameter, also as a sampler rounds them, lead to their own row."""
    for grid in GRIDS.values():
        configurations = grid.configurations
        scores = np.arange(2.0 * len(configurations)).reshape(-1, 2)
        known = Table(grid=grid, scores=scores)
        for row in range(0, len(configurations), 7):
            assert known.fold_scores(configurations[row]) == scores[row].tolist()
        rng = np.random.default_rng(0)
        rows = {
            known.fold_scores(from_unit(grid.space, rng.random(len(grid.space))))[0]
            for _ in range(200)
        }
        assert len(rows) > 60
        assert known.best == configurations[0]


def test_typical_error_is_the_standard_error_of_the_mean() -> None:
    """Three folds at -1, 0 and 1 have mean 0 with standard error 1 / sqrt(3)."""
    scores = np.tile([-1.0, 0.0, 1.0], (9, 1))
    scores[0] *= 100.0  # one odd configuration does not count
    assert Table(grid=SMALL, scores=scores).typical_error == pytest.approx(3.0**-0.5)


def test_only_finite_spaces_have_levels() -> None:
    """A parameter without steps is refused."""
    grid = dataclasses.replace(SMALL, space={"rate": FloatDistribution(0.0, 1.0)})
    with pytest.raises(TypeError, match="finitely many values"):
        _ = grid.configurations
