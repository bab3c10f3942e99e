"""A workbench for the pure parts of a partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.base.process import skipped_records
from tests.app.workbench import Workbench


@pytest.fixture(autouse=True)
def unseen_topics() -> None:
    """Each test meets foreign records for the first time: only the first one of a topic is logged."""
    skipped_records._logged.clear()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """One partition of one, so that every id lives there, without Kafka."""
    bench = Workbench(tmp_path / "bench.db", DELAY_PARTITIONS="1")
    yield bench
    bench.assert_balanced()
    bench.close()
