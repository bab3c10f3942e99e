"""Workers on a real broker; each module runs its own installation."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.chromium import ARGUMENTS, CHROMIUM
from tests.integration.installation import Installation, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Run = Callable[..., AbstractContextManager[Installation]]


@pytest.fixture(scope="module")
def run(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs an installation: `with run("name", env=…) as installation`."""

    def run(name: str, **options: Any) -> AbstractContextManager[Installation]:
        return running(bootstrap, tmp_path_factory.mktemp(name), name, **options)

    return run


@pytest.fixture(scope="module")
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Yield a module's installation, with the usual settings."""
    name = request.module.__name__.rpartition("test_")[2]
    with run(name) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Yield Debian's Chromium to a whole module."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - skipped where there is no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()
