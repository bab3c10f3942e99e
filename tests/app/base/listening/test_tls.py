"""A server with a certificate speaks TLS, loads new files while it serves, and limits handshakes as it does heads."""

import asyncio
import contextlib
import logging
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web

from app.base.errors import SettingInvalid
from app.base.listening import connections, limits
from app.base.listening.connections import ConnectionLimits, Runner
from app.base.listening.tls import Certificate, Trust, certificate
from tests.app.base.listening.conftest import started
from tests.app.base.listening.test_connections import CutOff
from tests.harness.certificates import Authority
from tests.harness.waiting import LIMIT_S

AUTHORITY = Authority("authority")
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
Body = Callable[[int], Awaitable[None]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with cert.pem, key.pem, both.pem and ca.pem."""
    AUTHORITY.write(tmp_path / "tls", "one")
    return tmp_path / "tls"


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Run a coroutine on each event loop: a gateway and a worker have uvloop, several processes' front asyncio's."""

    def run(coroutine: Any) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(coroutine)

    return run


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LOOK_S", 0.02)


@asynccontextmanager
async def served(files: Path, most: int = 100, cut_off: CutOff | None = None) -> AsyncIterator[tuple[Runner, int]]:
    """Serve over TLS; yield the runner and the port."""

    async def hello(request: web.Request) -> web.Response:
        return web.json_response({"scheme": request.scheme, "length": len(await request.read())})

    web_app = web.Application()
    web_app.add_routes([web.route("*", "/", hello)])
    bounds = ConnectionLimits(most, most, 8_190, newest_in=True)
    own = Certificate(str(files / "cert.pem"), str(files / "key.pem"))
    runner = Runner(web_app, cut_off or CutOff(), bounds, own)
    port = await started(runner)
    try:
        yield runner, port
    finally:
        await runner.cleanup()


def trusting(files: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files / "ca.pem"))


async def connected(port: int, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


def common_name(writer: asyncio.StreamWriter) -> str:
    subject = writer.get_extra_info("peercert")["subject"]
    return str(dict(part[0] for part in subject)["commonName"])


def count(runner: Runner) -> int:
    """Return how many connections a server has, with those in a handshake."""
    assert isinstance(runner.server, connections.Server)
    return len(runner.server._addresses)


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send a request on a connection that stays open; return the first line and the body of the answer."""
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head.split(b"\r\n")[0] + await reader.readexactly(length)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110 - the server checks at intervals
            await asyncio.sleep(0.01)


@pytest.mark.core
def test_many_clients_are_served_whatever_comes_with_the_handshake(on_loop: Any, files: Path) -> None:
    async def check() -> None:
        async with served(files, most=400) as (runner, port):
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:

                async def ask(size: int) -> Any:
                    url = f"https://127.0.0.1:{port}/"
                    async with session.post(url, data=bytes(size), ssl=trusting(files)) as answer:
                        return await answer.json()

                found = await asyncio.gather(*(ask(1 + number * 997) for number in range(200)))
            assert found == [{"scheme": "https", "length": 1 + number * 997} for number in range(200)]
            await until(lambda: not count(runner))

    on_loop(check())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_trusts_the_certificate_with_its_authority_alone(files: Path) -> None:
    async with served(files) as (_, port):

        async def curl(*options: str) -> tuple[int, bytes]:
            words = ["curl", "-sS", *options, f"https://localhost:{port}/"]
            process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            out, _ = await process.communicate()
            return process.returncode or 0, out

        assert await curl("--cacert", str(files / "ca.pem")) == (0, b'{"scheme": "https", "length": 0}')
        assert (await curl("--cacert", str(files / "ca.pem"), "--tls-max", "1.2"))[0] == 0
        assert (await curl())[0] == 60, "an authority that curl does not know"


def test_a_new_certificate_is_for_new_connections_and_open_ones_go_on(
    on_loop: Any, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        async with served(files) as (_, port):
            context = trusting(files)
            old = await connected(port, context)
            assert common_name(old[1]) == "one"

            with caplog.at_level(logging.INFO):
                AUTHORITY.write(files, "two")
                await until(lambda: "new connections get the new certificate" in caplog.text)
            new = await connected(port, context)
            assert common_name(new[1]) == "two"
            for connection in (old, new):
                assert (await asked(*connection)).startswith(b"HTTP/1.1 200")
                connection[1].close()

    on_loop(check())


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("cert.pem", b"", "not PEM files"),
        ("key.pem", Authority("other").sign("three")[1], "the key does not belong to the certificate"),
        ("cert.pem", None, "cannot be read: No such file or directory"),
    ],
)
async def test_a_new_file_that_is_not_valid_is_reported_once_and_the_old_one_stays(
    files: Path, caplog: pytest.LogCaptureFixture, name: str, content: bytes | None, why: str
) -> None:
    async with served(files) as (_, port):
        context = trusting(files)
        if content is None:
            (files / name).unlink()
        else:
            (files / name).write_bytes(content)
        await until(lambda: why in caplog.text)
        await asyncio.sleep(0.1)
        assert caplog.text.count("The previous certificate stays in use") == 1
        _, writer = await connected(port, context)
        assert common_name(writer) == "one"
        writer.close()
        AUTHORITY.write(files, "four")
        await asyncio.sleep(0.2)
        _, writer = await connected(port, context)
        assert common_name(writer) == "four"
        writer.close()


def test_clients_that_never_finish_the_handshake_do_not_block_others(
    on_loop: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        cut_off = CutOff()
        async with served(files, most=20, cut_off=cut_off) as (runner, port), contextlib.AsyncExitStack() as stack:
            silent = []
            for number in range(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write(b"\x16\x03\x01\x02\x00\x01\x00"[: number % 8])  # a part of a hello, or no byte at all
                silent.append(reader)
            reader, writer = await connected(port, trusting(files))
            assert (await asked(reader, writer)).startswith(b"HTTP/1.1 200")
            writer.close()
            assert count(runner) <= 20
            assert cut_off.reasons.count("many") + cut_off.reasons.count("address") >= 40

            monkeypatch.setattr(limits, "HEAD_S", 0.3)
            await until(lambda: count(runner) <= 1)
            assert cut_off.reasons.count("handshake") >= 10, "each that made no room"
            async with asyncio.timeout(LIMIT_S):
                for reader in silent:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""

    on_loop(check())


def test_a_client_that_leaves_in_the_handshake_or_speaks_no_tls_is_forgotten(
    on_loop: Any, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        async with served(files) as (runner, port):
            for said in (b"", b"\x16", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(70_000)):
                for abort in (True, False):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(said)
                    await asyncio.sleep(0.01)
                    writer.transport.abort() if abort else writer.close()
            await until(lambda: not count(runner))

    with caplog.at_level(logging.INFO):
        on_loop(check())
    assert not caplog.records


def test_the_end_of_a_server_does_not_wait_for_handshakes(on_loop: Any, files: Path) -> None:
    async def check() -> None:
        async with served(files) as (_, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.05)
        writer.close()

    async def bounded() -> None:
        async with asyncio.timeout(10):
            await check()

    on_loop(bounded())


async def test_old_protocols_are_refused(files: Path) -> None:
    async with served(files) as (_, port):
        context = trusting(files)
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError, match=r"NO_PROTOCOLS_AVAILABLE|PROTOCOL_VERSION|UNSUPPORTED"):
            await connected(port, context)


def test_settings_that_are_not_valid_are_named(files: Path) -> None:
    cert, key = str(files / "cert.pem"), str(files / "key.pem")
    (files / "other.pem").write_bytes(Authority("other").sign("other")[1])
    encrypted = files / "encrypted.pem"
    words = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", str(encrypted)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)

    assert certificate("", "") is None
    assert certificate(str(files / "both.pem"), "") is not None
    for given, why in (
        (("", key), "DELAY_TLS_KEY=.*it needs DELAY_TLS_CERT"),
        ((cert, ""), "DELAY_TLS_CERT=.*not PEM files"),
        ((cert, str(files / "other.pem")), "the key does not belong to the certificate"),
        (("/no/such/file", key), "DELAY_TLS_CERT='/no/such/file' cannot be read: No such file or directory"),
        ((cert, "/no/such/file"), "DELAY_TLS_KEY='/no/such/file' cannot be read"),
        ((cert, str(encrypted)), "the key is encrypted. Use a key without a password"),
    ):
        with pytest.raises(SettingInvalid, match=why):
            certificate(*given)


@pytest.mark.parametrize("trusted", ["cert.pem", "ca.pem"])
async def test_servers_trust_each_other_by_their_own_file(files: Path, trusted: str) -> None:
    async with served(files) as (_, port), aiohttp.ClientSession() as session:
        url = f"https://localhost:{port}/"
        trust = Trust(str(files / trusted))
        for _ in range(2):
            async with session.get(url, ssl=trust.context()) as answer:
                assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(url, ssl=Trust("").context())
    context = trust.context()
    assert trust.context() is context
    AUTHORITY.write(files, "another")
    if trusted == "cert.pem":
        assert trust.context() is not context
