"""Which trials of a Ray experiment have ended, judged by their results alone.

A stopper is shown results, but nobody tells it when a scheduler has stopped or paused a trial: such
a trial just falls silent. What tells a silent trial from a slow one is that trials take turns. If
at most w trials were ever seen to run side by side, then one that has not been heard of while w
others began has given up its place. A trial that is heard of again was slow after all; it has made
w larger by then.
"""

from __future__ import annotations


class LiveTrials:
    """Keeps track of the trials that have reported and may report again."""

    def __init__(self) -> None:
        """Start without any trial."""
        # For each trial heard of: how many had begun when it was last heard of.
        self._heard_at: dict[str, int] = {}
        self._live: dict[str, None] = {}  # the one heard of last is the last
        # For each trial, in the order of their beginning: how many earlier ones outlasted that.
        self._beside: list[int] = []
        self._width = 1

    @property
    def ids(self) -> list[str]:
        """The trials that have been heard of and not ended since."""
        return list(self._live)

    @property
    def width(self) -> int:
        """The largest number of trials that were seen to run side by side."""
        return self._width

    def hear(self, trial_id: str, *, done: bool) -> list[str]:
        """Take notice of a result.

        Args:
            trial_id: The trial that has reported.
            done: Whether it says that this is its end.

        Returns:
            The trials that are now known to have ended, in that order: this one if it is done,
            however often it says so, and silent ones.
        """
        is_new = trial_id not in self._heard_at
        if is_new:
            self._beside.append(0)
        else:
            for start in range(self._heard_at[trial_id], len(self._beside)):
                self._beside[start] += 1
                self._width = max(self._width, 1 + self._beside[start])
        self._heard_at[trial_id] = len(self._beside)
        self._live.pop(trial_id, None)
        ended = self._silent() if is_new else []
        for other in ended:
            del self._live[other]
        if done:
            ended.append(trial_id)
        else:
            self._live[trial_id] = None
        return ended

    def _silent(self) -> list[str]:
        n_begun = len(self._beside)
        return [
            trial_id for trial_id in self._live if n_begun - self._heard_at[trial_id] > self._width
        ]
