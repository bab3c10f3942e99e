"""A real Apache Kafka broker (KRaft, controller included) as a child of this process."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from app.dev.broker import storage
from app.dev.broker.errors import BrokerError, BrokerFailedError, DataDirectoryError, PortTakenError
from app.dev.broker.jars import DEFAULT_VERSION, kafka_jars, kafka_version
from app.dev.broker.java import find_java
from app.dev.broker.ports import HOST, free_port, port_taken, require_free
from app.dev.broker.process import GuardedProcess
from app.dev.broker.properties import Node, new_cluster_id, server_properties, write_properties
from app.dev.broker.ready import answers
from app.dev.broker.waiting import Say, silently, telling

START_TIMEOUT_S = 90.0  # about 3 s on an idle machine; a busy one may take much longer
ATTEMPTS = 3  # a free port may be taken between choosing it and listening on it
POLL_S = 0.05

_HERE = Path(__file__).parent
# Kafka's own choice of collector (its kafka-run-class.sh), in a heap that leaves room for the programs under test.
_JVM = ["-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"]
# The second compiler takes 20 s of CPU in a broker's first minutes: too much with several brokers on one machine.
_JVM_OF_SEVERAL = [*_JVM, "-XX:TieredStopAtLevel=1"]


class Broker:
    """A broker that serves inside `with Broker() as broker`, and is stopped at the end of the block.

    It also ends when this process does, in whatever way.

    Args:
        data: the directory of its data, which is kept; None uses a temporary directory, removed at the end.
        port: its port on 127.0.0.1; None chooses a free one. It stays the same across `stop` and `start`.
        java: the `choice` of `app.dev.broker.java.find_java`.
        node: its place in a cluster; by default a cluster of its own.
        say: called now and then with the progress of a slow start.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int | None = None,
        *,
        java: str | None = None,
        node: Node | None = None,
        say: Say = silently,
    ) -> None:
        self._data = data
        self._port = port or 0  # 0: to be chosen
        self._port_is_chosen = port is not None
        self._java, self._say = java, say
        self._given = node or Node()
        self._node = self._given
        self._directory: Path | None = None
        self._process: GuardedProcess | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients' bootstrap servers."""
        return f"{HOST}:{self._port}"

    @property
    def node(self) -> Node:
        """Its place in its cluster."""
        return self._node

    @property
    def directory(self) -> Path:
        """Its data directory, broker.log included."""
        if self._directory is None:
            self._directory = (self._data or Path(tempfile.mkdtemp(prefix="punctual-kafka-"))).absolute()
        return self._directory

    @property
    def pid(self) -> int:
        """The process id of Kafka's Java, for tests that kill or pause it."""
        if self._process is None:
            raise BrokerFailedError("The broker is not running. Call start() first.")
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it serves clients.

        Raises:
            BrokerError: it cannot start; the message names the cause, and what to do. No process is left running.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self.launch()
            try:
                with telling(self._say, lambda seconds: f"Kafka is starting, {seconds:.0f} s so far ..."):
                    self.wait()
            except BaseException as error:
                self.stop()
                if attempt == ATTEMPTS or not isinstance(error, PortTakenError):
                    raise
                self._port = self._port if self._port_is_chosen else 0
            else:
                self._port_is_chosen = True
                return

    def launch(self) -> None:
        """Start it without waiting, because the brokers of one cluster need each other to become ready."""
        self._port = self._port or free_port()
        require_free(self._port)
        with storage.claim(self.directory) as log:
            self._log_start = log.tell()
            self._process = GuardedProcess(self._command(), log, None if self._data else self.directory)

    def wait(self) -> None:
        """Wait until it serves clients.

        Raises:
            BrokerError: it exited, or does not answer within START_TIMEOUT_S.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self._port, self._node.id, self._node.cluster_id):
            self.check()
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"Kafka does not answer after {START_TIMEOUT_S:.0f} s. {self._see_log()}")
            time.sleep(POLL_S)

    def check(self) -> None:
        """Check that it is running.

        Raises:
            BrokerError: it exited.
        """
        if self._process is None or self._process.exit_code() is not None:
            raise self._failure()

    def stop(self) -> None:
        """Stop it gracefully; its data stays, and `start` starts it again on the same port."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def close(self) -> None:
        """Stop it for good; a temporary data directory is removed."""
        if self._data is not None:
            self.stop()
            return
        if self._process is not None:
            self._process.abandon()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _command(self) -> list[str]:
        """Prepare the data directory, and return the command that starts Kafka."""
        logs, settings = self.directory / "logs", self.directory / "server.properties"
        stored = storage.stored_cluster_id(logs, self._node.id)
        self._node = self._settled(stored)
        java, jars = find_java(self._java), kafka_jars(self._say)
        write_properties(settings, server_properties(self._node, self._port, logs))
        options = _JVM_OF_SEVERAL if len(self._node.voters) > 1 else _JVM
        command = [str(java), *options, f"-Djava.io.tmpdir={storage.emptied(self.directory / 'tmp')}"]
        command += [f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}"]
        command += ["-cp", os.pathsep.join(map(str, jars))]
        if not stored and kafka_version() == DEFAULT_VERSION:
            storage.format_logs(logs, self._node.id, self._node.cluster_id)
        elif not stored:
            storage.format_by_tool(logs, command, settings, self._node.cluster_id)
        return [*command, "kafka.Kafka", str(settings)]

    def _settled(self, stored: str | None) -> Node:
        node = self._given
        if stored and node.cluster_id not in ("", stored):
            raise DataDirectoryError(
                f"The data directory {self.directory} belongs to cluster {stored}, not {node.cluster_id}. Move it "
                "away to start with an empty directory, or choose another with KAFKA_DATA."
            )
        cluster_id = stored or node.cluster_id or new_cluster_id()
        # Kafka does not start if both of its listeners have the same port.
        controller = next(port for port in iter(free_port, 0) if port != self._port)
        return replace(node, cluster_id=cluster_id, voters=node.voters or {node.id: controller})

    def _failure(self) -> BrokerError:
        with (self.directory / "broker.log").open("rb") as log:
            log.seek(self._log_start)
            text = log.read().decode(errors="replace")
        if "BindException" in text or "Address already in use" in text:
            return PortTakenError(port_taken(self._port))
        return BrokerFailedError(f"Kafka exited unexpectedly. {self._see_log()}\n" + "\n".join(text.splitlines()[-8:]))

    def _see_log(self) -> str:
        return f"See its log {self.directory / 'broker.log'}."


@contextmanager
def broker_or_given(data: Path | None = None, port: int | None = None) -> Iterator[str]:
    """Yield bootstrap servers: those of KAFKA_BOOTSTRAP_SERVERS if it is set, else a broker's for the duration.

    Raises:
        BrokerError: a broker was needed and could not be started.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    with Broker(data, port) as broker:
        yield broker.bootstrap
