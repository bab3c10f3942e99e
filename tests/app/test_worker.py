"""The changes to Faust's worker."""

import asyncio
import logging

import faust
import pytest
import uvloop
from mode.utils.loops import get_event_loop

from app.worker import Worker


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
def test_no_log_records_are_created_below_the_level(level: int) -> None:
    worker = Worker(faust.App("any"), loglevel=level, quiet=False, loop=asyncio.new_event_loop())
    root = logging.Logger("root", level)  # noqa: LOG001 - a logger apart from the tests' own
    worker.on_setup_root_logger(root, level)
    worker.loop.close()

    assert root.isEnabledFor(level)
    assert not root.isEnabledFor(level - 1)


def test_it_and_its_services_run_on_uvloop() -> None:
    app = faust.App("any")
    worker = Worker(app, loop=get_event_loop())
    try:
        assert [type(it.loop) for it in (worker, app)] == [uvloop.Loop] * 2
        assert app.loop is worker.loop is get_event_loop()
    finally:
        worker.loop.close()
