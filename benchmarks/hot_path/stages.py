"""The CPU time of stages: functions that handle many messages a call, each timed without the stages that it calls."""

import functools
import importlib
import time
from collections import defaultdict
from typing import Any

#: The functions of each stage. The time of a function that a tree does not have counts as the rest; a tree from before
#: app/engine has the same modules one level higher.
STAGES = {
    "decode": ("app.engine.ingest.ingest:Ingest.read",),
    "take": ("app.engine.ingest.ingest:Ingest.apply",),
    "apply": ("tables.store:PartitionStore.apply",),
    "due": ("tables.store:PartitionStore.due",),
    "batch": ("app.engine.due.due_loop:DueLoop.cycle", "app.engine.deliver.dispatcher:Dispatcher._submit"),
    "settle": ("app.engine.steps.outcome_handler:OutcomeHandler.apply", "app.engine.steps.outcomes:Outcomes.apply"),
    "journal": (
        "app.engine.commit.journal:Journal._outgoing",
        "app.engine.commit.journal:Journal._batch",
        "app.kafka.produce.batch:Batch.build",
    ),
}


class Stopwatch:
    """Takes the CPU time of this process apart by stage."""

    def __init__(self) -> None:
        """Begin to time the functions of all stages."""
        self._spent: dict[str, float] = defaultdict(float)
        #: The stages on the stack, and the time since which the last has been running.
        self._running: list[str] = []
        self._since = 0.0
        for stage, places in STAGES.items():
            for place in places:
                for module in {place, place.replace("app.engine.", "app.")}:
                    self._watch(stage, module)

    def _watch(self, stage: str, place: str) -> None:
        module, _, path = place.partition(":")
        owner, _, name = path.partition(".")
        try:
            target = getattr(importlib.import_module(module), owner)
            function = getattr(target, name)
        except (ImportError, AttributeError):
            return

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._switch(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._back()

        setattr(target, name, timed)

    def _switch(self, stage: str) -> None:
        now = time.process_time()
        if self._running:
            self._spent[self._running[-1]] += now - self._since
            if stage == "journal" and self._running[-1] == "batch":
                stage = "batch"  # this record is a delivery
        self._running.append(stage)
        self._since = now

    def _back(self) -> None:
        now = time.process_time()
        self._spent[self._running.pop()] += now - self._since
        self._since = now

    def take(self) -> dict[str, float]:
        """Return the seconds of each stage since the last call."""
        spent, self._spent = dict(self._spent), defaultdict(float)
        return spent
