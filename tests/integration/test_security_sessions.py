"""Brokers end sessions, tokens expire, and certificates are replaced: the worker lives through all."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.ops.doctor.acl import worker_acls
from app.settings.settings import Settings
from tests.harness.account import Account
from tests.harness.certificates import Authority
from tests.harness.guarded import SESSION_MS, Guarded
from tests.harness.kafka import Requests, create_topic, now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import Worker
from tests.integration.installation import ON_TIME_MS, PARTITIONS, Installation, late_ms, new_app_id

_EVERY_S = 0.05


@contextmanager
def _served(guarded: Guarded, place: Path, listener: str, mechanism: str = "") -> Iterator[tuple[Installation, str]]:
    """Run a worker that comes in by a listener; give it, and a destination."""
    app_id = new_app_id("sessions")
    to = create_topic(guarded.broker.bootstrap, f"{app_id}-to")
    env = {"DELAY_APP_ID": app_id, "DELAY_DESTINATIONS": to}
    guarded.grant("worker", worker_acls(Settings.from_env(env)))
    env |= guarded.env(listener, mechanism)
    inside = guarded.broker.bootstrap
    with Worker(guarded.outside(listener), app_id, place / app_id, partitions=PARTITIONS, env=env) as worker:
        worker.start().wait_ready()
        yield Installation(inside, app_id, worker, Requests(inside, app_id)), to


def test_expired_sessions_and_tokens_delay_no_message(guarded: Guarded, tmp_path: Path) -> None:
    guarded.endpoint.lasts_s = 8
    with _served(guarded, tmp_path, "SHORT", "OAUTHBEARER") as (here, to):
        asked, until, count = len(guarded.endpoint.given), time.monotonic() + 1.2 * SESSION_MS / 1000, 0
        while time.monotonic() < until:
            here.requests.schedule(f"{count}", now_ms() + 500, to, b"%d" % count)
            here.requests.flush()
            count += 1
            time.sleep(_EVERY_S)
        records = here.wait_for(to, count)
        Account.settled(here.bootstrap, here.app_id)
        assert len(records) == count
        assert max(map(late_ms, records)) < ON_TIME_MS
        assert len(guarded.endpoint.given) > asked
        # Each session is renewed in time: no connection is cut.
        assert " closed" not in here.worker.log
        assert "not sent" not in here.worker.log


def test_certificates_are_changed_while_messages_flow_and_the_worker_goes_on(guarded: Guarded, tmp_path: Path) -> None:
    with _served(guarded, tmp_path, "MUTUAL") as (here, to):
        pid, begin, count = here.worker.pid, now_ms(), 30
        for number in range(count):
            here.requests.schedule(f"{number}", begin + 300 + 100 * number, to, b"%d" % number)
        here.requests.flush()
        here.wait_for(to, 1)
        authority = Authority("second")
        guarded.broker.stop()
        guarded.certify(authority)
        guarded.broker.start()
        eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in here.worker.log, what="the worker's word on the old ones")
        guarded.certify_clients(authority)
        records = here.wait_for(to, count, 40)
        Account.settled(here.bootstrap, here.app_id)
        assert sorted(int(record.value or b"") for record in records) == list(range(count))
        assert "have changed: new connections use them" in here.worker.log
        assert here.worker.pid == pid
        assert here.worker.alive
