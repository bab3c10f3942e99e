"""Looks for topics and partitions that seem to be missing, before messages for them are rejected."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import aiokafka.errors

from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.steps.route import Route
from punctual.contract.destination import described, named
from punctual.contract.dialects.dialects import OF_ROWS

log = logging.getLogger(__name__)

#: A topic or partition counts as gone after this many look-ups, this many seconds apart: a broker that has just started
#: may not know it yet.
_LOOKS, _LOOK_EVERY_S = 5, 0.5
_GONE_S = 1.0


class MissingTopics:
    """Routes to topics and partitions that are being looked for, or are known to be gone."""

    def __init__(
        self, targets: Mapping[str | None, DestinationCluster], is_known: Callable[[Route], bool], give_up_ms: int
    ) -> None:
        """Search `targets` for routes not `is_known`; give up after `give_up_ms` without metadata (0: never)."""
        self._targets, self._is_known, self._give_up_s = targets, is_known, give_up_ms / 1000
        #: Missing routes, with the time until when this is believed; and routes being looked for, with the start time.
        self._gone: dict[Route, float] = {}
        self.asking: dict[Route, float] = {}
        #: By cluster and topic: why there is no metadata for it.
        self._unknown: dict[tuple[str | None, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def gone(self, route: Route) -> bool:
        """Return whether a route that was not found is known to be gone; if unknown, begin to look for it."""
        if self._gone.get(route, 0) > self._loop.time():
            return True
        if route not in self.asking:
            self.asking[route] = self._loop.time()
            task = self._loop.create_task(self._find(route))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return False

    def absence(self, route: Route) -> str:
        """Return the error message for a missing topic or partition."""
        cluster, topic, partition = route
        partitions = self._targets[cluster].cluster.partitions(topic)
        if not partitions:
            return f"topic {topic} does not exist. Create it, then send the message again."
        return (
            f"topic {topic} has partitions 0 to {partitions - 1}, but {OF_ROWS.words.partition} is {partition}. Send "
            "the message again with one of these, or without this header."
        )

    def why(self, cluster: str | None, topic: str) -> str:
        """Return why there is no metadata for a topic, empty if there is or it is not being looked for."""
        return self._unknown.get((cluster, topic), "")

    def hopeless(self, route: Route) -> bool:
        """Return whether brokers have returned no metadata for a route for longer than DELAY_GIVE_UP."""
        if not self._give_up_s or route not in self.asking or self._is_known(route):
            return False
        return self._loop.time() - self.asking[route] >= self._give_up_s

    async def _find(self, route: Route) -> None:
        """Look for a route's topic and partition until it is found or counts as gone."""
        cluster, topic, _ = route
        known, looks, warned = self._targets[cluster].cluster, 0, False
        name, about = described(named(cluster, topic)), {"destination": named(cluster, topic)}
        try:
            while looks < _LOOKS:
                try:
                    missing = topic in await known.refresh([topic])
                    if self._is_known(route):
                        return
                    if missing or known.partitions(topic):
                        looks += 1
                    elif not warned:
                        warned = True
                        self._unknown[cluster, topic] = "its brokers return no metadata for it"
                        sentence = (
                            "destination %s: the brokers return no metadata for it. Grant Describe on it to the worker"
                        )
                        log.warning(sentence, name, extra=about)
                except aiokafka.errors.KafkaError as error:
                    self._unknown[cluster, topic] = str(error)
                    log.warning("destination %s: no metadata: %r", name, error, extra=about)
                await asyncio.sleep(_LOOK_EVERY_S)
            now = self._loop.time()
            self._gone = {gone: until for gone, until in self._gone.items() if until > now}
            self._gone[route] = now + _GONE_S
        finally:
            self.asking.pop(route, None)
            self._unknown.pop((cluster, topic), None)
