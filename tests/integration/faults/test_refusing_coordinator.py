"""A worker that its group refuses exits with an error message: it would be alive, and never ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev.broker import Broker, properties
from tests.harness.case import Case
from tests.harness.kafka import now_ms
from tests.harness.waiting import eventually
from tests.integration.test_doctor import doctor

pytestmark = pytest.mark.slow

_STRICT = {
    "group.min.session.timeout.ms": "10000",
    "group.max.size": "1",
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that is strict with groups."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _STRICT.items():
            patch.setitem(properties._FOR_DEVELOPMENT, name, value)
        with Broker(tmp_path_factory.mktemp("strict")) as broker:
            yield broker.bootstrap


def test_a_group_that_does_not_take_a_worker_ends_it(strict: str, tmp_path: Path) -> None:
    case = Case(strict, tmp_path)
    with case.worker("first") as first, case.worker("second") as second:
        first.start()
        assert first.wait_dead() == 1
        assert "Set DELAY_SESSION_TIMEOUT to a time between the brokers'" in first.log
        said = doctor(strict, case.app_id, DATADIR=str(tmp_path / "doctor"), DELAY_PARTITIONS="2")
        assert "the brokers allow 10000 to 1800000 ms" in said.stdout

        first.env["DELAY_SESSION_TIMEOUT"] = second.env["DELAY_SESSION_TIMEOUT"] = "PT10S"
        first.start().wait_ready()
        second.start()
        assert second.wait_dead() == 1
        assert "as many members as the brokers' group.max.size, start fewer workers" in second.log
        assert first.ready()[0]


def test_brokers_that_forget_transactional_ids_are_named(strict: str, tmp_path: Path) -> None:
    case = Case(strict, tmp_path)
    exactly_once = {"DELAY_SESSION_TIMEOUT": "PT10S", "DELAY_GUARANTEE": "exactly_once"}
    with case.worker(env=exactly_once) as worker:
        worker.start().wait_ready()
        idle_ms = now_ms() + 5_000
        eventually(lambda: now_ms() > idle_ms)
        case.schedule("a", now_ms())
        case.requests.flush()
        assert worker.wait_dead() == 1
        assert "have forgotten the transactional id" in worker.log
        said = doctor(strict, case.app_id, DATADIR=str(tmp_path / "doctor"), DELAY_PARTITIONS="2", **exactly_once)
        assert "the brokers forget transactional ids after 2000 ms" in said.stdout
