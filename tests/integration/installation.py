"""One installation with one worker, and the questions of tests about it."""

import itertools
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from app.serve.web.ids import address
from punctual.contract.home import home_partition
from tests.harness.account import Account
from tests.harness.kafka import Record, Requests, asked_for_ends, create_topic, read
from tests.harness.pace import usual_ms
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.harness.worker import Worker

PARTITIONS = 4
#: Maximum lateness of a delivery, as measured by `late_ms`.
ON_TIME_MS = 1_500

Event = dict[str, Any]


def new_app_id(name: str) -> str:
    """Return a new, unique installation name."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def alter_topic(bootstrap: str, topic: str, **config: str) -> None:
    """Change settings of a topic; `config` has underscores for dots."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def wait_for(bootstrap: str, topic: str, count: int, seconds: float = 20.0) -> list[Record]:
    """Wait until a topic has `count` committed records, and return all its records."""
    found: list[Record] = []

    def there() -> bool:
        try:
            if sum(now().values()) < count:
                return False
        except KafkaException:  # a new topic has no leader at first
            return False
        # An end offset counts markers too, and records of open transactions.
        found[:] = read(bootstrap, topic)
        return len(found) >= count

    with asked_for_ends(bootstrap, topic) as now:
        eventually(there, seconds, f"record {count} of {topic}")
    return found


@dataclass
class Installation:
    """An installation, its worker and a producer of requests."""

    bootstrap: str
    app_id: str
    worker: Worker
    requests: Requests
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def admin(self, bootstrap: str | None = None) -> AdminClient:
        """Return an admin client, of another cluster if one is named."""
        return AdminClient({"bootstrap.servers": bootstrap or self.bootstrap, "log_level": 0})

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a destination."""
        return create_topic(self.bootstrap, f"{self.app_id}-to-{next(self._numbers)}", partitions, **config)

    def new_id(self, home: int | None = None) -> str:
        """Return a new id, with its home in the partition `home` if given."""
        while True:
            id_ = f"id-{next(self._numbers)}"
            if home in (None, home_partition(id_, (), PARTITIONS)):
                return id_

    def wait_for(self, topic: str, count: int, seconds: float = 20.0) -> list[Record]:
        """Wait until a topic has `count` records, and return all its records."""
        return wait_for(self.bootstrap, topic, count, seconds)

    def events(self, id_: str | None = None) -> list[Event]:
        """Return the events so far, of one id if given."""
        events = [json.loads(record.value or b"") for record in read(self.bootstrap, f"{self.app_id}-events")]
        return [event for event in events if id_ in (None, event["id"])]

    def events_of(self, source: str) -> list[Event]:
        """Return the events of one request."""
        return [event for event in self.events() if event["source"] == source]

    def await_last(self, kind: str, to: str) -> Event:
        """Wait until there is an event of a kind for a destination, and return the last one."""
        found: list[Event] = []

        def there() -> bool:
            found.extend(event for event in self.events() if (event["event"], event.get("to")) == (kind, to))
            return bool(found)

        eventually(there, what=f"{kind} for {to}")
        return found[-1]

    def await_event(self, kind: str, *ids: str, seconds: float = 20.0) -> dict[str, Event]:
        """Wait until there is an event of a kind for each id; return the last one of each."""
        found: dict[str, Event] = {}

        def there() -> bool:
            found.update({event["id"]: event for event in self.events() if event["event"] == kind})
            return set(ids) <= set(found)

        eventually(there, seconds, f"{kind} of {', '.join(ids[:5])}")
        return {id_: found[id_] for id_ in ids}

    def await_listed(self, *ids: str) -> None:
        """Wait until the API has each id as pending: the event is written before the table has the message."""

        def listed(id_: str) -> bool:
            try:
                url = address(f"{self.worker.url}/api/v1/messages", id_)
                with urllib.request.urlopen(url, timeout=LIMIT_S):  # noqa: S310 - our own worker
                    return True
            except urllib.error.HTTPError as error:
                error.close()
                return False

        eventually(lambda: all(map(listed, ids)), what=f"{', '.join(ids[:5])} among the pending messages")

    def letters(self, count: int, fits: Callable[[Record], object] = lambda _: True) -> list[Record]:
        """Wait until `count` dead letters fit, and return all that do.

        Where tests share an installation, `fits` must leave out the dead letters of other tests.
        """
        topic = f"{self.app_id}-dead-letters"
        return ask_until(
            lambda: [record for record in read(self.bootstrap, topic) if fits(record)],
            lambda found: len(found) >= count,
            f"{count} dead letters",
            len,
        )

    def letters_for(self, count: int, *destinations: str) -> list[Record]:
        """Wait until there are `count` dead letters for these destinations, and return all that there are."""
        wanted = {to.encode() for to in destinations}
        return self.letters(count, lambda one: dict(one.headers).get("delay-to") in wanted)

    def dead_letters(self, *keys: bytes | None) -> dict[bytes | None, Record]:
        """Wait until there is a dead letter with each of the `keys`, and return the last one for each key."""
        found: dict[bytes | None, Record] = {}

        def there() -> bool:
            found.update((one.key, one) for one in self.letters(0) if one.key in keys)
            return len(found) == len(set(keys))

        eventually(there, what=f"dead letters with the keys {keys[:5]}")
        return found

    def progress(self) -> dict[int, Event]:
        """Return the last progress record of each partition."""
        records = read(self.bootstrap, f"{self.app_id}-progress")
        return {int(record.key or b""): json.loads(record.value or b"") for record in records}

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, and wait until the broker lists them."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(LIMIT_S)
        eventually(
            lambda: len(admin.list_topics(topic, LIMIT_S).topics[topic].partitions) == partitions,
            what=f"{partitions} partitions of {topic}",
        )

    def alter(self, topic: str, **config: str) -> None:
        """Change settings of a topic; `config` has underscores for dots."""
        alter_topic(self.bootstrap, topic, **config)


@contextmanager
def topics_removed(bootstrap: str, app_id: str) -> Iterator[None]:
    """Delete an installation's topics in the end."""
    try:
        yield
    finally:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        topics = [name for name in admin.list_topics(timeout=LIMIT_S).topics if name.startswith(app_id)]
        for deleted in admin.delete_topics(topics).values() if topics else ():
            deleted.result(LIMIT_S)


@contextmanager
def running(
    bootstrap: str,
    directory: Path,
    name: str,
    *,
    env: Callable[[str], Mapping[str, str]] | None = None,
    before: Callable[[str], object] | None = None,
    balanced: bool = True,
    clock: bool = False,
    partitions: int = PARTITIONS,
) -> Iterator[Installation]:
    """Run an installation with one worker; at the end its account must balance.

    Args:
        bootstrap: the cluster.
        directory: where data and log go.
        name: the beginning of the app id, which `env` and `before` are called with.
        env: gives more settings.
        before: does what must be done before the worker starts.
        balanced: whether the account is checked at the end.
        clock: whether the worker's clock is going to be shifted.
        partitions: of the installation.
    """
    app_id = new_app_id(name)
    if before is not None:
        before(app_id)
    settings = dict(env(app_id)) if env is not None else {}
    worker = Worker(bootstrap, app_id, directory / app_id, partitions=partitions, env=settings, clock=clock)
    with topics_removed(bootstrap, app_id), worker:
        worker.start().wait_ready()
        requests = Requests(bootstrap, app_id, **{"message.max.bytes": 10_000_000})
        yield Installation(bootstrap, app_id, worker, requests)
        requests.flush()
        if balanced:
            Account.settled(bootstrap, app_id)


def late_ms(record: Record) -> int:
    """Return a delivery's lateness, by the broker's clock and as on an idle machine."""
    return usual_ms(int(record.header("delay-due")), record.timestamp_ms)


def users(headers: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return the headers that are not Punctual's."""
    return [(name, value) for name, value in headers if not name.startswith("delay-")]
