"""Who takes part in ``conditional``: ours, and Optuna's, alone and as users combine them."""

from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.common.samplers import SAMPLERS, Entrant, by_name


def gpsampler_with_tpe(*, seed: int, n_startup_trials: int) -> BaseSampler:
    """Return a Gaussian process for what all trials share, and TPE for the other parameters."""
    independent = TPESampler(seed=seed, n_startup_trials=n_startup_trials)
    return GPSampler(seed=seed, n_startup_trials=n_startup_trials, independent_sampler=independent)


OURS = ("bbo", "ours-uhe", "ours-map", "go-ucb")
ENTRANTS = by_name(
    (
        *(SAMPLERS[name] for name in OURS),
        SAMPLERS["tpe"],
        Entrant(
            name="tpe-group",
            target="optuna.samplers:TPESampler",
            arguments={"multivariate": True, "group": True},
            distribution="optuna",
        ),
        SAMPLERS["gpsampler"],
        Entrant(
            name="gpsampler-tpe",
            target="benchmarks.conditional.entrants:gpsampler_with_tpe",
            requires=("torch",),
            distribution="optuna",
        ),
        SAMPLERS["smac"],
        SAMPLERS["random"],
    )
)
