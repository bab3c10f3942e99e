"""One installation for each test, gone when the test is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.case import Case


@pytest.fixture
def case(bootstrap: str, tmp_path: Path) -> Iterator[Case]:
    """An installation of two partitions for one test."""
    made = Case(bootstrap, tmp_path)
    yield made
    made.remove()
