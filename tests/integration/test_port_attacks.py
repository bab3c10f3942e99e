"""Attackers of a worker's and a gateway's port get clear answers, fill no memory, and make no message late."""

import gzip
import itertools
import logging
import math
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import cramjam
import pytest

from tests.harness.attacker import Attacker, status
from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, crowd
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, PARTITIONS, Installation

log = logging.getLogger(__name__)

pytestmark = pytest.mark.slow

MIB = 1 << 20
COUNT, STEP_MS = 400, 5
#: Maximum 99th percentile of lateness next to attackers, in relation to that without attackers, in some round.
FACTOR, ROUNDS = 1.2, 6
#: Maximum growth of a server's memory in any attack.
MORE_BYTES = 200 * MIB
HEAD = b"POST /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ATTACKERS = 12


class Attacked(Protocol):
    """A worker or a gateway."""

    port: int

    @property
    def pid(self) -> int: ...

    @property
    def log(self) -> str: ...


@dataclass(frozen=True)
class Attack:
    """An action of one attacker, repeated unless it is slow; returns the status of the answer, 0 without one."""

    run: Callable[[int], int]
    expected: set[int]
    slow: bool = False


class Quiet:
    """The 99th percentile of lateness without attackers, which all attacks are compared with."""

    def __init__(self, installation: Installation) -> None:
        late_ms(installation)  # the first deliveries of a worker are slower
        self._installation, self._measured_ms = installation, list[int]()
        for _ in range(3):
            self.measure()

    @property
    def p99_ms(self) -> int:
        """The median of all measurements: another program can delay one of them by a second."""
        return statistics.median_low(self._measured_ms)

    def measure(self) -> int:
        """Measure it again, because the machine may be busier than before, and return it."""
        self._measured_ms.append(p99_ms(late_ms(self._installation)))
        return self._measured_ms[-1]


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("port-attacks") as made:
        yield made


@pytest.fixture(scope="module")
def gateway(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    data = tmp_path_factory.mktemp("gateway") / "data"
    with GatewayProcess(installation.bootstrap, installation.app_id, data, partitions=PARTITIONS) as made:
        yield made


@pytest.fixture(params=["worker", "gateway"])
def server(request: pytest.FixtureRequest, installation: Installation, gateway: GatewayProcess) -> Attacked:
    return installation.worker if request.param == "worker" else gateway


@pytest.fixture(scope="module")
def quiet(installation: Installation) -> Quiet:
    return Quiet(installation)


def late_ms(installation: Installation) -> list[int]:
    """Send messages that are due one after the other; return how late each is."""
    to, begin = installation.topic(), now_ms() + 500
    for number in range(COUNT):
        installation.requests.schedule(installation.new_id(), begin + STEP_MS * number, to, b"x")
    installation.requests.flush()
    records = installation.wait_for(to, COUNT, 60)
    return [record.timestamp_ms - int(record.header("delay-due")) for record in records]


def p99_ms(late: list[int]) -> int:
    return sorted(late)[int(len(late) * 0.99)]


def sent(*pieces: bytes) -> Callable[[int], int]:
    """Return an attack that sends a request in pieces, until the server accepts no more bytes."""

    def attack(port: int) -> int:
        with Attacker(port) as attacker:
            for piece in pieces:
                if not attacker.send(piece):
                    break
            return status(attacker.answer())

    return attack


def dripped(begin: bytes, drop: bytes) -> Callable[[int], int]:
    """Return an attack that sends the rest of a request byte by byte, until the server ends the connection."""

    def attack(port: int) -> int:
        with Attacker(port) as attacker:
            attacker.send(begin)
            until, found = time.monotonic() + 3 * LIMIT_S, b""
            while not found and time.monotonic() < until and attacker.send(drop):
                found = attacker.answer(0.5)
            return status(found)

    return attack


def in_turns(requests: list[bytes]) -> Callable[[int], int]:
    """Return an attack that sends one request after the other, each over a connection of its own."""
    turns = itertools.cycle(requests)

    def attack(port: int) -> int:
        return sent(next(turns))(port)

    return attack


def post(path: str, raw: bytes, *lines: str) -> bytes:
    """Return a request with a body, in one chunk if no length is among the lines of its head."""
    head = "".join(f"{line}\r\n" for line in (f"POST {path} HTTP/1.1", "Host: localhost", *lines))
    if "Content-Length" in head:
        return f"{head}\r\n".encode() + raw
    return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(raw):x}\r\n".encode() + raw + b"\r\n0\r\n\r\n"


def odd_requests() -> list[bytes]:
    """Return requests with very many small parts, and others that are no requests."""
    fields, parts = b"&".join([b"a=1"] * 100_000), b"--x\r\na: b\r\n" * 275_000
    form = "Content-Type: application/x-www-form-urlencoded"
    return [
        b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * 100_000
        + b"0\r\n\r\n",
        post("/new", fields, form, f"Content-Length: {len(fields)}"),
        post("/new", parts, "Content-Type: multipart/form-data; boundary=x", f"Content-Length: {len(parts)}"),
        b"GET /" + b"?a=b" * 3_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /nowhere?" + b"a=b&" * 1_900 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01" + bytes(MIB),
    ]


def body(raw: bytes, *lines: bytes) -> bytes:
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"Content-Length: %d\r\n\r\n" % len(raw) + raw


@cache
def packed(coding: str) -> Attack:
    """Return an attack with a body of 256 MiB, packed to less than a thousandth, or nearly so."""
    plain = bytes(MIB)
    if coding in ("gzip", "deflate"):
        packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
        raw = b"".join([*(packer.compress(plain) for _ in range(256)), packer.flush()])
    elif coding == "br":
        raw = bytes(cramjam.brotli.compress(bytes(256 * MIB), level=4))  # a higher level takes a minute
    else:
        raw = bytes(cramjam.zstd.compress(bytes(256 * MIB)))
    assert len(raw) < 256 * MIB / 950
    return Attack(sent(body(raw, b"Content-Encoding: " + coding.encode())), {415})


#: 10,000 levels of nesting, repeated: of 100 MB the server reads as much as its limit says.
DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b" "
CHUNK = DEEP * 17
CHUNKS = [b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)] * (100_000_000 // len(CHUNK))
#: Attacks by a name; those with one name are made at the same time.
ATTACKS: dict[str, Callable[[], list[Attack]]] = {
    "gzip, deflate, br and zstd": lambda: [packed(coding) for coding in ("gzip", "deflate", "br", "zstd")],
    "10,000 headers": lambda: [
        Attack(sent(HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(10_000)) + b"\r\n"), {431})
    ],
    "100 MB of deep JSON": lambda: [Attack(sent(HEAD + b"Content-Length: 100000000\r\n\r\n", *[CHUNK] * 90), {413})],
    "100 MB of deep JSON in chunks": lambda: [
        Attack(sent(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *CHUNKS, b"0\r\n\r\n"), {400, 413, 503})
    ],
    "deep JSON": lambda: [Attack(sent(body(DEEP)), {400})],
    "packed forms": lambda: [
        Attack(
            in_turns(
                [post(path, gzip.compress(bytes(64 * MIB)), "Content-Encoding: gzip") for path in ("/new", "/nowhere")]
            ),
            {403, 404, 415},
        )
    ],
    "odd requests": lambda: [Attack(in_turns(odd_requests()), {400, 403, 404, 413, 415, 431})],
}
SLOW = [
    Attack(dripped(HEAD + b"X: ", b"a"), {408}, slow=True),
    Attack(dripped(HEAD + b"Content-Length: 1000000\r\n\r\n{", b"a"), {408}, slow=True),
]


@pytest.mark.parametrize("name", ATTACKS)
def test_attackers_get_clear_answers_and_others_are_on_time(
    installation: Installation, server: Attacked, quiet: Quiet, name: str
) -> None:
    check(name, [server], ATTACKS[name](), installation, quiet)


def test_slow_attackers_of_both_ports_get_clear_answers_and_others_are_on_time(
    installation: Installation, gateway: GatewayProcess, quiet: Quiet
) -> None:
    check("slow heads and bodies", [installation.worker, gateway], SLOW, installation, quiet)


def check(
    name: str, servers: Sequence[Attacked], attacks: Sequence[Attack], installation: Installation, quiet: Quiet
) -> None:
    """Attack servers while messages are delivered, and check answers, lateness, memory and logs.

    Other programs of the machine can make messages late. They do so with and without attackers, so the least lateness
    next to attackers in some rounds is compared with the most lateness without attackers.
    """
    memories, ends = [memory_bytes(server.pid) for server in servers], [len(server.log) for server in servers]
    answers, quiet_ms, beside_ms = list[tuple[Attack, int]](), [quiet.p99_ms], list[int]()
    while not beside_ms or (not is_within(beside_ms, quiet_ms) and len(beside_ms) < ROUNDS):
        if beside_ms:
            quiet_ms.append(quiet.measure())
        late, count = list[int](), len(answers)
        with attacked([server.port for server in servers], attacks, answers):
            while not late or len(answers) - count < ATTACKERS * len(servers):
                late += late_ms(installation)
        beside_ms.append(p99_ms(late))

    more = [peak_bytes(server.pid) - before for server, before in zip(servers, memories, strict=True)]
    codes, more_mib = {status for _, status in answers}, [size / MIB for size in more]
    log.info(
        "%s: %d answers %s, p99 %s ms, quiet %s ms, %s MiB more",
        name, len(answers), codes, beside_ms, quiet_ms, more_mib,
    )  # fmt: skip
    for attack in attacks:
        statuses = {status for other, status in answers if other is attack}
        # What still comes when it is refused may end a connection before the answer is read.
        assert statuses - {0} <= attack.expected
        assert statuses & attack.expected
    assert is_within(beside_ms, quiet_ms)
    assert min(beside_ms) < ON_TIME_MS * crowd()
    assert max(more) < MORE_BYTES
    for server, end in zip(servers, ends, strict=True):
        assert not [line for line in server.log[end:].splitlines() if "[ERROR]" in line or "[CRITICAL]" in line]


def is_within(beside_ms: Sequence[int], quiet_ms: Sequence[int]) -> bool:
    """Return whether deliveries next to attackers are on time; the times are whole milliseconds."""
    return min(beside_ms) <= math.ceil(FACTOR * max(quiet_ms))


@contextmanager
def attacked(ports: Sequence[int], attacks: Sequence[Attack], answers: list[tuple[Attack, int]]) -> Iterator[None]:
    """Attack ports from many connections during the block; add the status of each answer to `answers`."""
    stopped = threading.Event()

    def run(port: int, attack: Attack) -> None:
        while not stopped.is_set():
            answers.append((attack, attack.run(port)))
            if attack.slow:
                return
            stopped.wait(0.5)

    with ThreadPoolExecutor(ATTACKERS * len(ports)) as attackers:
        running = [
            attackers.submit(run, port, attacks[number % len(attacks)]) for port in ports for number in range(ATTACKERS)
        ]
        try:
            yield
        finally:
            stopped.set()
    for one in running:
        one.result()


def memory_bytes(pid: int) -> int:
    """Return the memory of a process, and begin to measure its peak."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
    return _status_bytes(pid, "VmRSS:")


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process since `memory_bytes`."""
    return _status_bytes(pid, "VmHWM:")


def _status_bytes(pid: int, name: str) -> int:
    fields = Path(f"/proc/{pid}/status").read_text("utf-8").split(name)[1]
    return int(fields.split()[0]) << 10
