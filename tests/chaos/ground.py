"""The brokers that scenarios run on: one, or three with replication 3 and min.insync.replicas 2."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from app.dev.broker import Broker, Node
from app.dev.broker.properties import new_cluster_id
from tests.harness.ports import free_port


@contextmanager
def brokers(count: int) -> Iterator[list[Broker]]:
    """Run a cluster of `count` brokers for the duration."""
    cluster_id, voters = new_cluster_id(), {id_: free_port() for id_ in range(1, count + 1)}
    with ExitStack() as stack:
        # Each has a listener for proxies too: whoever connects there is sent to a port on which one may listen.
        started = [Broker(node=Node(id_, cluster_id, voters, (free_port(), free_port()))) for id_ in voters]
        for broker in started:
            stack.callback(broker.close)
            broker.launch()
        for broker in started:
            broker.wait()
        yield started


class Clusters(AbstractContextManager["Clusters", None]):
    """Clusters by their number of brokers, one at a time; `of` starts them."""

    def __init__(self) -> None:
        """Begin without a cluster."""
        self._stack, self._cluster = ExitStack(), list[Broker]()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, count: int) -> list[Broker]:
        """Return a cluster of `count` brokers: the running one if it has as many, else a new one."""
        if len(self._cluster) != count:
            self._stack.close()
            self._cluster = self._stack.enter_context(brokers(count))
        return self._cluster


def bootstrap_of(cluster: list[Broker]) -> str:
    """Return the bootstrap servers of a cluster."""
    return ",".join(broker.bootstrap for broker in cluster)
