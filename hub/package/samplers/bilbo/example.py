"""Loads the package from the Hub and runs a small study."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -1.0, 1.0)
    z = trial.suggest_float("z", -1.0, 1.0)
    query = trial.suggest_categorical("query", ["upper", "lower"])
    return (x - 0.2) ** 2 + z**2 if query == "upper" else (z - x) ** 2


if __name__ == "__main__":
    module = optunahub.load_module("samplers/bilbo")
    sampler = module.BILBOSampler(["x"], ["z"], seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=30)
    print(sampler.solution(study))
