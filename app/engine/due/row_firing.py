"""Decides for each due row whether it is sent, posted, held, set aside, dropped or rejected."""

from collections import Counter
from typing import TYPE_CHECKING

from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.due.http_rows import HttpRows
from app.engine.due.input_liveness import InputLiveness
from app.engine.due.unread_inputs import UnreadInputs
from app.engine.partition.partition import Partition
from app.engine.steps import occurrences
from app.engine.steps.outcomes import Dropped, Unsent
from app.engine.steps.route import Route, destination_of
from app.engine.throttle.throttle import Throttle
from app.settings.topics import TopicSettings
from punctual.contract.dialects.dialects import OF_ROWS
from punctual.contract.request import Reason
from tables import Entry, keys

if TYPE_CHECKING:
    from app.engine.due.series_pace import SeriesPace


class RowFiring:
    """Decides about due rows, one at a time."""

    def __init__(
        self,
        topics: TopicSettings,
        dispatcher: Dispatcher,
        throttle: Throttle,
        posts: Posts,
        liveness: InputLiveness | None,
        batch: int,
    ) -> None:
        """Send through `dispatcher` and `posts`, as far as `throttle` allows; `liveness` checks the inputs.

        At most `batch` rows that were held for a host are tried at once.
        """
        self._dispatcher, self._throttle = dispatcher, throttle
        self.http = HttpRows(posts, self.decide, batch)
        self.unread = UnreadInputs(liveness, topics.namespaces, self.decide)
        #: Set if namespaces have rates.
        self.pace: SeriesPace | None = None
        #: Routes that are free for the rest of a partition's turn, and this cycle's number of rows by lateness (ms).
        self.free = set[Route]()
        self.late = Counter[int]()
        #: Whether rows of the current partition may have to be set aside.
        self.sets_aside = False

    def decide(self, partition: Partition, key: bytes, entry: Entry, now: int) -> None:
        """Send, post, hold, set aside, drop or reject a due row."""
        if self.unread.waits(partition, key, entry, now):
            pass
        elif entry.url is not None:
            self.http.post(partition, key, entry, now)
        elif self.sets_aside and not entry.commands and self._waits(partition, key, entry, now):
            pass
        elif self.fire(partition, key, entry, now) and not (entry.attempts or self._was_held(key)):
            self.late[now - keys.due_of(key)] += 1

    def _was_held(self, key: bytes) -> bool:
        return self.pace is not None and self.pace.was_held(key)

    def _waits(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Set a row aside if its destination is throttled or has earlier rows set aside; return whether it is."""
        to, in_flight = destination_of(entry), partition.in_flight
        waits = to in in_flight.aside or self._throttle.throttles(to, now - keys.due_of(key))
        if waits:
            in_flight.set_aside(to, key)
        return waits

    def fire(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Send, post, hold, drop or reject a row; return whether it is in flight."""
        if entry.commands:  # it was being sent when the process died: its commands apply now
            partition.in_flight.claim(key, entry)
            partition.tell(Unsent(key))
            return False
        if entry.series is not None and occurrences.is_missed(entry, key, now):
            partition.in_flight.claim(key, entry)
            partition.tell(Dropped(key, now - keys.due_of(key), "missed"))
            return False
        if entry.max_late_ms is not None and self._too_late(partition, key, entry, now):
            return False
        pace = None if entry.series is None else self.pace
        if pace is not None and pace.holds(partition, key, entry, now):
            return False
        is_sent = (self.http.post if "://" in entry.to else self._send)(partition, key, entry, now)
        if is_sent and pace is not None:
            pace.sent(partition, entry, now)
        return is_sent

    def _too_late(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Drop or reject a row that is later than its sender allows; return whether it is."""
        late, limit = now - keys.due_of(key), entry.max_late_ms
        if limit is None or late <= limit or entry.if_late not in ("drop", "dead-letter"):
            return False
        if entry.if_late == "drop":
            partition.in_flight.claim(key, entry)
            partition.tell(Dropped(key, late))
        else:
            sentence = (
                f"the message is {late} ms late, but {OF_ROWS.words.max_late} is {limit} ms. Send it again if it is "
                "still needed."
            )
            self._dispatcher.refuse(partition, key, entry, Reason.TOO_LATE, sentence)
        return True

    def _send(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Send a row unless its route is blocked; return whether it was sent."""
        if entry.cluster is not None and not self._dispatcher.knows(entry.cluster):
            sentence = (
                f"cluster {entry.cluster} is not configured. Add it to DELAY_CLUSTERS, then send the message again."
            )
            self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_CLUSTER, sentence)
            return False
        route = self._dispatcher.route(entry)
        if route not in self.free:
            if self._dispatcher.gone(route):
                sentence = self._dispatcher.missing.absence(route)
                self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_TOPIC, sentence)
                return False
            if self._dispatcher.hopeless(route):
                sentence = (
                    f"topic {entry.to} accepted no messages for longer than DELAY_GIVE_UP. Fix it, then send "
                    "the message again."
                )
                self._dispatcher.refuse(partition, key, entry, Reason.UNDELIVERABLE, sentence)
                return False
            if self._dispatcher.blocked(route):
                partition.in_flight.hold(key, entry, route)
                return False
            if self._dispatcher.steady(route):
                self.free.add(route)
        self._dispatcher.add(partition, key, entry, route, now)
        return True
