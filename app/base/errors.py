"""Errors that stop a worker, or keep it from starting.

PunctualError
├── SettingInvalid        an environment variable has a value that makes no sense
├── ClusterUnusable       the cluster does not answer, or not as it should
├── DataDirectoryTaken    another process uses the data directory
├── DataDirectoryForeign  the data directory is another installation's
├── DataDirectoryUnusable the data directory cannot be written, or is gone
├── TracesUnusable        traces are turned on, and OpenTelemetry is not installed
├── PortUnusable          a worker or gateway cannot listen on its port
├── SignInMissing         other machines reach the port, which needs no login
├── TopicMismatch         a topic is there with settings that would lose messages
├── PartitionStopped      a partition cannot go on safely; the others do
├── InputGone             a topic was deleted, created again or truncated while it was read
├── LogChanged            an internal topic or an input is not the same as at the start
├── TransactionForbidden  the brokers do not let this worker use its transactional ids
├── GroupLost             the consumer group has failed, or does not accept this worker
└── NotOwner              another worker owns the partition now
"""

import os
from collections.abc import Iterable
from typing import TypeVar

from punctual.installing import install_command

E = TypeVar("E", bound=BaseException)


def untraced(error: E) -> E:
    """Return an error without its causes and frames, which would keep all referenced objects alive in a list."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class PunctualError(Exception):
    """A failure with a message for operators, which names the cause, the object and the remedy."""


class SettingInvalid(PunctualError):
    """An environment variable has an invalid value."""

    def __init__(self, name: str, shown: str, why: str) -> None:
        """Name the variable, the value as it may be shown, and why it is invalid."""
        super().__init__(f"{name}={shown}: {why}. docs/reference/settings.md lists the valid values.")


class ClusterUnusable(PunctualError):
    """The cluster does not answer, or not as it should."""

    def __init__(self, bootstrap: str, error: object) -> None:
        """Name the bootstrap servers and their error."""
        super().__init__(
            f"Kafka at {bootstrap} cannot be used: {error}. Check KAFKA_BOOTSTRAP_SERVERS, the security settings, "
            "and that the brokers are running."
        )


class DataDirectoryTaken(PunctualError):
    """Another process uses the data directory."""

    def __init__(self, path: object) -> None:
        """Name the directory."""
        super().__init__(
            f"the data directory {path} is in use by another process. Give each worker a data directory of its own "
            "(DATADIR or PORT), or stop the other worker."
        )


class DataDirectoryForeign(PunctualError):
    """The data directory belongs to another installation."""

    def __init__(self, path: object, theirs: str, ours: str) -> None:
        """Name the directory, the installation that owns it (`theirs`) and this worker's (`ours`)."""
        super().__init__(
            f"the data directory {path} belongs to {theirs}, but this worker serves {ours}. Give this worker its own "
            "data directory (DATADIR or PORT). If the other installation no longer exists, move this directory away."
        )


class DataDirectoryUnusable(PunctualError):
    """The data directory cannot be written, or is gone."""

    def __init__(self, path: object, error: object) -> None:
        """Name the directory and the error of the system."""
        super().__init__(
            f"the data directory {path} cannot be used: {error}. Check that its disk is mounted, has free space and "
            "is writable (DATADIR is its path). Then start the worker again. No data is lost, because the changelog "
            "has it."
        )


class TracesUnusable(PunctualError):
    """Traces are turned on, and OpenTelemetry is not installed."""

    def __init__(self, missing: object) -> None:
        """Name the missing module."""
        super().__init__(
            f"OTEL_TRACES_EXPORTER=otlp needs OpenTelemetry, and {missing} is not installed. Install it: "
            f"{install_command('punctual-kafka-worker[otel]')}. Or set OTEL_TRACES_EXPORTER=none."
        )


class PortUnusable(PunctualError):
    """A worker or gateway cannot listen on its port."""

    def __init__(self, host: str, port: int, error: OSError, *, gateway: bool = False) -> None:
        """Name the address and the error of the system."""
        what, setting = ("the gateway", "DELAY_GATEWAY_PORT") if gateway else ("the console", "PORT")
        super().__init__(
            f"{what} cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Set {setting} to a free port "
            "and HOST to an address of this machine, or stop the process that listens there."
        )


class SignInMissing(PunctualError):
    """A worker or gateway can be reached from other machines without signing in."""

    def __init__(self, host: str) -> None:
        """Name the address that it would listen on."""
        super().__init__(
            f"HOST={host}: other machines could use this port without a login. Set DELAY_WEB_USERS_FILE "
            "(docs/how-to/access.md), or keep HOST at 127.0.0.1. If something else, such as a proxy, controls access "
            "to a worker, set DELAY_WEB_INSECURE=on."
        )


class TopicMismatch(PunctualError):
    """A topic is there with settings that would lose messages."""


class PartitionStopped(PunctualError):
    """A partition cannot go on safely; the others do."""


class InputGone(PunctualError):
    """A topic was deleted, created again or truncated while it was read."""

    def __init__(self, topics: Iterable[str]) -> None:
        """Name the topics."""
        super().__init__(
            f"{', '.join(sorted(topics))}: deleted, created again, or truncated while this worker was reading it. "
            "This process ends, so that no record is skipped silently. Start it again: the worker continues, or "
            "/health/ready says what to do."
        )


class LogChanged(PunctualError):
    """An internal topic or an input is not the same as when the worker started."""

    def __init__(self, what: str) -> None:
        """Describe in `what` the topic and its change."""
        super().__init__(
            f"{what}. This process ends, so that no message is lost silently. Keep its data directory and start it "
            "again: the worker then says what to do."
        )


class TransactionForbidden(PunctualError):
    """The brokers do not let this worker use its transactional ids."""

    def __init__(self, transactional_id: object) -> None:
        """Name the first refused id."""
        super().__init__(
            f"the brokers do not let this worker use the transactional id {transactional_id}. With "
            "DELAY_GUARANTEE=exactly_once, it needs DESCRIBE and WRITE on all ids that begin with DELAY_APP_ID and "
            "'-'. Grant them, or set DELAY_GUARANTEE=at_least_once."
        )


#: Hints for errors of the group's coordinator, by a part of the error's name.
_GROUP_HINTS = {
    "InvalidSessionTimeout": (
        "Set DELAY_SESSION_TIMEOUT to a time between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms."
    ),
    # aiokafka has no name for GROUP_MAX_SIZE_REACHED.
    "UnknownError": (
        "If the group has as many members as the brokers' group.max.size, start fewer workers or raise the limit. "
        "Otherwise, see the coordinator's log for the cause."
    ),
    "InconsistentGroupProtocol": (
        "Another program is in the consumer group named by DELAY_APP_ID. Stop it, or give this installation another "
        "DELAY_APP_ID."
    ),
    "GroupAuthorizationFailed": "Grant READ on the consumer group named by DELAY_APP_ID.",
    "FencedInstanceId": (
        "Another process uses the member-id of this data directory. Give each worker its own data directory."
    ),
}


class GroupLost(PunctualError):
    """The consumer group has failed, or does not accept this worker."""

    def __init__(self, error: object) -> None:
        """Name the error of the group."""
        text = f"{error!r} {error}"
        hint = next((hint for name, hint in _GROUP_HINTS.items() if name in text), "Start it again.")
        super().__init__(
            f"this worker has lost its consumer group: {error}. The process ends, so that other workers can take "
            f"over its partitions. {hint}"
        )


class NotOwner(PunctualError):
    """Another worker owns the partition now."""
