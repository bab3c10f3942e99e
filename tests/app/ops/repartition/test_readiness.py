"""Obstacles to a change are reported before the change begins."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from app.base.errors import SettingInvalid
from app.engine.topics.layout import Layout
from app.kafka.metadata.reader import Stored
from app.ops.repartition import forwards, readiness
from app.ops.repartition.errors import NotReady
from app.ops.repartition.moves import Moves
from app.settings.settings import Settings
from punctual.contract.home import home_partition
from punctual.contract.request import Request, encode
from tables import PartitionStore, Position, keys
from tables.changes import position_bytes

if TYPE_CHECKING:
    from app.ops.repartition.ground import Ground, Side

NOW = 1_795_600_000_000
OLD = Settings.from_env({"DELAY_PARTITIONS": "2"})
NEW = Settings.from_env({"DELAY_PARTITIONS": "3", "DELAY_REPARTITIONED": "on"})
BEGUN = Layout(
    stage="copying",
    before=2,
    after=3,
    changelog_before=OLD.topics.changelog,
    changelog=NEW.topics.changelog,
    began_ms=NOW,
    inputs=[OLD.topics.requests],
)
THERE = dict.fromkeys(
    (OLD.topics.requests, OLD.topics.changelog, OLD.topics.forwards, OLD.topics.events_topic, OLD.topics.dead_letters),
    2,
)


@pytest.fixture
def side(tmp_path: Path) -> Iterator["Side"]:
    """Two partitions that have read their requests to offset 10."""
    stores = [PartitionStore(tmp_path / f"{number}.db") for number in range(2)]
    for store in stores:
        store.replay([(keys.POSITION + OLD.topics.requests.encode(), position_bytes(Position(10, NOW, 0)))], 1, NOW)
    table = SimpleNamespace(stores=dict(enumerate(stores)))
    yield cast("Side", SimpleNamespace(settings=OLD, stores=stores, numbers=range(2), table=table))
    for store in stores:
        store.close()


def applied(side: "Side", home: int, source: int, offset: int, topic: str = OLD.topics.requests) -> None:
    """Have a home take note of a forward."""
    store = side.stores[home]
    store.replay([(keys.origin_key(topic, source), keys.long_bytes(offset))], 2, NOW)


def forwarded(id_: str, source: str, offset: int = 3) -> Stored:
    """A record on the forwards."""
    asked = Request("schedule", id_, source, NOW, OLD.topics.requests, NOW, "orders")
    return Stored(offset, NOW, id_.encode(), encode(asked))


@pytest.mark.parametrize(("after", "says"), [(2, "can only add"), (1, "can only add"), (10_001, "more than 10,000")])
def test_the_number_of_partitions_can_only_grow(after: int, says: str) -> None:
    with pytest.raises(NotReady, match=says):
        readiness.assure_number(OLD, after)


def test_a_change_after_which_no_worker_would_start_is_refused() -> None:
    for after in (1521, 2567):
        with pytest.raises(SettingInvalid):
            Settings.from_env({"DELAY_PARTITIONS": str(after), "DELAY_REPARTITIONED": "on"})
        with pytest.raises(NotReady, match=f"the topic delay-p{after}-forwards.*Choose another number"):
            readiness.assure_number(OLD, after)
    readiness.assure_number(OLD, 1522)


@pytest.mark.parametrize(
    ("layout", "after", "says"),
    [
        (BEGUN, 4, "a repartition from 2 to 3 partitions has begun"),
        (msgspec.structs.replace(BEGUN, inputs=["orders"]), 3, "Set DELAY_INPUTS to its previous value"),
        (msgspec.structs.replace(BEGUN, stage="done"), 3, "Set DELAY_PARTITIONS=3"),
        (msgspec.structs.replace(BEGUN, before=1), 3, "DELAY_PARTITIONS=1"),
    ],
)
def test_a_change_that_has_begun_is_gone_on_with_as_it_was(layout: Layout, after: int, says: str) -> None:
    with pytest.raises(NotReady, match=says):
        readiness.assure_layout(OLD.topics, after, layout)


@pytest.mark.parametrize("layout", [None, BEGUN, msgspec.structs.replace(BEGUN, stage="abandoned")])
def test_a_change_can_begin_and_go_on(layout: Layout | None) -> None:
    readiness.assure_layout(OLD.topics, 3, layout)


@pytest.mark.parametrize(
    ("there", "layout", "says"),
    [
        (THERE | {OLD.topics.cold: 2}, None, "the cold tier is in use"),
        (THERE | {OLD.topics.requests: 4}, None, "should have 2 or 3"),
        (THERE | {OLD.topics.events_topic: 3}, None, "should have 2"),
        (THERE | {OLD.topics.events_topic: 3}, BEGUN, "should have 2"),
        (THERE | {NEW.topics.changelog: 3}, None, "Delete it"),
        (THERE | {NEW.topics.forwards: 3}, msgspec.structs.replace(BEGUN, stage="abandoned"), "Delete it"),
        ({name: 2 for name in THERE if name != OLD.topics.changelog}, None, "does not exist"),
    ],
)
async def test_topics_are_as_they_should_be(there: dict[str, int], layout: Layout | None, says: str) -> None:
    with pytest.raises(NotReady, match=says):
        await readiness.assure_topics(ground(there), layout)


@pytest.mark.parametrize(
    ("there", "layout"),
    [
        (THERE, None),
        (THERE | {OLD.topics.requests: 3}, None),  # others manage it
        (THERE | {NEW.topics.changelog: 3}, BEGUN),
        (
            THERE | {NEW.topics.changelog: 3, OLD.topics.events_topic: 3},
            msgspec.structs.replace(BEGUN, stage="switching"),
        ),
    ],
)
async def test_a_half_finished_run_is_not_an_obstacle(there: dict[str, int], layout: Layout | None) -> None:
    await readiness.assure_topics(ground(there), layout)


def ground(there: dict[str, int]) -> "Ground":
    async def partitions() -> dict[str, int]:
        return there

    sides = {"before": SimpleNamespace(settings=OLD), "after": SimpleNamespace(settings=NEW)}
    return cast("Ground", SimpleNamespace(topics=SimpleNamespace(partitions=partitions), **sides))


def test_a_partition_that_was_cut_off_is_named(side: "Side") -> None:
    applied(side, 0, 1, 9)
    applied(side, 0, 1, 99, "no-input-any-more")
    assert forwards.ahead(side) == []
    applied(side, 0, 1, 10)
    assert forwards.ahead(side) == [1]
    assert "partition(s) 1 of delay were killed" in forwards.cut_off(side, [1])


def test_unapplied_requests_go_to_the_home_partition_of_their_id(side: "Side") -> None:
    moves = Moves(OLD.topics.inputs, 3, {})
    applied(side, 0, 1, 5)
    store = side.stores[0]
    before = forwards._waiting(side, store, forwarded("a", f"{OLD.topics.requests}-1-5"), moves, 0)
    assert before is None
    left = forwards._waiting(side, store, forwarded("a", f"{OLD.topics.requests}-1-6"), moves, 0)
    assert left is not None
    assert (left.home, left.source) == (home_partition("a", (), 3), (OLD.topics.requests, 1, 6))
    with pytest.raises(NotReady, match="killed while they processed a step"):
        forwards._waiting(side, store, forwarded("a", f"{OLD.topics.requests}-1-10"), moves, 0)


@pytest.mark.parametrize("value", [b"", b"\x93", encode(Request("schedule", "a", "nonsense", NOW, "x"))])
def test_an_invalid_forward_is_skipped(side: "Side", value: bytes) -> None:
    assert forwards._waiting(side, side.stores[0], Stored(3, NOW, b"a", value), Moves((), 3, {}), 0) is None
