"""Finds messages on all workers: in this worker's partitions with its scanner, in others by asking their owners."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Collection, Mapping
from pathlib import Path
from typing import Final

from app.engine.engine import Engine
from app.serve.search.filter import Filter
from app.serve.search.life import Life, life_of
from app.serve.search.page import Cursor, PendingPage, SearchCount, SearchPart, count_of, late_page_of, page_of, written
from app.serve.search.peers import Missing, Peers, PeerSilent, T
from app.serve.search.pending import SHOWN, PendingMessage, masked, pending
from app.serve.search.scan import END, Place, Row, ScanQuery, ScanResult
from app.serve.search.scans import Scans
from punctual.contract.home import home_partition

LOCAL: Final = "/api/v1/local"
#: The maximum rows of a page, the maximum seconds of a count, and the milliseconds of one scan of a count.
MOST_ROWS, LONGEST_S, _SLICE_MS = 1_000, 60.0, 1_000
_SLICE_ROWS: Final = 1_000_000


class Search:
    """Finds pending messages, here and on other workers; slow work is done in another process."""

    def __init__(self, engine: Engine) -> None:
        self._engine, settings = engine, engine.settings
        self._inputs, self._partitions = settings.topics.inputs, settings.topics.partitions
        self.namespaces = settings.topics.namespaces
        self.masks = settings.web.payloads == "masked"
        self.scans = Scans(self.databases, settings.data_path / "scanner")
        self._peers = Peers(self._owners, settings.process.url, settings.web.secret, settings.process.tls_cert)

    async def close(self) -> None:
        """End the scanner process and the connections."""
        await self.scans.close()
        await self._peers.close()

    def databases(self) -> Mapping[int, Path]:
        """Return the paths of the databases of the partitions that are served here."""
        stores = self._engine.table.stores
        return {number: stores[number].path for number in self.served}

    @property
    def served(self) -> list[int]:
        """The partitions that are served here."""
        partitions, stores = self._engine.ownership.partitions, self._engine.table.stores
        return sorted(number for number, one in partitions.items() if one.working and number in stores)

    def _owners(self) -> dict[int, str]:
        return {number: report.progress.worker for number, report in self._engine.reader.reports.items()}

    # always counted ---------------------------------------------------------------------------------------------------
    def hours(self, partitions: list[int]) -> dict[int, int]:
        """Return the number of messages due by hour (of the epoch), in partitions that are served here."""
        counts = Counter[int]()
        for number in partitions:
            counts.update(self._engine.table.stores[number].counts.hours)
        return dict(counts)

    @property
    def overdue(self) -> int:
        """The number of overdue messages in the reports of all partitions."""
        return sum(report.progress.overdue for report in self._engine.reader.reports.values())

    def now_ms(self) -> int:
        """Return the worker's wall clock in epoch milliseconds."""
        return self._engine.clock.wall_ms()

    # pages -----------------------------------------------------------------------------------------------------------
    async def page(self, wanted: Filter, cursor: Cursor, limit: int, *, whole: bool = False) -> PendingPage:
        """Return the first matches after a cursor, on all workers; first those of partitions that were behind.

        Raises ScanFailed if this worker's own partitions cannot be scanned.
        """
        page = None
        if cursor.behind:
            late = await self._parts(wanted, min(cursor.behind.values()), limit, whole=whole, only=set(cursor.behind))
            page, cursor = late_page_of(*late, limit, cursor)
        if page is None or not (page.rows or cursor.place >= END):
            page = page_of(*await self._parts(wanted, cursor.place, limit, whole=whole), limit, cursor)
        within = wanted.within
        if within is not None:  # other workers' rows are checked too
            page.rows = [row for row in page.rows if within.of_id(row.id)]
        return page

    async def _parts(
        self, wanted: Filter, after: Place, limit: int, *, whole: bool, only: set[int] | None = None
    ) -> tuple[list[SearchPart], list[Missing]]:
        """Return each worker's rows after a place, in all partitions or `only` some, and the missing partitions."""
        query = {**wanted.query(), "limit": str(limit), "cursor": after.text(), "whole": str(int(whole))}
        elsewhere = set(self.served)
        if only is not None:
            query["partitions"] = written(only)
            elsewhere |= set(range(self._partitions)) - only
        own = self.own_page(wanted, after, limit, whole=whole, only=only)
        return await self.everywhere(own, "/messages", query, SearchPart, here=elsewhere)

    async def own_page(
        self, wanted: Filter, after: Place, limit: int, *, whole: bool = False, only: Collection[int] | None = None
    ) -> SearchPart:
        """Return the first matches after a place in the partitions that are served here, or in `only` some."""
        served = self.served
        targets = [None] if only is None else [number for number in served if number in only]
        wants = ScanQuery(filter=wanted, after=after, limit=limit, most=0 if self.masks else None if whole else SHOWN)
        results = [await self.scans.scan(wants, number) for number in targets]
        rows = [row for one in results for row in one.rows]
        if self.masks:
            rows = [Row(row.place, masked(row.message)) for row in rows]
        up_to = min((one.up_to for one in results), default=END)
        looked_at = sum(one.looked_at for one in results)
        return SearchPart(partitions=served, rows=rows, looked_at=looked_at, up_to=up_to)

    async def count(self, wanted: Filter, seconds: float) -> SearchCount:
        """Count the matches on all workers, for at most `seconds`. Raises ScanFailed if the scan here fails."""
        query = {**wanted.query(), "seconds": str(seconds)}
        own = self.own_count(wanted, seconds)
        return count_of(*await self.everywhere(own, "/count", query, SearchPart, seconds))

    async def own_count(self, wanted: Filter, seconds: float) -> SearchPart:
        """Count the matches in the partitions that are served here, in slices so that other scans get their turn."""
        served, until = self.served, asyncio.get_running_loop().time() + seconds
        matching = looked_at = 0
        result = ScanResult(up_to=Place())
        while not result.complete and asyncio.get_running_loop().time() < until:
            after = result.up_to
            wants = ScanQuery(filter=wanted, after=after, count=True, rows=_SLICE_ROWS, ms=_SLICE_MS)
            result = await self.scans.scan(wants)
            matching, looked_at = matching + result.matching, looked_at + result.looked_at
        return SearchPart(partitions=served, matching=matching, looked_at=looked_at, up_to=result.up_to)

    async def everywhere(
        self,
        own: Awaitable[T],
        path: str,
        query: Mapping[str, str],
        kind: type[T],
        seconds: float = 0.0,
        here: Collection[int] | None = None,
    ) -> tuple[list[T], list[Missing]]:
        """Return this worker's `own` part and those of others below LOCAL, and the missing partitions.

        Others may take `seconds`, and are asked for partitions that are not `here`: by default, those not served here.
        """
        here = self.served if here is None else here
        others = self._peers.ask_all(LOCAL + path, query, here, self._partitions, kind, seconds)
        part, (parts, missing) = await asyncio.gather(own, others)
        return [part, *parts], missing

    async def wake_others(self) -> None:
        """Make the other workers look for jobs at once; a worker without the request looks by itself within a while."""
        await self._peers.tell_all(f"{LOCAL}/jobs", {})

    async def tell_signed_out(self, session: str) -> None:
        """Inform the other workers that a session has ended; one without the request accepts it until it expires."""
        await self._peers.tell_all(f"{LOCAL}/signed-out", {"id": session})

    # one message -----------------------------------------------------------------------------------------------------
    def home(self, id_: str) -> int:
        """Return the home partition of an ID."""
        return home_partition(id_, self._inputs, self._partitions)

    async def message(self, id_: str, *, whole: bool = False) -> PendingMessage | None:
        """Return the pending message with an ID from the worker that has it, or None. Raises PeerSilent."""
        home = self.home(id_)
        if home in self.served:
            row = self.own_message(id_, whole=whole)
            return None if row is None else row.message
        owner = self._owners().get(home)
        if owner in (None, self._engine.settings.process.url):
            raise PeerSilent(f"no worker serves partition {home} of this ID at the moment")
        try:
            query = {"id": id_, "whole": str(int(whole))}
            row = await self._peers.ask(Row, str(owner), f"{LOCAL}/message", query)
        except PeerSilent as error:
            raise PeerSilent(f"{owner} serves partition {home} of this ID, but {error}") from error
        return None if row is None else row.message

    async def life(self, id_: str) -> Life:
        """Return the events of an ID, as far back as they were scanned. Raises PeerSilent."""
        return await life_of(self._engine, id_, self.home(id_))

    def own_message(self, id_: str, *, whole: bool = False) -> Row | None:
        """Return the pending message with an ID whose home partition is served here, or None."""
        home = self.home(id_)
        store = self._engine.table.stores[home]
        key = store.find(id_)
        entry = None if key is None else store.entry(key)
        if key is None or entry is None or entry.replaced:
            return None
        message = pending(home, key, entry, most=None if whole else SHOWN)
        return Row(Place(key, home), masked(message) if self.masks else message)
