"""A search algorithm for Ray Tune that suggests by an Optuna sampler.

Define-by-run spaces and the format of saved states are those of Ray's
:class:`~ray.tune.search.optuna.OptunaSearch`, from which :class:`BBOSearch` derives; a space with
choices among dicts is such a function as well (:mod:`bbo_plugins.ray.tune.spaces`). How results
get into the study is in :mod:`bbo_plugins.ray.tune.recording`, what a restore does after a crash in
:mod:`bbo_plugins.ray.tune.restoring`.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any, Literal, Protocol

from optuna.distributions import check_distribution_compatibility
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial
from ray.tune.search import Searcher
from ray.tune.utils.util import merge_dicts, unflatten_dict

from bbo_plugins import errors
from bbo_plugins.optuna.bbo_sampler import BBOSampler
from bbo_plugins.optuna.study.storage import FIXED_PARAMS, begin_enqueued_trial, is_stopped, suggest
from bbo_plugins.optuna.terminator import RegretGapTerminator
from bbo_plugins.ray.tune.conversions import check_objectives, check_points, finite_or_none, listed
from bbo_plugins.ray.tune.recording import OWNER_KEY, owner_of
from bbo_plugins.ray.tune.restoring import RestoringSearch
from bbo_plugins.ray.tune.spaces import (
    check_choices_are_storable,
    example_of_domain,
    flattened,
    plain,
    read_space,
    replayed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

_logger = logging.getLogger(__name__)


class Terminator(Protocol):
    """Decides when a search is over: an Optuna terminator, or any object with this method."""

    def should_terminate(self, study: Study) -> bool:
        """Return whether the study is over."""


class BBOSearch(RestoringSearch):
    """Suggests the trials of a Ray Tune experiment by an Optuna sampler.

    Use it like any other search algorithm of Ray Tune::

        tuner = tune.Tuner(
            trainable,
            param_space={"lr": tune.loguniform(1e-4, 1.0), "layers": tune.randint(1, 5)},
            tune_config=tune.TuneConfig(
                search_alg=BBOSearch(seed=0),
                metric="loss",
                mode="min",
                num_samples=50,
                max_concurrent_trials=2,
            ),
        )
        results = tuner.fit()

    Give ``max_concurrent_trials``: without it Ray asks for the next trial before the results of
    the running ones are known. Parameters in nested dicts are called by their path, such as
    "optimizer/lr". With ``storage`` the study can be watched and read from anywhere.

    Choices may be dicts that have domains themselves, in any depth, as
    ``tune.choice([{"kind": "svm", "C": tune.loguniform(1e-3, 1e3)}, {"kind": "forest", ...}])`` for
    ``"model"``. A trial gets the chosen dict with values, as from Ray's own random search. In the
    study "model" is "svm" or "forest", and the parameters are "model/svm/C" and so on: a dict is
    called by its only key, by the constant that tells it from the others, else by its number.

    What a trainable reports beside the metric is kept as user attributes of the Optuna trial, so
    that ``constraints_func`` of a sampler can read ``trial.user_attrs["latency"]``. A final value
    that is NaN or infinite is a failed evaluation, as a diverged training should be.

    Args:
        space: Ray's domains or Optuna's distributions in nested dicts, with or without constants,
            or a function that takes an Optuna trial (define-by-run): what it asks for is the
            config, and what it returns, a dict or None, is added to that. None if the space is the
            ``param_space`` of the tuner.
        metric: Name of the result to optimize, or a list of names for several objectives. None if
            it is given to the tuner, which knows one objective.
        mode: "min" or "max", or a list of one for each metric. None if it is given to the tuner.
        sampler: An Optuna sampler; None for :class:`~bbo_plugins.BBOSampler`.
        points_to_evaluate: Configs to run first, nested, by path or by the study's names.
            Parameters that one leaves out are chosen by the sampler. Points that another search on
            the stored study has begun are passed over.
        evaluated_rewards: Values of ``points_to_evaluate``, lists of them with several objectives,
            which are then not run but taken as results; None in it for a point that is to be run.
            With a define-by-run space such a point needs all parameters that the function asks for.
        study_name: Name of the study; None for "optuna".
        storage: Optuna storage of the study; None to keep it in memory and in Ray's checkpoints.
            A study that exists is continued.
        seed: Seed of the default sampler. A ``sampler`` has its own.
        terminator: Something with ``should_terminate(study)``, such as
            :class:`~bbo_plugins.RegretGapTerminator`. Once it returns True no more trials are
            suggested; those that run are finished, and everybody is told of their results.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, the space has a domain that cannot be
            searched, a point is not in the space, or the stored study has another direction or
            other kinds of parameters.

    Example:
        .. code-block:: python

            from bbo_plugins.ray import BBOSearch
            from ray import tune


            def trainable(config):
                tune.report({"loss": (config["x"] - 3.0) ** 2})


            tuner = tune.Tuner(
                trainable,
                param_space={"x": tune.uniform(0.0, 20.0)},
                tune_config=tune.TuneConfig(
                    search_alg=BBOSearch(seed=0),
                    metric="loss",
                    mode="min",
                    num_samples=4,
                    max_concurrent_trials=2,
                ),
                run_config=tune.RunConfig(verbose=0),
            )
            print(tuner.fit().get_best_result().config)
    """

    # What is used of OptunaSearch beside its public methods; a test pins each.
    _evaluated_rewards: Sequence[float | Sequence[float] | None] | None
    _mode: str | list[str] | None
    _points_to_evaluate: Sequence[Mapping[str, Any]]
    _space: Any  # distributions by path, or a function; None or empty before it is known
    _study_name: str

    def __init__(
        self,
        space: Mapping[str, Any] | Callable[[Any], dict[str, Any] | None] | None = None,
        metric: str | Sequence[str] | None = None,
        mode: Literal["min", "max"] | Sequence[Literal["min", "max"]] | None = None,
        *,
        sampler: BaseSampler | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float | Sequence[float] | None] | None = None,
        study_name: str | None = None,
        storage: BaseStorage | None = None,
        seed: int | None = None,
        terminator: Terminator | None = None,
    ) -> None:
        """Check and keep the arguments, and open the study if they are complete."""
        check_objectives(metric, mode)
        check_points(points_to_evaluate, evaluated_rewards)
        if sampler is not None:
            errors.check_instance("sampler", sampler, BaseSampler, "an Optuna sampler")
            if seed is not None:
                rule = "None with a sampler, which has its own"
                raise ValueError(errors.rule_message("seed", rule, seed))
        if storage is not None:
            rule = "an Optuna storage, such as RDBStorage(url) of optuna.storages"
            errors.check_instance("storage", storage, BaseStorage, rule)
        if study_name is not None:
            errors.check_instance("study_name", study_name, str, "a string or None")
        if terminator is not None:
            rule = "an object with a method should_terminate"
            has_method = callable(getattr(terminator, "should_terminate", None))
            if not has_method or isinstance(terminator, type):
                raise TypeError(errors.rule_message("terminator", rule, terminator))
            if len(listed(metric)) > 1 and isinstance(terminator, RegretGapTerminator):
                rule = "None with several objectives, as RegretGapTerminator has one"
                raise ValueError(errors.rule_message("terminator", rule, terminator))
        self._terminator = terminator
        self._constants: dict[str, Any] = {}  # of ``space``, to be added to each suggestion
        self._max_concurrent: int | None = None
        super().__init__(
            metric=metric if metric is None or isinstance(metric, str) else [*metric],
            mode=mode if mode is None or isinstance(mode, str) else [*mode],
            points_to_evaluate=points_to_evaluate,
            sampler=BBOSampler(seed=seed) if sampler is None else sampler,
            study_name=study_name,
            storage=storage,
            evaluated_rewards=evaluated_rewards,
        )
        if space is not None:
            self._take_space("space", space)
            if self._metric is not None and self._mode is not None:
                self._setup_study(self._mode)

    # ------------------------------------------------------------------------------ set-up

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take over from the tuner what was not given at construction.

        Returns:
            Whether ``config`` was taken for the search space.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: As at construction; or ``metric`` or ``mode`` is given a second time and
                differs.
        """
        del spec
        self.leave_experiment()
        if self._ot_study is not None and metric is None and mode is None:
            return False
        check_objectives(metric, mode)
        for name, own, given in (("metric", self._metric, metric), ("mode", self._mode, mode)):
            if own is not None and given is not None and own != given:
                rule = f"{own!r}, as BBOSearch was told so"
                raise ValueError(errors.rule_message(name, rule, given))
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        took_config = not self._space
        if took_config:
            self._take_space("param_space", config)
            self._constants = {}  # Ray adds them
        elif self._ot_study is not None:
            return False
        if self._mode is not None:
            try:
                self._setup_study(self._mode)
            except ValueError:
                if took_config:  # another one may be given
                    self._space = self._tree = None
                raise
        return took_config

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> dict[str, BaseDistribution]:
        """Return Optuna's distributions of Ray's domains, by name; constants are left out.

        Raises:
            ValueError: There is a domain that cannot be searched.
        """
        return read_space("spec", spec).distributions

    def _take_space(self, argument: str, space: Any) -> None:
        if callable(space):
            self._space = space
            return
        tree = read_space(argument, space)
        self._constants = tree.constants
        if not tree.distributions:
            rule = f"a search space with at least one domain, {example_of_domain(tree.constants)}"
            raise ValueError(errors.rule_message(argument, rule, space))
        if self._storage is not None and not isinstance(self._storage, InMemoryStorage):
            check_choices_are_storable(argument, tree.distributions)
        self._tree = tree
        self._space = tree if tree.is_conditional else tree.distributions

    def _setup_study(self, mode: str | list[str]) -> None:
        """Open the study as Ray does; check its directions; take the points to evaluate."""
        for index, reward in enumerate(self._evaluated_rewards or ()):
            if reward is not None and len(listed(reward)) != len(listed(mode)):
                rule = "a number for each metric"
                raise ValueError(errors.rule_message(f"evaluated_rewards[{index}]", rule, reward))
        rewards = self._evaluated_rewards or [None] * len(self._points_to_evaluate)
        points = [
            self._checked_point(index, point, has_result=reward is not None)
            for index, (point, reward) in enumerate(
                zip(self._points_to_evaluate, rewards, strict=True)
            )
        ]
        given, self._points_to_evaluate = self._points_to_evaluate, []
        try:
            super()._setup_study(mode)
        finally:
            self._points_to_evaluate = given
        try:
            self._check_stored(self._ot_study, mode)
        except ValueError:
            self._ot_study = None
            raise
        # A study that is continued, or restored, was given its points with results when it was new.
        is_new = not self._ot_study.get_trials(deepcopy=False)
        self._points = []
        for point, reward in zip(points, rewards, strict=True):
            if reward is None:
                self._points.append(point)
            elif is_new or not self._has_result(point, reward):
                self.add_evaluated_point(point, reward)

    def _checked_point(
        self, index: int, point: Mapping[str, Any], *, has_result: bool
    ) -> dict[str, Any]:
        """Return the parameters of a point to evaluate by name."""
        if self._tree is None and not has_result:  # the function may ask for more than it has
            return {path: plain(value) for path, value in flattened(point, ()).items()}
        return self._params_of(f"points_to_evaluate[{index}]", point, exact=True)[0]

    def _check_stored(self, study: Study, mode: str | list[str]) -> None:
        """Check that a study that is continued has this mode, and parameters of the same kinds."""
        wanted = [StudyDirection[f"{each.upper()}IMIZE"] for each in listed(mode)]
        if study.directions != wanted:
            stored = ", ".join(direction.name.lower() for direction in study.directions)
            raise ValueError(
                f"mode must be that of the stored study {self._study_name!r}, which is to "
                f"{stored}, but got {mode!r}."
            )
        known: dict[str, BaseDistribution] = {}
        for trial in study.get_trials(deepcopy=False):
            known |= trial.distributions
        for name, distribution in (self._tree.distributions if self._tree else {}).items():
            try:
                check_distribution_compatibility(known.get(name, distribution), distribution)
            except ValueError as error:
                rule = f"as in the stored study {self._study_name!r}, {known[name]!r}"
                raise ValueError(
                    errors.rule_message(f"the parameter {name!r}", rule, distribution)
                ) from error

    def _params_of(
        self, argument: str, config: Mapping[str, Any], *, exact: bool
    ) -> tuple[dict[str, Any], Mapping[str, BaseDistribution]]:
        """Return the parameters in a config and the distributions that there are, both by name.

        Args:
            argument: Name of the argument, for the messages.
            config: The config.
            exact: Whether there may be nothing in it that is not in the space.
        """
        if self._tree is None:
            try:
                return replayed(self._space, config)
            except ValueError as error:
                rule = f"a config with all that the define-by-run function asks for ({error})"
                raise ValueError(errors.rule_message(argument, rule, dict(config))) from error
        known = self._tree.constants if exact else None
        return self._tree.params_of(argument, config, known), self._tree.distributions

    def _has_result(self, params: dict[str, Any], reward: float | Sequence[float]) -> bool:
        values = listed(reward)
        if None in map(finite_or_none, values):  # it was added as failed
            state, stored = TrialState.FAIL, None
        else:
            state, stored = TrialState.COMPLETE, values
        trials = self._ot_study.get_trials(deepcopy=False, states=[state])
        return any(trial.params == params and trial.values == stored for trial in trials)

    # ------------------------------------------------------------------------- suggestions

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of a new trial.

        Returns:
            The config; ``FINISHED`` once the terminator says so, or a sampler that has tried all
            of its points; None if as many trials as are allowed at a time run, or wait to be
            continued.

        Raises:
            RuntimeError: There is no search space, no metric or no mode yet.
        """
        self._complete_setup()
        if self._ot_study is None and self._space:
            # Ray's own message would advise to do what has been done.
            raise RuntimeError(
                "BBOSearch has no mode: give the TuneConfig one. Without a param_space write "
                "BBOSearch(space, metric=..., mode=...), as Ray does not pass on the TuneConfig's."
            )
        try:
            if self._is_over():
                return str(Searcher.FINISHED)
            if self._max_concurrent is not None and len(self._open) >= self._max_concurrent:
                return None
            if self._ot_study is not None and trial_id not in self._ot_trials:
                self._ask(trial_id)
            with warnings.catch_warnings():
                # Ray takes the time the sampler needs for time spent in the define-by-run function.
                warnings.filterwarnings("ignore", "Define-by-run function", UserWarning)
                suggestion = super().suggest(trial_id)
        except Exception:
            self.leave_experiment()  # Ray ends it, and nobody would finish its trials
            raise
        if self._constants:
            suggestion = merge_dicts(unflatten_dict(self._constants), suggestion)
        return dict(suggestion)

    def _ask(self, trial_id: str) -> None:
        """Create the Optuna trial of a new trial, and have its parameters suggested.

        As :meth:`optuna.Study.ask`, but that one would leave a trial without an owner if the driver
        is killed while the sampler computes. Trials that others have enqueued are taken as well.
        """
        study = self._ot_study
        point = self._next_point()
        if point is not None:
            trial = self._create(trial_id, system_attrs={FIXED_PARAMS: point})
        else:
            begun = begin_enqueued_trial(study, OWNER_KEY, [self._owner, trial_id])
            trial = self._create(trial_id) if begun is None else self._take(trial_id, begun)
        if not callable(self._space):
            for name, distribution in self._space.items():
                suggest(trial, name, distribution)

    def _next_point(self) -> dict[str, Any] | None:
        """Return the next of the points to evaluate that no other search has begun."""
        study = self._ot_study
        while self._points:
            point = self._points.pop(0)
            if not any(
                trial.system_attrs.get(FIXED_PARAMS) == point and owner_of(trial)[0] != self._owner
                for trial in study.get_trials(deepcopy=False)
            ):
                return point
        return None

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take over from Ray's limiter, which knows nothing of trials that are continued.

        The limiter's ``batch`` has no effect then. With an empty ``param_space`` this is all that
        Ray says of another experiment with the same object.
        """
        self.leave_experiment()
        self._max_concurrent = max_concurrent
        return True

    def restore(self, checkpoint_path: str) -> None:
        """Read the state back, but for the limit of trials at a time, which is the experiment's.

        As in :meth:`RestoringSearch.restore` otherwise.
        """
        limit = self._max_concurrent
        super().restore(checkpoint_path)
        self._max_concurrent = limit

    def _complete_setup(self) -> None:
        """Open the study if only the name of the metric is missing, for which Ray has a default."""
        if self._ot_study is None and self._space and self._mode:
            self._setup_study(self._mode)

    def _is_over(self) -> bool:
        study, terminator = self._ot_study, self._terminator
        if study is None:
            return False
        over = is_stopped(study)
        who = study.sampler if over else terminator
        if not over and terminator is not None:
            over = bool(terminator.should_terminate(study))
        if over and self._once.first_time("over"):
            _logger.info(
                "BBOSearch suggests no more trials, as %s ends the search; running trials are "
                "finished.",
                type(who).__name__,
            )
        return over

    def on_pause(self, trial_id: str) -> None:
        """Refuse the one scheduler that tells search algorithms of pauses.

        Raises:
            ValueError: Always.
        """
        del trial_id
        self.refuse_bohb()

    def refuse_bohb(self) -> None:
        """Refuse HyperBandForBOHB: the experiment ends, and no trial stays RUNNING.

        Raises:
            ValueError: Always.
        """
        self.leave_experiment()
        raise ValueError(
            "scheduler must be another one than HyperBandForBOHB with BBOSearch: it needs Ray's "
            "TuneBOHB beside it. Take HyperBandScheduler."
        )

    def add_evaluated_point(
        self,
        parameters: Mapping[str, Any],
        value: float | Sequence[float] | None,
        error: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        """Add a trial that was evaluated elsewhere.

        Args:
            parameters: Its config, nested, by path or by the study's names; constants and whatever
                else is not in the search space is ignored.
            value: Its value, or with several objectives a list of them; one that is not finite
                counts as failed.
            error: Whether it failed.
            pruned: Whether it was stopped early.
            intermediate_values: Values it reported, those of iterations 1, 2, ...

        Raises:
            RuntimeError: There is no search space, no metric or no mode yet.
            ValueError: No parameter of the space is given, one is outside its range, or a
                define-by-run function asks for one that is not given.
        """
        self._complete_setup()
        if self._ot_study is None:
            super().add_evaluated_point(parameters, value)  # which says what is missing
        params, distributions = self._params_of("parameters", parameters, exact=False)
        if not params:
            rule = "a config with parameters of the search space"
            raise ValueError(errors.rule_message("parameters", rule, dict(parameters)))
        values = [*map(finite_or_none, listed(value))]
        is_finite = bool(values) and None not in values
        steps = {
            step: number
            for step, number in enumerate(map(finite_or_none, intermediate_values or ()), start=1)
            if number is not None
        }
        state = TrialState.PRUNED if pruned else TrialState.COMPLETE
        if error or not (is_finite or pruned):
            state = TrialState.FAIL
        self._ot_study.add_trial(
            create_trial(
                state=state,
                values=values if is_finite and state is not TrialState.FAIL else None,  # type: ignore[arg-type]
                params=params,
                distributions={name: distributions[name] for name in params},
                intermediate_values=steps,
            )
        )
