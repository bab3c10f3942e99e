"""Attackers of a gateway are refused or cut off, in little memory, and others are served."""

import gzip
import http.client
import json
import logging
import re
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.serve.access.token import digest_of, new_token
from tests.harness.attacker import Attacker, every, status
from tests.harness.gateway import GatewayProcess
from tests.harness.pace import usual_s
from tests.harness.waiting import LIMIT_S, eventually

log = logging.getLogger(__name__)

MIB = 1 << 20
TOKEN = new_token()
HEAD = f"POST /api/v1/messages HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
TOKENS = f"""
[attacker]
destinations = ["orders"]
rate = 100_000
tokens = [{{ sha256 = "{digest_of(TOKEN).hex()}" }}]
"""
#: Maximum growth of memory in any attack: a body of 4 MiB that is unpacked, and copies.
MORE_BYTES = 150 * MIB


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that has never seen Kafka: all that it takes goes to its spool."""
    directory = tmp_path_factory.mktemp("gateway")
    (directory / "tokens").write_text(TOKENS, "utf-8")
    env = {"DELAY_WEB_USERS_FILE": str(directory / "tokens"), "GATEWAY_CONFLUENT": "on"}
    with GatewayProcess("127.0.0.1:1", "attacked", directory / "data", env=env) as gateway:
        Client(gateway).ask()
        yield gateway


class Client:
    """A normal client: sends requests again and again, and keeps their times."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._port, self._stopped = gateway.port, threading.Event()
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def ask(self) -> int:
        """Hand in a message; return the status of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)
        body = json.dumps({"to": "orders", "after": "PT1H", "value": "x"})
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/api/v1/messages", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def run(self) -> None:
        """Send requests until stopped."""
        while not self._stopped.wait(0.02):
            began = time.time()
            try:
                answered = self.ask()
            except OSError as error:
                self.failures.append(repr(error))
                continue
            self.seconds.append(usual_s(began, time.time()))
            if answered not in (201, 202):
                self.failures.append(str(answered))

    def stop(self) -> None:
        """End the requests."""
        self._stopped.set()


@contextmanager
def served(gateway: GatewayProcess, what: str, within_s: float = 1.0) -> Iterator[None]:
    """Check that others are served during the block, and that memory is bounded."""
    client, (_, before) = Client(gateway), gateway.memory_bytes()
    thread = threading.Thread(target=client.run)
    thread.start()
    try:
        yield
        eventually(lambda: len(client.seconds) + len(client.failures) > 5, what="answers to others")
    finally:
        client.stop()
        thread.join()
    now, most = gateway.memory_bytes()
    p50, p99 = statistics.median(client.seconds), sorted(client.seconds)[int(len(client.seconds) * 0.99)]
    log.info(
        "%s: %d others served, p50 %.1f ms, p99 %.1f ms; memory %d MiB, at most %d MiB, before %d MiB",
        what, len(client.seconds), p50 * 1e3, p99 * 1e3, now / MIB, most / MIB, before / MIB,
    )  # fmt: skip
    assert not client.failures, client.failures[:3]
    assert p99 < within_s
    assert most - before < MORE_BYTES


def answered(gateway: GatewayProcess, data: bytes) -> bytes:
    """Send bytes on a connection of their own; return the answer."""
    with Attacker(gateway.port) as attacker:
        attacker.send(data)
        return attacker.answer(LIMIT_S)


def posted(gateway: GatewayProcess, body: bytes, *headers: bytes) -> bytes:
    """Send a body to be taken for a message."""
    lines = b"".join(header + b"\r\n" for header in headers)
    return answered(gateway, HEAD + JSON + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def test_clients_that_are_slow_are_cut_off(gateway: GatewayProcess) -> None:
    heads = [Attacker(gateway.port) for _ in range(200)]
    bodies = [Attacker(gateway.port) for _ in range(50)]
    for slow in heads:
        slow.send(b"POST /api/v1/messages HTTP/1.1\r\nHost: ")
    for slow in bodies:
        slow.send(HEAD + JSON + b"Content-Length: 1000000\r\n\r\n{")
    began, cut_off = time.time(), 0.0

    with served(gateway, "slow heads and bodies"):
        for _ in every(0.5, time.monotonic() + 2 * LIMIT_S):
            for slow in (*heads, *bodies):
                slow.send(b"a")
            if not cut_off and all(slow.is_cut_off() for slow in heads):
                cut_off = time.time()
            if cut_off and usual_s(cut_off, time.time()) > 6:
                break
        answers = [slow.answer(LIMIT_S) for slow in bodies]

    assert cut_off, "slow heads are never cut off"
    assert usual_s(began, cut_off) < 12.5
    assert {status(answer) for answer in answers} == {408}
    for slow in (*heads, *bodies):
        slow.close()


def test_one_address_does_not_take_all_connections(gateway: GatewayProcess) -> None:
    crowd, before = [], cut_off_for_their_address(gateway)
    with served(gateway, "700 connections"):
        for number in range(700):
            crowd.append(Attacker(gateway.port))
            crowd[-1].send(b"POST /api/v1/messages HTTP/1.1\r\nX: %d" % number)
        eventually(lambda: sum(not one.is_cut_off() for one in crowd) <= 500, what="the end of 200 connections")
        # Each connection is cut off in the end because of its slow head: at most 300 because of their address.
        assert cut_off_for_their_address(gateway) - before <= 300
    for one in crowd:
        one.close()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"".join(b"X-%d: a\r\n" % number for number in range(100)), 431),
        (b"".join(b"X-%d: a\r\n" % number for number in range(100_000)), 431),
        (b"X: " + b"a" * 5_000 + b"\r\n", 431),
        (b"X: " + b"a" * (20 * MIB) + b"\r\n", 431),
        (b"X" * 100_000 + b": a\r\n", 431),
    ],
)
def test_heads_that_are_too_large_are_refused(gateway: GatewayProcess, head: bytes, expected: int) -> None:
    with served(gateway, f"a head of {len(head)} bytes"):
        for _ in range(2):
            with ThreadPoolExecutor(20) as crowd:
                answers = list(crowd.map(lambda _: answered(gateway, HEAD + head + b"\r\n"), range(20)))
            # What still comes when it is refused may end the connection before the answer is read.
            assert {status(answer) for answer in answers} <= {expected, 0}, answers


def test_a_long_address_is_refused(gateway: GatewayProcess) -> None:
    assert status(answered(gateway, b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: gateway\r\n\r\n")) == 431


def test_bodies_that_are_too_large_are_refused(gateway: GatewayProcess) -> None:
    with served(gateway, "bodies too large"):
        said = answered(gateway, HEAD + JSON + b"Content-Length: 1000000000\r\n\r\n{")
        with Attacker(gateway.port) as endless:
            endless.send(HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\n")
            chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
            eventually(lambda: not endless.send(chunk), what="the end of the connection")

    assert status(said) == 413


def test_a_compressed_body_is_refused_without_unpacking(gateway: GatewayProcess) -> None:
    bomb = gzip.compress(b" " * (10 * MIB), 9) * 50

    with served(gateway, "bodies of 500 MiB, packed"):
        answers = [posted(gateway, bomb, b"Content-Encoding: gzip") for _ in range(5)]

    assert {status(answer) for answer in answers} == {415}


BOMBS = {
    "deep arrays": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 500_000,
    "deep in a value": b'{"to":"orders","after":1000,"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "many objects": b"[" + b"{}," * 1_000_000 + b"{}]",
    "many lists": b"[" + b"[]," * 1_000_000 + b"[]]",
    "many numbers": b"[" + b"1," * 1_500_000 + b"1]",
    "many fields": b"{" + b",".join(b'"%d":1' % number for number in range(300_000)) + b"}",
    "as many fields as may be": b"{" + b",".join(b'"%d":1' % number for number in range(99_000)) + b"}",
    "as many messages as may be": b"[" + b",".join([b"{}"] * 33_000) + b"]",
    "a field many times": b"{" + b",".join([b'"to":"orders"'] * 150_000) + b"}",
    "a large number": b'{"to":"orders","after":' + b"9" * 1_000_000 + b"}",
    "a large exponent": b'{"to":"orders","after":1e999999999}',
    "a large number as id": b'{"to":"orders","after":"PT1H","id":' + b"9" * 1_000_000 + b"}",
    "no UTF-8": b'{"to":"\xff\xfe"}',
    "half a pair": b'{"to":"orders","after":"PT1H","value":"\\ud800"}',
    "a duration without end": b'{"to":"orders","after":"P' + b"9" * 100_000 + b'D"}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_json_that_is_a_bomb_is_refused(gateway: GatewayProcess, name: str) -> None:
    with served(gateway, name, within_s=2.0):
        answers = [posted(gateway, BOMBS[name]) for _ in range(3)]

    assert all(400 <= status(answer) < 500 for answer in answers), answers[0][:500]


def test_pipelined_requests_are_answered_in_order(gateway: GatewayProcess) -> None:
    ask = b"GET /live HTTP/1.1\r\nHost: gateway\r\n\r\n"
    what = "5,000 requests at once on each of 20 connections that do not read"
    with served(gateway, what, within_s=3.0):  # a hundred thousand requests, next to the rest of the suite
        crowd = [Attacker(gateway.port, timeout_s=1) for _ in range(20)]
        for one in crowd:
            one.send(ask * 5_000)
        time.sleep(2)
    for one in crowd:
        one.close()


def test_input_that_is_not_http_is_refused_and_not_logged(gateway: GatewayProcess) -> None:
    canary = "c4n4ry"
    sent = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + canary.encode(),
        f"GET / HTTP/1.1\r\nAuthorization Bearer {canary}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {canary}\x00\r\n\r\n".encode(),
        f"{canary} / HTTP/1.1\r\nHost: gateway\r\n\r\n".encode(),
        f"GET /{canary} HTTP/9.9\r\nHost: gateway\r\n\r\n".encode(),
        HEAD.replace(TOKEN.encode(), canary.encode()) + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        HEAD + JSON + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        HEAD.replace(TOKEN.encode(), f"pgw_{canary}".encode()) + b"\r\n",
        HEAD + f"Idempotency-Key: {canary}\r\n".encode() + JSON + b"Content-Length: 2\r\n\r\n{}",
        HEAD + f'Idempotency-Key: "{canary}"\r\n'.encode() + JSON + b"Content-Length: 2\r\n\r\n{}",
    ]

    with served(gateway, "input that is not HTTP"):
        answers = [answered(gateway, data) for data in sent]

    assert all(400 <= status(answer) < 500 for answer in answers), [answer[:100] for answer in answers]
    assert all(canary.encode() not in answer for answer in answers)
    for secret in (canary, TOKEN):
        assert secret not in gateway.log
        assert secret not in metrics(gateway)


def test_refused_requests_are_counted_by_caller(gateway: GatewayProcess) -> None:
    posted(gateway, b"{")
    answered(gateway, b"GET /api/v1/messages/1 HTTP/1.1\r\nHost: gateway\r\n\r\n")

    shown = metrics(gateway)

    assert 'delay_gateway_refused_total{caller="attacker",type="bad-json"}' in shown
    assert 'delay_gateway_refused_total{caller="",type="unauthorized"}' in shown


def cut_off_for_their_address(gateway: GatewayProcess) -> int:
    """Return how many connections the gateway has cut off because their address had too many."""
    found = re.search(r'^delay_gateway_cut_off_total\{reason="address"\} (\S+)$', metrics(gateway), re.MULTILINE)
    return int(float(found[1])) if found else 0


def metrics(gateway: GatewayProcess) -> str:
    """Return the gateway's metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_many_small_records_in_one_piece_take_no_more_memory_than_a_batch(tmp_path: Path) -> None:
    """The gateway forgets the records once it has answered, however many there are."""
    piece, address = b"{}" * 40_000, b"POST /kafka/v3/clusters/any/topics/flooded-requests/records HTTP/1.1\r\n"
    head = address + b"Host: localhost\r\nTransfer-Encoding: chunked\r\n" + JSON + b"Connection: close\r\n\r\n"
    peaks = list[int]()
    with GatewayProcess("127.0.0.1:1", "flooded", tmp_path / "data", env={"GATEWAY_CONFLUENT": "on"}) as gateway:
        assert b'"error_code":400' in answered(gateway, head + b"2\r\n{}\r\n0\r\n\r\n")
        before, _ = gateway.memory_bytes()
        for _ in range(5):
            answer = answered(gateway, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece))
            assert answer.count(b'"error_code":') == 40_000
            peaks.append(gateway.memory_bytes()[1] - before)

    log.info("40,000 records of two bytes, five times: at most %s MiB more", [peak // MIB for peak in peaks])
    assert peaks[0] < 15 * MIB
    assert peaks[-1] - peaks[1] < 5 * MIB
