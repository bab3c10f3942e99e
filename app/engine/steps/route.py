"""The route of a message, and the destination that it belongs to."""

from typing import Final

from punctual.contract.destination import Destination, named
from punctual.contract.home import key_partition
from tables import Entry
from tables.counts import display_name

#: Target of a message: cluster (None: the requests' own), topic, partition (-1: not known yet).
Route = tuple[str | None, str, int]

#: Partition of a route for messages without a key, which can go to any partition; and that of routes over HTTP, whose
#: topic is the host. Messages that exceed a host's limits are held like those of a blocked destination.
ANY: Final = -3
HTTP: Final = -2


def destination_of(entry: Entry) -> Destination:
    """Return the destination of a message: its topic, or the origin of its URL."""
    return (None, display_name(entry.to)) if "://" in entry.to else (entry.cluster, entry.to)


def chosen(entry: Entry, partitions: int) -> int | None:
    """Return the partition that a message names, or that Kafka's hash of its key selects.

    None if it has neither, or if the number of `partitions` is not known (0).
    """
    if entry.partition is not None or entry.key is None or not partitions:
        return entry.partition
    return key_partition(entry.key, partitions)


def destination_of_route(route: Route) -> Destination:
    """Return the destination that a route belongs to."""
    return (None, route[1]) if route[2] == HTTP else route[:2]


def name_of(route: Route) -> str:
    """Return the name of a route's destination in reports; over HTTP it is an origin, or the name for callbacks."""
    cluster, topic, partition = route
    return topic if partition == HTTP else named(cluster, topic)
