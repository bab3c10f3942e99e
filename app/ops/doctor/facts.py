"""The facts about an installation at one moment, which are the only input of the checks."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from app.engine.reports.reader import Report

#: The oldest and the newest version of each API that a broker supports, by the API's key.
Versions = Mapping[int, tuple[int, int]]


class PartitionReplicas(NamedTuple):
    """The leader of a topic's partition (-1: none), the brokers that have it, and those in sync."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as its cluster describes it.

    `error` is empty, or the name of Kafka's error; `config` is None if it may not be read, with the reason in
    `config_error`; `operations` are the user's allowed operations, None if the cluster does not report them.
    """

    name: str
    error: str = ""
    partitions: tuple[PartitionReplicas, ...] = ()
    config: Mapping[str, str] | None = None
    config_error: str = ""
    operations: frozenset[str] | None = None

    @property
    def there(self) -> bool:
        """Whether the topic exists and may be described."""
        return not self.error

    @property
    def absent(self) -> bool:
        """Whether the topic does not exist."""
        return self.error == "UnknownTopicOrPartitionError"


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster: the API versions of its brokers (None without a response), and the requested topics.

    `error` says why it cannot be reached; then the rest is unknown. `answered_ms` is how long it took to connect.
    `session_ms` is the minimum and maximum session timeout of a group, None if brokers do not report it;
    `id_expiration_ms` is how long they keep an unused transactional id.
    `controller` is -1 if there is none. `certificates` maps owners to expiry times (epoch ms).
    """

    bootstrap: str
    error: str = ""
    answered_ms: int = 0
    brokers: Mapping[int, Versions | None] = {}
    controller: int = -1
    session_ms: tuple[int, int] | None = None
    id_expiration_ms: int | None = None
    topics: Mapping[str, Topic] = {}
    group_operations: frozenset[str] | None = None
    certificates: Mapping[str, int] = {}


class ClockFacts(msgspec.Struct, frozen=True):
    """A worker's own clock: its lead over the brokers' clock, and its number of jumps."""

    offset_ms: int
    jumps: int


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and process of the examination.

    `user` is the process that has locked the data directory, 0 if none, None if it is unknown. `open_files` is
    the limit of file descriptors, -1 for none. `libraries` are the installed and the required release by name.
    """

    data_path: str
    there: bool = True
    error: str = ""
    user: int | None = None
    filesystem: str = ""
    free: int = 0
    total: int = 0
    open_files: int = -1
    python: str = ""
    libraries: Mapping[str, tuple[str, str]] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts; `clock` is the clock of the examining worker, None outside workers.

    `reports_read` says whether all reports of workers could be read.
    """

    now_ms: int
    cluster: ClusterFacts
    machine: MachineFacts
    others: Mapping[str, ClusterFacts] = {}
    reports: Mapping[int, Report] = {}
    reports_read: bool = True
    clock: ClockFacts | None = None
    own_url: str = ""
    env: Mapping[str, str] = {}
