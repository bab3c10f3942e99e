"""Overdue messages are counted without a scan of delivered ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.reports.overdue import overdue
from tables import keys
from tables.database import Database
from tests.app.stage import Stage


async def test_delivered_messages_are_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned, scan = list[bytes](), Database.keys

    def noted(db: Database, start: bytes, end: bytes) -> Iterator[bytes]:
        scanned.append(start)
        return scan(db, start, end)

    async with Stage(tmp_path) as stage:
        await stage.schedule("delivered", 9_000)
        stage.fire()
        stage.sender.accept()
        await stage.settle()
        for number in range(3):
            await stage.schedule(f"on its way {number}", 5_000)
        stage.fire()
        oldest = stage.partition.in_flight.oldest(stage.partition.store)
        monkeypatch.setattr(Database, "keys", noted)

        assert overdue(stage.partition, oldest, stage.clock.wall - 1_000, stage.due.throttle) == 3
        assert min(scanned) == keys.row_key(stage.clock.wall - 5_000, 0, 0)
