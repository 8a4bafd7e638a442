"""Loads the package from the Hub and runs a small study."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -3.0, 3.0)
    return (x - 1.0) ** 2


if __name__ == "__main__":
    module = optunahub.load_module("callbacks/regret_gap_terminator")
    study = optuna.create_study()
    study.optimize(objective, n_trials=30, callbacks=[module.RegretGapTerminator()])
    print(len(study.trials), study.best_value)
