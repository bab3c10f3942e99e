"""Attackers of a worker's port, without a login, make no message late and fill no memory."""

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.attacker import Attacker, status
from tests.harness.kafka import now_ms
from tests.harness.waiting import crowd
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation

log = logging.getLogger(__name__)

MIB = 1 << 20
COUNT, STEP_MS = 400, 10
#: Maximum growth of the worker's memory in any attack.
MORE_BYTES = 150 * MIB


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("web-attacks") as made:
        yield made


def p99_ms(installation: Installation) -> int:
    """Send messages that are due one after the other; return the 99th percentile of their lateness."""
    to, begin = installation.topic(), now_ms() + 500
    for number in range(COUNT):
        installation.requests.schedule(installation.new_id(), begin + STEP_MS * number, to, b"x")
    installation.requests.flush()
    records = installation.wait_for(to, COUNT, 60)
    late = sorted(record.timestamp_ms - int(record.header("delay-due")) for record in records)
    return late[int(len(late) * 0.99)]


def packed(coding: str) -> bytes:
    """Return a body that would be 256 MiB if it were unpacked; that of zstd and br says so and is none."""
    if coding not in ("gzip", "deflate"):
        return b"\x28\xb5\x2f\xfd" + bytes(MIB >> 2)
    packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    pieces = [packer.compress(bytes(MIB)) for _ in range(256)]
    return b"".join([*pieces, packer.flush()])


def sent(port: int, head: bytes, body: bytes) -> int:
    """Send a request and return the answer's status, 0 if the connection ended before it came."""
    with Attacker(port) as attacker:
        attacker.send(head + b"\r\n" + body)
        return status(attacker.answer())


def requests_of(body: bytes, coding: str, path: str) -> tuple[bytes, bytes]:
    """Return the head and the body of a request with a packed body, chunked for a form, else with its length."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\n".encode()
    if path.startswith("/api/"):
        return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body), body
    return head + b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def packed_bodies() -> list[tuple[bytes, bytes]]:
    bodies = {coding: packed(coding) for coding in ("gzip", "deflate", "br", "zstd")}
    paths = ("/api/v1/messages/x/cancel", "/new", "/nowhere")
    return [requests_of(bodies[coding], coding, path) for coding in bodies for path in paths]


def odd_requests() -> list[tuple[bytes, bytes]]:
    chunked = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    many = b"POST /api/v1/messages/x/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    deep, fields = b"[" * 2 * MIB, b"&".join([b"a=1"] * 100_000)
    form = b"POST /new HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    parts = b"POST /new HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    return [
        (chunked, b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"),
        (many + b"Content-Length: %d\r\n" % len(deep), deep),
        (form + b"Content-Length: %d\r\n" % len(fields), fields),
        (parts + b"Content-Length: %d\r\n" % (300_000 * 11), b"--x\r\na: b\r\n" * 275_000),
        (b"GET /" + b"?a=b" * 3_000 + b" HTTP/1.1\r\nHost: localhost\r\n", b""),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, b""),
        (b"GET /nowhere?" + b"a=b&" * 1_900 + b" HTTP/1.1\r\nHost: localhost\r\n", b""),
        (b"\x16\x03\x01" + bytes(MIB), b""),
    ]


@pytest.mark.parametrize("kind", [packed_bodies, odd_requests])
def test_what_comes_to_the_port_makes_nothing_late(
    installation: Installation, kind: Callable[[], list[tuple[bytes, bytes]]]
) -> None:
    attacks, worker = kind(), installation.worker
    quiet_ms, before, said = p99_ms(installation), memory_bytes(worker.pid), len(worker.log)
    stopped, answers = threading.Event(), list[int]()

    def attack(number: int) -> None:
        while not stopped.is_set():
            answers.append(sent(worker.port, *attacks[number % len(attacks)]))
            stopped.wait(1)

    with ThreadPoolExecutor(len(attacks)) as attackers:
        for number in range(len(attacks)):
            attackers.submit(attack, number)
        try:
            beside_ms = p99_ms(installation)
        finally:
            stopped.set()

    more = memory_bytes(worker.pid) - before
    log.info("p99 %d ms, beside %d %s %d ms, %d MiB", quiet_ms, len(answers), kind.__name__, beside_ms, more / MIB)
    assert beside_ms < ON_TIME_MS * crowd()
    assert more < MORE_BYTES
    assert set(answers) <= {0, 400, 403, 404, 413, 415, 431}
    assert not [line for line in worker.log[said:].splitlines() if "[ERROR]" in line or "[CRITICAL]" in line]


def memory_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    fields = Path(f"/proc/{pid}/status").read_text("utf-8").split("VmHWM:")[1]
    return int(fields.split()[0]) << 10
