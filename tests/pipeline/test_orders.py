"""The expected deliveries follow from the commands, and each other delivery is a fault."""

from tests.harness.kafka import Record
from tests.pipeline.orders import Wanted, faults, wanted


def order(stamp: int, partition: int = 0, offset: int = 0, value: bytes | None = None, **said: object) -> Record:
    said = {"delay-id": "a", **{f"delay-{name}": text for name, text in said.items()}}
    return Record(
        "r", partition, offset, stamp, None, value, [(name, str(text).encode()) for name, text in said.items()]
    )


def delivery(id_: str = "a", at: int = 50, value: bytes = b"v", due: int = 50) -> Record:
    return Record("out", 0, 0, at, None, value, [("delay-id", id_.encode()), ("delay-due", b"%d" % due)])


def test_the_order_given_last_counts() -> None:
    asked = order(10, value=b"v", at=50)
    assert wanted([asked]) == {"a": Wanted(b"v", 50, at_once=False)}
    assert wanted([asked, order(11, 1, op="cancel")]) == {}
    assert wanted([asked, order(9, 1, op="cancel")]).keys() == {"a"}
    assert wanted([asked, order(10, 1, op="cancel")]) == {}, "of one millisecond the higher partition is the later"
    assert wanted([asked, order(12, 1, op="reschedule", at=60)]) == {"a": Wanted(b"v", 60, at_once=False)}
    assert wanted([asked, order(12, 1, op="deliver-now")]) == {"a": Wanted(b"v", 12, at_once=True)}
    assert wanted([order(12, op="reschedule", at=60)]) == {}
    assert wanted([asked, order(40, value=b"v", parked="10,20", at=70)]) == wanted([asked]), "sent by the cold tier"


def test_a_timestamp_that_goes_back_is_no_earlier_order() -> None:
    records = [order(20, 1, 0, id="b", at=5), order(10, 1, 1, op="cancel"), order(15, 0, 0, b"v", at=50)]
    assert "a" not in wanted(records), "the cancel's partition had shown 20"


def test_whatever_is_wrong_is_found() -> None:
    expected = {"a": Wanted(b"v", 50, at_once=False)}
    assert faults(expected, {"a": [delivery()]}) == []
    assert faults(expected, {}) == ["a is lost"]
    wrong = {
        "delivered 2 times": [delivery(), delivery()],
        "came as": [delivery(value=b"old")],
        "instead of": [delivery(due=49)],
        "1 ms early": [delivery(at=49)],
    }
    for what, records in wrong.items():
        [said] = faults(expected, {"a": records})
        assert what in said
    assert faults(expected, {"a": [delivery()], "b": [delivery("b")]}) == ["b was delivered though cancelled"]
