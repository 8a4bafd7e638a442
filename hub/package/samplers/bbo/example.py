"""Loads the package from the Hub and runs a small study."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -3.0, 3.0)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    return (x - 1.0) ** 2 + (kind == "b")


if __name__ == "__main__":
    module = optunahub.load_module("samplers/bbo")
    study = optuna.create_study(sampler=module.BBOSampler(seed=0))
    study.optimize(objective, n_trials=30)
    print(study.best_value)
