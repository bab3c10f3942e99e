"""Lines of libraries below the level of a warning are left out; all lines of Punctual are written."""

import logging

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    KafkaConnectionError,
    NotLeaderForPartitionError,
)

from app.base.process.library_logs import LibraryLogFilter, silent


@pytest.mark.parametrize(
    ("name", "level", "message", "written"),
    [
        ("faust.app.base", logging.INFO, "Executing _on_partitions_assigned", False),
        ("mode.worker", logging.INFO, "any", False),
        ("aiokafka.consumer.group_coordinator", logging.INFO, "(Re-)joining group delay", False),
        ("aiokafka.conn", logging.ERROR, "Unable connect", True),
        ("app.worker", logging.INFO, "[^-Punctual]: Starting...", False),
        ("app.worker", logging.ERROR, "[^-Punctual]: Crashed", True),
        ("app.engine.faust_host.handover", logging.INFO, "assigned partitions [0]", True),
        ("tables.restore", logging.INFO, "restoring partition 3", True),
    ],
)
def test_of_others_only_warnings_are_written(name: str, level: int, message: str, written: bool) -> None:  # noqa: FBT001
    record = logging.LogRecord(name, level, __file__, 1, message, (), None)

    assert LibraryLogFilter().filter(record) is written


@pytest.mark.parametrize(
    ("name", "message", "argument", "level"),
    [
        ("aiokafka.consumer", "Group Coordinator Request failed: %s", GroupCoordinatorNotAvailableError(), "WARNING"),
        ("aiokafka.consumer", "Failed fetch offsets from %s", NotLeaderForPartitionError(), "WARNING"),
        ("aiokafka.cluster", "Topic %s not found in cluster metadata", "orders", "WARNING"),
        ("aiokafka.consumer", "Failed fetch offsets from %s", GroupAuthorizationFailedError(), "ERROR"),
        ("aiokafka.client", "Unable connect to node: %s", OSError(), "ERROR"),
        ("aiokafka.client", "Unable connect to node: %s", KafkaConnectionError(), "ERROR"),
        ("app.worker", "Group Coordinator Request failed: %s", GroupCoordinatorNotAvailableError(), "ERROR"),
    ],
)
def test_retries_of_libraries_are_not_errors(name: str, message: str, argument: object, level: str) -> None:
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, (argument,), None)

    assert LibraryLogFilter().filter(record)
    assert (record.levelno, record.levelname) == (getattr(logging, level), level)


def test_a_logger_is_silent_for_as_long_as_it_is_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aiokafka")
    log = logging.getLogger("aiokafka.conn")
    with silent("aiokafka"):
        log.error("in between")
    log.error("after")

    assert caplog.messages == ["after"]
