"""Traffic of every kind while faults happen, with its possible and required outcomes."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from punctual.contract.home import home_partition
from tests.harness.background import Background
from tests.harness.kafka import Headers, now_ms

#: A command that is acknowledged this long before the due time holds; a later one may come too late. A command in
#: another partition than its message's home first needs a worker for that partition again.
MARGIN_MS, FOREIGN_MARGIN_MS = 5_000, 11_000
_BEAT_S = 0.01
_HOUR_MS = 3_600_000


class Kind(Enum):
    """The command for an id after it has been scheduled."""

    PLAIN = "plain"
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    REPLACE = "replace"
    NOW = "deliver-now"
    STAY = "stay"


_MIX = [*[Kind.PLAIN] * 15, Kind.CANCEL, Kind.CANCEL, Kind.RESCHEDULE, Kind.REPLACE, Kind.NOW]
#: How many of an installation's messages stay pending to the end.
_STAYING = 200
#: Requests that cannot be accepted, by the reason that their dead letters give.
POISON: dict[str, Headers] = {
    "malformed": {"delay-to": "{out}", "delay-at": "{due}", "delay-colour": "blue"},
    "missing-due": {"delay-to": "{out}"},
    "missing-destination": {"delay-at": "{due}"},
    "ambiguous-due": {"delay-to": "{out}", "delay-at": "{due}", "delay-after": "5"},
    "unknown-topic": {"delay-to": "{out}-nowhere", "delay-at": "{due}"},
    "not-allowed": {"delay-to": "__consumer_offsets", "delay-at": "{due}"},
    "bad-id": {"delay-to": "{out}", "delay-at": "{due}", "delay-id": "x" * 300},
}


class Outcome(NamedTuple):
    """One way in which an id may be delivered: which of its values, due when (None: at its command's time)."""

    revision: int
    due_ms: int | None


@dataclass(slots=True)
class Story:
    """The requests for one id."""

    kind: Kind
    to: str
    due_ms: int
    acked: bool = False
    then_ms: int = 0
    """The second due time."""
    command_ms: int = 0
    """When the command was acknowledged; 0: it has not been."""
    foreign: bool = False
    """Whether the command went to another partition than the message's home."""

    @property
    def settled(self) -> bool:
        """Whether the command came well before it would have been too late."""
        first = min(self.due_ms, self.then_ms or self.due_ms)
        return 0 < self.command_ms <= first - (FOREIGN_MARGIN_MS if self.foreign else MARGIN_MS)

    def may(self) -> set[Outcome]:
        """Return the ways in which it may be delivered."""
        old, new = Outcome(0, self.due_ms), Outcome(int(self.kind is Kind.REPLACE), self.then_ms or None)
        if self.kind is Kind.PLAIN:
            return {old}
        if self.kind is Kind.STAY:
            return set()
        if self.kind is Kind.CANCEL:
            return set() if self.settled else {old}
        return {new} if self.settled else {old, new}

    @property
    def must(self) -> bool:
        """Whether it must be delivered."""
        if not self.acked or self.kind is Kind.STAY:
            return False
        return self.kind is not Kind.CANCEL


@dataclass
class Traffic(Background):
    """Sends requests and commands at a steady rate, from a thread of its own, while its `with` block lasts.

    Args:
        bootstrap: the cluster.
        app_id: the installation.
        outs: destinations, taken in turn.
        partitions: of the installation.
        rate: messages a second.
        random: chooses.
        poison: the share of further requests that cannot be accepted.
        lead_ms: plain messages are due between the two.
        far_ms: messages with a later command are due between the two: well after the command.
        clusters: the names of the clusters of those destinations that are on others.
    """

    bootstrap: str
    app_id: str
    outs: list[str]
    partitions: int
    rate: float
    random: random.Random
    poison: float = 0.0
    lead_ms: tuple[int, int] = (300, 8_000)
    far_ms: tuple[int, int] = (15_000, 25_000)
    clusters: Mapping[str, str] = field(default_factory=dict)
    stories: dict[str, Story] = field(default_factory=dict)
    commands: int = 0
    poisoned: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._topic = f"{self.app_id}-requests"
        # Idempotent: else its own retries would be requests of their own.
        options = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        patience = {"message.timeout.ms": 180_000, "queue.buffering.max.messages": 1_000_000}
        self._producer = Producer({**options, **patience, "log_level": 0, "partitioner": "murmur2_random"})
        self._later: list[tuple[float, Callable[[], None]]] = []

    @property
    def staying(self) -> int:
        """How many messages must be pending in the end."""
        return sum(story.kind is Kind.STAY and story.acked for story in self.stories.values())

    @property
    def last_due_ms(self) -> int:
        """When the last message is due that does not stay."""
        return max((max(s.due_ms, s.then_ms) for s in self.stories.values() if s.kind in _ENDING), default=0)

    def value(self, id_: str, revision: int) -> bytes:
        """Return the value that an id is to be delivered with."""
        return b"\x00\xff%s/%d" % (id_.encode(), revision) + b"-" * 150

    def _work(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._over.wait(_BEAT_S):
            due = int((time.monotonic() - began) * self.rate)
            for number in range(sent, due):
                self._one(number)
            sent = max(due, sent)
            self._commands()
        while self._later:  # commands for sent messages go out at their time, too
            time.sleep(_BEAT_S)
            self._commands()
        assert not self._producer.flush(180), "Kafka has not taken all requests"

    def _commands(self) -> None:
        now = time.monotonic()
        due = [command for at, command in self._later if at <= now]
        self._later = [later for later in self._later if later[0] > now]
        for command in due:
            command()
        self._producer.poll(0)

    def _one(self, number: int) -> None:
        chosen, now = self.random, now_ms()
        if chosen.random() < self.poison:
            self._poison(number)
        kind = chosen.choice(_MIX)
        if number % max(1, int(self.rate) // 4) == 0 and number // max(1, int(self.rate) // 4) < _STAYING:
            kind = Kind.STAY
        id_, to = f"message-{number}", self.outs[number % len(self.outs)]
        due = now + chosen.randint(*self.lead_ms)
        if kind is not Kind.PLAIN:
            due = now + (_HOUR_MS if kind in (Kind.STAY, Kind.NOW) else chosen.randint(*self.far_ms))
        where = self._home(id_) if chosen.random() < 0.8 else chosen.randrange(self.partitions)
        story = self.stories[id_] = Story(kind, to, due)
        headers = {"delay-id": id_, "delay-at": str(due), **self._to(to)}
        self._produce(headers, id_, self.value(id_, 0), where, lambda _: setattr(story, "acked", True))
        if kind not in (Kind.PLAIN, Kind.STAY):
            self._later.append((time.monotonic() + chosen.uniform(0.5, 2), lambda: self._command(id_, story, where)))

    def _to(self, to: str) -> dict[str, str]:
        cluster = self.clusters.get(to)
        return {"delay-to": to} if cluster is None else {"delay-to": to, "delay-to-cluster": cluster}

    def _command(self, id_: str, story: Story, where: int) -> None:
        if not story.acked:  # or a cancel that takes another way may get the earlier timestamp
            self._later.append((time.monotonic() + 1, lambda: self._command(id_, story, where)))
            return
        self.commands += 1
        now, value = now_ms(), None
        headers = {"delay-op": story.kind.value, "delay-id": id_}
        if story.kind is Kind.RESCHEDULE:
            story.then_ms = now + self.random.choice([self.far_ms[0] - 2_000, self.far_ms[1] + 2_000])
            headers["delay-at"] = str(story.then_ms)
        elif story.kind is Kind.REPLACE:
            story.then_ms, value = (
                now + self.random.choice([self.far_ms[0] - 2_000, self.far_ms[1] + 2_000]),
                self.value(id_, 1),
            )
            headers = {"delay-id": id_, "delay-at": str(story.then_ms), **self._to(story.to)}
        elif story.kind is Kind.CANCEL:  # holds whatever way it takes; the others are in order in one partition alone
            where = self.random.randrange(self.partitions)
        story.foreign = where != self._home(id_)
        self._produce(headers, id_, value, where, lambda _: setattr(story, "command_ms", now_ms()))

    def _home(self, id_: str) -> int:
        return home_partition(id_, {self._topic}, self.partitions)

    def _poison(self, number: int) -> None:
        reason = self.random.choice(sorted(POISON))
        due = str(now_ms() + 1_000)
        named = dict(POISON[reason])
        headers = {name: str(text).format(out=self.outs[0], due=due) for name, text in named.items()}
        self.poisoned[reason] = self.poisoned.get(reason, 0) + 1
        self._produce(headers, f"poison-{number}", b"bad", self.random.randrange(self.partitions), lambda _: None)

    def _produce(
        self, headers: dict[str, str], key: str, value: bytes | None, where: int, acked: Callable[[Message], None]
    ) -> None:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acked(message)

        given: list[tuple[str, bytes | str | None]] = list(headers.items())
        self._producer.produce(self._topic, value, key, partition=where, headers=given, on_delivery=answered)
        self._producer.poll(0)


_ENDING = set(Kind) - {Kind.STAY, Kind.NOW}
