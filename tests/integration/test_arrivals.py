"""The ends of destinations show which messages have arrived, and no other record is mistaken for one."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from app.base.clock import Clock
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.ownership.arrival_search import ArrivalSearch
from app.engine.steps.occurrences import occurrence
from app.engine.steps.series_rules import begun
from app.kafka import Cluster, Sender
from app.settings.settings import Settings
from punctual.contract.home import home_partition
from punctual.contract.native import delivery
from punctual.contract.recurrence import Recurrence
from punctual.contract.request import Headers
from tables import Entry, PartitionStore, keys
from tests.chaos.verdict import hanging
from tests.harness.kafka import create_topic, now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.tables.rows import CRC, filled

PARTITIONS, OTHERS = 4, 1_500
BY_OTHERS: Headers = [("by", b"others")]
_NUMBERS = itertools.count()
#: A key that Kafka's own clients send to partition 1 of two, and one for partition 0.
KEY, ELSEWHERE = b"d", b"a"
INPUTS = {"delay-requests": "native"}
#: Ids of one partition, and of another one.
OURS, THEIRS = ([id_ for id_ in map(str, range(200)) if home_partition(id_, INPUTS, PARTITIONS) == n] for n in (0, 1))


class Destination:
    """A destination of two partitions, its rows and its records."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.topic = create_topic(bootstrap, f"arrivals-{now_ms()}-{next(_NUMBERS)}", 2)
        self.bootstrap, self._options = bootstrap, {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer(self._options)
        self._directory, self._due = directory, itertools.count(now_ms() - 1_000)
        self.rows = dict[bytes, Entry]()

    def row(self, id_: str, source: str = "", key: bytes | None = KEY) -> tuple[bytes, Entry]:
        """Make a row of a message that is due."""
        offset = next(_NUMBERS)
        entry = Entry(id_, self.topic, key, b"v", [], source or f"delay-requests-0-{offset}")
        return keys.row_key(next(self._due), offset, CRC), entry

    def expect(self, *names: str) -> list[tuple[bytes, Entry]]:
        """Have rows of messages with these ids wait."""
        made = [self.row(name) for name in names]
        self.rows.update(made)
        return made

    def write(self, *rows: tuple[bytes, Entry], producer: Producer | None = None) -> None:
        """Write copies of rows to partition 1, whatever their keys."""
        for row_key, entry in rows:
            self.say(delivery(entry, keys.due_of(row_key)), producer=producer, key=entry.key)

    def say(
        self, *headers: Headers, producer: Producer | None = None, value: bytes = b"v", key: bytes | None = KEY
    ) -> None:
        """Write records with these headers."""
        producer = producer or self._producer
        for one in headers:
            producer.produce(self.topic, value, key, partition=1, headers=one)
        assert not producer.flush(LIMIT_S)

    def abort(self, *rows: tuple[bytes, Entry]) -> None:
        """Write copies in a transaction that is aborted."""
        producer = Producer({**self._options, "transactional.id": f"{self.topic}-aborted"})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        self.write(*rows, producer=producer)
        producer.abort_transaction(LIMIT_S)
        eventually(lambda: not hanging(self.bootstrap, [self.topic]), what="the marker")

    def store(self) -> PartitionStore:
        """Open a store that has the rows."""
        return filled(self._directory / "0.db", self.rows)


@pytest.fixture
def there(bootstrap: str, tmp_path: Path) -> Destination:
    return Destination(bootstrap, tmp_path)


@pytest.fixture
async def arrivals(bootstrap: str, there: Destination) -> AsyncIterator[ArrivalSearch]:
    cluster = Cluster(bootstrap)
    await cluster.start(there.topic)
    await cluster.refresh([there.topic])
    settings = Settings.from_env({"DELAY_PARTITIONS": str(PARTITIONS)})
    yield ArrivalSearch(settings.topics, settings.engine, Clock(), {None: DestinationCluster(cluster, Sender(cluster))})
    await cluster.stop()


async def found(arrivals: ArrivalSearch, there: Destination) -> set[str]:
    """Return the ids of the arrived messages."""
    store = there.store()
    try:
        arrived = await arrivals.look(0, await arrivals.expected(store))
    finally:
        store.close()
    assert all(there.rows[one.row].source == one.source and one.at_ms >= keys.due_of(one.row) for one in arrived)
    assert {(one.topic, one.partition) for one in arrived} <= {(there.topic, 1)}
    return {there.rows[one.row].id for one in arrived}


async def test_messages_at_the_end_of_a_destination_have_arrived(arrivals: ArrivalSearch, there: Destination) -> None:
    waiting = there.expect(*OURS[:5])
    there.write(there.row(OURS[9]), *waiting[:3])

    assert await found(arrivals, there) == {*OURS[:3]}


async def test_it_is_found_behind_much_of_others(arrivals: ArrivalSearch, there: Destination) -> None:
    waiting = there.expect(*OURS[:4])
    there.write(there.row(OURS[9]), waiting[0])
    there.say(*[BY_OTHERS] * OTHERS)
    there.write(*(there.row(id_) for id_ in THEIRS), waiting[1])
    there.say(*[[]] * OTHERS)

    assert await found(arrivals, there) == {*OURS[:2]}


async def test_records_before_settled_messages_are_not_searched(arrivals: ArrivalSearch, there: Destination) -> None:
    """The first copy is not found: millions of records that were delivered are not read again."""
    waiting = there.expect(*OURS[:2])
    there.write(waiting[0])
    there.say(*[[]] * OTHERS)
    there.write(*(there.row(id_) for id_ in OURS[2:]))
    there.say(*[[]] * OTHERS)
    there.write(waiting[1])

    assert await found(arrivals, there) == {OURS[1]}


async def test_a_message_is_looked_up_on_its_own_partition(arrivals: ArrivalSearch, there: Destination) -> None:
    """The copy of ELSEWHERE is not found: partitions without expected messages are not read."""
    rows = dict(zip([KEY, ELSEWHERE, None], OURS[:3], strict=True))
    there.rows.update(there.row(id_, key=key) for key, id_ in rows.items())
    there.write(*there.rows.items())

    assert await found(arrivals, there) == {rows[KEY], rows[None]}


@pytest.mark.parametrize("other", ["source", "due", "id", "header", "users", "value"])
async def test_what_differs_in_anything_has_not_arrived(
    other: str, arrivals: ArrivalSearch, there: Destination
) -> None:
    [(key, entry)] = there.expect(OURS[0])
    due = keys.due_of(key)
    said = {
        "source": delivery(there.row(OURS[0])[1], due),
        "due": delivery(entry, due + 1),
        "id": delivery(there.row(OURS[1], entry.source)[1], due),
        "header": [*delivery(entry, due), ("more", b"")],
        "users": [("more", b""), *delivery(entry, due)],
        "value": delivery(entry, due),
    }[other]
    there.say(said, value=b"other" if other == "value" else b"v")

    assert not await found(arrivals, there)


async def test_records_of_other_producers_do_not_disturb_the_search(
    arrivals: ArrivalSearch, there: Destination
) -> None:
    [waiting] = there.expect(OURS[0])
    said = [("delay-due", b"\xff" * 9), ("delay-source", b"\xff")]
    there.write(waiting)
    for id_ in (b"orders-" + b"9" * 5_000 + b"-1", b"\xff-9-9", b"orders-9-9", b"@"):
        there.say([("delay-id", id_), *said])
        there.say([("delay-id", id_), ("delay-due", None), ("delay-source", None)])

    assert await found(arrivals, there) == {OURS[0]}


async def test_aborted_messages_have_not_arrived(arrivals: ArrivalSearch, there: Destination) -> None:
    waiting = there.expect(*OURS[:2])
    there.abort(*waiting)
    there.write(waiting[1])

    assert await found(arrivals, there) == {OURS[1]}


async def test_no_message_has_arrived_on_a_deleted_topic(arrivals: ArrivalSearch, there: Destination) -> None:
    there.expect(OURS[0])
    for key, entry in list(there.rows.items()):
        there.rows[key] = Entry(entry.id, f"{there.topic}-gone", KEY, b"v", [], entry.source)

    assert not await found(arrivals, there)


async def test_an_occurrence_of_a_series_has_arrived_by_its_own_id(arrivals: ArrivalSearch, there: Destination) -> None:
    [(key, entry)] = there.expect(OURS[0])
    due = keys.due_of(key)
    there.rows[key] = series = msgspec.structs.replace(
        entry, series=begun(Recurrence(60_000, None, anchor_ms=due), due)
    )
    there.say(*(delivery(occurrence(series, at), at) for at in (due - 60_000, due)))

    assert await found(arrivals, there) == {OURS[0]}


async def test_a_moved_message_may_be_where_another_one_was_before(arrivals: ArrivalSearch, there: Destination) -> None:
    [(key, entry)] = there.expect(OURS[0])
    due, later = keys.due_of(key), keys.due_of(key) + 60_000
    there.rows[key] = series = msgspec.structs.replace(
        entry, series=begun(Recurrence(60_000, None, anchor_ms=due), later)
    )
    there.say(delivery(occurrence(series, due), due))

    assert not await found(arrivals, there)


async def test_deliveries_of_other_installations_settle_no_message(arrivals: ArrivalSearch, there: Destination) -> None:
    [waiting] = there.expect(OURS[0])
    there.write(waiting)
    there.say(*[[]] * OTHERS)
    there.write(*(there.row(id_, f"others-requests-0-{number}") for number, id_ in enumerate(OURS[1:])))
    there.say(*[[]] * (OTHERS // 2))

    assert await found(arrivals, there) == {OURS[0]}


async def test_records_that_one_partition_has_read_serve_the_others_until_the_next_assignment(
    arrivals: ArrivalSearch, there: Destination
) -> None:
    first, second = there.expect(*OURS[:3]), there.expect(*THEIRS[:3])
    there.write(*first[:2], *second[:2])
    store = there.store()
    expected = await arrivals.expected(store)
    store.close()
    looks = [len(await arrivals.look(0, expected))]
    there.write(first[2], second[2])
    looks.append(len(await arrivals.look(1, expected)))
    arrivals.begin()
    looks.append(len(await arrivals.look(1, expected)))

    assert looks == [4, 4, 6]


async def test_with_exactly_once_no_search_is_made(there: Destination) -> None:
    there.expect(OURS[0])
    store = there.store()
    arrivals = ArrivalSearch(
        Settings.from_env({"DELAY_GUARANTEE": "exactly_once"}).topics,
        Settings.from_env({"DELAY_GUARANTEE": "exactly_once"}).engine,
        Clock(),
        {},
    )

    assert not await arrivals.expected(store)
    store.close()
