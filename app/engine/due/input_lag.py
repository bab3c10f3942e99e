"""How far a partition is behind its inputs: a message that is due waits until the commands that came before are read.

A command is promised to hold that came well before the due time. So a message may be sent when everything is read that
was known to stand in the inputs some seconds before it was due, the margin: a partition that is five seconds behind in
an input with a margin of three sends its messages two seconds late. The wait is bounded, however far it is behind.

The input of a namespace commands messages of that namespace alone: no others wait for it.
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
#: Inputs have the margin that commands are promised; what other partitions forward has had a way behind it already.
MARGIN_S, FORWARDS_MARGIN_S = 3.0, 1.0
#: No message waits longer for what is not read.
LONGEST_S = 10.0
#: What has stood there for so long, unread, is waited for no more: a transaction of a dead process may be open before.
FORGOTTEN_S = 30.0
NO_NAMESPACES: Final = Namespaces()
_NOT_HELD: Final[Mapping[str, float]] = {}
#: As many marks as there are looks while something may be waited for.
_MARKS = 400


class InputReads(FetchedPositions, Protocol):
    """What is known of how inputs are read."""

    def heard(self, topic: str, partition: int) -> float | None:
        """Return a number that changes with each answer to what there is to read, None if nothing is to be read now."""

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether records have been fetched that are not in the table yet."""

    def written(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which there was something to read at the last answer; None if there was none."""


def margins_of(topics: TopicSettings) -> dict[str, float]:
    """Return the margin of each input of an installation, in seconds."""
    return {**dict.fromkeys(topics.inputs, MARGIN_S), topics.forwards: FORWARDS_MARGIN_S}


@dataclass(slots=True)
class _InputMarks:
    """Where an input ended at some times, and since when everything before is read."""

    read_s: float
    heard: float | None = None
    marks: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_MARKS))


class InputLag:
    """Says by how much partitions have to hold messages back."""

    def __init__(self, reads: InputReads, margins: Mapping[str, float], namespaces: Namespaces = NO_NAMESPACES) -> None:
        """Measure the lag in the topics of `margins` (seconds by topic); some are inputs of `namespaces`."""
        self._reads, self._margins, self._namespaces = reads, margins, namespaces
        #: The life of each partition that was looked at last, and its inputs.
        self._inputs: dict[int, tuple[int, dict[str, _InputMarks]]] = {}
        #: For how many seconds messages of each partition wait, by the namespace of the input; "" holds back all.
        self._held: dict[int, dict[str, float]] = {}

    def behind_s(self, partition: Partition) -> float:
        """Return by how many seconds all messages of a partition have to wait, as it was at the last look."""
        return self._held.get(partition.number, _NOT_HELD).get("", 0.0)

    def apart_s(self, partition: Partition) -> Mapping[str, float]:
        """Return by how many seconds messages of namespaces have to wait, where that is longer than all have to."""
        held = self._held.get(partition.number, _NOT_HELD)
        if not held:
            return held
        all_s = held.get("", 0.0)
        return {namespace: held_s for namespace, held_s in held.items() if held_s > all_s}

    def look(self, partition: Partition, now_s: float, since_s: float) -> None:
        """Look at a live partition at a time of the event loop; the last look was `since_s` ago."""
        life, inputs = self._inputs.get(partition.number, (0, {}))
        if life != partition.life or self._held.get(partition.number) is None:
            inputs = {topic: _InputMarks(now_s) for topic in self._margins}
            self._inputs[partition.number] = partition.life, inputs
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
        """Begin anew with a partition, which has read all inputs when it is looked at next."""
        self._held.pop(partition.number, None)

    def _read(self, partition: Partition, topic: str, one: _InputMarks, now_s: float) -> float:
        """Return since when everything is read that was known to stand in an input before."""
        number, marks = partition.number, one.marks
        heard = self._reads.heard(topic, number)
        if heard is None:  # nothing is to be read now
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
