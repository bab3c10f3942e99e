"""What is known of an installation at one moment: all that the checks go by."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from app.engine.reports.reader import Report

#: The oldest and the newest version of each API that a broker speaks, by the API's key.
Versions = Mapping[int, tuple[int, int]]


class PartitionReplicas(NamedTuple):
    """Who leads a topic's partition (-1: nobody), and which brokers have it, and have all of it."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as its cluster describes it.

    `error` is empty, or the name of Kafka's error; `config` is None if it may not be read, with the reason in
    `config_error`; `operations` are what the asker may do with it, None if the cluster does not tell.
    """

    name: str
    error: str = ""
    partitions: tuple[PartitionReplicas, ...] = ()
    config: Mapping[str, str] | None = None
    config_error: str = ""
    operations: frozenset[str] | None = None

    @property
    def there(self) -> bool:
        """Whether it is there, and may be seen."""
        return not self.error

    @property
    def absent(self) -> bool:
        """Whether there is no such topic."""
        return self.error == "UnknownTopicOrPartitionError"


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster: what its brokers speak, None for one that does not answer, and the topics that were asked for.

    `error` says why it cannot be reached; then nothing else is known. `answered_ms` is how long it took to connect.
    `session_ms` are the shortest and the longest session of a group that brokers take, None if they do not tell;
    `id_expiration_ms` is how long they keep a transactional id that is not used.
    `controller` is -1 if there is none. `certificates` are good until then (epoch ms), by whose they are.
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
    """A worker's own clock: how far it is ahead of the brokers', and how often it has jumped."""

    offset_ms: int
    jumps: int


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and process that examines.

    `user` is the process that holds the data directory, 0 if none does, None if that cannot be told. `open_files` is
    the limit of file descriptors, -1 for none. `libraries` are releases by name, with what is needed of each.
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
    """All that is known; `clock` is that of the worker that examines, None where no worker does.

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
