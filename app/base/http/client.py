"""Posts over HTTP/1.1 to allowed addresses, without cookies, proxies or redirects."""

import asyncio
import functools
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict

from app.base.http.addresses import Address, is_global, is_near
from app.base.http.allow_list import Allowed
from app.base.http.answers import HttpOutcome, Meaning, answer_of
from app.base.http.exchange import AnswerRefusedError, Connector
from app.base.http.resolver import AddressRefused, CheckedResolver, SystemResolver

log = logging.getLogger(__name__)

#: The timeout from connecting to the end of the response, and the timeout of the body once there is a status.
TIMEOUT_S, BODY_S = 15, 2
_IDLE_S = 30
#: Without DHE: a receiver chooses the prime, and a prime of 10,000 bits takes half a second of the event loop.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL:!eNULL:!SHA1:!AESCCM"
#: Headers of every request. `identity` forbids compressed responses, which would have to be unpacked.
_OWN_HEADERS = [("User-Agent", "Punctual"), ("Accept", "*/*"), ("Accept-Encoding", "identity")]


class Client(Protocol):
    """Sends POST requests."""

    async def post(self, to: Allowed, body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        """Post a body, and return the outcome."""
        ...

    async def stop(self) -> None:
        """Close the connections."""


class HttpClient:
    """Posts to hosts, on connections that are kept open for a while."""

    def __init__(self, now_ms: Callable[[], int], resolver: AbstractResolver | None = None) -> None:
        """Begin without connections. Names are resolved by `resolver`, or else by the system."""
        self._now_ms, self._resolver = now_ms, resolver
        #: Hosts that the settings name have connections of their own, because those may reach private addresses.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def post(self, to: Allowed, body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        """Post a body, and return the outcome. Only the status and `Retry-After` of the response are kept."""
        session = self._sessions.get(to.named)
        if session is None:
            session = self._sessions[to.named] = self._session(is_near if to.named else is_global)
        try:
            async with session.post(
                to.target.url, data=body, headers=CIMultiDict([*_OWN_HEADERS, *headers]), allow_redirects=False
            ) as response:
                answer = answer_of(response.status, response.headers.get("Retry-After"), self._now_ms())
                try:  # Exchange drops the body's content; only its end arrives here
                    async with asyncio.timeout(BODY_S):
                        await response.content.read()
                except (aiohttp.ClientError, TimeoutError):  # there is a status already
                    response.close()
                return answer
        except TimeoutError:
            return HttpOutcome(Meaning.AGAIN, "timeout", of_host=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _failure(error)
        except Exception as error:  # noqa: BLE001 - a receiver's response must not affect other requests
            origin = to.target.origin
            log.warning("a response of %s ended with %s", origin, type(error).__name__, extra={"destination": origin})
            return HttpOutcome(Meaning.AGAIN, "no HTTP answer")

    def _session(self, may: Callable[[Address], bool]) -> aiohttp.ClientSession:
        resolver = CheckedResolver(self._resolver or SystemResolver(), may)
        # Without a cache: its addresses would be checked when they are resolved, and used later.
        connector = Connector(
            resolver=resolver,
            use_dns_cache=False,
            family=socket.AF_UNSPEC,
            limit=0,
            keepalive_timeout=_IDLE_S,
            ssl=_tls(),
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("Content-Type",),
        )

    async def stop(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()
        await asyncio.sleep(0)


#: Reasons by kind of error; the first match counts. The error's own text may contain a part of the URL. All but the
#: last one concern the host, whatever the request.
_ERRORS: tuple[tuple[type[BaseException], str], ...] = (
    (AddressRefused, "address not allowed"),
    (aiohttp.ClientConnectorCertificateError, "certificate not trusted"),
    (aiohttp.ClientSSLError, "no TLS"),
    (aiohttp.ClientConnectorDNSError, "name not found"),
    (aiohttp.ClientConnectorError, "no connection"),
    (aiohttp.ClientOSError, "connection lost"),
    (aiohttp.ServerDisconnectedError, "connection lost"),
)


def _failure(error: BaseException) -> HttpOutcome:
    if isinstance(error, AnswerRefusedError):
        return HttpOutcome(Meaning.AGAIN, error.why)
    errors = (error, getattr(error, "os_error", None), error.__cause__)
    why = next((why for of, why in _ERRORS if any(isinstance(one, of) for one in errors)), "")
    return HttpOutcome(Meaning.AGAIN, why or "no HTTP answer", of_host=bool(why))


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return a context that trusts the system's certificates, without handshakes that receivers can make expensive."""
    context = ssl.create_default_context()
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.set_alpn_protocols(["http/1.1"])
    return context
