"""What each dialect refuses: the reason code, a part of the sentence, and a record."""

from dataclasses import replace
from typing import NamedTuple

from tests.punctual.contract.foreign import (
    AIRTEL,
    COUNTDOWN,
    DELIVER_AFTER,
    ETF1,
    KARAFKA,
    NATS,
    PUBLISH_AFTER,
    SPRING,
    beside,
    but,
)
from tests.punctual.contract.records import FakeRecord


class Case(NamedTuple):
    reason: str
    says: str
    record: FakeRecord
    #: How the input is set, if not as the others of its dialect.
    setting: str = ""


def _json(base: FakeRecord, text: str) -> FakeRecord:
    return replace(base, value=text.encode())


def _common(base: FakeRecord, due: str, *, keyed: bool = False) -> dict[str, Case]:
    """Native headers that are invalid in any dialect; `due` names the due time in this one."""
    other = {"delay_id": b"other"}
    return {
        "an unknown native header": Case("malformed", "'delay-topic'", beside(base, delay_topic=b"x")),
        "the cold tier's word": Case("malformed", "cold tier", beside(base, delay_parked=b"1,1")),
        "two due times": Case("ambiguous-due", f"{due} and delay-after are both given", beside(base, delay_after=b"1")),
        "another operation": Case("malformed", "delay-op is 'explode'", beside(base, delay_op=b"explode")),
        "an empty id": Case("malformed", "delay-id is ''", beside(base, delay_id=b""))
        if keyed
        else Case("bad-id", "0 bytes", beside(base, delay_id=b"")),
        "no text": Case("malformed", "not UTF-8", beside(base, delay_to=b"\xff")),
        **({"another id": Case("malformed", "the record's key is", beside(base, **other))} if keyed else {}),
    }


def _fixed(base: FakeRecord, due: str) -> dict[str, Case]:
    return {
        **_common(base, due),
        "another destination": Case("malformed", "but delay-to is 'x'", beside(base, delay_to=b"x")),
        "a cancel without an ID": Case(
            "bad-id", "delay-id is empty or missing", replace(base, headers=[("delay-op", b"cancel")])
        ),
        "a new time that is none": Case(
            "missing-due",
            f"{due} is missing",
            replace(base, headers=[("delay-op", b"reschedule"), ("delay-id", b"a")]),
        ),
        "a cancel with a time": Case(
            "malformed", f"delay-op is cancel, but {due}", beside(base, delay_op=b"cancel", delay_id=b"a")
        ),
    }


REFUSED: dict[str, dict[str, Case]] = {
    "countdown": {
        **_common(COUNTDOWN, "`$.countdown`"),
        "no JSON": Case("malformed", "not valid JSON: unexpected byte at offset 0.", _json(COUNTDOWN, "hello")),
        "no object": Case("malformed", "the value is a list. It must be a JSON object.", _json(COUNTDOWN, "[]")),
        "null": Case("malformed", "null", replace(COUNTDOWN, value=None)),
        "no UTF-8": Case("malformed", "UTF-8", replace(COUNTDOWN, value=b'{"message":"\xff"}')),
        "layers": Case(
            "malformed",
            "too many levels of nesting",
            _json(COUNTDOWN, '{"message":' + "[" * 100_000 + "]" * 100_000 + "}"),
        ),
        "a number for a topic": Case("malformed", "`$.topic`", _json(COUNTDOWN, '{"topic":1,"message":1}')),
        "no topic": Case("missing-destination", "`$.topic`", _json(COUNTDOWN, '{"message":"","countdown":1}')),
        "no message": Case("malformed", "`$.message` is missing", _json(COUNTDOWN, '{"topic":"t","countdown":1}')),
        "no countdown": Case("missing-due", "`$.countdown`", _json(COUNTDOWN, '{"topic":"t","message":1}')),
        "a countdown of text": Case(
            "malformed",
            "`$.countdown` is soon. It must",
            _json(COUNTDOWN, '{"topic":"t","message":1,"countdown":"soon"}'),
        ),
        "a negative one": Case(
            "malformed", "`$.countdown` is -1", _json(COUNTDOWN, '{"topic":"t","message":1,"countdown":-1}')
        ),
        "an endless one": Case(
            "malformed", "31,000 years", _json(COUNTDOWN, '{"topic":"t","message":1,"countdown":1e999999}')
        ),
        "a megabyte of digits": Case(
            "malformed", "64 digits", _json(COUNTDOWN, '{"topic":"t","message":1,"countdown":1.' + "1" * 500_000 + "}")
        ),
        "two countdowns": Case(
            "ambiguous-due", "`$.countdown` is given", _json(COUNTDOWN, '{"message":1,"countdown":1,"countdown":1}')
        ),
        "two topics": Case(
            "malformed", "`$.topic` is given twice", _json(COUNTDOWN, '{"topic":"t","message":[1.5],"topic":"t"}')
        ),
        "another destination": Case("malformed", "`$.topic` is 'T'", beside(COUNTDOWN, delay_to=b"x")),
        "thousands of fields": Case(
            "too-large", "more than 1,000 fields", _json(COUNTDOWN, '{"message":1' + ',"a":1' * 1_000 + "}")
        ),
    },
    "airtel": {
        **_common(AIRTEL, "`$.postTime`"),
        "no JSON": Case("malformed", "not valid JSON: unexpected byte at offset 0.", _json(AIRTEL, "hello")),
        "half of it": Case("malformed", "it ends too early", _json(AIRTEL, '{"topic":"t"')),
        "thousands of fields": Case(
            "too-large", "more than 1,000 fields", _json(AIRTEL, '{"value":1' + ',"a":1' * 1_000 + "}")
        ),
        "no topic": Case("missing-destination", "`$.topic`", _json(AIRTEL, '{"value":"","postTime":1}')),
        "no value": Case("malformed", "`$.value` is missing", _json(AIRTEL, '{"topic":"t","postTime":1}')),
        "no time": Case("missing-due", "`$.postTime`", _json(AIRTEL, '{"topic":"t","value":1}')),
        "text for a time": Case(
            "malformed",
            "`$.postTime` is tomorrow. It must be a number",
            _json(AIRTEL, '{"topic":"t","value":1,"postTime":"tomorrow"}'),
        ),
        "seconds": Case("malformed", "like seconds", _json(AIRTEL, '{"topic":"t","value":1,"postTime":1893456000}')),
        "thousands of digits": Case(
            "malformed",
            "`$.postTime` has more than 64 digits",
            _json(AIRTEL, '{"topic":"t","value":1,"postTime":' + "1" * 9_000 + "}"),
        ),
        "a negative time": Case("malformed", "`$.postTime`", _json(AIRTEL, '{"topic":"t","value":1,"postTime":-1}')),
        "two times": Case(
            "ambiguous-due", "`$.postTime` is given twice", _json(AIRTEL, '{"postTime":1,"value":1,"postTime":1}')
        ),
        "a header that is no text": Case(
            "malformed",
            "a part of `$.headers` is a whole number. It must be text or null",
            _json(AIRTEL, '{"topic":"t","value":1,"postTime":1,"headers":{"a":1}}'),
        ),
        "a native header in the JSON": Case(
            "malformed",
            "`$.headers` has 'delay-id'",
            _json(AIRTEL, '{"topic":"t","value":1,"postTime":1,"headers":{"delay-id":"a"}}'),
        ),
        "two addresses": Case(
            "malformed",
            "`$.failurePostCallbackUrl` is 'https://a'",
            beside(
                _json(AIRTEL, '{"topic":"t","value":1,"postTime":1,"failurePostCallbackUrl":"https://a"}'),
                delay_on_failure=b"https://b",
            ),
        ),
    },
    "etf1": {
        **_common(ETF1, "scheduler-epoch", keyed=True),
        "no key": Case("bad-id", "the record's key is empty or missing", replace(ETF1, key=None)),
        "a blank key": Case("bad-id", "the record's key is empty or missing", replace(ETF1, key=b" \t")),
        "a key that is no text": Case("bad-id", "not UTF-8", replace(ETF1, key=b"\xff")),
        "a long key": Case("bad-id", "257 bytes", replace(ETF1, key=b"k" * 257)),
        "no epoch": Case("missing-due", "scheduler-epoch", but(ETF1, scheduler_epoch=None)),
        "an epoch that is none": Case("malformed", "scheduler-epoch: 'soon'", but(ETF1, scheduler_epoch=b"soon")),
        "a negative epoch": Case("malformed", "scheduler-epoch: '-1'", but(ETF1, scheduler_epoch=b"-1")),
        "milliseconds": Case("malformed", "like milliseconds", but(ETF1, scheduler_epoch=b"1893456000000")),
        "no destination": Case("missing-destination", "target-topic", but(ETF1, scheduler_target_topic=None)),
        "a topic that is no text": Case("malformed", "target-topic is not", but(ETF1, scheduler_target_topic=b"\xff")),
        "null for something else": Case(
            "malformed", "the value is null, which cancels", beside(replace(ETF1, value=None), delay_op=b"deliver-now")
        ),
        "a cancel with a message": Case("malformed", "delay-op is cancel", beside(ETF1, delay_op=b"cancel")),
        "a message of the past": Case(
            "too-late", "it was due 6000 ms before", but(ETF1, scheduler_epoch=b"1607918330"), "etf1:PT5S"
        ),
    },
    "karafka": {
        **_common(KARAFKA, "schedule_target_epoch", keyed=True),
        "no key": Case("bad-id", "the record's key", replace(KARAFKA, key=None)),
        "no version": Case("malformed", "versions 1.x.x", but(KARAFKA, schedule_schema_version=None)),
        "the next version": Case("malformed", "'2.0.0'", but(KARAFKA, schedule_schema_version=b"2.0.0")),
        "no type": Case("malformed", "schedule_source_type is ''", but(KARAFKA, schedule_source_type=None)),
        "another type": Case("malformed", "'pause'", but(KARAFKA, schedule_source_type=b"pause")),
        "no epoch": Case("missing-due", "schedule_target_epoch", but(KARAFKA, schedule_target_epoch=None)),
        "milliseconds": Case("malformed", "like milliseconds", but(KARAFKA, schedule_target_epoch=b"1893456000000")),
        "two epochs": Case("ambiguous-due", "given twice", beside(KARAFKA, ("schedule_target_epoch", b"1"))),
        "no destination": Case("missing-destination", "target_topic", but(KARAFKA, schedule_target_topic=None)),
        "two operations": Case("malformed", "delay-op is cancel", beside(KARAFKA, delay_op=b"cancel")),
        "a cancel that is none": Case(
            "malformed",
            "schedule_source_type is cancel, which cancels, but delay-op is reschedule",
            beside(but(KARAFKA, schedule_source_type=b"cancel"), delay_op=b"reschedule"),
        ),
        "a key for the partition": Case(
            "malformed", "Only that key", beside(KARAFKA, ("schedule_target_partition_key", b"x"))
        ),
        "a partition and its key": Case(
            "malformed",
            "both given",
            beside(KARAFKA, ("schedule_target_partition_key", b"order-17"), ("schedule_target_partition", b"1")),
        ),
        "a partition that is no number": Case(
            "malformed", "whole number", beside(KARAFKA, ("schedule_target_partition", b"-1"))
        ),
        "another partition": Case(
            "malformed",
            "schedule_target_partition is '1', but delay-to-partition is '2'",
            beside(KARAFKA, ("schedule_target_partition", b"1"), delay_to_partition=b"2"),
        ),
    },
    "nats": {
        **_common(NATS, "Nats-Schedule", keyed=True),
        "no subject": Case("bad-id", "the record's key", replace(NATS, key=None)),
        "an interval that is none": Case("malformed", "is not a duration", but(NATS, Nats_Schedule=b"@every day")),
        "a short interval": Case("malformed", "Nats-Schedule: ", but(NATS, Nats_Schedule=b"@every 500ms")),
        "no cron": Case("malformed", "Nats-Schedule: ", but(NATS, Nats_Schedule=b"0 0 25 * * *")),
        "cron that never matches": Case("malformed", "never occurs", but(NATS, Nats_Schedule=b"0 * * 30 2 ?")),
        "a long duration": Case("malformed", "is not a duration", but(NATS, Nats_Schedule=b"@every " + b"1s" * 1_000)),
        "an unknown zone": Case(
            "malformed",
            "Nats-Schedule-Time-Zone: ",
            beside(but(NATS, Nats_Schedule=b"@daily"), ("Nats-Schedule-Time-Zone", b"Europe/Berln")),
        ),
        "a zone for an interval": Case(
            "malformed",
            "works only with cron",
            beside(but(NATS, Nats_Schedule=b"@every 1m"), ("Nats-Schedule-Time-Zone", b"UTC")),
        ),
        "two recurrences": Case(
            "malformed", "both given", beside(but(NATS, Nats_Schedule=b"@daily"), delay_every=b"PT1H")
        ),
        "a time without a zone": Case("malformed", "zone", but(NATS, Nats_Schedule=b"@at 2030-01-01T00:00:00")),
        "a time in digits": Case("malformed", "RFC 3339", but(NATS, Nats_Schedule=b"@at 1893456000000")),
        "no schedule": Case("missing-due", "Nats-Schedule is missing", but(NATS, Nats_Schedule=None)),
        "no target": Case("missing-destination", "Nats-Schedule-Target", but(NATS, Nats_Schedule_Target=None)),
        "two schedules": Case("ambiguous-due", "given twice", beside(NATS, ("nats-schedule", b"@hourly"))),
        "a zone": Case("malformed", "works only with cron", beside(NATS, ("Nats-Schedule-Time-Zone", b"UTC"))),
        "another subject's message": Case(
            "malformed", "is not available here", beside(NATS, ("Nats-Schedule-Source", b"a"))
        ),
        "a schedule that ends": Case("malformed", "cancel this one instead", beside(NATS, ("Nats-TTL", b"1h"))),
        "a rollup of all": Case("malformed", "It must be sub", beside(NATS, ("Nats-Schedule-Rollup", b"all"))),
        "a purge with a schedule": Case(
            "malformed", "stops one", beside(NATS, ("Nats-Scheduler", b"a"), ("Nats-Schedule-Next", b"purge"))
        ),
        "a purge without a schedule": Case(
            "malformed",
            "the subject of the schedule to stop in Nats-Scheduler",
            replace(NATS, headers=[("Nats-Schedule-Next", b"purge")]),
        ),
        "a purge on a condition": Case(
            "malformed",
            "delay-if-due",
            replace(
                NATS,
                headers=[
                    ("Nats-Scheduler", b"a"),
                    ("Nats-Schedule-Next", b"purge"),
                    ("Nats-Expected-Last-Subject-Sequence", b"7"),
                ],
            ),
        ),
        "a life that is none": Case("malformed", "Nats-Schedule-TTL is 'long'", but(NATS, Nats_Schedule_TTL=b"long")),
    },
    "spring": {
        **_fixed(SPRING, "retry_topic-backoff-timestamp"),
        "an empty time": Case("malformed", "is empty", but(SPRING, retry_topic_backoff_timestamp=b"")),
        "a negative time": Case("malformed", "is -1", but(SPRING, retry_topic_backoff_timestamp=b"\xff" * 8)),
        "a text that is not a time": Case(
            "malformed", "is not a time", but(SPRING, retry_topic_backoff_timestamp=b"2030-01-01T00:00:00.123")
        ),
    },
    "deliver-after": {
        **_fixed(DELIVER_AFTER, "deliverAfter"),
        "an empty time": Case("malformed", "deliverAfter is ''", but(DELIVER_AFTER, deliverAfter=b"")),
        "no digits": Case("malformed", "in ASCII digits", but(DELIVER_AFTER, deliverAfter=b"2030-01-01T00:00:00Z")),
        "seconds": Case("malformed", "like seconds", but(DELIVER_AFTER, deliverAfter=b"1893456000")),
        "two times": Case("ambiguous-due", "given twice", beside(DELIVER_AFTER, ("deliverAfter", b"1"))),
    },
    "publish-after": {
        **_fixed(PUBLISH_AFTER, "publish-after-ts"),
        "no time": Case("malformed", "is not a time", but(PUBLISH_AFTER, publish_after_ts=b"2022-09-01 00:00:00")),
        "seconds": Case("malformed", "like seconds", but(PUBLISH_AFTER, publish_after_ts=b"1893456000")),
        "no UTF-8": Case("malformed", "not UTF-8", but(PUBLISH_AFTER, publish_after_ts=b"\xff")),
    },
}
