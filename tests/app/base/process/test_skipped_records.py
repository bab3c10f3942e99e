"""A record on an internal topic that is larger than Punctual's own is skipped unread by every reader."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from app.base.process.skipped_records import MAX_BYTES, bounded
from app.engine.ownership import unread_backlog
from app.engine.reports.latest_reports import LatestReports
from app.engine.reports.queues import Queues
from app.engine.reports.reader import decode_progress
from app.engine.throttle.controls import Controls
from app.serve.actions.job_log import JobLog
from app.serve.keys import receipt
from app.serve.messages.outcome import event_of

EVENT = b'{"event":"accepted","id":"a","at":1,"source":"delay-requests-0-1"}'
REPORT = (
    b'{"partition":0,"at":1,"fired_to":1,"positions":{},"pending":{},"overdue":0,"worker":"http://w","version":"1"}'
)
RECEIPT = b'{"kind":"receipt","request":"","gateway":"g","asked_ms":1}'


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (bounded, b"{}"),
        (lambda value: decode_progress(b"0", value), REPORT),
        (lambda value: unread_backlog._report_of(b"0", value), REPORT),
        (receipt.decode, RECEIPT),
    ],
    ids=["any", "progress", "positions", "receipts"],
)
def test_a_value_has_a_largest_size(read: Callable[[bytes], Any], value: bytes) -> None:
    assert read(value.ljust(MAX_BYTES))
    with pytest.raises(ValueError, match="1,048,577 bytes, but Punctual's own records have at most 1,048,576"):
        read(value.ljust(MAX_BYTES + 1))


def test_a_value_that_is_too_large_is_no_event() -> None:
    assert event_of(EVENT.ljust(MAX_BYTES))
    assert event_of(EVENT.ljust(MAX_BYTES + 1)) is None


def test_readers_of_controls_queues_and_jobs_continue_without_a_skipped_record() -> None:
    controls, reader = dict[Any, Any](), cast("Any", SimpleNamespace(_topic="delay-controls"))
    queues: Any = SimpleNamespace(_topic="delay-queues", _known={}, _has_place=lambda *_: True, _now_ms=lambda: 1)
    jobs: Any = SimpleNamespace(_topic="delay-jobs", jobs={}, parts={}, _resent={})
    job = (
        b'{"job_id":"j","act":"cancel","by":"b","role":"r","at_ms":1,"query":{},"actor":"a","confirm":1,"count":1,'
        b'"ends":[]}'
    )
    report = b'{"topic":"t","group":"g","consumer":"c"}'

    def take(size: int) -> None:
        Controls._take(reader, controls, 1, b"orders", b'{"paused":true}'.ljust(size))
        Queues._take(queues, SimpleNamespace(key=b"g/t/c", value=report.ljust(size), offset=1), 1)
        JobLog._take(jobs, 1, 1, b"j", job.ljust(size))

    before = [_passed(topic) for topic in ("delay-controls", "delay-queues", "delay-jobs")]
    take(MAX_BYTES + 1)
    assert not controls
    assert not queues._known
    assert [_passed(topic) for topic in ("delay-controls", "delay-queues", "delay-jobs")] == [one + 1 for one in before]
    take(MAX_BYTES)
    assert controls
    assert queues._known


def test_the_last_reports_are_read_without_it() -> None:
    reports: Any = SimpleNamespace(_last={}, _topics=SimpleNamespace(partitions=1))
    LatestReports._remember(reports, b"0", REPORT.ljust(MAX_BYTES + 1))
    assert not reports._last
    LatestReports._remember(reports, b"0", REPORT.ljust(MAX_BYTES))
    assert reports._last


def _passed(topic: str) -> float:
    return REGISTRY.get_sample_value("delay_foreign_records_total", {"topic": topic}) or 0.0
