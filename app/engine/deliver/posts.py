"""Posts failure callbacks and messages for URLs; each host has its own limit of requests under way."""

import asyncio
import logging
from collections.abc import Callable  # noqa: TC003 - needed for annotations
from typing import TYPE_CHECKING

import yarl

from app.base.clock import Clock
from app.base.http.allow_list import Allowed
from app.base.http.answers import HttpOutcome, Meaning
from app.base.http.client import Client, HttpClient
from app.base.http.hosts import Hosts
from app.engine.deliver.post_writer import PostWriter
from app.engine.partition.partition import Partition
from app.engine.steps import outcome_handler
from app.engine.steps.outcomes import Attempted, Called, Delivered, Rejected
from app.engine.steps.route import HTTP, Route
from app.settings.destinations import DestinationSettings
from app.settings.quotas import senders
from app.settings.topics import TopicSettings
from punctual.contract.request import Reason
from tables import Entry, keys
from tables.counts import display_name

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces

log = logging.getLogger(__name__)

#: The outcome of a post after an unexpected exception: each row must get an answer.
_FAULT = HttpOutcome(Meaning.AGAIN, "internal error of the worker")
#: The name of all failure callbacks in reports.
_CALLBACKS = "failure callbacks"


class Posts:
    """Posts rows, and reports the outcomes to their partitions."""

    def __init__(
        self,
        topics: TopicSettings,
        destinations: DestinationSettings,
        clock: Clock,
        cluster: str = "",
        client: Client | None = None,
        traces: "Traces | None" = None,
    ) -> None:
        """Open no connection yet. `cluster` is the id of our own cluster; a `client` replaces the HTTP client."""
        self._topics, self._destinations, self._clock, self._traces = topics, destinations, clock, traces
        #: Called when there is room again.
        self.room: Callable[[], None] = _nothing
        self._client: Client = HttpClient(clock.wall_ms) if client is None else client
        self._writer = PostWriter(topics, destinations, clock, cluster)
        self._tasks = set[asyncio.Task[None]]()
        self._hosts = Hosts(lambda: asyncio.get_running_loop().time())
        self._shared = len(senders(topics.namespaces, topics.inputs)) > 1
        #: How often there has been room again: while it stays the same, full hosts are still full.
        self.turns = 0

    def route(self, entry: Entry) -> Route | None:
        """Return the HTTP route of a row, by host and port, or None if the row goes to a topic."""
        if entry.url is None:
            return (display_name(entry.to), display_name(entry.to), HTTP) if "://" in entry.to else None
        try:
            return str(yarl.URL(entry.url).origin()), _CALLBACKS, HTTP
        except (ValueError, IndexError):
            return "", _CALLBACKS, HTTP

    def full(self, route: Route, entry: Entry | None = None) -> bool:
        """Return whether a host gets no requests at the moment, because its limit is reached or it has failed.

        If there are several senders, the limit is the share of the sender of `entry`.
        """
        if entry is not None and self._shared:
            namespaces = self._topics.namespaces
            sender = namespaces.of_id(entry.id) if namespaces else entry.source.rsplit("-", 2)[0]
            self._hosts.belongs(route[0] or "", sender)
        return self._hosts.full(route[0] or "")

    def more(self) -> None:
        """Report that there may be room again, so that rows that were passed over are tried."""
        self.turns += 1
        self.room()

    def trouble(self, route: Route) -> str:
        """Return why a host gets no requests after a failure, empty if it does."""
        return self._hosts.trouble(route[0] or "")

    def hopeless(self, key: bytes, entry: Entry, route: Route, now_ms: int) -> bool:
        """Return whether a message is three days late and its host fails; never for callbacks."""
        late_ms = now_ms - keys.due_of(key)
        return entry.url is None and late_ms >= outcome_handler.HTTP_GIVE_UP_MS and self._hosts.fails(route[0] or "")

    def begin(self, partition: Partition, key: bytes, entry: Entry, route: Route) -> None:
        """Post a row; its partition gets the outcome later."""
        partition.in_flight.claim(key, entry, route)
        try:
            allowed = self._writer.allowed(entry)
        except ValueError as error:  # the settings have changed since it was accepted
            partition.tell(_forbidden(key, entry, error))
            return
        host = route[0] or ""
        self._hosts.begin(host)
        task = asyncio.get_running_loop().create_task(self._post(partition, key, entry, allowed, host))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, partition: Partition, key: bytes, entry: Entry, allowed: Allowed, host: str) -> None:
        answer, sent_ms, life = None, self._clock.wall_ms(), partition.life
        try:
            post = self._writer.post(key, entry, allowed)
            partition.passed("before-send")
            answer = await self._client.post(allowed, post.body, post.headers)
        except Exception:
            about = {
                "destination": display_name(entry.to if entry.url is None else entry.url),
                "partition": partition.number,
            }
            log.exception("the HTTP delivery for %s failed", entry.source, extra=about)
            answer = _FAULT
        finally:
            self._make_room(host, answer, (self._clock.wall_ms() - sent_ms) / 1_000)
        if self._traces is not None:
            self._traces.posted(entry, allowed.target, answer, sent_ms)
        partition.passed("acked")
        if answer.meaning is Meaning.TAKEN:
            partition.tell(Called(key) if entry.url is not None else Delivered([key], 0, "", 0, sent_ms))
        elif partition.life == life:  # a later life posts the row itself, and uses its own answer
            partition.tell(Attempted(key, answer.why, answer.after_ms, answer.meaning is Meaning.NEVER))

    def _make_room(self, host: str, answer: HttpOutcome | None, took_s: float) -> None:
        """Let the host get another request: at once, or after a pause if the host has failed."""
        if answer is None:
            self._hosts.dropped(host)
        elif answer.of_host:
            left_s = self._hosts.failed(host, answer.why)
            asyncio.get_running_loop().call_later(left_s, self.more)
        else:
            self._hosts.answered(host, took_s)
        self.more()

    async def stop(self) -> None:
        """Abandon the requests under way; their rows are posted again after a restart."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.stop()


def _nothing() -> None:
    pass


def _forbidden(key: bytes, entry: Entry, error: ValueError) -> Attempted | Rejected:
    if entry.url is not None:
        return Attempted(key, f"its URL {error}", never=True)
    sentence = (
        f"DELAY_HTTP_DESTINATIONS no longer allows its URL, because it {error}. Add a pattern, then send it again."
    )
    return Rejected(key, Reason.NOT_ALLOWED, sentence)
