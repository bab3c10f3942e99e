"""Quotas: what may wait of a namespace, here and on all workers together."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.steps.outcomes import Rejected
from punctual.contract import headers as names
from punctual.contract import request
from punctual.contract.request import Reason
from tables import NamespaceShare
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW, FakeRecord, Log

DUE = NOW + 60_000
INPUTS = {
    "DELAY_INPUTS": "orders-delays=native,billing-delays=native",
    "DELAY_NAMESPACES": "orders-delays=orders,billing-delays=billing",
    "DELAY_CALLBACKS": "https://example.com/*",
}


class Limited(Workbench):
    """A partition whose namespace `orders` may have three messages of ten bytes waiting, and `billing` all it likes."""

    def __init__(self, path: Path, quotas: str = "orders=messages:3|bytes:10", **env: str) -> None:
        super().__init__(path, 0, DELAY_PARTITIONS="1", DELAY_QUOTAS=quotas, **INPUTS, **env)
        self.orders = Log("orders-delays")

    def asked(self, id_: str | None = None, value: bytes = b"v", /, **said: str) -> FakeRecord:
        """Return a request of the team `orders`."""
        named = {} if id_ is None else {"delay_id": id_}
        record = self.orders.record(self.now_ms, delay_to="orders", delay_at=str(DUE), **named, **said)
        return replace(record, value=value)

    def outcomes_of(self, *records: FakeRecord) -> list[str]:
        """Return the events of records that are taken in in one step."""
        told = self.run(*records)
        return [event.get("reason") or event["event"] for event in told if event["event"] != "replaced"]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    limited = Limited(tmp_path / "limited.db")
    yield limited
    limited.assert_balanced()
    limited.close()


def report(**waiting: NamespaceShare) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(namespaces=waiting, requests={}))


def test_no_more_messages_wait_than_the_quota_says(limited: Limited) -> None:
    asked = [limited.asked(f"m{number}") for number in range(5)]

    assert limited.outcomes_of(*asked) == ["accepted"] * 3 + ["quota"] * 2
    assert limited.pending() == {f"orders/m{number}": DUE for number in range(3)}
    letter = dict(limited.sends[0].headers)
    assert (letter[names.REASON], letter[names.SOURCE]) == (b"quota", source(asked[3]).encode())
    assert b"the quota of 3 pending messages of the namespace orders is used up" in (letter[names.ERROR] or b"")


def test_step_by_step_it_is_the_same(limited: Limited) -> None:
    told = [limited.outcomes_of(limited.asked()) for _ in range(5)]

    assert told == [["accepted"]] * 3 + [["quota"]] * 2


def test_a_delivered_or_cancelled_message_makes_room(limited: Limited) -> None:
    limited.run(*(limited.asked(f"m{number}") for number in range(3)))
    limited.run(limited.delivered(limited.claim("orders/m0")))
    limited.now_ms += 1
    limited.run(limited.orders.record(limited.now_ms, delay_op="cancel", delay_id="m1"))

    assert limited.outcomes_of(*(limited.asked() for _ in range(3))) == ["accepted"] * 2 + ["quota"]


def test_what_replaces_or_commands_is_not_refused_for_number(limited: Limited) -> None:
    limited.run(*(limited.asked(f"m{number}") for number in range(3)))
    limited.now_ms += 1

    assert limited.outcomes_of(limited.asked("m0", b"w"), limited.asked("m0", b"")) == ["accepted"] * 2
    for op in ("reschedule", "deliver-now", "cancel"):
        record = limited.orders.record(limited.now_ms, delay_op=op, delay_id="m0", delay_at=str(DUE + 5))
        assert limited.outcomes_of(record) == ["cancelled" if op == "cancel" else "rescheduled"]


def test_no_more_bytes_wait_than_the_quota_says(limited: Limited) -> None:
    assert limited.outcomes_of(limited.asked("a", b"123456789"), limited.asked("b", b"")) == ["accepted", "quota"]
    letter = dict(limited.sends[-1].headers)
    assert b"the quota of 10 bytes of pending messages of the namespace orders is used up" in (
        letter[names.ERROR] or b""
    )
    limited.now_ms += 1

    assert limited.outcomes_of(limited.asked("a", b"1234567890")) == ["quota"]
    assert limited.outcomes_of(limited.asked("a", b"123456789")) == ["accepted"]
    assert limited.outcomes_of(limited.asked("b", b"")) == ["quota"]
    limited.now_ms += 1
    assert limited.outcomes_of(limited.asked("a", b"")) == ["accepted"]
    assert limited.outcomes_of(limited.asked("b", b"")) == ["accepted"]


def test_headers_and_keys_count_too(limited: Limited) -> None:
    assert limited.outcomes_of(limited.asked(None, b"", user="12345"), limited.asked(None, b"")) == [
        *("accepted", "quota")
    ]


def test_other_namespaces_and_messages_without_a_namespace_have_their_own_room(limited: Limited) -> None:
    limited.run(*(limited.asked() for _ in range(3)))
    billing = Log("billing-delays")
    for _ in range(5):
        limited.run(billing.record(NOW, delay_to="orders", delay_at=str(DUE)))
        limited.ask(delay_to="orders", delay_at=str(DUE))

    assert len(limited.pending()) == 13


def test_whoever_names_an_id_in_full_uses_its_namespaces_room(limited: Limited) -> None:
    for number in range(4):
        limited.schedule(f"orders/m{number}", DUE)

    assert limited.events[-1]["reason"] == "quota"


def test_messages_on_other_workers_count_as_last_reported(limited: Limited) -> None:
    limited.reports[7] = report(orders=NamespaceShare(2, 4))
    assert limited.outcomes_of(limited.asked(), limited.asked()) == ["accepted", "quota"]

    limited.reports[7] = report(orders=NamespaceShare(1, 2))
    assert limited.outcomes_of(limited.asked(), limited.asked()) == ["accepted", "quota"]


def test_the_report_of_a_partition_that_is_here_does_not_count_twice(limited: Limited) -> None:
    limited.reports[0] = report(orders=NamespaceShare(3, 6))

    assert limited.outcomes_of(limited.asked()) == ["accepted"]


def test_the_report_of_a_partition_counts_while_it_is_restored_here(limited: Limited) -> None:
    limited.stores[5] = limited.store
    limited.reports[5] = report(orders=NamespaceShare(1, 2))
    limited.restoring.add(5)

    assert limited.outcomes_of(*(limited.asked() for _ in range(3))) == ["accepted"] * 2 + ["quota"]


def test_reports_are_read_again_after_a_while_even_if_there_seems_to_be_room(limited: Limited) -> None:
    assert limited.outcomes_of(limited.asked()) == ["accepted"]
    limited.reports[7] = report(orders=NamespaceShare(2, 4))
    limited.seconds += 0.4
    assert limited.outcomes_of(limited.asked()) == ["accepted"]
    limited.seconds += 0.1
    assert limited.outcomes_of(limited.asked()) == ["quota"]


def test_with_a_quota_of_zero_no_message_is_accepted(tmp_path: Path) -> None:
    limited = Limited(tmp_path / "none.db", quotas="*=messages:0")
    assert limited.outcomes_of(limited.asked()) == ["quota"]
    limited.close()


def test_a_forwarded_request_beyond_the_quota_of_its_home_becomes_a_dead_letter_with_its_headers(
    limited: Limited,
) -> None:
    limited.run(*(limited.asked() for _ in range(3)))
    log = Log("orders-delays", 2)
    said = {"delay_to": "orders", "delay_every": "PT1H", "delay_on_failure": "https://example.com/back"}
    asked = limited.settings.topics.dialect("orders-delays").decode(log.record(NOW, delay_id="z", **said))
    limited.run(replace(limited.forwards.record(NOW), headers=[], key=b"orders/z", value=request.encode(asked)))

    assert limited.told()[-1] == ("refused", "orders-delays-2-0", None)
    assert limited.events[-1]["id"] == "orders/z"
    letter = limited.sends[-1]
    assert (letter.topic, letter.partition, letter.key, letter.value) == ("delay-dead-letters", 0, b"k", b"v")
    assert dict(letter.headers)[names.REASON] == b"quota"
    limited.run(limited.delivered(limited.claim(next(iter(limited.pending())))))
    limited.run(replace(limited.log.record(NOW), headers=letter.headers))
    assert limited.pending()["orders/z"] == asked.due_ms
    [series] = [entry.series for _, entry in limited.store.rows() if entry.id == "orders/z"]
    assert series is not None


def test_without_room_for_messages_no_callback_is_held(limited: Limited) -> None:
    said = {"delay_on_failure": "https://example.com/back"}
    limited.run(*(limited.asked() for _ in range(3)))
    limited.run(limited.asked(**said))
    limited.run(replace(limited.asked(**said), headers=[("delay-on-failure", b"https://example.com/back")]))

    assert [event["reason"] for event in limited.events[-2:]] == ["quota", "missing-destination"]
    assert [entry for _, entry in limited.store.rows() if entry.url is not None] == []


def test_a_request_beyond_the_rate_gets_no_callback(tmp_path: Path) -> None:
    limited = Limited(tmp_path / "rate.db", "orders=rate:1/s")
    said = {"delay_on_failure": "https://example.com/back"}
    limited.run(*(limited.asked(**said) for _ in range(11)))

    assert limited.events[-1]["reason"] == "quota"
    assert [entry for _, entry in limited.store.rows() if entry.url is not None] == []
    limited.close()


def test_callbacks_that_wait_count(limited: Limited) -> None:
    said = {"delay_on_failure": "https://example.com/back"}
    limited.run(limited.asked("m0", **said))
    limited.run(Rejected(limited.claim("orders/m0"), Reason.UNDELIVERABLE, "gone"))

    assert limited.store.shares is not None
    assert limited.store.shares.known["orders"].messages == 1


def test_a_promoted_message_was_accepted_before_and_counts_no_more(tmp_path: Path) -> None:
    cold = {"DELAY_HORIZON": "P1D", "DELAY_DEDUPE_WINDOW": "PT10M"}
    limited = Limited(tmp_path / "cold.db", "orders=messages:1", **cold)
    far = limited.orders.record(NOW, delay_to="orders", delay_at=str(NOW + 5 * 86_400_000), delay_id="far")
    limited.run(far)
    limited.run(limited.asked("near"))
    limited.promote("orders/far", DUE, source(far), stamp=NOW)
    limited.promote("orders/of-another-life", DUE, "delay-requests-0-999")

    assert set(limited.pending()) == {"orders/near", "orders/far", "orders/of-another-life"}
    limited.close()
