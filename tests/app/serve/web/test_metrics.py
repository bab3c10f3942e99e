"""The metrics of one worker: a sum over all workers must count each message once."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.engine.reports.queues import Said
from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.web import metrics
from app.serve.web.metrics import SERIES, exposition
from app.serve.web.routes import register
from app.settings.quotas import Quota
from punctual.contract.queue_report import QueueReport
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from tests.app.serve.web.conftest import FakeState

NOW_MS = 1_800_000_000_000

Record = Callable[..., dict[str, Any]]


def lines(state: "FakeState") -> set[str]:
    return set(asyncio.run(exposition(state)).decode().split("\n"))


def test_a_worker_counts_only_the_partitions_that_it_owns(state: "FakeState", record: Record) -> None:
    state.report(record(0, pending={"orders": 10, 'od"d': 1}, overdue=2, paced={"sms": NOW_MS - 5_000}))
    state.wants = Wanted({"orders": Control(paused=True)}, {"sms": Rate(20.0)})
    state.report(record(1, pending={"orders": 500}, overdue=9))  # another machine's, with the same address
    assert {
        'delay_pending_messages{destination="orders"} 10.0',
        'delay_pending_messages{destination="od\\"d"} 1.0',
        "delay_overdue_messages 2.0",
        "delay_next_due_timestamp_seconds 1.80000006e+09",
        'delay_destination_paced_due_timestamp_seconds{destination="sms"} 1.799999995e+09',
        'delay_destination_paused{destination="orders"} 1.0',
        'delay_destination_rate_per_second{destination="sms"} 20.0',
        'delay_partition_owner_info{partition="0",worker="http://127.0.0.1:6066"} 1.0',
        "delay_recovery_remaining_records 0.0",
    } <= lines(state)
    assert not [line for line in lines(state) if 'partition="1"' in line]


def test_labels_that_others_choose_cannot_end_the_exposition(state: "FakeState", record: Record) -> None:
    evil = 'a"b\\c\nd\x00e\x1bf\x85g\u2028h\u202ei\ud800'
    harmless = evil.removesuffix("\ud800")  # which no JSON has
    state.report(record(0, pending={harmless: 1}, worker=harmless))
    state.said = [Said(QueueReport(topic=evil, group=evil, consumer="one", unacked=2), NOW_MS)]
    state.wants = Wanted({evil: Control(paused=True)}, {evil: Rate(20.0)})
    text = asyncio.run(exposition(state)).decode()

    assert [char for char in text if char != "\n" and not char.isprintable()] == []
    found = {
        sample.labels.get("topic") or sample.labels.get("destination")
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name in ("delay_queue_unacked_messages", "delay_destination_paused")
    }
    assert found == {'a"b\\c\\nd\\x00e\\x1bf\\x85g\\u2028h\\u202ei\\ud800'}


def test_held_and_overdue_messages_have_their_age(state: "FakeState", record: Record) -> None:
    state.report(record(0))
    assert "delay_oldest_overdue_seconds 0.0" in lines(state)
    state.report(record(0, overdue=3, next_due=NOW_MS - 7_000))
    assert "delay_oldest_overdue_seconds 7.0" in lines(state)
    state.report(record(0, overdue=3, next_due=NOW_MS - 7_000, held={"orders": NOW_MS - 60_000}))
    assert {"delay_oldest_overdue_seconds 60.0", 'delay_destination_held{destination="orders"} 1.0'} <= lines(state)
    state.report(record(0, overdue=3, next_due=NOW_MS - 7_000, paced={"sms": NOW_MS - 7_000}))
    assert "delay_oldest_overdue_seconds 0.0" in lines(state)
    assert any(line.startswith('delay_build_info{kernel="o') for line in lines(state))


def test_namespaces_have_their_pending_messages_and_quotas(state: "FakeState", record: Record) -> None:
    state.quotas = {"orders": Quota(100, 5_000), "billing": None}
    state.report(
        record(
            0, namespaces={"orders": {"messages": 3, "bytes": 70, "remembered": 5}, "gone": {"messages": 1, "bytes": 2}}
        )
    )
    state.report(record(1, namespaces={"orders": {"messages": 9, "bytes": 99}}))
    assert {line for line in lines(state) if line.startswith("delay_namespace")} == {
        'delay_namespace_pending_messages{namespace="billing"} 0.0',
        'delay_namespace_pending_messages{namespace="gone"} 1.0',
        'delay_namespace_pending_messages{namespace="orders"} 3.0',
        'delay_namespace_pending_bytes{namespace="billing"} 0.0',
        'delay_namespace_pending_bytes{namespace="gone"} 2.0',
        'delay_namespace_pending_bytes{namespace="orders"} 70.0',
        'delay_namespace_remembered_ids{namespace="billing"} 0.0',
        'delay_namespace_remembered_ids{namespace="gone"} 0.0',
        'delay_namespace_remembered_ids{namespace="orders"} 5.0',
        'delay_namespace_quota_remembered_ids{namespace="orders"} 1e+06',
        'delay_namespace_quota_messages{namespace="orders"} 100.0',
        'delay_namespace_quota_bytes{namespace="orders"} 5000.0',
    }


def test_messages_of_unnamed_destinations_are_counted_under_a_name_that_no_topic_has(
    state: "FakeState", record: Record
) -> None:
    state.report(record(0, pending_rest={"destinations": 2, "messages": 30}))
    assert 'delay_pending_messages{destination="(others)"} 30.0' in lines(state)


def test_a_report_that_is_repeated_while_the_partition_is_restored_counts_no_more(
    state: "FakeState", record: Record
) -> None:
    state.report(record(0, at=NOW_MS - 20_000, state="restoring"), appended_ms=NOW_MS)
    assert not [line for line in lines(state) if line.startswith("delay_pending_messages{")]


def test_a_partition_that_is_no_longer_reported_is_not_counted(state: "FakeState", record: Record) -> None:
    state.report(record(0, overdue=2), appended_ms=NOW_MS - 20_000)
    found = lines(state)
    assert "delay_overdue_messages 0.0" in found
    assert not [line for line in found if line.startswith(("delay_pending_messages{", "delay_next_due"))]


def test_the_rest_of_a_recovery_is_counted(state: "FakeState") -> None:
    state.restores = [{"partition": 3, "done": 100, "total": 1100, "rows_per_s": None, "seconds_left": None}]
    assert "delay_recovery_remaining_records 1000.0" in lines(state)


def test_metrics_of_the_whole_process_are_included(state: "FakeState") -> None:
    assert [line for line in lines(state) if line.startswith("python_info{")]


@pytest.mark.parametrize("reason", [None, "restoring partition 3"])
async def test_metrics_are_served_whether_the_worker_is_ready_or_not(state: "FakeState", reason: str | None) -> None:
    state.reason = reason
    web_app = web.Application()
    register(web_app, state)
    async with TestClient(TestServer(web_app)) as client:
        answer = await client.get("/metrics")
        assert (answer.status, answer.content_type) == (200, "text/plain")
        assert "delay_overdue_messages 0.0" in await answer.text()


def test_the_number_of_series_with_names_of_others_has_a_maximum(state: "FakeState") -> None:
    names = [f"to-{number}" for number in range(600)]
    state.wants = Wanted(dict.fromkeys(names, Control(paused=True)), dict.fromkeys(names, Rate(20.0)))
    state.said = [
        Said(QueueReport(topic="orders", group=f"group-{number}", consumer="one", unacked=2), NOW_MS)
        for number in range(700)
    ]
    found = lines(state)

    assert sum(line.startswith("delay_destination_paused{") for line in found) == SERIES + 1
    assert 'delay_destination_paused{destination="(others)"} 100.0' in found
    assert sum(line.startswith("delay_destination_rate_per_second{") for line in found) == SERIES
    assert sum(line.startswith("delay_queue_unacked_messages{") for line in found) == SERIES + 1
    assert 'delay_queue_unacked_messages{group="(others)",topic="(others)"} 400.0' in found


def test_the_text_is_made_off_the_event_loop(state: "FakeState", monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[threading.Thread]()

    def made(registry: CollectorRegistry) -> bytes:
        threads.add(threading.current_thread())
        return generate_latest(registry)

    monkeypatch.setattr(metrics, "generate_latest", made)
    assert lines(state)
    assert threads
    assert threading.current_thread() not in threads
