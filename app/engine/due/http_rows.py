"""Due rows that are posted over HTTP, and rows that wait for room at their host or for their next try."""

from collections.abc import Callable

from app.engine.deliver.posts import Posts
from app.engine.partition.partition import Partition
from app.engine.steps.outcomes import Rejected
from app.engine.steps.route import Route
from punctual.contract.request import Reason
from tables import Entry, keys

#: Maximum number of next tries in a cycle.
_TRIES = 200

Decide = Callable[[Partition, bytes, Entry, int], None]


class HttpRows:
    """Posts the due rows of partitions, as far as their hosts have room."""

    def __init__(self, posts: Posts, decide: Decide, batch: int) -> None:
        """Post through `posts`; call `decide` again for rows that have waited, at most `batch` per host at once."""
        self._posts, self._decide, self._batch = posts, decide, batch
        #: By partition, when its held rows were last tried: `Posts.turns`, because checks of all hosts cost time, and
        #: the second, because timers may be early.
        self._seen: dict[int, tuple[int, int]] = {}

    def post(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Post a row, let it wait, or reject it; return whether it is posted."""
        route, in_flight = self._posts.route(entry), partition.in_flight
        assert route is not None, "it is for a topic"
        if entry.next_try_ms is not None and entry.next_try_ms > now:
            in_flight.tries.wait(key, entry.next_try_ms)
        elif self._posts.hopeless(key, entry, route, now):
            in_flight.claim(key, entry)
            why = f"{route[1]} accepted no messages, and this one is three days late: {self._posts.trouble(route)}"
            partition.tell(Rejected(key, Reason.UNDELIVERABLE, f"{why}. Fix it, then send the message again."))
        elif self._posts.full(route, entry):
            in_flight.hold(key, entry, route)
        else:
            self._posts.begin(partition, key, entry, route)
            return True
        return False

    def takes(self, key: bytes, entry: Entry, now: int) -> bool:
        """Return whether a row can be posted, postponed or rejected now; True for a row that goes to a topic."""
        route = self._posts.route(entry)
        if route is None or not self._posts.full(route):
            return True
        later = entry.next_try_ms is not None and entry.next_try_ms > now
        return later or self._posts.hopeless(key, entry, route, now)

    def go_on(self, partition: Partition, now: int, until: int) -> int | None:
        """Decide again about held rows that are due by `until`, and rows whose next try is due by then.

        `now` is the time of the decision; it is later than `until` while inputs are unread. Return when the next try of
        a row is (epoch ms), None if no row waits for one.
        """
        in_flight = partition.in_flight
        seen = self._posts.turns, until // 1000
        if self._seen.get(partition.number) != seen:
            self._seen[partition.number] = seen
            for route in in_flight.held_routes(http=True):
                if not self._posts.full(route):
                    self._take_up(partition, route, now, until)
        if not in_flight.tries:
            return None
        for key in in_flight.tries.take_due(until, _TRIES):
            raw = partition.store.raw(key)
            if raw is not None and not in_flight.busy(key):
                self._decide(partition, key, in_flight.row(key, raw), now)
        return in_flight.tries.next_ms

    def _take_up(self, partition: Partition, route: Route, now: int, until: int) -> None:
        """Decide again about rows held for one host, at most a batch, so that rows for topics need not wait."""
        in_flight = partition.in_flight
        rows, _ = partition.store.due(until, in_flight.held.pop(route), self._batch)
        for key, raw in rows:
            if key >= in_flight.cursor:  # the due loop has not reached these rows yet
                return
            entry = in_flight.row(key, raw)
            if self._posts.route(entry) != route or in_flight.busy(key):
                continue
            self._decide(partition, key, entry, now)
            if route in in_flight.held:
                return
        if len(rows) == self._batch:
            in_flight.hold_from(route, rows[-1][0] + b"\0")
            self._posts.more()
        elif keys.due_bound(until) < in_flight.cursor:  # the clock has gone back, or inputs are unread: the rest waits
            in_flight.hold_from(route, keys.due_bound(until))

    def trouble(self, route: Route) -> str:
        """Return why a host gets no requests after a failure, empty if it does."""
        return self._posts.trouble(route)

    async def stop(self) -> None:
        """Abandon the requests under way."""
        await self._posts.stop()
