"""The rows of a partition that are being sent, the rows passed over, and the cursor of the due loop."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import itemgetter
from typing import Any

from app.engine.partition.claims import Claims
from app.engine.partition.next_tries import NextTries
from app.engine.steps.outcomes import Delivered, Outcome
from app.engine.steps.route import ANY, HTTP, Route, destination_of, destination_of_route, name_of
from app.engine.steps.step import Step
from punctual.contract.destination import Destination
from tables import Entry, PartitionStore, keys
from tables.changes import Pairs, PlainRows
from tables.entry import decode
from tables.row_writes import exhaust

#: With more rows in flight than `_BUSY`, the cursor does not go back to new rows before it: a scan would read all rows
#: in flight again, and the removed rows before them. Up to `_MOST_LATE` new rows are read one by one instead.
_BUSY, _MOST_LATE = 100, 10_000

_second = itemgetter(1)


class InFlight:
    """Claims, routes, held rows and the cursor of one partition, from one start to the next.

    A row is claimed when it is handed to a dispatcher; one outcome follows, whose step ends the claim. A row whose
    route is blocked is held instead: the cursor moves on, and goes back when the route is free.

    Rows whose destination is paused or has used up its rate limit are set aside: the cursor moves on and does not go
    back to them, because they are scanned separately. While rows are set aside, the cursor never goes back far.
    """

    def __init__(self) -> None:
        """Begin without rows in flight, and the cursor at the beginning."""
        #: Rows whose sends are outstanding, until the step that ends them is committed; `_unanswered` have no outcome.
        self.claims = Claims()
        self._unanswered: set[bytes] = set()
        #: Rows that the last owner may have sent, until a search shows which have arrived.
        self._unknown: Collection[bytes] = ()
        self._routes: dict[bytes, Route] = {}
        self._rows = Counter[Route]()
        #: Scans for due rows begin at `cursor`; `held` has the first row passed over for each blocked route.
        self.cursor = b""
        self.held: dict[Route, bytes] = {}
        #: The first row before the cursor of each destination whose rows are set aside. `_late` is a heap of the rows
        #: that steps have put before the cursor.
        self.aside: dict[Destination, bytes] = {}
        #: The first row before the cursor of each namespace whose rows wait for its inputs to be read.
        self.unread: dict[str, bytes] = {}
        self._late: list[bytes] = []
        #: The step that is being built or committed, and the first row that it made busy() pass over.
        self._step: Step | None = None
        self._skipped: bytes | None = None
        self.tries = NextTries()
        #: Whether there is no room to send more rows at the moment, and the average bytes of a row.
        self.full, self.row_bytes = False, 1

    def clear(self) -> None:
        """Forget everything, as at the start; outcomes of sends in flight are ignored from now on."""
        for left in (self.claims, self._unanswered, self._routes, self._rows, self.held, self.aside, self.unread):
            left.clear()
        self._late.clear()
        self.tries.clear()
        self._unknown = ()
        self.cursor, self._step, self._skipped, self.full, self.row_bytes = b"", None, None, False, 1

    # being sent ------------------------------------------------------------------------------------------------------
    def claim(self, key: bytes, entry: Entry, route: Route | None = None) -> None:
        """Mark a row as being sent; exactly one outcome must follow."""
        self.claims[key] = entry
        self._unanswered.add(key)
        if route is not None:
            self._routes[key] = route
            self._rows[route] += 1

    def claim_all(self, rows: PlainRows, route: Route) -> None:
        """Mark plain rows as being sent on a route; undecoded rows stay undecoded until a caller reads them."""
        claimed: Any = dict(rows)
        self.claims.update(claimed)
        self._unanswered.update(claimed)
        self._routes.update(dict.fromkeys(claimed, route))
        self._rows[route] += len(claimed)

    def claim_unknown(self, rows: Collection[bytes], read: Callable[[bytes], Entry | None]) -> None:
        """Mark rows that the last owner may have sent as being sent; `read` returns the entry of a row."""
        self._unknown = rows
        self._unanswered.update(rows)
        self.claims.claim_keys(rows, read)

    def end_unknown(self) -> list[bytes]:
        """End the claims of claim_unknown() without an outcome; keep and return those with a command on their row."""
        rows, self._unknown = [row for row in self._unknown if row in self._unanswered], ()
        self.end(row for row in rows if not self.claims.has_command(row))
        return [row for row in rows if row in self.claims]

    def answered(self, outcome: Outcome) -> Sequence[Outcome]:
        """Return the parts of an outcome that are about rows without an outcome so far."""
        if self._unknown:  # a send from before this process lost the partition may end now, and needs the entries
            self.claims.read(outcome.rows if isinstance(outcome, Delivered) else (outcome.row,))
        if not isinstance(outcome, Delivered):
            answered = outcome.row in self._unanswered
            self._unanswered.discard(outcome.row)
            return [outcome] if answered else ()
        if self._unanswered.issuperset(outcome.rows):
            self._unanswered.difference_update(outcome.rows)
            return [outcome]
        left = [(row, offset) for offset, row in enumerate(outcome.rows, outcome.offset) if row in self._unanswered]
        self._unanswered.difference_update(outcome.rows)
        return [replace(outcome, rows=[row], offset=offset) for row, offset in left]

    def waits(self, key: bytes) -> bool:
        """Return whether a row is being sent and has no outcome yet."""
        return key in self._unanswered

    def end(self, rows: Iterable[bytes]) -> None:
        """End the claims of rows, whose outcome is committed, or which were not sent after all."""
        ended = list(rows)
        self._unanswered.difference_update(ended)
        exhaust(map(self.claims.pop, ended, itertools.repeat(None)))
        routes: Counter[Any] = Counter(map(self._routes.pop, ended, itertools.repeat(None)))
        del routes[None]
        self._rows -= routes  # drops routes without rows

    def sending(self, blocked: Callable[[Route], bool]) -> int:
        """Return how many rows are being sent, without rows on `blocked` routes, which must not stop the others."""
        return len(self.claims) - sum(rows for route, rows in self._rows.items() if blocked(route))

    def on_their_way(self, to: Destination, due_before_ms: int | None = None) -> int:
        """Return how many rows are being sent to a destination: all, or only rows due before a time."""
        if due_before_ms is not None:
            rows = self._routes.items()
            return sum(keys.due_of(row) < due_before_ms and destination_of_route(route) == to for row, route in rows)
        return sum(rows for route, rows in self._rows.items() if destination_of_route(route) == to) if self._rows else 0

    def on_their_way_to_cluster(self, cluster: str | None) -> int:
        """Return how many rows are being sent to a cluster."""
        return sum(rows for route, rows in self._rows.items() if route[0] == cluster)

    @property
    def routes(self) -> Iterable[Route]:
        """The routes of rows that are being sent or held."""
        return (*self.held, *self._rows)

    # passed over -----------------------------------------------------------------------------------------------------
    def hold(self, row: bytes, entry: Entry, route: Route) -> None:
        """Pass a row over until its `route` is free, or any partition of the topic if the row may go to any."""
        if entry.key is None and entry.partition is None and route[2] >= 0:
            route = (route[0], route[1], ANY)
        self.hold_from(route, row)

    def hold_from(self, route: Route, row: bytes) -> None:
        """Pass rows over from `row` on until a route is free."""
        self.held[route] = min(row, self.held.get(route, row))

    def held_routes(self, *, http: bool | None = None) -> list[Route]:
        """Return the routes that rows wait for: over HTTP if `http` is True, others if False, all if None."""
        return [route for route in self.held if http is None or (route[2] == HTTP) is http]

    def go_back(self, route: Route) -> None:
        """Scan the rows that waited for a route again."""
        row = self.held.pop(route)
        if self.aside:
            self.set_aside(route[:2], row)
        else:
            self.cursor = min(self.cursor, row)

    def held_ms(self) -> dict[str, int]:
        """Return the oldest due time (epoch ms) of held rows, by the name of their destination."""
        held: dict[str, int] = {}
        for route, row in self.held.items():
            name = name_of(route)
            held[name] = min(keys.due_of(row), held.get(name, 1 << 62))
        return held

    # set aside -------------------------------------------------------------------------------------------------------
    def set_aside(self, to: Destination, row: bytes) -> None:
        """Set a destination's rows aside from `row` on, to be scanned separately."""
        self.aside[to] = min(row, self.aside.get(to, row))

    @property
    def late(self) -> bool:
        """Whether rows have been put before the cursor that it has not gone back to."""
        return bool(self._late)

    def pop_late(self, now_ms: int, limit: int) -> list[bytes]:
        """Remove and return at most `limit` due rows from `late`, except rows that the current step removes."""
        ready, going = list[bytes](), list[bytes]()
        while self._late and len(ready) < limit and keys.due_of(self._late[0]) <= now_ms:
            key = heapq.heappop(self._late)
            (going if self.is_going(key) else ready).append(key)
        for key in going:
            heapq.heappush(self._late, key)
        return ready

    def first_unsettled(self, aside: Collection[Destination]) -> bytes | None:
        """Return the first unsettled row before the cursor, except rows of the destinations in `aside`."""
        known = [key for key, entry in self.claims.items() if destination_of(entry) not in aside]
        known += [*self.held.values(), *self._late, *self.unread.values()]
        known += [row for to, row in self.aside.items() if to not in aside]
        return min(known, default=None)

    # the cursor ------------------------------------------------------------------------------------------------------
    def begin_step(self, step: Step) -> None:
        """Until end_step(), fire no row that the step removes or postpones, and fire others as the step writes them."""
        self._step = step

    def end_step(self, lowest: bytes | None = None) -> None:
        """Go back to rows that the committed step has put, from `lowest` on, and to rows that busy() passed over."""
        step, self._step = self._step, None
        if lowest is not None and lowest < self.cursor:
            busy = len(self.claims) > _BUSY and len(self._late) < _MOST_LATE
            if step is not None and (self.aside or self.unread or busy):
                for key in step.changes.added:
                    if key < self.cursor:
                        heapq.heappush(self._late, key)
            else:
                self.cursor = min([lowest, *self._late[:1]])
                self._late.clear()
        if self._skipped is not None and self._skipped < self.cursor:
            self.cursor = self._skipped
        self._skipped = None

    def is_going(self, key: bytes) -> bool:
        """Return whether the step that is being committed removes a row, or postpones its next try."""
        step = self._step
        if step is None:
            return False
        return step.changes.removes(key) or step.changes.adds(key) or key in step.again

    def row(self, key: bytes, raw: bytes) -> Entry:
        """Return the row in `raw`, or as the step that is being committed writes it.

        It is not passed over because of this change: rows that are due later would overtake it.
        """
        put = None if self._step is None else self._step.changes.entry(key)
        return decode(raw) if put is None else put

    def untouched(self, keys: Sequence[bytes]) -> bool:
        """Return whether none of the rows is being sent or changed by the step that is being committed."""
        step = self._step
        there: list[AbstractSet[bytes]] = [self.claims.keys()]
        if step is not None:
            changes = step.changes
            there += [changes.removals.keys(), changes.gone.keys(), changes.puts.keys(), changes.plain.keys()]
            there.append(step.again.keys())
        return all(rows.isdisjoint(keys) for rows in there if rows)

    def busy(self, key: bytes) -> bool:
        """Return whether a row must not be fired, because it is being sent or the current step removes it."""
        if key in self.claims:
            return True
        if self.is_going(key):
            self._skipped = key if self._skipped is None else min(key, self._skipped)
            return True
        return False

    def move_on(self, rows: Pairs) -> None:
        """Move the cursor behind these rows."""
        self.cursor = rows[-1][0] + b"\0"
        self.row_bytes = max(1, sum(map(len, map(_second, rows))) // len(rows))

    @property
    def quiet(self) -> bool:
        """Whether no row before the cursor is left to send, and no step is being committed that could put one there."""
        passed_over = self.held or self.aside or self.unread or self._late or self._skipped or self.tries
        return not self.claims and not passed_over and self._step is None

    def oldest(self, store: PartitionStore) -> bytes | None:
        """Return the key of the first unsettled row, or None."""
        known = [*self.claims, *self.held.values(), *self.aside.values(), *self.unread.values(), *self._late]
        if self._skipped is not None:
            known.append(self._skipped)
        if self.tries:
            known.append(self.tries.oldest)
        following = store.next_row(self.cursor)
        if following is not None:
            known.append(following)
        return min(known, default=None)
