"""Tables of cross-validated scores: what is in them, how they are stored and looked up."""

import numpy as np
import pytest
from sklearn import metrics

from benchmarks.problems import hpo_tables
from benchmarks.problems.hpo_grids import GRIDS
from benchmarks.problems.hpo_tables import Table


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["svr_diabetes", "neighbors_digits", "perceptron_wine"])
def test_scores_are_scikit_learns(name: str) -> None:
    """One fold of one configuration has the score that scikit-learn's own metric gives it."""
    grid = GRIDS[name]
    X, y = hpo_tables._data(grid.data)
    model = grid.model(**grid.configurations[len(grid.configurations) // 3])
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
            known.fold_scores(grid.cube.decode(rng.random(len(grid.space))))[0] for _ in range(200)
        }
        assert len(rows) > 60
        assert known.best == configurations[0]
