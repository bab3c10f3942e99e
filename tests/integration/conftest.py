"""Workers on a real broker; each module runs its own installation."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.integration.installation import Installation, running

Run = Callable[..., AbstractContextManager[Installation]]


@pytest.fixture(scope="module")
def run(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs an installation: `with run("name", env=…) as installation`."""

    def run(name: str, **options: Any) -> AbstractContextManager[Installation]:
        return running(bootstrap, tmp_path_factory.mktemp(name), name, **options)

    return run


@pytest.fixture(scope="module")
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """An installation with the usual settings, for a whole module."""
    name = request.module.__name__.rpartition("test_")[2]
    with run(name) as made:
        yield made
