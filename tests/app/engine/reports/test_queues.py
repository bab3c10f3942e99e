"""What consumers of queues say of themselves reaches the page, whatever becomes of their topic."""

from typing import Any

import msgspec
import pytest

from app.engine.reports import queues as module
from app.engine.reports.queues import Queues, Said
from app.serve.web.overview import overview
from app.settings.settings import Settings
from punctual.contract.queue_report import QueueReport
from tests.app.fake_topic import Log

NOW_MS = 1_800_000_000_000


def report(consumer: str = "one", **more: Any) -> QueueReport:
    return QueueReport(**{"topic": "orders", "group": "billing", "consumer": consumer, **more})


class Topic(Log):
    """The topic as the worker's connections see it, which may not be there."""

    def __init__(self) -> None:
        super().__init__(NOW_MS)
        self.there, self.now_ms = True, NOW_MS

    def say(self, one: QueueReport) -> None:
        self.records.append((one.key, msgspec.json.encode(one)))

    def partitions(self, topic: str) -> int:
        return int(self.there and not topic.startswith("unknown"))

    async def refresh(self, topics: list[str]) -> set[str]:
        return set() if self.there else set(topics)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(module, "PartitionReader", made.reader)
    return made


@pytest.fixture
def queues(topic: Any) -> Queues:
    return Queues(Settings.from_env({}).topics, topic, lambda: topic.now_ms)


async def test_the_last_report_of_each_consumer_counts(topic: Topic, queues: Queues) -> None:
    for acked in (1, 2):
        topic.say(report(acked=acked))
    topic.say(report("two", open=True))
    assert await queues._read()
    assert queues.known == [Said(report(acked=2), NOW_MS), Said(report("two", open=True), NOW_MS)]

    topic.records.append((report("two").key, None))
    await queues._read()
    assert queues.known == [Said(report(acked=2), NOW_MS)]


async def test_an_invalid_report_is_skipped(topic: Topic, queues: Queues) -> None:
    topic.records += [(None, b"{}"), (b"k", b"\xff"), (b"other", msgspec.json.encode(report())), (b"k", b'{"topic":1}')]
    topic.say(report())
    await queues._read()

    assert queues.known == [Said(report(), NOW_MS)]


async def test_without_the_topic_there_are_no_queues(topic: Topic, queues: Queues) -> None:
    topic.say(report())
    await queues._read()
    topic.there = False

    assert not await queues._read()
    assert queues.known == []


@pytest.mark.parametrize("longer", [True, False])
async def test_a_recreated_topic_is_read_from_its_beginning(topic: Topic, queues: Queues, *, longer: bool) -> None:
    topic.say(report("two"))
    topic.say(report("three"))
    await queues._read()
    if longer:
        topic.say(report("gone"))
        topic.begin = 3  # unread records were deleted
    else:
        topic.records.clear()
    topic.say(report())
    await queues._read()
    assert queues.known == []
    await queues._read()

    assert queues.known == [Said(report(), NOW_MS)]


async def test_who_reports_no_more_is_forgotten_whatever_its_clock_says(topic: Topic, queues: Queues) -> None:
    topic.say(report("before"))
    topic.now_ms += 21_000
    await queues._read()
    assert queues.known == [], "it was written long before the start"
    topic.say(report("slow clock"))
    await queues._read()
    assert queues.known == [Said(report("slow clock"), topic.now_ms)]

    topic.now_ms += 20_001
    await queues._read()
    assert queues.known == []


@pytest.mark.parametrize("wrong", ['"unacked":-1', f'"acked":{"9" * 400}', f'"consumer":"{"x" * 257}"'])
async def test_a_report_with_impossible_values_is_skipped(wrong: str, topic: Topic, queues: Queues) -> None:
    topic.records.append(
        (b"billing/orders/one", f'{{"topic":"orders","group":"billing","consumer":"one",{wrong}}}'.encode())
    )
    await queues._read()

    assert queues.known == []


def test_queues_are_summed_up_and_failing_ones_come_first() -> None:
    said = [
        Said(report(acked=5, unacked=1, lag_ms=30), NOW_MS),
        Said(report("two", acked=6, lag_ms=20), NOW_MS - 19_000),
        Said(report("gone", open=True), NOW_MS - 21_000),
        Said(report(group="mail", open=True, probes=3, nacked=9), NOW_MS),
    ]
    mail, billing = overview({}, 0, NOW_MS, queues=said).queues

    assert (mail.group, mail.breakers_open, mail.probes, mail.nacked) == ("mail", 1, 3, 9)
    assert (billing.consumers, billing.breakers_open, billing.acked, billing.unacked, billing.lag_ms) == (
        2,
        0,
        11,
        1,
        30,
    )


async def test_made_up_consumers_leave_places_for_others(
    topic: Topic, queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    topic.say(report("there before"))
    for number in range(3_000):  # of one group, of many groups of a topic, and of topics that do not exist
        topic.say(report(f"c-{number}", group="one"))
        topic.say(report("c", topic="invoices", group=f"g-{number}"))
        topic.say(report("c", topic=f"unknown-{number}"))
    await queues._read()
    assert len(queues.known) <= 2_000
    assert len(queues._places) == len(queues.known)
    assert caplog.text.count("more consumers report than can be shown") == 1

    for new in (report("new"), report("new", topic="sms"), report("new", topic="sms", group="other")):
        topic.say(new)
        await queues._read()
        assert Said(new, NOW_MS) in queues.known
    assert Said(report("there before"), NOW_MS) in queues.known

    topic.now_ms += module.SILENT_MS + 1
    await queues._read()
    assert queues.known == []
    assert not len(queues._room._all)
    assert not queues._room._of_topic


async def test_consumers_of_many_topics_are_bounded_together(topic: Topic, queues: Queues) -> None:
    for number in range(3_000):
        topic.say(report(topic=f"orders-{number}"))
    await queues._read()

    assert len(queues.known) == 2_000


async def test_a_consumer_whose_name_another_takes_leaves_its_place(topic: Topic, queues: Queues) -> None:
    topic.say(report("x", group="a/b", topic="c"))
    topic.say(report("x", group="a", topic="b/c"))  # the same key
    await queues._read()

    assert [said.report.group for said in queues.known] == ["a"]
    assert len(queues._room._all) == 1
