"""One run of an acknowledged queue: consumers that drop messages and are killed, and their results."""

import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import Producer

from tests.harness.account import pending_of
from tests.harness.kafka import Record, create_topic, read
from tests.harness.program import Program
from tests.harness.waiting import eventually

PARTITIONS = 8
_POLL_S, _REPORT_S = 0.5, 4.0


@dataclass
class QueueRun:
    """Messages of one topic, and programs that consume them; leave the `with` block and those are gone.

    Args:
        bootstrap: the cluster.
        app_id: the installation whose workers redeliver.
        directory: for the programs' files.
        count: how many messages there are.
        timeout_s: after which a message comes back.
        consumers: how many programs.
        drops: the share of messages that is not acknowledged.
    """

    bootstrap: str
    app_id: str
    directory: Path
    count: int
    timeout_s: float = 2.0
    consumers: int = 3
    drops: float = 0.1
    unacked: int = 1_000
    kills: int = 0
    programs: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topic = create_topic(self.bootstrap, f"{self.app_id}-queue-{time.monotonic_ns()}", PARTITIONS)
        self._stack = ExitStack()
        env = {
            "QUEUE_KAFKA": self.bootstrap,
            "QUEUE_DELAY": self.app_id,
            "QUEUE_TOPIC": self.topic,
            "QUEUE_GROUP": f"{self.topic}-group",
            "QUEUE_TIMEOUT": str(self.timeout_s),
            "QUEUE_DROPS": str(self.drops),
            "QUEUE_UNACKED": str(self.unacked),
        }
        for number in range(self.consumers):
            done = {"QUEUE_DONE": str(self.directory / f"{self.topic}-{number}.done")}
            log = self.directory / f"{self.topic}-{number}.log"
            self.programs.append(Program(log, "-m", "tests.harness.queue_consumer", env=env | done))

    def __enter__(self) -> Self:
        for program in self.programs:
            self._stack.enter_context(program)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def produce(self, per_s: float = 1e9) -> None:
        """Write the messages, `per_s` a second, and return when Kafka has them."""
        began = time.monotonic()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "log_level": 0})
        for number in range(self.count):
            producer.produce(self.topic, str(number), str(number % 997), headers=[("n", str(number)), ("null", None)])
            if not number % 100:
                producer.poll(max(0.0, began + number / per_s - time.monotonic()))
        assert not producer.flush(60), "Kafka has not taken everything"

    def kill_one(self, chance: random.Random) -> None:
        """Kill a consumer with SIGKILL, and start it again."""
        victim = chance.choice(self.programs)
        victim.kill()
        victim.start()
        self.kills += 1

    def await_more(self, count: int) -> None:
        """Wait until `count` more messages were processed, or almost all."""
        enough = min(len(self.processed) + count, self.count * 99 // 100)
        eventually(lambda: len(self.processed) >= enough, 120, f"{enough} processed messages")

    @property
    def processed(self) -> Counter[int]:
        """How often each message has been processed so far."""
        lines = [path.read_text("utf-8").split("\n") for path in self.directory.glob(f"{self.topic}-*.done")]
        return Counter(int(line.split(" ")[0]) for text in lines for line in text if line)

    def finish(self, seconds: float) -> None:
        """Wait until each message was processed, and none is left to come back."""
        until, quiet_s = time.monotonic() + seconds, 0.0
        while quiet_s < _REPORT_S:  # what workers report is a second or two old
            quiet = len(self.processed) >= self.count and not any(pending_of(self.bootstrap, self.app_id).values())
            quiet_s = quiet_s + _POLL_S if quiet else 0.0
            dead = [program.log[-3_000:] for program in self.programs if not program.alive]
            assert not dead, "\n".join(dead)
            missing = sorted(set(range(self.count)) - self.processed.keys())
            assert time.monotonic() < until, f"{len(missing)} of {self.count} were not processed: {missing[:20]}"
            time.sleep(_POLL_S)

    def redeliveries(self) -> list[Record]:
        """Return the redelivered records; every record must have its key and headers, and each other one was sent."""
        records = list(read(self.bootstrap, self.topic))
        for record in records:
            number = int(record.value or b"")
            users = [header for header in record.headers if not header[0].startswith("delay-")]
            assert record.key == b"%d" % (number % 997)
            assert users == [("n", b"%d" % number), ("null", None)]
        back = [record for record in records if any(name == "delay-attempt" for name, _ in record.headers)]
        assert len(records) - len(back) == self.count, "a record is on the topic that was neither sent nor redelivered"
        return back


def percentile(values: list[int], share: float) -> int:
    """Return the value that a `share` of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
