"""Pages have each message once, also those of workers that were down for a while."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serve.search.filter import Filter
from app.serve.search.page import Cursor, PendingPage, SearchPart, numbers, written
from app.serve.search.peers import Missing
from app.serve.search.pending import PendingMessage
from app.serve.search.scan import END, Place, Row
from app.serve.search.search import Search
from tables import keys

PARTITIONS = 4


def row(number: int) -> Row:
    """Return a row of a partition, the first one due first."""
    key = number.to_bytes(keys.ROW_SIZE, "big")
    partition = number % PARTITIONS
    message = PendingMessage(id=str(number), to="to", due_ms=number, source="t-0-0", partition=partition)
    return Row(Place(key, partition), message)


class Workers(Search):
    """A search on partitions that each have a worker of their own; some workers may be down."""

    def __init__(self, count: int) -> None:
        self.rows = [row(number) for number in range(count)]
        self.down: set[int] = set()

    async def _parts(
        self,
        wanted: Filter,  # noqa: ARG002 - every message fits
        after: Place,
        limit: int,
        *,
        whole: bool,  # noqa: ARG002
        only: set[int] | None = None,
    ) -> tuple[list[SearchPart], list[Missing]]:
        asked = set(range(PARTITIONS)) if only is None else set(only)
        parts = [self._part(number, after, limit) for number in asked - self.down]
        return parts, [Missing([number], None, "it is down") for number in sorted(asked & self.down)]

    def _part(self, number: int, after: Place, limit: int) -> SearchPart:
        found = [one for one in self.rows if one.place.partition == number and after < one.place]
        up_to = END if len(found) <= limit else found[limit - 1].place
        return SearchPart(partitions=[number], rows=found[:limit], up_to=up_to)


async def read(workers: Workers, limit: int, chance: random.Random | None) -> tuple[list[str], PendingPage]:
    """Follow `next` to the end, and then `missed` when all are back; workers come and go by chance."""
    seen, cursor = list[str](), Cursor()
    while True:
        if chance is not None:
            workers.down = {number for number in range(PARTITIONS) if chance.random() < 0.3}
        page = await workers.page(Filter(), cursor, limit)
        seen += [one.id for one in page.rows]
        if page.next is None:
            if page.missed is None:
                return seen, page
            workers.down, chance = set(), None
        cursor = Cursor.parse(page.next or page.missed or "")


@pytest.mark.parametrize("seed", range(200))
async def test_each_message_comes_once_whichever_workers_are_down(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same with each run
    workers = Workers(chance.choice([0, 1, 7, 40, 41]))

    seen, last = await read(workers, chance.choice([1, 3, 10, 100]), chance)

    assert sorted(seen, key=int) == [row.message.id for row in workers.rows]
    assert (last.complete, last.missing) == (True, [])


async def test_with_all_workers_up_messages_come_in_order() -> None:
    workers = Workers(41)

    seen, _ = await read(workers, 3, None)

    assert seen == [row.message.id for row in workers.rows]


async def test_a_worker_that_stays_down_is_named_on_the_last_page() -> None:
    workers = Workers(8)
    workers.down = {1}

    page = await workers.page(Filter(), Cursor(), 100)

    assert [one.id for one in page.rows] == ["0", "2", "3", "4", "6", "7"]
    assert (page.next, page.complete, [one.partitions for one in page.missing]) == (None, False, [[1]])
    assert page.missed is not None
    again = await workers.page(Filter(), Cursor.parse(page.missed), 100)
    assert (again.rows, again.next, again.missed) == ([], None, page.missed)
    workers.down = set()
    again = await workers.page(Filter(), Cursor.parse(page.missed), 100)
    assert ([one.id for one in again.rows], again.complete) == (["1", "5"], True)


PLACES = st.builds(Place, st.binary(max_size=keys.ROW_SIZE), st.integers(-1, 99))


@given(PLACES, st.dictionaries(st.integers(0, 9_999), PLACES, max_size=20))
def test_a_cursor_survives_a_round_trip_as_text(place: Place, behind: dict[int, Place]) -> None:
    cursor = Cursor(place=place, behind=behind)

    assert Cursor.parse(cursor.text()) == cursor


@given(st.sets(st.integers(0, 9_999), min_size=1))
def test_numbers_survive_a_round_trip_as_text(given: set[int]) -> None:
    assert set(numbers(written(given))) == given


def test_a_cursor_that_would_be_too_long_goes_back_to_an_earlier_place() -> None:
    behind = {2 * number: Place(number.to_bytes(keys.ROW_SIZE, "big"), 0) for number in range(1, 500)}

    assert Cursor.parse(Cursor(place=END, behind=behind).text()) == Cursor(place=behind[2])


@pytest.mark.parametrize("text", ["x", "00.0~", "00.0~1", "00.0~a@00.0", "00.0~1@x", "00.0~0-99999999@00.0", "~", "²"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cursor|partitions|hex"):
        Cursor.parse(text)
