"""Stopping a study of any sampler when nothing more is to be gained.

The worker that looks first makes the record of a completion
(:mod:`bbo_plugins.methods.regret_gap.algorithm`) and keeps it in the study's storage
(:mod:`bbo_plugins.optuna.stopping.records`), where all others find it. A record depends on the
settings and on the content of the storage, on nothing else: workers that make the same one at the
same time make it equal, and a restarted study goes on as if it had not been interrupted. The
terminator itself keeps caches only, which copies and pickles drop.
"""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from optuna.trial import FrozenTrial

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.regret_gap import StoppingRecord, StoppingRule, algorithm
from bbo_plugins.optuna.stopping.progress import StoredRecords, StudyProgress
from bbo_plugins.optuna.stopping.records import CAPACITY, Settings, StoredRecord, store_warm_start
from bbo_plugins.optuna.study.storage import is_stopped
from bbo_plugins.optuna.study.trials import BILEVEL_KEY, PerStudy, check_one_objective, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optuna.study import Study

_logger = logging.getLogger(__name__)

# Where a study has no records yet, they are made of its latest completions: so many, and of a long
# study so few that their models cover no more observations than this in all.
_MAX_CATCH_UP, _MAX_CATCH_UP_OBSERVATIONS = 128, 64_000
_LOGGED_EVERY = 10  # completions for each line in the log at the level INFO
# Why a study cannot be stopped, by whether it is one of a bilevel problem.
_WHY = {
    False: "its complete trials have no parameter of more than one value, so there is nothing to "
    "model.",
    True: "its trials are values of the several functions of BILBOSampler. The regret_bound of "
    "sampler.solution(study) may tell when to stop.",
}
_MAX_NEEDED = 1_000  # records that a decision can depend on; no more than CAPACITY are kept


class RegretGapTerminator:
    """Stops a study when one more trial can hardly change the knowledge of the optimum.

    After every completed trial a Gaussian process says how much the expected best value can have
    moved by it: the gap of expected minimum simple regrets (Ishibashi et al., 2023). Once that is
    at most a threshold for ``patience`` completions in a row, the study is stopped::

        study.optimize(objective, n_trials=200, callbacks=[RegretGapTerminator()])

    It works with every sampler but :class:`~bbo_plugins.optuna.BILBOSampler`, whose trials are
    values of several functions: it stops no such study and says so. It works in both directions,
    with threads (``n_jobs``) and with several processes on one storage. All values are in the
    objective's own units. Pruned and failed trials are no observations. Neither are complete ones
    that count as failed, because their value is infinitely bad or far worse than usual. Constraints
    are not looked at. If a Gaussian process of this package suggested the trials, the
    hyperparameters that it has estimated are used, and nothing is fitted here, unless they lack a
    noise variance. The trials that it has left out as outliers count as failed as well.

    Every tenth completion brings a line in Optuna's log (INFO) with the criterion, the threshold,
    and how many in a row were at or below it; at the level DEBUG every completion does.

    Trials that continue one another (:class:`~bbo_plugins.optuna.PromotionCallback`) count as one,
    whose value is that of the longest training: the completion of a continuation brings no record
    of its own, and the next record takes the new value into account.

    The model has all parameters that any complete trial has. Where one exists, if not all trials
    have it, is learned from the trials. A study without a parameter of more than one value is never
    stopped, and a warning says so once. Neither is one whose values are all equal.

    The noise variance behind the regret gap is the fitted one, but at least a share of the variance
    of the values: 1e-2; with the thresholds "median" 1e-4 and "auto" 1e-6. With
    ``deterministic_objective`` it is 1e-6.

    Args:
        threshold: The largest criterion that counts as a reason to stop.

            - "relative": ``eta`` times the standard deviation of the values so far, of which a few
              that lie far off are clipped; ``eta`` itself if the criterion is a probability.
            - "auto": Eq. (7) of the paper, for the regret gap. Fires when trials are repeated more
              than when the optimum is found.
            - "median": ``eta`` times the median of the first ``n_initial`` criteria.
            - "cross-validation": the standard deviation of the best trial's value, from the scores
              given to :func:`~bbo_plugins.optuna.report_cross_validation_scores`; no stop before
              they are, of which a warning says so once. Not for a probability.
            - a number above 0, in the objective's units; below 1 for a probability.
        criterion: "regret-gap", or one to compare it with: "regret-bound" (Makarova et al.,
            2022), "expected-improvement", "probability-of-improvement".
        eta: Factor of "relative" and "median", in (0, 1). None for 0.1 with "relative" (0.2 if the
            objective is deterministic, 0.01 for a probability) and 0.01 with "median".
        patience: Number of completions in a row that have to agree; at most 1,000.
        n_initial: Number of criteria that "median" takes the median of; at most 1,000.
        delta: Probability with which confidence bounds may fail, in (0, 1).
        min_n_trials: Number of completions, those that count as failed aside, before which nothing
            is stopped; at least 2.
        deterministic_objective: Whether the same parameters always give the same value.
        seed: Seed of the points at which the model is asked; None for 0, so that workers agree.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, the threshold is not one of this
            criterion, or ``eta`` is given with a threshold that has none.

    Source: Ishibashi, Karasuyama, Takeuchi & Hino (2023), "A stopping criterion for Bayesian
    optimization by the gap of expected minimum simple regrets". The "relative" threshold and
    ``patience`` are choices of this project.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BBOSampler, RegretGapTerminator


            def objective(trial):
                return (trial.suggest_float("x", -3.0, 3.0) - 1.0) ** 2


            study = optuna.create_study(sampler=BBOSampler(seed=0))
            terminator = RegretGapTerminator()
            study.optimize(objective, n_trials=40, callbacks=[terminator])
            latest = terminator.history(study)[-1]
            print(latest.n_trials, latest.value, latest.threshold, latest.terminate)
    """

    def __init__(
        self,
        *,
        threshold: Literal["relative", "auto", "median", "cross-validation"] | float = "relative",
        criterion: Literal[
            "regret-gap", "regret-bound", "expected-improvement", "probability-of-improvement"
        ] = "regret-gap",
        eta: float | None = None,
        patience: int = 3,
        n_initial: int = 20,
        delta: float = 0.1,
        min_n_trials: int = 20,
        deterministic_objective: bool = False,
        seed: int | None = None,
    ) -> None:
        """Check and keep the arguments."""
        rule = StoppingRule(
            threshold=threshold,
            criterion=criterion,
            eta=eta,
            patience=patience,
            n_initial=n_initial,
            delta=delta,
            min_n_trials=min_n_trials,
            deterministic_objective=deterministic_objective,
        )
        for name, number in (("patience", patience), ("n_initial", n_initial)):
            if number > _MAX_NEEDED:
                raise ValueError(errors.rule_message(name, f"at most {_MAX_NEEDED}", number))
        self._settings = Settings(
            rule, 0 if seed is None else errors.check_int("seed", seed, minimum=0)
        )
        self._progress = PerStudy(partial(StudyProgress, self._settings))

    @property
    def settings(self) -> Settings:
        """All that the records depend on, beside the trials; they are stored under its digest."""
        return self._settings

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """Stop ``study`` if that is due: a callback of :meth:`optuna.study.Study.optimize`.

        It is due if a record says so of any completion since ``trial`` started, or since this
        terminator last looked, so that a worker also stops for a reason that another one has found.
        A study that is continued after it was stopped goes on until a new completion gives a
        reason.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has several objectives.
        """
        errors.check_instance("trial", trial, FrozenTrial, "an Optuna trial")
        started = seconds_of(trial.datetime_start, unknown=-math.inf)
        with self._up_to_date(study, trial.number) as progress:
            final = progress.final(trial.number, started)
            progress.n_seen = progress.n_latest = len(progress.order)
            if final is None:
                return
            # Several threads may each find a reason; the first one has said it.
            is_stopping = is_stopped(study)
            study.stop()
            if not is_stopping:
                progress.once.first_time("stop")
                _logger.info("%s", _reason(self._settings.rule, final))

    def should_terminate(self, study: Study) -> bool:
        """Return whether the study is to end here: for ask-and-tell loops.

        Like the callback, called for the trial that completed last; continuations aside. The answer
        stays the same until a trial completes.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has several objectives.
        """
        with self._up_to_date(study) as progress:
            n = len(progress.order)
            if n != progress.n_latest:
                progress.n_seen, progress.n_latest = progress.n_latest, n
            if not n:
                return False
            newest = progress.order[-1][0].trial
            started = seconds_of(newest.datetime_start, unknown=-math.inf)
            final = progress.final(newest.number, started)
            if final is not None and progress.once.first_time("stop"):
                _logger.info("%s", _reason(self._settings.rule, final))
            return final is not None

    def evaluate(self, study: Study) -> StoppingRecord:
        """Return the record of the latest completion; its value is infinite without any signal.

        A completion that counts as failed has a record without a signal (``has_failed``).

        Completions without a record get one first, of a long history the latest 128 at most.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has several objectives.
        """
        with self._up_to_date(study) as progress:
            n = len(progress.order)
            return progress.records[n].record if n else StoppingRecord(n_trials=0)

    def history(self, study: Study) -> list[StoppingRecord]:
        """Return the stored records of a terminator with these settings, the oldest first.

        They are read from the storage, whoever made them; nothing is computed. Kept are those of
        the latest 1,024 completions.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has several objectives.
        """
        check_one_objective(study)
        return [stored.record for stored in StoredRecords.read(study, self._settings).records]

    @contextmanager
    def _up_to_date(self, study: Study, own: int | None = None) -> Iterator[StudyProgress]:
        """Lock the progress of ``study``, with records of all completions that are to have one.

        A worker that asks for its ``own`` trial, and finds it to be the only one without a record,
        need not look for others' records: nobody else is likely to have made it.
        """
        check_one_objective(study)
        progress = self._progress.of(study)
        with progress.lock:
            progress.read_trials(study)
            missing = self._missing(progress)
            others = [progress.order[n - 1][0].number for n in missing] not in ([], [own])
            if others or not progress.has_read_records:
                progress.read_records(study)
                missing = self._missing(progress)
            start = progress.warm_start
            for n in missing:
                stored = StoredRecord(progress.order[n - 1][0].number, self._made(progress, n))
                self._log(stored, progress, n)
                progress.add(study, stored)
            if progress.warm_start is not None and progress.warm_start is not start:
                store_warm_start(study, self._settings, missing[-1], progress.warm_start)
            yield progress

    def _log(self, made: StoredRecord, progress: StudyProgress, n: int) -> None:
        """Say how far the ``n``-th completion is from a stop; the worker that finds out does.

        Each is said at the level DEBUG, and every tenth to whoever watches the study as well. Of
        many that are caught up on, only the latest of those is.
        """
        rule = self._settings.rule
        agreeing = rule.n_agreeing(made.record, progress.before(n))
        text = _progress_of(rule, made, agreeing)
        _logger.debug("%s", text)
        if n % _LOGGED_EVERY == 0 and n + _LOGGED_EVERY > len(progress.order):
            _logger.info("%s", text)

    def _missing(self, progress: StudyProgress) -> list[int]:
        """Return the completions that are to have a record and have none, in order."""
        rule, n = self._settings.rule, len(progress.order)
        n_latest = min(_MAX_CATCH_UP, _MAX_CATCH_UP_OBSERVATIONS // max(n, 1))
        first = max(1, n + 1 - max(n_latest, rule.patience))
        wanted = [*range(first, n + 1)]
        if rule.threshold == "median":
            earliest = max(1, n + 1 - CAPACITY)
            # The very first completion never has a signal, so it takes one more.
            wanted = [*range(earliest, min(rule.n_initial + 2, first)), *wanted]
        return [m for m in wanted if m not in progress.records]

    def _made(self, progress: StudyProgress, n: int) -> StoppingRecord:
        """Make the record of the ``n``-th completion."""
        is_bilevel = any(BILEVEL_KEY in one[0].trial.system_attrs for one in progress.order)
        completed = None if is_bilevel else progress.completed(n)
        if completed is None:
            # A first trial may lack the parameters of all later ones.
            is_certain = is_bilevel or n >= self._settings.rule.min_n_trials
            if is_certain and progress.once.first_time("impossible"):
                _logger.warning("RegretGapTerminator cannot stop this study: %s", _WHY[is_bilevel])
            return StoppingRecord(n_trials=n)
        if completed.n_infinite and progress.once.first_time("infinite"):
            _logger.warning(
                "RegretGapTerminator: the study has infinite values; an infinitely bad one counts "
                "as a failure, an infinitely good one as the best finite one so far."
            )
        if completed.n_violating and progress.once.first_time("constraints"):
            _logger.warning(
                "RegretGapTerminator does not look at constraints: a value may count as the best "
                "one where they are violated, and the study may stop without a feasible trial."
            )
        needs_scores = self._settings.rule.threshold == "cross-validation"
        if needs_scores and not completed.best_scores and progress.once.first_time("scores"):
            _logger.warning(
                "RegretGapTerminator cannot stop this study yet: the trial with the best value has "
                "no scores from report_cross_validation_scores."
            )
        found = algorithm.evaluate(
            completed.space,
            completed.X,
            completed.y,
            rule=self._settings.rule,
            has_failed=completed.has_failed,
            previous=progress.before(n),
            shared=completed.estimate,
            warm_start=progress.warm_start,
            fold_scores=completed.best_scores or None,
            seed=self._settings.seed,
        )
        for note in found.notes:
            if progress.once.first_time("note", note.partition("(")[0]):
                _logger.warning("RegretGapTerminator, completion %d: %s.", n, note)
        if found.warm_start is not None:  # rounded as another worker will read it
            progress.warm_start = WarmStart.from_json(found.warm_start.to_json())
        return found.record


def _reason(rule: StoppingRule, final: StoredRecord) -> str:
    """Return why the study ends, in words and numbers."""
    record, criterion = final.record, rule.criterion_in_words
    unit = "" if rule.is_probability else ", in the objective's units"
    return (
        f"RegretGapTerminator stops the study after {record.n_trials} complete trials (the latest "
        f"is trial {final.number}): the {criterion} was at most its threshold for {rule.patience} "
        f"in a row, at last {record.value:.4g} <= {record.threshold:.4g} "
        f"({_in_words(rule)}){unit}."
    )


def _progress_of(rule: StoppingRule, made: StoredRecord, agreeing: int) -> str:
    """Return how far the study is from its end, in words and numbers."""
    record, criterion = made.record, rule.criterion_in_words
    value = f"{record.value:.4g}" if record.value < math.inf else "not known yet"
    threshold = f"{record.threshold:.4g}" if record.threshold > -math.inf else "not known yet"
    earliest = (
        f", no stop before {rule.min_n_trials}"
        if record.n_trials - record.n_failed < rule.min_n_trials
        else ""
    )
    found = f"{criterion} {value}, threshold {threshold} ({_in_words(rule)})"
    if record.has_failed:
        found = f"trial {made.number} counts as failed, so there is no new {criterion}"
    return (
        f"RegretGapTerminator, {record.n_trials} complete trials (the latest is trial "
        f"{made.number}){earliest}: {found}, {agreeing} of {rule.patience} in a row at or below "
        "the threshold."
    )


def _in_words(rule: StoppingRule) -> str:
    """Return the threshold in words."""
    if rule.threshold == "relative":
        unit = "" if rule.is_probability else " times the standard deviation of the values"
        return f"{rule.fraction:g}{unit}"
    if rule.threshold == "median":
        return f"{rule.fraction:g} times the median of the first {rule.n_initial}"
    if rule.threshold == "auto":
        return "Eq. (7)"
    if rule.threshold == "cross-validation":
        return "standard deviation of the best trial's cross-validated value"
    return "as given"
