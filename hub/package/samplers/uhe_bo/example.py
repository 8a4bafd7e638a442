"""Loads the package from the Hub and runs a small study."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    return (rate - 0.01) ** 2 + 0.1 * (layers - 2) ** 2


if __name__ == "__main__":
    module = optunahub.load_module("samplers/uhe_bo")
    study = optuna.create_study(sampler=module.UHEBOSampler(seed=0))
    study.optimize(objective, n_trials=20)
    print(study.best_params)
