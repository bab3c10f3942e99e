"""The expected deliveries follow from the commands, and every other delivery is a fault."""

from tests.harness.kafka import Record
from tests.pipeline.command_plan import ExpectedDelivery, expected_deliveries, faults


def command(stamp: int, partition: int = 0, offset: int = 0, value: bytes | None = None, **options: object) -> Record:
    headers = {"delay-id": "a", **{f"delay-{name}": text for name, text in options.items()}}
    return Record(
        "r", partition, offset, stamp, None, value, [(name, str(text).encode()) for name, text in headers.items()]
    )


def delivery(id_: str = "a", at: int = 50, value: bytes = b"v", due: int = 50) -> Record:
    return Record("out", 0, 0, at, None, value, [("delay-id", id_.encode()), ("delay-due", b"%d" % due)])


def test_the_last_command_decides() -> None:
    schedule = command(10, value=b"v", at=50)
    assert expected_deliveries([schedule]) == {"a": ExpectedDelivery(b"v", 50, at_once=False)}
    assert expected_deliveries([schedule, command(11, 1, op="cancel")]) == {}
    assert expected_deliveries([schedule, command(9, 1, op="cancel")]).keys() == {"a"}
    assert expected_deliveries([schedule, command(10, 1, op="cancel")]) == {}, (
        "at the same millisecond, the command in the higher partition is the later one"
    )
    assert expected_deliveries([schedule, command(12, 1, op="reschedule", at=60)]) == {
        "a": ExpectedDelivery(b"v", 60, at_once=False)
    }
    assert expected_deliveries([schedule, command(12, 1, op="deliver-now")]) == {
        "a": ExpectedDelivery(b"v", 12, at_once=True)
    }
    assert expected_deliveries([command(12, op="reschedule", at=60)]) == {}
    assert expected_deliveries([schedule, command(40, value=b"v", parked="10,20", at=70)]) == expected_deliveries(
        [schedule]
    ), "the cold tier sent the second record"


def test_a_lower_timestamp_in_a_partition_does_not_make_a_command_earlier() -> None:
    records = [command(20, 1, 0, id="b", at=5), command(10, 1, 1, op="cancel"), command(15, 0, 0, b"v", at=50)]
    assert "a" not in expected_deliveries(records), "the cancel is in a partition that had a timestamp of 20 before"


def test_each_kind_of_fault_is_reported() -> None:
    expected = {"a": ExpectedDelivery(b"v", 50, at_once=False)}
    assert faults(expected, {"a": [delivery()]}) == []
    assert faults(expected, {}) == ["a is lost"]
    faulty_records = {
        "delivered 2 times": [delivery(), delivery()],
        "came as": [delivery(value=b"old")],
        "instead of": [delivery(due=49)],
        "1 ms early": [delivery(at=49)],
    }
    for fault, records in faulty_records.items():
        [sentence] = faults(expected, {"a": records})
        assert fault in sentence
    assert faults(expected, {"a": [delivery()], "b": [delivery("b")]}) == ["b was delivered though cancelled"]
