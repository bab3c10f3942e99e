"""An input that was created again is noticed: a consumer goes back when the log ends before its position."""

from pathlib import Path

import pytest

from app.base.errors import InputGone
from tests.app.stage import Stage
from tests.punctual.contract.records import NOW


@pytest.mark.parametrize("ingested", [True, False])
async def test_records_that_go_back_are_not_taken(tmp_path: Path, *, ingested: bool) -> None:
    async with Stage(tmp_path) as stage:
        records = [stage.logs[0].record(NOW, delay_to="orders", delay_at=str(NOW)) for _ in range(4)]
        offered = stage.partition.offer(records)
        if ingested:
            await offered
        with pytest.raises(InputGone, match="delay-requests: deleted, created again, or truncated"):
            stage.partition.offer(records[3:])
        await offered

        assert stage.stores[0].positions["delay-requests"].offset == 4
