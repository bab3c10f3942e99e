"""Rescue: lost messages are sent again once, and no other messages are."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from pipeline.context import JobContext
from pipeline.errors import EventsMissing, OptionInvalid, RescueTooLarge
from pipeline.jobs import rescue
from pipeline.ledger import KIND, created_again
from pipeline.ledger.intake import take_in
from pipeline.reconcile.lost import Judge
from pipeline.rescue import again, contents
from punctual.contract.native import decode
from tests.harness.waiting import LIMIT_S
from tests.pipeline.conftest import PARTITIONS, Consume, Produce
from tests.pipeline.ledger_builder import LedgerBuilder
from tests.pipeline.topic_writer import HOUR_MS, NOW_MS, TopicWriter
from tests.punctual.contract.records import FakeRecord

HEADERS = [("trace", b"1"), ("trace", None), ("delay-max-late", b"PT1H"), ("delay-if-late", b"drop")]


@pytest.fixture
def topics(context: JobContext, produce: Produce) -> TopicWriter:
    return TopicWriter(context, produce)


def options(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    rescue.add_options(parser)
    parser.add_argument("--since")
    parser.add_argument("--destination", action="append", default=[])
    parser.add_argument("--out")
    return parser.parse_args(arguments)


def test_what_is_lost_is_sent_again_exactly_once(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path)
    due = NOW_MS - HOUR_MS // 2
    lost = topics.request(due_ms=due, key=b"k", value=b"\xff\x00", headers=HEADERS, partition=3)
    named = topics.request("named", due_ms=due, value=None)
    topics.life(topics.request(due_ms=due))
    topics.event("accepted", lost, due=due)
    topics.event("accepted", named, "named", due=due)
    topics.progress(fired_to=NOW_MS - HOUR_MS)
    assert rescue.run(context, options(ledger, "--apply")) == 0, "the worker is down: late, not lost"

    topics.progress()
    assert rescue.run(context, options(ledger)) == 3
    with pytest.raises(RescueTooLarge, match="2 messages seem lost"):
        rescue.run(context, options(ledger, "--as-is", "--apply", "--limit", "1"))
    before = consume(topics.requests)
    assert len(before) == 3, "nothing is sent without --apply, or beyond --limit"
    [asked_ms] = [each.timestamp()[1] for each in before if each.value() == b"\xff\x00"]

    assert rescue.run(context, options(ledger, "--as-is", "--apply")) == 0
    sent = {_header(each, "delay-id"): each for each in consume(topics.requests)}
    first, second = sent[lost.encode()], sent[b"named"]
    assert (first.partition(), first.key(), first.value()) == (3, b"k", b"\xff\x00")
    assert first.headers() == [
        ("trace", b"1"),
        ("trace", None),
        ("delay-id", lost.encode()),
        ("delay-to", b"orders"),
        ("delay-at", str(due).encode()),
        ("delay-max-late", b"3600000"),
        ("delay-if-late", b"drop"),
        ("delay-dedupe", b"86400000"),
        ("delay-jitter", b"0"),  # it is part of the due time
        ("delay-no-later", b"999999999999999"),  # none
        ("delay-asked-at", str(asked_ms).encode()),
    ]
    assert (second.partition(), second.key(), second.value()) == (topics.home("named"), None, None)

    assert rescue.run(context, options(ledger, "--as-is", "--apply")) == 0
    assert len(consume(topics.requests)) == 5, "nothing is sent twice"
    said = capsys.readouterr().out
    assert "2 lost, 2 of them sent again" in said
    assert said.endswith("nothing is lost\n")


def test_what_its_sender_has_asked_anew_or_cancelled_is_left_alone(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    due = NOW_MS - HOUR_MS
    topics.life(topics.request("again", due_ms=due), "again")  # an earlier life says nothing of a later one
    kept = {"again", "refused", "resent", "checked", "older"}
    sources = {id_: topics.request(id_, due_ms=due) for id_ in ("anew", "cancelled", *kept)}
    for id_, source in sources.items():
        topics.event("accepted", source, id_, due=due)
    older = topics.request("older", due_ms=due, headers=[("delay-asked-at", b"1")])  # it came later, and has lost
    topics.life(older, "older", "replaced", by=sources["older"])
    topics.event("accepted", topics.request("anew", due_ms=NOW_MS + HOUR_MS), "anew", due=NOW_MS + HOUR_MS)
    cancel = topics.append("requests", None, topics.home("cancelled"), headers=_cancel("cancelled"))
    topics.event("unknown", cancel, "cancelled", by=cancel)
    refused, resent = topics.request("refused", due_ms=due), topics.request("resent", due_ms=due)
    topics.event("refused", refused, refused)
    topics.event("duplicate", resent, "resent")
    checked = topics.append("requests", None, topics.home("checked"), headers=_cancel("checked"))
    topics.event("conflict", "elsewhere-0-1", "checked", by=checked)
    topics.progress()
    before = Counter(_header(each, "delay-id") for each in consume(topics.requests))

    assert rescue.run(context, options(str(tmp_path), "--apply")) == 0
    after = Counter(_header(each, "delay-id") for each in consume(topics.requests))
    assert after - before == dict.fromkeys((id_.encode() for id_ in kept), 1)
    said = capsys.readouterr().out
    assert "7 lost, 5 of them sent again\n2 are skipped: their IDs have been scheduled or cancelled since" in said
    assert rescue.run(context, options(str(tmp_path))) == 0, "all of it is settled"


def test_contents_that_the_ledger_has_not_kept_come_from_kafka(
    context: JobContext, topics: TopicWriter, tmp_path: Path
) -> None:
    due = NOW_MS - HOUR_MS
    topics.life(topics.request())
    lost = topics.request(due_ms=due, value=b"kept", headers=[("trace", b"1")])
    topics.event("accepted", lost, due=due)
    topics.request()  # no event, but the topic was created again: nobody knows which request has which source
    topics.event("accepted", f"{topics.requests}-1-1000", due=due)
    topics.progress(positions={topics.requests: 2_000})
    lake = context.lake(str(tmp_path), KIND)
    take_in(context, lake, values=False)
    assert created_again(lake) == [topics.requests]
    judged = Judge(lake).lost()
    found = again(judged, contents(lake, context.kafka, judged), (topics.requests,), PARTITIONS).collect()
    assert judged.count() == 2
    assert [(row["source"], bytes(row["value"])) for row in found] == [(lost, b"kept")]
    assert found[0]["headers"][0]["key"] == "trace"


def test_a_topic_whose_name_begins_with_an_inputs_says_nothing_of_that(
    context: JobContext, topics: TopicWriter, tmp_path: Path
) -> None:
    topics.life(topics.request())
    topics.life(f"{topics.requests}-retry-3-90000")
    topics.progress()
    lake = context.lake(str(tmp_path), KIND)
    take_in(context, lake, values=False)

    assert created_again(lake) == []


def test_without_events_nothing_is_known(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    ledger.request(0, 1)
    with pytest.raises(EventsMissing, match="Check --app-id"):
        Judge(ledger.lake(spark, tmp_path)).require_events()


def test_another_dialects_messages_are_judged_and_rescued_as_native_requests(
    context: JobContext,
    topics: TopicWriter,
    produce: Produce,
    consume: Consume,
    admin: AdminClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    schedules, due = context.topic("schedules"), (NOW_MS - HOUR_MS) // 1_000 * 1_000
    admin.create_topics([NewTopic(schedules, PARTITIONS, 1)])[schedules].result(LIMIT_S)
    said = {"scheduler-epoch": str(due // 1_000), "scheduler-target-topic": "orders", "scheduler-target-key": "k"}
    sent = [("ended", b"v"), ("silent", b"v"), ("refused", b"v"), ("gone", b"v"), ("gone", None), ("unknown", None)]
    for key, value in sent:
        produce(schedules, value, key=key, headers=[] if key == "refused" else list(said.items()), partition=1)
    for offset, id_ in ((0, "ended"), (3, "gone")):
        topics.event("accepted", f"{schedules}-1-{offset}", id_, due=due)
    topics.event("refused", f"{schedules}-1-2", f"{schedules}-1-2")
    topics.progress(positions={schedules: len(sent), topics.requests: 0})

    ledger = options(str(tmp_path), "--apply", "--inputs", f"{schedules}=etf1")
    assert rescue.run(context, ledger) == 0
    again = [decode(FakeRecord(one.headers() or [], one.key(), one.value())) for one in consume(topics.requests)]
    assert sorted(asked.id for asked in again) == ["ended", "silent"]
    for asked in again:
        assert (asked.to, asked.due_ms, asked.key, asked.value) == ("orders", due, b"k", b"v")
        assert ("scheduler-topic", schedules.encode()) in asked.headers
    said_so = capsys.readouterr().out
    assert "3 lost, 2 of them sent again\n1 are skipped: their IDs have been scheduled or cancelled since" in said_so
    assert rescue.run(context, ledger) == 0, "all of it is settled"
    with pytest.raises(OptionInvalid, match="--inputs a=klingon: 'klingon' is not a dialect; the dialects are native"):
        rescue.run(context, options(str(tmp_path), "--inputs", "a=klingon"))


def _cancel(id_: str) -> list[tuple[str, str]]:
    return [("delay-op", "cancel"), ("delay-id", id_)]


def _header(message: Message, name: str) -> bytes | None:
    return dict(message.headers() or []).get(name)


def test_of_a_series_the_occurrence_that_is_lost_and_those_after_it_are_sent_again(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path
) -> None:
    due = NOW_MS - HOUR_MS // 2
    every = [("delay-every", b"PT1M"), ("delay-count", b"9"), ("delay-misfire", b"catch-up")]
    source = topics.request("series", due_ms=due, headers=every)
    topics.life(source, "series", due=due)
    topics.life(source, "series", due=due + 60_000, occurrence=2)
    topics.event("accepted", source, "series", due=due + 120_000, occurrence=3)
    topics.progress()

    assert rescue.run(context, options(str(tmp_path), "--apply")) == 0
    _, sent = consume(topics.requests)
    said = {name: value.decode() for name, value in sent.headers() or []}
    assert (said["delay-id"], said["delay-at"]) == ("series", str(due + 120_000))
    assert (said["delay-every"], said["delay-count"], said["delay-misfire"]) == ("60000", "7", "catch-up")
    asked = decode(FakeRecord(list(sent.headers() or []), sent.key(), sent.value()))
    assert asked.planned_ms == due + 120_000
