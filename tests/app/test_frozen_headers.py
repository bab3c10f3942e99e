"""The headers of deliveries, parked messages and dead letters, in their order, and the sentences that name some."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.memory_records import MemoryRecords

from app.engine.steps.outcomes import Rejected
from app.engine.steps.step import OutgoingRecord
from punctual.contract.request import Reason
from tests.app.stage import Stage
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW, FakeRecord, Log
from tests.punctual.contract.shapes import SCHEDULES, URL

if TYPE_CHECKING:
    from app.kafka import Ack, Batch

Headers = list[tuple[str, bytes | None]]
HORIZON = {"DELAY_PARTITIONS": "1", "DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}
FAR = NOW + 7_200_000

#: The headers of a message with every option, sent again.
EVERYTHING: Headers = [
    ("trace", b"1"),
    ("user", None),
    ("delay-id", b"everything"),
    ("delay-to", b"reminders"),
    ("delay-at", b"%d" % (NOW + 60_001)),
    ("delay-to-partition", b"2"),
    ("delay-to-cluster", b"emea"),
    ("delay-max-late", b"5000"),
    ("delay-if-late", b"drop"),
    ("delay-dedupe", b"60000"),
    ("delay-on-failure", URL.encode()),
]


def bench_at(path: Path, **env: str) -> Workbench:
    return Workbench(
        path / "bench.db", 0, **{"DELAY_PARTITIONS": "1", "DELAY_CALLBACKS": "https://example.com/*", **env}
    )


def sent_by(bench: Workbench, *records: FakeRecord) -> OutgoingRecord:
    """Take records in; return the records that the last one sends."""
    bench.run(*records)
    bench.close()
    return bench.sends[-1]


def refusal(bench: Workbench, record: FakeRecord) -> str:
    """Take a record in that is refused; return the sentence."""
    return (dict(sent_by(bench, record).headers)["delay-error"] or b"").decode()


def asking(**said: str) -> FakeRecord:
    return Log(offset=42).record(**{"delay_to": "orders", "delay_at": str(NOW), **said})


async def test_the_headers_of_a_delivery_are_the_users_then_three(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        deliveries: list[tuple[str, int, Any]] = []

        def submit(topic: str, partition: int, batch: "Batch", **_: object) -> "asyncio.Future[Ack]":
            deliveries.extend((topic, partition, one) for one in MemoryRecords(batch.build(1, 0, 0)).next_batch())
            return asyncio.get_running_loop().create_future()

        stage.sender.submit = submit  # type: ignore[method-assign]
        now = stage.clock.wall
        headers = dict(SCHEDULES["everything"].headers)
        headers |= {"delay-at": b"%d" % (now - 1), "delay-id": "ördér".encode(), "delay-to": b"orders"}
        for aside in ("delay-to-cluster", "delay-on-failure"):
            del headers[aside]
        await stage.take(0, [replace(SCHEDULES["everything"], headers=list(headers.items()), timestamp=now - 5)])
        stage.logs[0].offset = 43
        await stage.schedule("plain", delay_to="payments", delay_to_partition="1")
        stage.fire()

        assert [(topic, partition, one.key, one.value, one.headers) for topic, partition, one in deliveries] == [
            (
                "orders",
                2,
                b"k",
                b"v",
                [
                    ("trace", b"1"),
                    ("user", None),
                    ("delay-id", "ördér".encode()),
                    ("delay-due", b"%d" % (now - 1)),
                    ("delay-source", b"delay-requests-0-42"),
                ],
            ),
            (
                "payments",
                1,
                b"k",
                b"v",
                [("delay-id", b"plain"), ("delay-due", b"%d" % now), ("delay-source", b"delay-requests-0-43")],
            ),
        ]


def test_a_parked_message_has_the_headers_of_its_request_and_its_source(tmp_path: Path) -> None:
    said = [(name, b"%d" % FAR if name == "delay-at" else value) for name, value in SCHEDULES["everything"].headers]
    out = sent_by(bench_at(tmp_path, **HORIZON), replace(SCHEDULES["everything"], headers=said))

    assert (out.topic, out.partition, out.key, out.value) == ("delay-cold", 0, b"k", b"v")
    assert out.headers == [
        *((name, b"%d" % FAR if name == "delay-at" else value) for name, value in EVERYTHING),
        ("delay-op", b"schedule"),
        ("delay-source", b"delay-requests-0-42"),
        ("delay-parked", b"%d" % NOW),
        ("delay-epoch", b"0"),
    ]


def test_the_headers_of_a_parked_message_that_asks_for_little_are_few(tmp_path: Path) -> None:
    out = sent_by(bench_at(tmp_path, **HORIZON), replace(asking(delay_at=str(FAR)), key=None, value=None))

    assert (out.key, out.value) == (None, None)
    assert out.headers == [
        ("delay-id", b"delay-requests-0-42"),
        ("delay-to", b"orders"),
        ("delay-at", b"%d" % FAR),
        ("delay-op", b"schedule"),
        ("delay-source", b"delay-requests-0-42"),
        ("delay-parked", b"%d" % NOW),
        ("delay-epoch", b"0"),
    ]


def test_a_rejected_message_has_the_headers_of_its_request_and_the_reason(tmp_path: Path) -> None:
    bench = bench_at(tmp_path)
    bench.run(SCHEDULES["everything"])
    bench.run(Rejected(bench.claim("everything"), Reason.UNDELIVERABLE, "Nobody took it: näh."))
    bench.close()

    (out,) = bench.sends
    assert (out.topic, out.partition, out.key, out.value) == ("delay-dead-letters", 0, b"k", b"v")
    assert out.headers == [
        *EVERYTHING,
        ("delay-reason", b"undeliverable"),
        ("delay-error", "Nobody took it: näh.".encode()),
        ("delay-source", b"delay-requests-0-42"),
    ]


def test_values_of_zero_are_written_again(tmp_path: Path) -> None:
    bench = bench_at(tmp_path)
    bench.run(SCHEDULES["zeros"])
    bench.run(Rejected(bench.claim("delay-requests-0-42"), Reason.TOO_LATE, "Late."))
    bench.close()

    assert bench.sends[0].headers == [
        ("a", None),
        ("delay-id", b"delay-requests-0-42"),
        ("delay-to", b"orders"),
        ("delay-at", b"%d" % NOW),
        ("delay-to-partition", b"0"),
        ("delay-max-late", b"0"),
        ("delay-dedupe", b"0"),
        ("delay-reason", b"too-late"),
        ("delay-error", b"Late."),
        ("delay-source", b"delay-requests-0-42"),
    ]


def test_the_headers_of_a_refused_record_are_its_own_as_they_were_and_why(tmp_path: Path) -> None:
    said: Headers = [
        ("b", b"1"),
        ("b", None),
        ("delay-reason", b"malformed"),
        ("delay-error", b"Once."),
        ("delay-source", b"delay-requests-0-1"),
        ("delay-asked-at", b"soon"),
        ("delay-at", b"soon"),
        ("delay-due", b"7"),
        ("delay-to", None),
        ("not \udcff text", b"\xff"),
    ]
    out = sent_by(bench_at(tmp_path), FakeRecord(said, None, b"v", partition=0))

    assert (out.topic, out.partition, out.key, out.value) == ("delay-dead-letters", 0, None, b"v")
    assert out.headers == [
        ("b", b"1"),
        ("b", None),
        ("delay-at", b"soon"),
        ("delay-due", b"7"),
        ("delay-to", None),
        ("not \\udcff text", b"\xff"),
        ("delay-reason", b"malformed"),
        ("delay-error", b"the name of the header 'not \\udcff text' is not UTF-8. Rename it."),
        ("delay-source", b"delay-requests-0-42"),
    ]


def test_the_headers_of_a_forward_that_is_none_are_its_own_and_why(tmp_path: Path) -> None:
    headers: Headers = [("a", b"1"), ("delay-to", b"x"), ("delay-error", b"y")]
    out = sent_by(bench_at(tmp_path), FakeRecord(headers, b"k", b"\x90", "delay-forwards", 0, 0))

    assert out.headers[:2] == [("a", b"1"), ("delay-to", b"x")]
    assert out.headers[2] == ("delay-reason", b"malformed")
    assert (out.headers[3][1] or b"").startswith(b"this is not a forward of Punctual: ")
    assert out.headers[4:] == [("delay-source", b"delay-forwards-0-0")]


def test_a_refused_promotion_has_no_headers_of_the_cold_tier(
    tmp_path: Path,
) -> None:
    bench = bench_at(tmp_path, **HORIZON, DELAY_DESTINATIONS="payments")
    bench.run(SCHEDULES["sent back"])
    bench.close()

    (out,) = [out for out in bench.sends if out.topic == "delay-dead-letters"]
    assert out.headers == [
        ("delay-id", b"back"),
        ("delay-to", b"orders"),
        ("delay-at", b"%d" % (NOW + 60_000)),
        ("delay-to-partition", b"3"),
        ("delay-max-late", b"9"),
        ("delay-if-late", b"dead-letter"),
        ("delay-reason", b"not-allowed"),
        (
            "delay-error",
            b"DELAY_DESTINATIONS does not allow topic 'orders' for requests on delay-requests. Add it there.",
        ),
        ("delay-source", b"delay-requests-0-42"),
    ]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            asking(delay_to_cluster="mars"),
            "there is no cluster 'mars'. Add it to DELAY_CLUSTERS, or leave out delay-to-cluster.",
        ),
        (asking(delay_to_partition="8"), "topic orders has partitions 0 to 7, but delay-to-partition is 8."),
        (
            asking(delay_on_failure="http://a"),
            (
                "DELAY_CALLBACKS does not allow 'http://a' (delay-on-failure): it is not on the list of allowed "
                "URLs. Add a pattern, or leave the header out."
            ),
        ),
        (
            asking(delay_on_failure="https://example.com/" + "x" * 2_048),
            "delay-on-failure has 2,068 characters. The maximum is 2,048.",
        ),
        (
            SCHEDULES["sent back"],
            "delay-parked is only for the cold tier, which this installation does not use. Leave it out.",
        ),
    ],
)
def test_sentences_call_headers_by_their_names(tmp_path: Path, record: FakeRecord, sentence: str) -> None:
    assert refusal(bench_at(tmp_path), record) == sentence
