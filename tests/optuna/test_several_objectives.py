"""BBOSampler in studies with several objectives, and who refuses them."""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from bbo_plugins import InnerHorizon
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.optuna import BBOSampler
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import TrialRow
from benchmarks.problems.hypervolume import hypervolume
from tests.optuna.studies import params_of, warnings_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

N_STARTUP = 5


def bowls(trial: Trial) -> tuple[float, float]:
    """Minimize the distance from one place, maximize minus that from another one."""
    x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
    return (x - 0.2) ** 2 + (y - 0.3) ** 2, -((x - 0.8) ** 2) - (y - 0.6) ** 2


def limited(trial: Trial) -> tuple[float, float]:
    """:func:`bowls` with a constraint that the middle of the front violates."""
    values = bowls(trial)
    trial.set_user_attr("c", [0.1 - abs(trial.params["x"] - 0.5)])
    return values


def limits(trial: FrozenTrial) -> list[float]:
    """Return the constraint of :func:`limited`."""
    values: list[float] = trial.user_attrs["c"]
    return values


def branches(trial: Trial) -> tuple[float, float, float]:
    """Three objectives with parameters of two branches."""
    kind = trial.suggest_categorical("kind", ["a", "b"])
    x = trial.suggest_float("x", 0.0, 1.0)
    y = trial.suggest_float("y", 0.0, 1.0) if kind == "a" else trial.suggest_int("n", 1, 9) / 9
    return x * x + 0.1 * (kind == "b"), (x - 1.0) ** 2 + y, (y - 0.5) ** 2 + x


def study_of(sampler: BaseSampler, *directions: str) -> Study:
    """Return a new study."""
    return optuna.create_study(
        directions=list(directions or ("minimize", "maximize")),  # type: ignore[arg-type]
        sampler=sampler,
    )


def sampler(**given: Any) -> BBOSampler:
    """Return a sampler with a short start-up."""
    return BBOSampler(**{"n_startup_trials": N_STARTUP, "seed": 3, **given})


def dominated(study: Study, *, feasible: bool = False) -> float:
    """Return the hypervolume of a study of :func:`bowls` up to distances of 1."""
    kept = [t for t in study.trials if not feasible or max(limits(t)) <= 0.0]
    values = np.array([t.values for t in kept]) * [-1.0, 1.0]
    return hypervolume(values, np.full(2, -1.0))


def test_a_front_is_found_that_random_search_does_not_find() -> None:
    """With 30 trials less than 1 % is left of what a trial can dominate; twice that at random."""
    lost = []
    for one in (sampler(), RandomSampler(seed=0)):
        study = study_of(one)
        study.optimize(bowls, n_trials=30)
        along = np.linspace(0.0, 1.0, 2001)[:, None] * math.hypot(0.6, 0.3)
        best = np.hstack([-(along**2), -((math.hypot(0.6, 0.3) - along) ** 2)])
        lost.append(1.0 - dominated(study) / hypervolume(best, np.full(2, -1.0)))
    assert lost[0] < 0.01
    assert lost[1] > 2.0 * lost[0]


def test_the_front_is_feasible() -> None:
    """The two parts of it on both sides of what is forbidden."""
    study = study_of(sampler(constraints_func=limits))
    study.optimize(limited, n_trials=22)
    x = np.array([trial.params["x"] for trial in study.best_trials])
    assert (np.abs(x - 0.5) >= 0.1).all()
    assert (x < 0.4).sum() >= 3
    assert (x > 0.6).sum() >= 3


def _asks_and_tells(study: Study, n: int) -> None:
    """Run trials that fail, are pruned, go on running, or return infinity, by their numbers."""
    for _ in range(n):
        trial = study.ask()
        first, second = bowls(trial)
        kind = trial.number % 7
        if kind == 2:
            study.tell(trial, state=TrialState.FAIL)
        elif kind == 4:
            study.tell(trial, state=TrialState.PRUNED)
        elif kind == 5:
            study.tell(trial, [math.inf, second])
        elif kind != 6:
            study.tell(trial, [first, second])


def noise(trial: FrozenTrial) -> Sequence[float]:
    """Return known noise variances of both values."""
    return [1e-4, 1e-3 * (1 + trial.number % 3)]


CASES: dict[str, tuple[Callable[[], BaseSampler], Callable[[Study, int], None], int]] = {
    "trouble": (sampler, _asks_and_tells, 2),
    "constrained, noisy": (
        lambda: sampler(constraints_func=limits, noise_func=noise),
        lambda study, n: study.optimize(limited, n_trials=n),
        2,
    ),
    "conditional": (sampler, lambda study, n: study.optimize(branches, n_trials=n), 3),
    "many": (
        sampler,
        lambda study, n: study.optimize(lambda t: [*branches(t), *branches(t)[:2]], n_trials=n),
        5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_study_and_a_pickled_sampler_go_on_the_same(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is kept in the sampler; no point is suggested twice, and nothing went wrong."""
    make, run, k = CASES[name]
    directions = ["minimize", "maximize"] if k == 2 else ["minimize"] * k
    whole = study_of(make(), *directions)
    run(whole, 14)
    resumed = study_of(pickle.loads(pickle.dumps(make())), *directions)  # noqa: S301 - our own
    resumed.add_trials([t for t in whole.trials if t.number < 9])
    run(resumed, 5)
    assert params_of(resumed) == params_of(whole)
    assert len({tuple(params.items()) for params in params_of(whole)}) == 14
    assert all("infinite" in message for message in warnings_in(caplog))


def test_the_signs_of_objectives_do_not_matter() -> None:
    """Minimizing a value is maximizing its negative."""
    one = study_of(sampler())
    one.optimize(bowls, n_trials=10)
    other = study_of(sampler(), "maximize", "maximize")
    other.optimize(lambda trial: (-(values := bowls(trial))[0], values[1]), n_trials=10)
    assert params_of(one) == params_of(other)


def test_values_and_noise_are_read_by_objective(caplog: pytest.LogCaptureFixture) -> None:
    """Signed once; one infinitely bad value is a failure; one variance for two is none."""
    study = study_of(RandomSampler(seed=0))
    distributions: dict[str, BaseDistribution] = {"x": FloatDistribution(0.0, 1.0)}
    values = [(1.0, 2.0), (3.0, -math.inf), (-5.0, 7.0)]
    for i, one in enumerate(values):
        study.add_trial(create_trial(values=one, params={"x": i / 4}, distributions=distributions))
    pruned = create_trial(
        state=TrialState.PRUNED, params={"x": 0.9}, distributions=distributions,
        intermediate_values={1: 3.0},
    )  # fmt: skip
    study.add_trial(pruned)

    def known(trial: FrozenTrial) -> Any:
        return 0.1 if trial.number == 1 else (0.5, "?" if trial.number else np.float32(2.0))

    reader = StudyReader(known)
    study.ask()
    snapshot = reader.snapshot(study, study.trials[-1], distributions, {})
    first, second = snapshot.objectives
    assert first.y.tolist() == [-1.0, 5.0]
    assert second.y.tolist() == [2.0, 7.0]
    assert first.failed.tolist() == [[0.9], [0.25]]
    assert snapshot.notes["infinite"].startswith("1 infinite value so far")
    assert "did not for 2 trials" in snapshot.notes["noise"]
    noises = [one.noise_variance for one in snapshot.objectives]
    np.testing.assert_array_equal(noises, [[0.5, 0.5], [2.0, np.nan]])
    assert snapshot.with_pending(np.array([[0.3]])).objectives[1].pending.tolist() == [[0.3]]
    study.sampler = sampler(n_startup_trials=2, noise_func=known)
    study.ask(distributions)
    assert any("noise_func must return" in text for text in warnings_in(caplog))


@pytest.mark.parametrize(
    "returned, expected",
    [
        (np.array([0.5, 2.0]), (0.5, 2.0)),
        (np.array([0.5]), (math.nan, math.nan)),
        (np.array(0.5), (math.nan, math.nan)),
    ],
)
def test_noise_may_be_an_array(returned: Any, expected: tuple[float, float]) -> None:
    """As of any function that computes with NumPy."""
    trial = create_trial(
        values=[1.0, 2.0], params={"x": 0.5}, distributions={"x": FloatDistribution(0.0, 1.0)}
    )
    row = TrialRow.read(trial, signs=(1.0, 1.0), noise_func=lambda _: returned)
    np.testing.assert_array_equal(row.noise_variances, expected)


def test_fits_of_all_objectives_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is one more constraint by now, of which there is no fit."""
    study = study_of(sampler(constraints_func=limits))
    study.optimize(limited, n_trials=N_STARTUP + 2)
    study.add_trial(
        create_trial(
            values=[0.0, 0.0],
            params=study.trials[0].params,
            distributions=study.trials[0].distributions,
            system_attrs={"constraints": [0.0, 1.0]},
        )
    )
    starts: list[Any] = []
    fit = Surrogate.fit

    def watched(*data: Any, **known: Any) -> Surrogate:
        start = known["warm_start"]
        starts.append(start and start.to_json())
        return fit(*data, **known)

    monkeypatch.setattr(Surrogate, "fit", watched)
    study.ask(study.trials[0].distributions)
    proposal = Proposal.from_attributes(study.trials[N_STARTUP + 1].system_attrs)
    assert proposal is not None
    names = ("Marginal", "Marginal 1", "Constraint 0")
    assert starts == [*(proposal.fits[name] for name in names), None]


def test_a_horizon_that_tells_the_noise_needs_one_objective() -> None:
    """It tells that of one; without a phi it tells nothing."""
    n_trials = N_STARTUP + 1
    study_of(BBOSampler(horizon=InnerHorizon(n_outer=20)), *["minimize"] * 2).optimize(
        bowls, n_trials
    )
    study = study_of(BBOSampler(horizon=InnerHorizon(n_outer=20, phi=1.0)), *["minimize"] * 2)
    with pytest.raises(ValueError, match=r"horizon must have no phi .* the study has 2"):
        study.optimize(bowls, n_trials=1)
