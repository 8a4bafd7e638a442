"""Who takes part in ``conditional``: ours, and Optuna's, alone and as users combine them."""

from benchmarks.common.samplers import SAMPLERS, Entrant, by_name

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
        SAMPLERS["smac"],
        SAMPLERS["random"],
    )
)
