"""TLS of our servers: certificates that are loaded again when their files change, and handshakes with a time limit."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from app.base.errors import SettingInvalid
from app.base.listening import limits
from app.base.watched_file import Watch, state_of

log = logging.getLogger(__name__)

CERT, KEY = "DELAY_TLS_CERT", "DELAY_TLS_KEY"


class Certificate:
    """A server's certificate and private key, which may be in one file.

    New connections get the content of the files as of the last `look`; open connections keep theirs.
    """

    def __init__(self, cert: str, key: str = "") -> None:
        """Load the chain in the file `cert`, and the key in `key` or `cert`. Raises SettingInvalid."""
        self._cert, self._key = cert, key or cert
        self._watch = Watch(CERT, self._cert, self._key, content="certificate")
        try:
            self.context = self._loaded()
        except ValueError as error:
            raise SettingInvalid(CERT, repr(cert), str(error)) from error

    def look(self) -> None:
        """Load the files again if they have changed; if they are not valid, log that once and keep the last content."""
        self._watch.look(self._load_again)

    def _load_again(self) -> str:
        self._loaded()  # so that files which are not valid do not leave half of their content in our own context
        self._load(self.context)
        return "new connections get the new certificate"

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # a client could make each byte cost us a handshake
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        """Load the files into a context. Raises ValueError with the reason."""
        for name, path in ((CERT, self._cert), (KEY, self._key)):
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise ValueError(f"{name}={path!r} cannot be read: {error.strerror}") from error
        try:
            context.load_cert_chain(self._cert, self._key, password=_no_password)
        except ssl.SSLError as error:
            why = (
                "the key does not belong to the certificate" if "MISMATCH" in (error.reason or "") else "not PEM files"
            )
            raise ValueError(f"{self._cert} and {self._key}: {why} ({error.reason})") from error


def certificate(cert: str, key: str) -> Certificate | None:
    """Return the certificate of the settings, None without one. Raises SettingInvalid."""
    if key and not cert:
        raise SettingInvalid(KEY, repr(key), f"it needs {CERT}, the certificate that it belongs to")
    return Certificate(cert, key) if cert else None


class Trust:
    """The certificates that our servers accept from each other.

    They are signed by one of the system's authorities, or by a certificate in our own file, or are in it.
    """

    def __init__(self, cert: str) -> None:
        """Trust the certificates in the file `cert`, too; it may be empty."""
        self._cert = cert
        self._context: ssl.SSLContext | None = None
        self._seen: tuple[int, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection to another server; the file is read again when it has changed."""
        state = state_of(self._cert) if self._cert else ()
        if self._context is None or state != self._seen:
            self._seen, context = state, ssl.create_default_context()
            if self._cert:
                try:
                    context.load_verify_locations(self._cert)
                    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                except OSError as error:  # the server's own certificate reports it
                    log.debug("%s cannot be loaded: %s", self._cert, error)
            self._context = context
        return self._context


def _no_password() -> str:
    raise ValueError("the key is encrypted. Use a key without a password")


class _Admission(Protocol):
    """A server that limits its connections."""

    def admit(self, handler: "Handshake", transport: asyncio.Transport) -> None:
        """Count a connection, which may end another one, or this one."""

    def forget(self, handler: "Handshake") -> None:
        """Count a connection no more."""


class Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is complete: it counts as an idle connection with an incomplete head.

    `asyncio.create_server(ssl=…)` shows connections only after their handshakes, and any number may be in one.
    """

    idle = True

    def __init__(self, server: _Admission, context: ssl.SSLContext, connection: Callable[[], asyncio.Protocol]) -> None:
        """Make a `connection` after the handshake with `context`."""
        self._server, self._context, self._connection = server, context, connection
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._since_s = self._loop.time()
        self._early = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # it is a stream
        """Begin the handshake, if the server has room for the connection."""
        self.transport = transport
        self._server.admit(self, transport)
        self._task = self._loop.create_task(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        """Keep bytes that come before the handshake has begun, or together with its end."""
        self._early += data

    def connection_lost(self, _exc: Exception | None) -> None:
        """End the wait for a handshake."""
        self._server.forget(self)

    def look(self, now_s: float) -> str | None:
        """End the connection if its handshake takes longer than a head may; return `handshake` then, else None."""
        if now_s - self._since_s <= limits.HEAD_S or self.transport is None:
            return None
        self.transport.abort()
        return "handshake"

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            secured = await self._secured(transport)
        except OSError as error:  # TLS errors and timeouts, too
            log.debug("no TLS handshake: %s", error)
            secured = None
        finally:
            self._server.forget(self)
        # An event loop may return a transport although the connection was lost.
        if secured is None or transport.is_closing():
            return
        connection, early = self._connection(), self._early
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if early:
            connection.data_received(early)

    async def _secured(self, transport: asyncio.Transport) -> asyncio.Transport | None:
        """Return the transport after the handshake, None if the connection was lost before it."""
        if transport.is_closing():
            return None
        if self._early:  # uvloop reads at once, and would lose the hello: start_tls() runs up to its wait before this
            self._loop.call_soon(_feed, transport, self._early)
            self._early = b""
        return await self._loop.start_tls(
            transport, self, self._context, server_side=True, ssl_handshake_timeout=2 * limits.HEAD_S
        )


def _feed(transport: asyncio.Transport, data: bytes) -> None:
    """Hand bytes to the protocol of a transport, which reads into its own buffer."""
    protocol: Any = transport.get_protocol()  # asyncio.BufferedProtocol
    while data and not transport.is_closing():
        buffer = protocol.get_buffer(len(data))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
