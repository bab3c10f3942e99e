"""A workbench for the pure parts of a partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.workbench import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """One partition of one, so that every id lives there, without Kafka."""
    bench = Workbench(tmp_path / "bench.db", DELAY_PARTITIONS="1")
    yield bench
    bench.assert_balanced()
    bench.close()
