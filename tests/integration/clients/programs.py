"""Other systems' own clients, run: programs of ours that use their libraries, fetched when they are first needed."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from app.dev.broker.jars import one_at_a_time
from app.dev.broker.java import installed_java

HERE = Path(__file__).parent
SPRING = "org.springframework.kafka:spring-kafka:3.3.10"
JACKSON = "com.fasterxml.jackson.core:jackson-databind:2.18.2"
_LIMIT_S = 600
#: Ways to give a due time on kcat's command line.
_KCAT = {
    "countdown": ["-H", "CALLER_SERVICE=S"],
    "etf1": [
        *("-H", "scheduler-epoch={due}", "-H", "scheduler-target-topic={to}", "-H", "scheduler-target-key=vid1"),
        *("-H", "customer-header=dummy"),
    ],
    "karafka": [
        *("-H", "schedule_schema_version=1.0.0", "-H", "schedule_target_epoch={due}"),
        *("-H", "schedule_source_type=schedule", "-H", "schedule_target_topic={to}", "-H", "schedule_target_key=o-17"),
    ],
    "nats": ["-H", "Nats-Schedule=@at {due_text}", "-H", "Nats-Schedule-Target={to}", "-H", "trace=1"],
    "deliver-after": ["-H", "deliverAfter={due}000", "-H", "trace=1"],
    "publish-after": ["-H", "publish-after-ts={due}000", "-H", "trace=1"],
}
_VALUES = {"countdown": '{{"topic":"{to}","message":"some text","countdown":{left}}}'}


class Order(NamedTuple):
    """A client's task: send to `topic` a message that is due at `due_s` (epoch seconds) at `to`."""

    servers: str
    topic: str
    to: str
    now_s: int
    due_s: int
    far_s: int = int(time.time()) + 3 * 365 * 86_400  # for cancelled messages


class Client(NamedTuple):
    """A client of another system."""

    #: Project and version.
    version: str
    dialect: str
    run: Callable[[Order], None]


def _etf1(order: Order) -> None:
    words = (order.servers, order.topic, order.to, order.due_s - order.now_s, order.far_s)
    _needed("gcc")  # its Kafka client is a C library
    _run([_needed("go"), "run", ".", *map(str, words)], HERE / "etf1")


def _airtel(order: Order) -> None:
    words = (order.servers, order.topic, order.to, 1_000 * (order.due_s - order.now_s))
    _java("AirtelProducer", [SPRING, JACKSON], words)


def _spring(program: str) -> Callable[[Order], None]:
    """Return what sends to the destination, where a listener fails; the retry topic must be called as Spring does."""

    def run(order: Order) -> None:
        assert order.topic == f"{order.to}-retry"
        delay_ms = 1_000 * (order.due_s - order.now_s)
        said = (f"-Dservers={order.servers}", f"-Dtopic={order.to}", f"-Ddelay={delay_ms}")
        _java(program, [SPRING], (), said)

    return run


def kcat(dialect: str) -> Callable[[Order], None]:
    """Return a client that sends its requests with kcat, as people do by hand."""

    def run(order: Order) -> None:
        due_text = datetime.fromtimestamp(order.due_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"to": order.to, "due": order.due_s, "due_text": due_text, "left": order.due_s - order.now_s}
        words = [word.format(**told) for word in _KCAT[dialect]]
        value = _VALUES.get(dialect, "some text").format(**told)
        line = [_needed("kcat"), "-P", "-b", order.servers, "-t", order.topic, "-k", "a-key", *words]
        subprocess.run(line, input=f"{value}\n", text=True, check=True, timeout=_LIMIT_S)

    return run


def java() -> Path:
    """Return a Java that compiles; skips the test if there is none."""
    found = installed_java()
    if found is None or not (found.resolve().parent / "javac").exists():
        pytest.skip("no Java that compiles is installed (a JDK of 17 or newer)")
    return found


def _java(name: str, artifacts: list[str], words: tuple[object, ...], options: tuple[str, ...] = ()) -> None:
    import jgo  # noqa: PLC0415 - it takes a while

    with one_at_a_time():
        jars = {str(jar) for artifact in artifacts for jar in jgo.build(artifact).all_jars}
    _run([str(java()), *options, "-cp", os.pathsep.join(sorted(jars)), f"{name}.java", *map(str, words)], HERE / "java")


def _needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stderr[-3000:]}"


#: Clients that need more than the project's own dependencies.
CLIENTS = {
    "etf1": Client("etf1/kafka-message-scheduler clientlib v0.0.8, confluent-kafka-go v2.3.0", "etf1", _etf1),
    "airtel": Client(
        f"the documented request, written by the JsonSerializer of {SPRING.partition(':')[2]}", "airtel", _airtel
    ),
    "spring": Client(f"@RetryableTopic of {SPRING.partition(':')[2]}", "spring", _spring("SpringRetry")),
    "spring-handler": Client(
        f"DeadLetterPublishingRecoverer of {SPRING.partition(':')[2]}", "spring", _spring("RetryByHandler")
    ),
}
KCAT = {f"kcat-{dialect}": Client("kcat 1.7.1", dialect, kcat(dialect)) for dialect in _KCAT}
