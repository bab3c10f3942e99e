"""Finds messages that a partition's last owner delivered before it died, so that they are not sent again.

A row leaves the changelog after its destination has acknowledged it. A worker that dies in between leaves due rows
whose messages have arrived. The next owner searches the ends of their destinations, where headers identify each
delivery. Messages that are not found are sent: a failed search costs duplicates, never a message.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import aiokafka.errors

from app.base.clock import FAST_MS, Clock
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.ownership.destination_end import DestinationEnd, Expected, UnconfirmedRow, content_of
from app.engine.partition.claims import ArrivedRow
from app.engine.steps import occurrences
from app.engine.steps.route import ANY, Route, chosen, destination_of_route
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from punctual.contract.destination import Destination, named
from punctual.contract.dialects.dialects import OF_ROWS
from punctual.contract.home import home_partition
from punctual.contract.native import Copy, copy_of
from tables import Entry, PartitionStore, keys
from tables.entry import decode

log = logging.getLogger(__name__)

#: Maximum seconds of a search, and of the search in one partition, because due messages wait for it.
_MOST_S, _EACH_S = 2.0, 1.0
#: Only the first due rows can have been in flight: maximum number and bytes of the rows to search for.
_ROWS, _BYTES = 10_000, 64 << 20
#: The last owner's clock may have been fast, and this worker's slow, by this much each.
_CLOCKS_MS = 2 * FAST_MS
#: Partitions of one cluster's topics that are read at the same time.
_AT_ONCE = 8
#: Rows that are scanned before the event loop can do other work.
_AT_A_TIME = 500


class ArrivalSearch:
    """Finds out which messages of newly assigned partitions have arrived already."""

    def __init__(
        self,
        topics: TopicSettings,
        engine: EngineSettings,
        clock: Clock,
        targets: Mapping[str | None, DestinationCluster],
    ) -> None:
        """Read the ends of destinations on `targets`, by the name of the cluster."""
        self._topics, self._engine, self._clock, self._targets = topics, engine, clock, targets
        self._turns = defaultdict[str | None, asyncio.Semaphore](lambda: asyncio.Semaphore(_AT_ONCE))
        #: Records that were read since the last assignment.
        self._ends = dict[Route, DestinationEnd]()

    def begin(self) -> None:
        """Forget the records read for the last assignment; partitions of one assignment share theirs."""
        self._ends.clear()

    async def expected(self, store: PartitionStore) -> Mapping[Route, Expected]:
        """Return the rows of a store that may have arrived, by route. The store must not change in the meantime.

        With exactly once there are none, because the rows of arrived messages are removed in the same transaction.
        """
        rows, size = defaultdict[Route, dict[Copy, UnconfirmedRow]](dict), 0
        if self._engine.exactly_once:
            return rows
        for count, (key, raw) in enumerate(self._due(store), 1):
            entry, due_ms, size = decode(raw), keys.due_of(key), size + len(raw)
            # A moved occurrence may be due when another one was delivered before.
            own = entry.series is None or occurrences.is_as_planned(entry.series, entry.id, due_ms)
            if entry.url is None and "://" not in entry.to and own:
                headers = OF_ROWS.delivery(occurrences.occurrence(entry, due_ms), due_ms)
                copy = copy_of(headers)
                if copy is not None:
                    content = content_of(entry.key, entry.value, headers)
                    rows[self._place(entry)][copy] = UnconfirmedRow(key, entry.source, content)
            if size > _BYTES:
                break
            if not count % _AT_A_TIME:
                await asyncio.sleep(0)
        return rows

    def _due(self, store: PartitionStore) -> Iterator[tuple[bytes, bytes]]:
        bound = keys.due_bound(self._clock.wall_ms() + _CLOCKS_MS)
        return itertools.islice(itertools.takewhile(lambda row: row[0] < bound, store.raw_rows(b"\x00")), _ROWS)

    def _place(self, entry: Entry) -> Route:
        """Return the route of a delivery: any partition if none is selected, or their number is not known."""
        target = self._targets.get(entry.cluster)
        partitions = 0 if target is None else target.cluster.partitions(entry.to)
        number = chosen(entry, partitions)
        return entry.cluster, entry.to, ANY if number is None else number

    async def look(self, number: int, expected: Mapping[Route, Expected]) -> list[ArrivedRow]:
        """Return the rows of a partition that have arrived, as far as the search finds them in time."""
        arrived = list[ArrivedRow]()
        try:
            async with asyncio.timeout(_MOST_S):
                destinations = {destination_of_route(place) for place in expected}
                await asyncio.gather(*(self._at(to, number, expected, arrived) for to in destinations))
        except TimeoutError:
            sentence = (
                "partition %d: the deliveries of the previous owner could not be checked within %g s. Some messages "
                "may be delivered twice"
            )
            log.warning(sentence, number, _MOST_S, extra={"partition": number})
        return arrived

    async def _at(
        self, to: Destination, number: int, expected: Mapping[Route, Expected], arrived: list[ArrivedRow]
    ) -> None:
        """Add the arrivals at one destination to `arrived`, and log the obstacles."""
        cluster, topic = to
        target = self._targets.get(cluster)
        if target is None:
            return
        if not target.cluster.partitions(topic):
            with contextlib.suppress(aiokafka.errors.KafkaError):
                await target.cluster.refresh([topic])
        looks, anywhere = [], expected.get((*to, ANY), {})
        for place in [(*to, one) for one in range(target.cluster.partitions(topic))]:
            there = expected.get(place, {})
            rows = {**anywhere, **there} if anywhere and there else anywhere or there
            if rows:
                looks.append(self._in(place, number, rows, arrived))
        troubles = await asyncio.gather(*looks)
        for trouble in dict.fromkeys(filter(None, troubles)):
            sentence = (
                "partition %d: the deliveries of the previous owner to %s could not be checked. Some messages may "
                "be delivered twice. Cause: %s"
            )
            log.warning(sentence, number, named(*to), trouble, extra={"partition": number})

    async def _in(self, place: Route, number: int, rows: Expected, arrived: list[ArrivedRow]) -> str:
        """Add the arrivals in a destination's partition to `arrived`; return the obstacle, or an empty string."""
        cluster, topic, partition = place
        if place not in self._ends:
            self._ends[place] = DestinationEnd(self._targets[cluster].cluster, topic, partition)
        try:
            async with self._turns[cluster], asyncio.timeout(_EACH_S):
                async for one in self._ends[place].find(rows, self._is_of(number)):
                    arrived.append(one)  # noqa: PERF401 - arrivals before the timeout count
        except TimeoutError:
            return f"it could not be read completely within {_EACH_S:g} s"
        except aiokafka.errors.TopicAuthorizationFailedError:
            return "this worker has no permission to read it. Grant Read on it"
        except Exception as error:  # noqa: BLE001 - foreign records must not delay due messages
            return repr(error)
        return ""

    def _is_of(self, number: int) -> Callable[[Copy], bool]:
        """Return a function that tells whether a copy is of a message of partition `number`."""
        inputs, partitions = self._topics.inputs, self._topics.partitions

        def is_of(copy: Copy) -> bool:
            ours = copy.source.rsplit(b"-", 2)[0].decode(errors="replace") in inputs
            return ours and home_partition(_message_id(copy), inputs, partitions) == number

        return is_of


def _message_id(copy: Copy) -> bytes:
    """Return the id of the message that a copy is of; the id of an occurrence becomes that of its series."""
    return copy.id.removesuffix(b"@" + copy.due)
