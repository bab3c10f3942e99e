"""Counts the outcomes of sent messages, by the events that workers write (docs/reference/records.md#events)."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from punctual.cli.errors import CommandError
from punctual.cli.events import Events, begun, event_of

#: The maximum number of messages without an event yet; sending waits for it.
_AHEAD: Final = 20_000
#: Without any event for this long, no worker is expected to report any more.
_PATIENCE_S: Final = 15.0
_POLL_MS: Final = 200
#: Events that show whether a request was accepted, and events that end a message because of a newer record.
_FIRST: Final = {"accepted", "refused", "duplicate"}
_OUTDATED: Final = {"cancelled", "replaced"}


class OutcomeFollower:
    """Follows the events of an installation from the time of `open` on."""

    def __init__(self, bootstrap: str, app_id: str) -> None:
        """Follow the events of the installation `app_id` on the cluster at `bootstrap`."""
        self._bootstrap, self._topic = bootstrap, f"{app_id}-events"
        self._consumer: Any = None
        self._left: set[str] = set()
        #: The outcome so far, by the source of the request.
        self._outcomes: dict[str, str] = {}
        self._counts = Counter[str]()
        #: Why no more events are expected, empty while they are.
        self.silent = ""

    async def open(self) -> None:
        """Begin at the end of the topic. If that is not possible, `silent` says why."""
        try:
            self._consumer = await begun(self._bootstrap, self._topic)
        except CommandError as error:
            self.silent = str(error)

    async def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()

    async def expect(self, sources: Iterable[str]) -> None:
        """Expect events of requests that were sent, by their sources; wait while too many are expected."""
        self._left.update(sources)
        await self._wait(_AHEAD)

    async def counts(self) -> Counter[str]:
        """Wait for the events of all messages; return how many are `accepted`, `outdated`, `refused` and `unknown`."""
        await self._wait(0)
        self._sum_up()
        counts = self._counts.copy()
        counts["unknown"] = len(self._left)
        return counts

    async def _wait(self, most: int) -> None:
        heard_s = time.monotonic()
        while len(self._left) > most and not self.silent:
            fetched = await self._consumer.getmany(timeout_ms=_POLL_MS)
            if self._take([event_of(record) for records in fetched.values() for record in records]):
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _PATIENCE_S:
                self.silent = "no worker reports their outcomes: check that a worker is running"

    def _take(self, events: Events) -> bool:
        """Record the outcomes in events. Return whether one is the first event of a request."""
        heard = False
        for event in events:
            kind, source = event.get("event"), event.get("source", "")
            if kind in _FIRST and source in self._left:
                self._left.discard(source)
                self._outcomes[source] = "refused" if kind == "refused" else "accepted"
                heard = True
            elif kind in _OUTDATED and source in self._outcomes and not self._is_ours(event.get("by", "")):
                self._outcomes[source] = "outdated"
        if len(self._outcomes) > _AHEAD:
            self._sum_up()
        return heard

    def _is_ours(self, source: str) -> bool:
        """Return whether a request was sent here. A message that is imported twice replaces itself."""
        return source in self._left or source in self._outcomes

    def _sum_up(self) -> None:
        self._counts.update(self._outcomes.values())
        self._outcomes.clear()
