"""Kafka's property files: writes the settings of a development broker, and reads Kafka's files."""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.dev.broker.ports import HOST


@dataclass(frozen=True)
class Node:
    """One broker's place in its cluster; the default is a cluster of its own.

    Attributes:
        id: the node id, unique in the cluster.
        cluster_id: the id that all brokers of one cluster share; empty makes a new one.
        voters: controller port of every node of the cluster by node id; empty for a cluster of one.
        detour: a second listener's port, and the port that its clients are sent to, where a proxy listens.
    """

    id: int = 1
    cluster_id: str = ""
    voters: Mapping[int, int] = field(default_factory=dict)
    detour: tuple[int, int] | None = None


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form, 16 bytes as 22 characters; a hyphen would look like an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def server_properties(node: Node, port: int, logs: Path) -> dict[str, str]:
    """Return the settings of a KRaft broker that is its own controller, listening on 127.0.0.1 only.

    Args:
        node: its place in the cluster; `voters` must contain at least this node.
        port: the port for clients.
        logs: the directory of the logs.
    """
    listeners = {"BROKER": port, "CONTROLLER": node.voters[node.id]}
    advertised = {"BROKER": port}
    if node.detour is not None:
        listeners["DETOUR"], advertised["DETOUR"] = node.detour
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{id_}@{HOST}:{at}" for id_, at in sorted(node.voters.items())),
        "listeners": ",".join(f"{name}://{HOST}:{at}" for name, at in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{at}" for name, at in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(logs),
        **_replication(min(3, len(node.voters))),
        **_FOR_DEVELOPMENT,
    }


def _replication(replicas: int) -> dict[str, str]:
    in_sync = str(max(1, replicas - 1))
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_FOR_DEVELOPMENT = {
    # The worker must never rely on a broker that creates topics by itself.
    "auto.create.topics.enable": "false",
    # The default waits 3 s for more members before a group's first assignment.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    # The default of 50 partitions each only means more files to open at each start.
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    # A broker that was killed can return only after its old session has ended: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # 128 MB by default, a quarter of this broker's heap; 32 MB compacts a million keys in one pass.
    "log.cleaner.dedupe.buffer.size": str(32 * 1024 * 1024),
    # Without a limit it uses a core for seconds now and then, which a worker on the same machine needs too.
    "log.cleaner.io.max.bytes.per.second": str(32 * 1024 * 1024),
}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a property file, replacing an existing one."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), "utf-8")


def read_properties(path: Path) -> dict[str, str]:
    """Read a property file, without lines that are not properties."""
    lines = path.read_text("utf-8", errors="replace").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}
