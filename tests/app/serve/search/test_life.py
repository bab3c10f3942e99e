"""The life of an id has the events of the id, and of no other id."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.serve.search import life
from app.serve.search.life import life_of
from app.settings.settings import Settings
from tests.app.fake_topic import Log


@pytest.mark.parametrize(
    ("id_", "others", "own"),
    [
        ("a", ("a@b", "ab", "b", "a@", "a@1795b", "17"), ("a", "a@1795000000000")),
        ("a@b", ("a", "a@1795000000000"), ("a@b", "a@b@1795000000000")),
        ("a@1795000000000", ("a",), ("a@1795000000000",)),
    ],
)
async def test_a_life_has_the_events_of_an_id_and_of_its_occurrences(
    id_: str, others: tuple[str, ...], own: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    event = b'{"event":"accepted","id":"%s","at":1,"source":"t-0-1"}'
    log.records = [(name.encode(), event % name.encode()) for name in (*others, *own)]
    log.records += [(own[0].encode(), foreign) for foreign in (None, b"x", b"[]", b'{"event":1}', event[:-1] % b"a")]
    monkeypatch.setattr(life, "PartitionReader", lambda *given, **_: log.reader(*given))
    engine: Any = SimpleNamespace(
        settings=Settings.from_env({}), cluster=None, clock=SimpleNamespace(wall_ms=lambda: 0)
    )

    told = await life_of(engine, id_, 0)
    assert [event["id"] for event in told.life] == list(own)
