"""Lag of partitions in their inputs: a due message waits until the commands that came before it are read.

The guarantee covers commands that come at least the margin, some seconds, before the due time. So a message may be sent
when all records are read that were known to be in the inputs at that moment. A partition that is five seconds behind in
an input with a margin of three sends its messages two seconds late. The wait has a maximum.

Commands in the input of a namespace concern only messages of that namespace, so no others wait for it.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import Counter

from app.engine.partition.partition import FetchedPositions, Partition, has_ingested
from app.settings.topics import TopicSettings
from punctual.contract.namespaces import Namespaces

log = logging.getLogger(__name__)

_WAITED = Counter(
    "delay_waited_for_inputs_seconds", "How long partitions held due messages back because of unread input records."
)
#: Inputs have the margin of the guarantee. Forwards have less, because they have passed an input before.
MARGIN_S, FORWARDS_MARGIN_S = 3.0, 1.0
#: The maximum wait of a message for unread input.
LONGEST_S = 10.0
#: Messages do not wait for records that are unread for this long: an open transaction of a dead process may hide them.
FORGOTTEN_S = 30.0
NO_NAMESPACES: Final = Namespaces()
_NOT_HELD: Final[Mapping[str, float]] = {}
#: Maximum number of marks: more than there are checks within `FORGOTTEN_S`.
_MARKS = 400


class InputReads(FetchedPositions, Protocol):
    """The progress of the consumer in the inputs."""

    def heard(self, topic: str, partition: int) -> float | None:
        """Return a number that changes with each answer of a broker to a fetch, None if the input is not read now."""

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether records have been fetched that are not in the table yet."""

    def written(self, topic: str, partition: int) -> int | None:
        """Return the end offset of the readable records at the last answer, None without an answer."""


def margins_of(topics: TopicSettings) -> dict[str, float]:
    """Return the margin of each input of an installation, in seconds."""
    return {**dict.fromkeys(topics.inputs, MARGIN_S), topics.forwards: FORWARDS_MARGIN_S}


@dataclass(slots=True)
class _InputMarks:
    """Past end offsets of an input with their times, and the last time whose end offset has been read."""

    read_s: float
    heard: float | None = None
    marks: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_MARKS))


class InputLag:
    """Measures for how long partitions have to hold messages back."""

    def __init__(self, reads: InputReads, margins: Mapping[str, float], namespaces: Namespaces = NO_NAMESPACES) -> None:
        """Measure the lag in the topics of `margins` (seconds by topic); some are inputs of `namespaces`."""
        self._reads, self._margins, self._namespaces = reads, margins, namespaces
        #: By partition: its life at the last look(), and the marks of its inputs.
        self._inputs: dict[int, tuple[int, dict[str, _InputMarks]]] = {}
        #: By partition and namespace of the input: for how many seconds messages wait; "" is for all messages.
        self._held: dict[int, dict[str, float]] = {}

    def behind_s(self, partition: Partition) -> float:
        """Return how many seconds all messages of a partition have to wait, as of the last look()."""
        return self._held.get(partition.number, _NOT_HELD).get("", 0.0)

    def apart_s(self, partition: Partition) -> Mapping[str, float]:
        """Return how many seconds messages have to wait by namespace, for namespaces with more than behind_s()."""
        held = self._held.get(partition.number, _NOT_HELD)
        if not held:
            return held
        all_s = held.get("", 0.0)
        return {namespace: held_s for namespace, held_s in held.items() if held_s > all_s}

    def knows(self, partition: Partition) -> bool:
        """Return whether the lag of a partition has been measured since it went live."""
        return partition.number in self._held and self._inputs[partition.number][0] == partition.life

    def look(self, partition: Partition, now_s: float, since_s: float) -> None:
        """Measure the lag of a live partition at `now_s` (event loop time), `since_s` seconds after the last call."""
        if not self.knows(partition):
            marks = {topic: _InputMarks(min(now_s, partition.read_s)) for topic in self._margins}
            self._inputs[partition.number] = partition.life, marks
        _, inputs = self._inputs[partition.number]
        before, held = self._held.get(partition.number, _NOT_HELD), dict[str, float]()
        for topic, one in inputs.items():
            behind_s = now_s - self._read(partition, topic, one, now_s)
            held_s = min(LONGEST_S, behind_s - self._margins[topic])
            namespace = self._namespaces.of_topic(topic)
            if held_s > held.get(namespace, 0.0):
                if namespace not in before and namespace not in held:
                    _warn(partition.number, topic, behind_s, namespace)
                held[namespace] = held_s
        if held:
            _WAITED.inc(since_s)
        self._held[partition.number] = held

    def forget(self, partition: Partition) -> None:
        """Forget the marks of a partition, which reads its inputs again before it goes live."""
        self._held.pop(partition.number, None)

    def _read(self, partition: Partition, topic: str, one: _InputMarks, now_s: float) -> float:
        """Return the latest event loop time for which all records known by then in an input have been read."""
        number, marks = partition.number, one.marks
        heard = self._reads.heard(topic, number)
        if heard is None:  # the input is not read now
            marks.clear()
            one.read_s = now_s
        elif heard != one.heard:
            end = self._reads.written(topic, number)
            if end is not None:
                marks.append((end, now_s))
        one.heard = heard
        if marks and has_ingested(partition, self._reads, topic, marks[-1][0]):
            one.read_s = marks[-1][1]
            marks.clear()
        while marks and has_ingested(partition, self._reads, topic, marks[0][0]):
            one.read_s = marks.popleft()[1]
        if marks and now_s - marks[0][1] > FORGOTTEN_S:
            sentence = (
                "partition %d has not read %s for %g s. Its messages are now delivered, so an unread command may be "
                "too late"
            )
            log.error(sentence, number, topic, FORGOTTEN_S, extra={"partition": number, "topic": topic})
            marks.clear()
            one.read_s = now_s
        return one.read_s


def _warn(number: int, topic: str, behind_s: float, namespace: str) -> None:
    messages = f"due messages of the namespace {namespace}" if namespace else "due messages"
    log.warning(
        "partition %d is %.1f s behind in %s: %s wait until it has caught up, for at most %g s",
        number,
        behind_s,
        topic,
        messages,
        LONGEST_S,
        extra={"partition": number, "topic": topic},
    )
