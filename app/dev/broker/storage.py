"""The data directory of a development broker: formats a new one, and refuses directories of other programs.

<data>/logs/             Kafka's own: topics, metadata, meta.properties
<data>/server.properties written at each start
<data>/broker.log        the output of Kafka and its Java
<data>/tmp/              temporary files that Java leaves when it is killed: emptied at each start
"""

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import BinaryIO

from app.dev.broker.errors import BrokerFailedError, DataDirectoryError
from app.dev.broker.jars import DEFAULT_VERSION, RELEASES
from app.dev.broker.properties import new_cluster_id, read_properties, write_properties

#: The feature records of a new cluster of the default version, as Kafka's StorageTool writes them.
_FEATURES = RELEASES / f"{DEFAULT_VERSION}.checkpoint"


def stored_cluster_id(logs: Path, node_id: int) -> str | None:
    """Return the cluster id of a directory that this node formatted earlier, None for a new one.

    Raises:
        DataDirectoryError: the directory belongs to another node, is damaged, or is not Kafka's.
    """
    meta = logs / "meta.properties"
    if not meta.exists():
        if logs.exists() and any(logs.iterdir()):
            raise _unusable(
                logs, "it is not empty, but has no meta.properties, which Kafka writes when it formats a directory"
            )
        return None
    properties = read_properties(meta)
    expected = {"version": "1", "node.id": str(node_id)}
    for key, value in expected.items():
        if properties.get(key) != value:
            raise _unusable(logs, f"{meta} says {key}={properties.get(key, '(nothing)')}, where {value} is expected")
    if not properties.get("cluster.id"):
        raise _unusable(logs, f"{meta} has no cluster.id")
    return properties["cluster.id"]


def format_logs(logs: Path, node_id: int, cluster_id: str) -> None:
    """Format a new directory atomically, with the result of `kafka-storage.sh format` of the default version.

    The tool would need a JVM, and a second of CPU before each first start. Source: Formatter.java and
    MetaPropertiesVersion.java of Kafka 4.3.
    """
    new = logs.with_name(f"{logs.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    shutil.copyfile(_FEATURES, new / "bootstrap.checkpoint")
    properties = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": new_cluster_id()}
    write_properties(new / "meta.properties", properties)
    new.replace(logs)


def format_by_tool(logs: Path, java: list[str], settings: Path, cluster_id: str) -> None:
    """Format a new directory with the tool of the Kafka version that will use it.

    Args:
        logs: the directory, as in the settings.
        java: the command for a main class of Kafka.
        settings: the broker's property file.
        cluster_id: of the new cluster.

    Raises:
        BrokerFailedError: with the tool's error output.
    """
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings)]
    formatted = subprocess.run(tool, capture_output=True, text=True, check=False)
    if formatted.returncode:
        shutil.rmtree(logs, ignore_errors=True)
        raise BrokerFailedError(f"Kafka does not format {logs}: {formatted.stderr[-500:].strip()}")


def claim(directory: Path) -> BinaryIO:
    """Return broker.log of the data directory, open for appending and locked; create missing directories.

    The lock lasts as long as any process has this open file. Kafka's own lock comes too late: a second broker on the
    same directory writes to the metadata log before it finds out, and the first one hangs.

    Raises:
        DataDirectoryError: the directory cannot be written, or another broker uses it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        log = (directory / "broker.log").open("ab")
    except OSError as error:
        raise DataDirectoryError(
            f"The data directory {directory} cannot be written: {error.strerror}. Choose another directory with "
            "KAFKA_DATA."
        ) from error
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        log.close()
        raise DataDirectoryError(
            f"The data directory {directory} is in use by another broker. Stop that broker, or choose another "
            "directory with KAFKA_DATA."
        ) from error
    return log


def emptied(temporary: Path) -> Path:
    """Return an empty directory for temporary files, without files of an earlier process."""
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(exist_ok=True)
    return temporary


def _unusable(logs: Path, why: str) -> DataDirectoryError:
    return DataDirectoryError(
        f"This broker cannot use the data directory {logs}: {why}. Move it away to start with an empty directory, or "
        "choose another with KAFKA_DATA."
    )
