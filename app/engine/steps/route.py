"""Where messages go: the route of a message, and the destination that it belongs to."""

from typing import Final

from punctual.contract.destination import Destination, named
from punctual.contract.home import key_partition
from tables import Entry
from tables.counts import display_name

#: Where a message goes: cluster (None: our own), topic, partition (-1: not known yet).
Route = tuple[str | None, str, int]

#: The partition of a route that a message without a key waits for: any of the topic. And that of routes over HTTP,
#: whose cluster is the host: what does not fit is held like a message whose destination is blocked.
ANY: Final = -3
HTTP: Final = -2


def destination_of(entry: Entry) -> Destination:
    """Return the destination of a message: its topic, or the origin of its URL."""
    return (None, display_name(entry.to)) if "://" in entry.to else (entry.cluster, entry.to)


def chosen(entry: Entry, partitions: int) -> int | None:
    """Return the partition that a message asks for, or its key chooses as Kafka's own clients do.

    None if neither does: any will do, or with no `partitions` it is not known how many there are.
    """
    if entry.partition is not None or entry.key is None or not partitions:
        return entry.partition
    return key_partition(entry.key, partitions)


def destination_of_route(route: Route) -> Destination:
    """Return the destination that a route leads to a part of."""
    return (None, route[1]) if route[2] == HTTP else route[:2]


def name_of(route: Route) -> str:
    """Return the name of a route's destination in reports: over HTTP that is an origin, or stands for callbacks."""
    cluster, topic, partition = route
    return topic if partition == HTTP else named(cluster, topic)
