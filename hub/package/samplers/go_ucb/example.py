"""Loads the package from the Hub and runs a small study."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    return sum((trial.suggest_float(f"x{i}", -1.0, 1.0) - 0.3) ** 2 for i in range(15))


if __name__ == "__main__":
    module = optunahub.load_module("samplers/go_ucb")
    study = optuna.create_study(sampler=module.GOUCBSampler(seed=0))
    study.optimize(objective, n_trials=30)
    print(study.best_value)
