"""The data directory, and the configuration that Kafka gets for it."""

from pathlib import Path

import pytest

from app.dev.broker import DataDirectoryError, storage
from app.dev.broker.properties import Node, new_cluster_id, read_properties, server_properties, write_properties


def formatted(directory: Path, **changes: str) -> Path:
    logs = directory / "logs"
    logs.mkdir()
    content = {"version": "1", "node.id": "1", "cluster.id": "abc"} | {
        k.replace("_", "."): v for k, v in changes.items()
    }
    write_properties(logs / "meta.properties", content)
    return logs


def test_a_new_directory_has_no_cluster_id(tmp_path: Path) -> None:
    assert storage.stored_cluster_id(tmp_path / "logs", 1) is None


def test_a_formatted_directory_tells_its_cluster_id(tmp_path: Path) -> None:
    assert storage.stored_cluster_id(formatted(tmp_path), 1) == "abc"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"node_id": "7"}, "node.id=7, where 1 is expected"),
        ({"version": "0"}, "version=0, where 1 is expected"),
        ({"cluster_id": ""}, "has no cluster.id"),
    ],
)
def test_a_directory_of_something_else_is_refused(tmp_path: Path, changes: dict[str, str], sentence: str) -> None:
    logs = formatted(tmp_path, **changes)
    with pytest.raises(DataDirectoryError, match=f"{sentence}.*Move it away"):
        storage.stored_cluster_id(logs, 1)


def test_a_damaged_meta_file_is_refused(tmp_path: Path) -> None:
    logs = formatted(tmp_path)
    (logs / "meta.properties").write_bytes(b"\xff\x00 not properties")
    with pytest.raises(DataDirectoryError, match=r"version=\(nothing\)"):
        storage.stored_cluster_id(logs, 1)


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "photo.jpg").touch()
    with pytest.raises(DataDirectoryError, match=r"has no meta\.properties"):
        storage.stored_cluster_id(logs, 1)


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match=r"cannot be written.*KAFKA_DATA"):
        storage.claim(tmp_path / "file")


def test_properties_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    write_properties(path, {"a": "1", "b": "x=y"})
    assert read_properties(path) == {"a": "1", "b": "x=y"}


def test_a_cluster_id_never_reads_as_an_option() -> None:
    ids = [new_cluster_id() for _ in range(500)]
    assert all(len(id_) == 22 and "-" not in id_ for id_ in ids)
    assert len(set(ids)) == 500


def test_a_single_node_replicates_once_and_listens_on_loopback_only() -> None:
    told = server_properties(Node(voters={1: 9093}), 9092, Path("/data/logs"))
    assert told["listeners"] == "BROKER://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert told["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert {told[name] for name in told if "replication.factor" in name or name.endswith("min.isr")} == {"1"}
    assert told["auto.create.topics.enable"] == "false"


def test_three_nodes_replicate_three_times_with_two_in_sync() -> None:
    told = server_properties(Node(id=2, voters={1: 91, 2: 92, 3: 93}), 9092, Path("/data/logs"))
    assert told["controller.quorum.voters"] == "1@127.0.0.1:91,2@127.0.0.1:92,3@127.0.0.1:93"
    assert told["offsets.topic.replication.factor"] == "3"
    assert told["min.insync.replicas"] == "2"
