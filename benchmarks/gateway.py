"""`python -m benchmarks.gateway`: messages per second over HTTP, single and in batches, compared with plain producing.

All are measured in one run, on one broker with one number of partitions, as a closed loop: each sender waits for the
answer before it sends again. Plain producing is a Kafka client in its own process that waits for each record's
acknowledgement by all replicas, as the gateway does: confluent-kafka, aiokafka, and the gateway's intake without HTTP.
No worker runs. CPU is that of the measured process.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from app.dev.broker import Broker
from app.dev.broker.ports import free_port
from app.dev.broker.process import GuardedProcess
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.serve.messages.acceptance import Submission
from app.serve.messages.receipts import Receipts
from app.settings.settings import Settings
from benchmarks import topics
from benchmarks.clock import wait_for
from benchmarks.meter import cpu_s
from benchmarks.worker import ROOT

PARTITIONS = 4
_BATCH, _KEYS, _DUE_MS = 100, 1_000, (int(time.time()) + 2 * 365 * 86_400) * 1_000
_REQUESTS, _TO = "delay-requests", "orders"
Sent = tuple[int, float, float]
"""Messages, seconds, CPU seconds of who has sent them."""


def main() -> int:
    """Measure, and print a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each round (%(default)s)")
    parser.add_argument("--senders", type=int, default=64, help="that wait for answers at once (%(default)s)")
    parser.add_argument("--bytes", type=int, default=200, help="of a value (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="each measures all (%(default)s)")
    options = parser.parse_args()
    with Broker() as broker, tempfile.TemporaryDirectory() as directory:
        for topic in (_REQUESTS, _TO):
            topics.create(broker.bootstrap, topic, PARTITIONS, 1)
        with_gateway = _Gateway(broker.bootstrap, Path(directory))
        try:
            figures = _measured(broker.bootstrap, with_gateway, options)
        finally:
            with_gateway.close()
    print(json.dumps({"senders": options.senders, "bytes": options.bytes, **figures}, indent=1))
    return 0


class _Gateway:
    """A gateway process."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.port = free_port()
        env = {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "DELAY_PARTITIONS": str(PARTITIONS),
            "DELAY_REPLICATION_FACTOR": "1",
            "DELAY_DESTINATIONS": "*",
            "DELAY_GATEWAY_PORT": str(self.port),
            "DATADIR": str(directory / "gateway"),
            "PYTHONPATH": str(ROOT),
        }
        command = ["env", *(f"{name}={value}" for name, value in env.items()), sys.executable]
        command += ["-m", "faust", "-A", "app", "gateway", "-l", "warning"]
        with (directory / "gateway.log").open("wb") as log:
            self._process = GuardedProcess(command, log, None)
        wait_for(self._answers, 60, "The gateway")

    def _answers(self) -> bool:
        try:
            asyncio.run(_ask(self.port, b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        except OSError:
            return False
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.stop()


def _measured(bootstrap: str, gateway: _Gateway, options: argparse.Namespace) -> dict[str, Any]:
    size, senders, seconds = options.bytes, options.senders, options.seconds
    measures: dict[str, Callable[[], Sent]] = {
        "confluent-kafka": lambda: _apart(_confluent, bootstrap, size, senders, seconds),
        "aiokafka": lambda: _apart(_aiokafka, bootstrap, size, senders, seconds),
        "intake": lambda: _apart(_intake, bootstrap, size, senders, seconds, 1),
        "intake, batches of 100": lambda: _apart(_intake, bootstrap, size, max(1, senders // 8), seconds, _BATCH),
        "gateway": lambda: _over_http(gateway, size, senders, seconds, 1),
        "gateway, batches of 100": lambda: _over_http(gateway, size, max(1, senders // 8), seconds, _BATCH),
    }
    rates: dict[str, list[float]] = {name: [] for name in measures}
    cpu: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(options.rounds):
        for name, measure in measures.items():
            count, took_s, used_s = measure()
            rates[name].append(count / took_s)
            cpu[name].append(used_s / count * 1e6)
    return {
        "messages/s": {name: [round(rate) for rate in values] for name, values in rates.items()},
        "CPU of a message, µs": {name: round(statistics.median(values), 1) for name, values in cpu.items()},
        "beside confluent-kafka": {
            name: round(statistics.median(a / b for a, b in zip(values, rates["confluent-kafka"], strict=True)), 3)
            for name, values in rates.items()
        },
    }


def _apart(work: Callable[..., Sent], *arguments: object) -> Sent:
    """Do work in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


# plain producing -----------------------------------------------------------------------------------------------------
def _headers(id_: str) -> list[tuple[str, bytes | None]]:
    headers = {"to": _TO, "at": str(_DUE_MS), "id": id_, "dedupe": "86400000", "asked-at": "1795620000000"}
    return [(f"delay-{name}", text.encode()) for name, text in headers.items()]


async def _closed_loop(send: Callable[[int], Awaitable[object]], senders: int, seconds: float, each: int) -> Sent:
    """Run `senders` tasks for `seconds`, each sending `each` messages at a time, one request after the other."""
    until, count = time.monotonic() + seconds, 0

    async def one(number: int) -> None:
        nonlocal count
        while time.monotonic() < until:
            await send(number)
            count += each

    began, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(senders)))
    return count, time.monotonic() - began, time.process_time() - used


def _confluent(bootstrap: str, size: int, senders: int, seconds: float) -> Sent:
    """Keep `senders` records in flight; each acknowledgement starts the next record."""
    kafka = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    producer, count, in_flight, value = Producer(kafka), 0, 0, bytes(size)

    def acked(*_: object) -> None:
        nonlocal count, in_flight
        count, in_flight = count + 1, in_flight - 1

    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        while in_flight < senders:
            in_flight += 1
            number = count + in_flight
            producer.produce(
                _REQUESTS, value, b"key-%d" % (number % _KEYS), headers=_headers(str(number)), on_delivery=acked
            )
        producer.poll(0.001)
    producer.flush(10)
    return count, time.monotonic() - began, time.process_time() - used


def _aiokafka(bootstrap: str, size: int, senders: int, seconds: float) -> Sent:
    value = bytes(size)

    async def run() -> Sent:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=1)
        await producer.start()

        async def send(number: int) -> None:
            await producer.send_and_wait(_REQUESTS, value, b"key-%d" % (number % _KEYS), headers=_headers(str(number)))

        try:
            return await _closed_loop(send, senders, seconds, 1)
        finally:
            await producer.stop()

    return uvloop.run(run())


def _intake(bootstrap: str, size: int, senders: int, seconds: float, each: int) -> Sent:
    value = bytes(size)

    async def run() -> Sent:
        with tempfile.TemporaryDirectory() as directory:
            env = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "DELAY_PARTITIONS": str(PARTITIONS)}
            settings = Settings.from_env({**env, "DATADIR": directory})
            connection, spool = (
                KafkaConnection(settings.kafka, settings.topics, settings.gateway_path),
                Spool(settings.topics, settings.gateway, settings.gateway_path, _fail),
            )
            intake, receipts = (
                Intake(settings.topics, connection, spool, _fail),
                Receipts(_REQUESTS, PARTITIONS),
            )
            connecting = asyncio.create_task(connection.run(intake.is_down))
            await connection.sender()

            def message(number: int) -> Submission:
                key = b"key-%d" % (number % _KEYS)
                id_ = receipts.id(key)
                return Submission(_REQUESTS, None, key, value, _headers(id_), id_)

            async def send(number: int) -> None:
                await intake.submit([message(number * each + index) for index in range(each)])

            try:
                return await _closed_loop(send, senders, seconds, each)
            finally:
                await intake.close()
                connecting.cancel()
                await connection.close()

    return uvloop.run(run())


def _fail(error: BaseException) -> None:
    raise error


# over HTTP -----------------------------------------------------------------------------------------------------------
def _over_http(gateway: _Gateway, size: int, senders: int, seconds: float, each: int) -> Sent:
    before = cpu_s(Path(f"/proc/{gateway.pid}/stat").read_text("utf-8"))
    count, took_s, _ = _apart(_post, gateway.port, size, senders, seconds, each)
    return count, took_s, cpu_s(Path(f"/proc/{gateway.pid}/stat").read_text("utf-8")) - before


def _post(port: int, size: int, senders: int, seconds: float, each: int) -> Sent:
    """Post over `senders` keep-alive connections, with as little HTTP as possible."""

    async def run() -> Sent:
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(senders)]
        posts = [_request(size, number, each) for number in range(senders)]

        async def send(number: int) -> None:
            reader, writer = streams[number]
            writer.write(posts[number])
            status = await _answer(reader)
            if status != b"201":
                raise RuntimeError(f"the gateway answers {status!r}")

        result = await _closed_loop(send, senders, seconds, each)
        for _, writer in streams:
            writer.close()
        return result

    return uvloop.run(run())


def _request(size: int, sender: int, each: int) -> bytes:
    one = [{"to": _TO, "at": _DUE_MS, "key": f"key-{(sender + i) % _KEYS}", "value": "v" * size} for i in range(each)]
    body = msgspec.json.encode(one if each > 1 else one[0])
    lines = ["POST /api/v1/messages HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "\r\n"]).encode() + body


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines: Sequence[bytes] = head.lower().split(b"\r\n")
    [length] = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
    await reader.readexactly(length)
    return head.split(b" ", 2)[1]


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await _answer(reader)
    finally:
        writer.close()


if __name__ == "__main__":
    raise SystemExit(main())
