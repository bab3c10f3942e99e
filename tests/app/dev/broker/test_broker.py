"""The development broker: a real Kafka, started, stopped, killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from app.dev.broker import Broker, BrokerFailedError, DataDirectoryError, Node, PortTakenError, broker_or_given
from app.dev.broker.jars import kafka_jars
from app.dev.broker.java import find_java, installed_java
from app.dev.broker.properties import new_cluster_id, read_properties, server_properties, write_properties
from app.dev.broker.storage import format_logs
from tests.app.dev.broker.processes import gone
from tests.harness.kafka import create_topic
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, PROGRAM_S, eventually

ROOT = Path(__file__).parents[4]


def admin_of(bootstrap: str) -> AdminClient:
    # Silent: the test stops the broker while this client is connected.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def topics(bootstrap: str) -> set[str]:
    return set(admin_of(bootstrap).list_topics(timeout=30).topics)


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@contextmanager
def command(**settings: str) -> Iterator["subprocess.Popen[str]"]:
    kafka = subprocess.Popen(
        [sys.executable, "-m", "app.dev.broker"],
        env=os.environ | settings,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with kafka:
        try:
            yield kafka
        finally:
            kafka.terminate()


def test_a_message_comes_back_from_the_broker_of_the_session(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"value", b"key")
    assert producer.flush(LIMIT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value()) == (b"key", b"value")


@pytest.mark.slow
def test_topics_survive_a_kill_and_a_restart(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        create_topic(broker.bootstrap, "kept")
        before = broker.bootstrap
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        broker.start()
        assert broker.bootstrap == before
        assert "kept" in topics(broker.bootstrap)
    with Broker(tmp_path / "data") as again:
        assert "kept" in topics(again.bootstrap)


@pytest.mark.slow
def test_it_listens_on_the_loopback_address_only_and_leaves_no_files_behind() -> None:
    with Broker() as broker:
        port = int(broker.bootstrap.split(":")[1])
        socket.create_connection(("127.0.0.1", port), 5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 5)
        directory, pid = broker.directory, broker.pid
        create_topic(broker.bootstrap, "compressed")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
        producer.produce("compressed", b"-" * 1000)
        assert producer.flush(LIMIT_S) == 0
        assert list(directory.glob("tmp/liblz4*")), "what Java unpacks would stay if it were killed"
        broker.check()
    assert gone(pid)
    assert not directory.exists()


@pytest.mark.slow
def test_a_directory_is_formatted_as_kafkas_own_tool_does_it(tmp_path: Path) -> None:
    ours, theirs, settings = tmp_path / "ours", tmp_path / "theirs", tmp_path / "server.properties"
    node = Node(cluster_id=new_cluster_id(), voters={1: 9093})
    write_properties(settings, server_properties(node, 9092, theirs))
    jars = os.pathsep.join(map(str, kafka_jars()))
    tool = [str(find_java()), "-cp", jars, "kafka.tools.StorageTool", "format", "-t", node.cluster_id]
    subprocess.run([*tool, "-c", str(settings)], check=True, capture_output=True, timeout=PROGRAM_S)
    format_logs(ours, node.id, node.cluster_id)

    written = [sorted(path.name for path in logs.iterdir()) for logs in (ours, theirs)]
    assert written[0] == written[1]
    said = [read_properties(logs / "meta.properties") for logs in (ours, theirs)]
    assert len({len(one.pop("directory.id")) for one in said}) == 1
    assert said[0] == said[1]
    # But for when it was: checksums and times of the batches.
    assert timeless(ours / "bootstrap.checkpoint") == timeless(theirs / "bootstrap.checkpoint")


def timeless(checkpoint: Path) -> bytes:
    raw, at = bytearray(checkpoint.read_bytes()), 0
    while at < len(raw):
        raw[at + 17 : at + 21] = bytes(4)
        raw[at + 27 : at + 43] = bytes(16)
        at += 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    return bytes(raw)


@pytest.mark.slow
def test_a_directory_in_use_is_refused_and_its_broker_goes_on(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with pytest.raises(DataDirectoryError, match="in use by another broker"), Broker(tmp_path / "data"):
            pass
        create_topic(broker.bootstrap, "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("java", ["installed", "bundled"])
def test_it_runs_on_the_machines_java_and_on_the_bundled_one(java: str) -> None:
    if java == "installed" and installed_java() is None:
        pytest.skip("this machine has no Java 17 of its own")
    with Broker(java=java) as broker:
        create_topic(broker.bootstrap, "works")


@pytest.mark.slow
def test_it_is_gone_with_its_data_after_its_owner_was_killed() -> None:
    script = """
        import time
        from app.dev.broker import Broker
        with Broker() as broker:
            print(broker.pid, broker.directory, flush=True)
            time.sleep(1000)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        assert not gone(int(pid))
        owner.kill()
    eventually(lambda: gone(int(pid)))
    eventually(lambda: not Path(directory).exists())


@pytest.mark.slow
def test_three_brokers_make_one_cluster() -> None:
    cluster_id, voters = new_cluster_id(), {id_: free_port() for id_ in (1, 2, 3)}
    brokers = [Broker(node=Node(id_, cluster_id, voters)) for id_ in voters]
    try:
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait()
        create_topic(brokers[0].bootstrap, "spread", 1, 3)
        admin = admin_of(brokers[0].bootstrap)

        def spread() -> bool:
            partitions = admin.list_topics("spread", timeout=30).topics["spread"].partitions
            return [sorted(one.replicas) for one in partitions.values()] == [[1, 2, 3]]

        eventually(spread)
    finally:
        for broker in brokers:
            broker.close()


@pytest.mark.slow
def test_the_command_serves_in_the_foreground_until_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    with command(KAFKA_PORT=str(port), KAFKA_DATA=str(tmp_path / "data")) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == f"Kafka serves on 127.0.0.1:{port}\n"
        create_topic(f"127.0.0.1:{port}", "works")
        kafka.terminate()
        _, chatter = kafka.communicate(timeout=PROGRAM_S)
    assert kafka.returncode == 0
    assert str(tmp_path / "data") in chatter
    assert (tmp_path / "data" / "broker.log").exists()


def test_the_command_explains_a_taken_port(tmp_path: Path) -> None:
    with listening() as port, command(KAFKA_PORT=str(port), KAFKA_DATA=str(tmp_path / "data")) as kafka:
        _, chatter = kafka.communicate(timeout=PROGRAM_S)
    assert kafka.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in chatter
    assert "Traceback" not in chatter


def test_the_command_refuses_a_port_that_is_none() -> None:
    with command(KAFKA_PORT="many") as kafka:
        _, chatter = kafka.communicate(timeout=PROGRAM_S)
    assert kafka.returncode == 2
    assert "KAFKA_PORT is 'many'" in chatter


def test_a_taken_port_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with listening() as port, pytest.raises(PortTakenError, match=f"KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:{port}"):
        Broker(tmp_path / "data", port).start()
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write_properties(logs / "meta.properties", {"version": "1", "node.id": "1", "cluster.id": "theirs"})
    with pytest.raises(DataDirectoryError, match="belongs to cluster theirs, not ours"):
        Broker(tmp_path, node=Node(cluster_id="ours")).start()


def test_a_broker_that_was_not_started_has_no_process() -> None:
    with pytest.raises(BrokerFailedError, match=r"Call start\(\)"):
        _ = Broker().pid


def test_a_given_kafka_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9092")
    with broker_or_given() as servers:
        assert servers == "kafka.example:9092"


@pytest.mark.slow
def test_both_listeners_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    ports = iter((first, first))
    monkeypatch.setattr("app.dev.broker.broker.free_port", lambda: next(ports, 0) or free_port())
    with Broker() as broker:
        assert broker.bootstrap == f"127.0.0.1:{first}"
        assert topics(broker.bootstrap) == set()


@pytest.mark.slow
def test_another_free_port_is_taken_when_the_first_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dev.broker.broker.require_free", lambda _port: None)
    with listening() as lost:
        ports = iter([lost])
        monkeypatch.setattr("app.dev.broker.broker.free_port", lambda: next(ports, 0) or free_port())
        with Broker() as broker:
            assert broker.bootstrap != f"127.0.0.1:{lost}"
            create_topic(broker.bootstrap, "works")


@pytest.mark.slow
def test_a_kafka_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text(
        '#!/bin/sh\necho \'openjdk version "21"\' >&2\n[ "$1" = -version ] || { echo "out of luck"; exit 3; }\n',
        "utf-8",
    )
    broken.chmod(0o755)
    with (
        pytest.raises(BrokerFailedError, match=r"exited unexpectedly.*broker\.log") as caught,
        Broker(java=str(broken)),
    ):
        pass
    assert "out of luck" in str(caught.value)
