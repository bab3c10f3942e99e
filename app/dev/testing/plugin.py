"""The pytest plugin: fixtures for tests of programs that use Punctual. Importing it loads no module of the worker."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.dev.testing.delayed import Delayed, Options


@pytest.fixture
def delayed_options() -> "Options":
    """The options of `delayed`; override this fixture for other settings, topics or times."""
    from app.dev.testing.delayed import Options  # noqa: PLC0415 - only tests that use it pay for it

    return Options()


@pytest.fixture
def delayed(delayed_options: "Options", monkeypatch: pytest.MonkeyPatch) -> "Iterator[Delayed]":
    """A running Punctual on a simulated clock; all of Punctual's clients connect to it, whatever their servers."""
    from app.dev.testing.delayed import Delayed  # noqa: PLC0415 - only tests that use it pay for it
    from app.dev.testing.producer import opening  # noqa: PLC0415
    from punctual.client.producer import Producer  # noqa: PLC0415

    running = Delayed(delayed_options)
    monkeypatch.setattr(Producer, "open", opening(running))
    try:
        yield running
    finally:
        running.close()
