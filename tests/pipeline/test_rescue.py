"""`rescue` sends each lost message again once, and no other message."""

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


def test_a_lost_message_is_sent_again_exactly_once(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path)
    due_ms = NOW_MS - HOUR_MS // 2
    lost = topics.request(due_ms=due_ms, key=b"k", value=b"\xff\x00", headers=HEADERS, partition=3)
    named = topics.request("named", due_ms=due_ms, value=None)
    topics.life(topics.request(due_ms=due_ms))
    topics.event("accepted", lost, due=due_ms)
    topics.event("accepted", named, "named", due=due_ms)
    topics.progress(fired_to=NOW_MS - HOUR_MS)
    assert rescue.run(context, options(ledger, "--apply")) == 0, (
        "the worker is down, so the messages are late, but not lost"
    )

    topics.progress()
    assert rescue.run(context, options(ledger)) == 3
    with pytest.raises(RescueTooLarge, match="2 messages seem lost"):
        rescue.run(context, options(ledger, "--as-is", "--apply", "--limit", "1"))
    before = consume(topics.requests)
    assert len(before) == 3, "no message is sent without --apply, or above --limit"
    [request_ms] = [message.timestamp()[1] for message in before if message.value() == b"\xff\x00"]

    assert rescue.run(context, options(ledger, "--as-is", "--apply")) == 0
    requests_by_id = {_header(message, "delay-id"): message for message in consume(topics.requests)}
    first, second = requests_by_id[lost.encode()], requests_by_id[b"named"]
    assert (first.partition(), first.key(), first.value()) == (3, b"k", b"\xff\x00")
    assert first.headers() == [
        ("trace", b"1"),
        ("trace", None),
        ("delay-id", lost.encode()),
        ("delay-to", b"orders"),
        ("delay-at", str(due_ms).encode()),
        ("delay-max-late", b"3600000"),
        ("delay-if-late", b"drop"),
        ("delay-dedupe", b"86400000"),
        ("delay-jitter", b"0"),  # The due time already includes the jitter.
        ("delay-no-later", b"999999999999999"),  # This is the value for no limit.
        ("delay-asked-at", str(request_ms).encode()),
    ]
    assert (second.partition(), second.key(), second.value()) == (topics.home("named"), None, None)

    assert rescue.run(context, options(ledger, "--as-is", "--apply")) == 0
    assert len(consume(topics.requests)) == 5, "no message is sent twice"
    output = capsys.readouterr().out
    assert "2 lost, 2 of them sent again" in output
    assert output.endswith("nothing is lost\n")


def test_a_lost_message_whose_id_was_scheduled_or_cancelled_since_is_skipped(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    due_ms = NOW_MS - HOUR_MS
    topics.life(topics.request("again", due_ms=due_ms), "again")  # An earlier message of the id does not matter.
    rescued_ids = {"again", "refused", "resent", "checked", "older"}
    sources = {id_: topics.request(id_, due_ms=due_ms) for id_ in ("scheduled-since", "cancelled", *rescued_ids)}
    for id_, source in sources.items():
        topics.event("accepted", source, id_, due=due_ms)
    # It came later, but is the older request.
    older = topics.request("older", due_ms=due_ms, headers=[("delay-asked-at", b"1")])
    topics.life(older, "older", "replaced", by=sources["older"])
    topics.event(
        "accepted", topics.request("scheduled-since", due_ms=NOW_MS + HOUR_MS), "scheduled-since", due=NOW_MS + HOUR_MS
    )
    cancel = topics.append("requests", None, topics.home("cancelled"), headers=_cancel("cancelled"))
    topics.event("unknown", cancel, "cancelled", by=cancel)
    refused, resent = topics.request("refused", due_ms=due_ms), topics.request("resent", due_ms=due_ms)
    topics.event("refused", refused, refused)
    topics.event("duplicate", resent, "resent")
    checked = topics.append("requests", None, topics.home("checked"), headers=_cancel("checked"))
    topics.event("conflict", "elsewhere-0-1", "checked", by=checked)
    topics.progress()
    before = Counter(_header(message, "delay-id") for message in consume(topics.requests))

    assert rescue.run(context, options(str(tmp_path), "--apply")) == 0
    after = Counter(_header(message, "delay-id") for message in consume(topics.requests))
    assert after - before == dict.fromkeys((id_.encode() for id_ in rescued_ids), 1)
    output = capsys.readouterr().out
    assert "7 lost, 5 of them sent again\n2 are skipped: their IDs have been scheduled or cancelled since" in output
    assert rescue.run(context, options(str(tmp_path))) == 0, "no message is lost any more"


def test_contents_that_the_ledger_has_not_stored_come_from_kafka(
    context: JobContext, topics: TopicWriter, tmp_path: Path
) -> None:
    due_ms = NOW_MS - HOUR_MS
    topics.life(topics.request())
    lost_source = topics.request(due_ms=due_ms, value=b"kept", headers=[("trace", b"1")])
    topics.event("accepted", lost_source, due=due_ms)
    topics.request()  # It has no event, but the topic was created again, so that sources are ambiguous.
    topics.event("accepted", f"{topics.requests}-1-1000", due=due_ms)
    topics.progress(positions={topics.requests: 2_000})
    lake = context.lake(str(tmp_path), KIND)
    take_in(context, lake, values=False)
    assert created_again(lake) == [topics.requests]
    lost_rows = Judge(lake).lost()
    rows = again(lost_rows, contents(lake, context.kafka, lost_rows), (topics.requests,), PARTITIONS).collect()
    assert lost_rows.count() == 2
    assert [(row["source"], bytes(row["value"])) for row in rows] == [(lost_source, b"kept")]
    assert rows[0]["headers"][0]["key"] == "trace"


def test_a_topic_whose_name_begins_with_the_name_of_an_input_is_another_topic(
    context: JobContext, topics: TopicWriter, tmp_path: Path
) -> None:
    topics.life(topics.request())
    topics.life(f"{topics.requests}-retry-3-90000")
    topics.progress()
    lake = context.lake(str(tmp_path), KIND)
    take_in(context, lake, values=False)

    assert created_again(lake) == []


def test_a_ledger_without_events_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    ledger.request(0, 1)
    with pytest.raises(EventsMissing, match="Check --app-id"):
        Judge(ledger.lake(spark, tmp_path)).require_events()


def test_lost_messages_of_another_dialect_are_rescued_as_native_requests(
    context: JobContext,
    topics: TopicWriter,
    produce: Produce,
    consume: Consume,
    admin: AdminClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    schedules, due_ms = context.topic("schedules"), (NOW_MS - HOUR_MS) // 1_000 * 1_000
    admin.create_topics([NewTopic(schedules, PARTITIONS, 1)])[schedules].result(LIMIT_S)
    headers = {"scheduler-epoch": str(due_ms // 1_000), "scheduler-target-topic": "orders", "scheduler-target-key": "k"}
    records = [("ended", b"v"), ("silent", b"v"), ("refused", b"v"), ("gone", b"v"), ("gone", None), ("unknown", None)]
    for key, value in records:
        produce(schedules, value, key=key, headers=[] if key == "refused" else list(headers.items()), partition=1)
    for offset, id_ in ((0, "ended"), (3, "gone")):
        topics.event("accepted", f"{schedules}-1-{offset}", id_, due=due_ms)
    topics.event("refused", f"{schedules}-1-2", f"{schedules}-1-2")
    topics.progress(positions={schedules: len(records), topics.requests: 0})

    rescue_options = options(str(tmp_path), "--apply", "--inputs", f"{schedules}=etf1")
    assert rescue.run(context, rescue_options) == 0
    messages = consume(topics.requests)
    rescued_requests = [decode(FakeRecord(each.headers() or [], each.key(), each.value())) for each in messages]
    assert sorted(request.id for request in rescued_requests) == ["ended", "silent"]
    for request in rescued_requests:
        assert (request.to, request.due_ms, request.key, request.value) == ("orders", due_ms, b"k", b"v")
        assert ("scheduler-topic", schedules.encode()) in request.headers
    output = capsys.readouterr().out
    assert "3 lost, 2 of them sent again\n1 are skipped: their IDs have been scheduled or cancelled since" in output
    assert rescue.run(context, rescue_options) == 0, "no message is lost any more"
    with pytest.raises(OptionInvalid, match="--inputs a=klingon: 'klingon' is not a dialect; the dialects are native"):
        rescue.run(context, options(str(tmp_path), "--inputs", "a=klingon"))


def _cancel(id_: str) -> list[tuple[str, str]]:
    return [("delay-op", "cancel"), ("delay-id", id_)]


def _header(message: Message, name: str) -> bytes | None:
    return dict(message.headers() or []).get(name)


def test_a_lost_occurrence_of_a_series_is_sent_again_with_the_occurrences_after_it(
    context: JobContext, topics: TopicWriter, consume: Consume, tmp_path: Path
) -> None:
    due_ms = NOW_MS - HOUR_MS // 2
    series_headers = [("delay-every", b"PT1M"), ("delay-count", b"9"), ("delay-misfire", b"catch-up")]
    source = topics.request("series", due_ms=due_ms, headers=series_headers)
    topics.life(source, "series", due=due_ms)
    topics.life(source, "series", due=due_ms + 60_000, occurrence=2)
    topics.event("accepted", source, "series", due=due_ms + 120_000, occurrence=3)
    topics.progress()

    assert rescue.run(context, options(str(tmp_path), "--apply")) == 0
    _, message = consume(topics.requests)
    headers = {name: value.decode() for name, value in message.headers() or []}
    assert (headers["delay-id"], headers["delay-at"]) == ("series", str(due_ms + 120_000))
    assert (headers["delay-every"], headers["delay-count"], headers["delay-misfire"]) == ("60000", "7", "catch-up")
    request = decode(FakeRecord(list(message.headers() or []), message.key(), message.value()))
    assert request.planned_ms == due_ms + 120_000
