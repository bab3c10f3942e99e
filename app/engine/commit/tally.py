"""What a worker's committed steps come to: events by kind, dead letters by reason, commits by the time they take."""

from typing import Final, get_args

from app.base.histogram import Histogram
from app.engine.steps.step import Step
from punctual.contract.events import Kind
from punctual.contract.request import Reason

#: Seconds: from a broker on this machine to one that is about to be given up.
COMMIT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Tally:
    """Counts each step once, when it is committed: one that fails on the way counts when it has gone through."""

    def __init__(self) -> None:
        """Begin with nothing: what can be counted is there from the start, so that its first increase is seen."""
        self.events = dict.fromkeys(get_args(Kind), 0)
        self.dead_letters = dict.fromkeys((reason.value for reason in Reason), 0)
        self.commits = Histogram(COMMIT_S)

    def add(self, step: Step, seconds: float) -> None:
        """Count a step whose commit took so long."""
        for kind, number in step.kinds.items():
            self.events[kind] += number
        for reason, number in step.rejects.items():
            self.dead_letters[reason.value] += number
        self.commits.add(seconds)
