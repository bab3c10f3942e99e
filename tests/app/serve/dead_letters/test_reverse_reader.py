"""A partition of dead letters from its end to its beginning: a block has a maximum of letters, and of bytes."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.kafka.metadata.reader import Stored
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.dead_letters.dead_letters import DeadLetters, ReverseReader
from app.serve.search.pending import MAX_BYTES
from app.settings.settings import Settings
from app.worker import create_app

if TYPE_CHECKING:
    from app.kafka.metadata.cluster import Cluster

_MIB = 1 << 20
ALL = 1_200


class Reader:
    """A partition whose older half has letters with large keys."""

    def __init__(self, _cluster: Any, _topic: str, _partition: int, offset: int, **_: Any) -> None:
        self._offset = offset

    async def up_to(self, end: int, _chunk: int) -> AsyncIterator[Stored]:
        for offset in range(self._offset, end):
            yield Stored(offset, offset, bytes(_MIB // 4 if offset < ALL // 2 else 1), b"v")


@pytest.fixture
def backwards(monkeypatch: pytest.MonkeyPatch) -> ReverseReader:
    monkeypatch.setattr("app.serve.dead_letters.dead_letters.PartitionReader", Reader)
    return ReverseReader(cast("Cluster", None), "dead", 0, 0, ALL)


async def test_a_block_has_a_maximum_size_and_every_letter_comes_once(backwards: ReverseReader) -> None:
    seen = list[int]()
    while True:
        await backwards.read()
        if backwards.newest is None:
            break
        assert sum(one.size for one in backwards._block) <= _MIB
        seen.append(backwards.take().offset)
        assert backwards.below == seen[-1]
    assert seen == list(reversed(range(ALL)))
    assert backwards.below == 0


async def test_a_page_has_a_maximum_size(backwards: ReverseReader, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = DeadLetters(create_app(Settings.from_env({})).engine, lambda one: one)

    async def partitions(*_: Any) -> list[ReverseReader]:
        return [backwards]

    monkeypatch.setattr(letters, "_partitions", partitions)
    monkeypatch.setattr("app.serve.dead_letters.dead_letters._LONGEST_S", 60.0)
    page = await letters.page(DeadLetterFilter(), "", 1_000)
    assert sum(one.size for one in page.rows) < MAX_BYTES + _MIB
    assert page.next == str(page.rows[-1].offset) == str(ALL // 2 - 32)
