"""What is bent in Faust's worker."""

import logging

import faust
import pytest

from app.worker import Worker


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.ERROR])
def test_no_records_are_made_of_what_is_below_the_level(level: int) -> None:
    worker = Worker(faust.App("any"), loglevel=level, quiet=False)
    root = logging.Logger("root", level)  # noqa: LOG001 - not the one of the tests
    worker.on_setup_root_logger(root, level)

    assert root.isEnabledFor(level)
    assert not root.isEnabledFor(level - 1)
