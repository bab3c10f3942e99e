"""Asks the other workers over HTTP for rows: only the owner of a partition has its rows."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from app.base.listening.tls import Trust
from app.serve.web.problem import TypedProblem

#: The time for a connection and a response, in addition to the time of the request's work.
_PATIENCE_S, _CONNECT_S = 6.0, 2.0
_UNSUPPORTED: Final = "the worker does not support this request"


class Missing(msgspec.Struct, frozen=True):
    """Partitions without a known result, their owner, if known, and the reason."""

    partitions: list[int]
    worker: str | None
    why: str


class WorkerPart(msgspec.Struct, kw_only=True):
    """A worker's part of a result, with the partitions that it covers."""

    partitions: list[int]


T = TypeVar("T", bound=WorkerPart)
Kind = TypeVar("Kind")


class Peers:
    """Sends requests to the workers in the progress reports; the first request makes the session."""

    def __init__(
        self, owners: Callable[[], Mapping[int, str]], own_url: str, secret: str = "", tls_cert: str = ""
    ) -> None:
        """Use the URLs that `owners` returns, by partition; workers prove with `secret` that they are workers.

        Trust the certificates in the file `tls_cert`, too.
        """
        self._trust = Trust(tls_cert)
        self._owners, self._own_url = owners, own_url
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask_all(
        self,
        path: str,
        query: Mapping[str, str],
        here: Iterable[int],
        partitions: int,
        kind: type[T],
        seconds: float = 0.0,
    ) -> tuple[list[T], list[Missing]]:
        """Ask every worker that owns a partition that is not `here`, and return the responses of type `kind`.

        A worker's work may take `seconds`. Partitions that no response covers are returned as missing.
        """
        left, owners = set(range(partitions)) - set(here), self._owners()
        of: dict[str | None, list[int]] = {}
        for number in sorted(left):
            of.setdefault(owners.get(number), []).append(number)
        urls = [url for url in of if url is not None and url != self._own_url]
        requests = (self.ask(kind, url, path, query, seconds) for url in urls)
        results = await asyncio.gather(*requests, return_exceptions=True)
        answers, missing = list[T](), list[Missing]()
        for number in of.pop(None, []):
            missing.append(Missing([number], None, "no worker has reported this partition yet"))
        if self._own_url in of:
            missing.append(Missing(of[self._own_url], self._own_url, "the worker is taking the partition over"))
        for url, answer in zip(urls, results, strict=True):
            if answer is None or isinstance(answer, BaseException):
                missing.append(Missing(of[url], url, str(answer or _UNSUPPORTED)))
                continue
            answers.append(answer)
            gone = sorted(set(of[url]) - set(answer.partitions))
            if gone:
                missing.append(Missing(gone, url, "the worker is handing the partition over"))
        return answers, missing

    async def tell_all(self, path: str, query: Mapping[str, str]) -> None:
        """Send a request to every other worker, and ignore the responses and errors."""
        urls = set(self._owners().values()) - {self._own_url}
        await asyncio.gather(*(self._get(_url(url, path, query)) for url in urls), return_exceptions=True)

    async def ask(
        self, kind: type[Kind], url: str, path: str, query: Mapping[str, str], seconds: float = 0.0
    ) -> Kind | None:
        """Return a worker's response of type `kind`, which may take `seconds`; None for 404. Raises PeerSilent."""
        answer = await self._get(_url(url, path, query), seconds=seconds)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise PeerSilent(f"the worker answered {answer.status}{_detail(answer.body)}")
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.ValidationError as error:
            raise PeerSilent(_UNSUPPORTED) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise PeerSilent(f"it does not answer ({type(error).__name__})") from error

    async def relay(self, url: str, path_qs: str, headers: Mapping[str, str], seconds: float) -> "PeerAnswer":
        """Return a worker's response to a user's request for an encoded path and query, which may take `seconds`.

        Raises PeerSilent if there is none, or the worker does not know the secret.
        """
        answer = await self._get(URL(url + path_qs, encoded=True), headers, seconds)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise PeerSilent("it does not take this server for one of its own: set the same DELAY_WEB_SECRET on both")
        return answer

    async def _get(self, url: URL, headers: Mapping[str, str] | None = None, seconds: float = 0.0) -> "PeerAnswer":
        """Return the answer of a peer, which may take `seconds` longer than usual. Raises PeerSilent."""
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers)
        patience = aiohttp.ClientTimeout(total=_PATIENCE_S + seconds, connect=_CONNECT_S)
        try:
            tls = self._trust.context() if url.scheme == "https" else True
            request = self._session.get(url, headers=headers, allow_redirects=False, timeout=patience, ssl=tls)
            async with request as answer:
                return PeerAnswer(answer.status, answer.headers, answer.content_type, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PeerSilent(f"it does not answer ({type(error).__name__})") from error


class PeerAnswer(NamedTuple):
    """A worker's response."""

    status: int
    headers: Mapping[str, str]
    content_type: str
    body: bytes


class PeerSilent(TypedProblem):
    """A worker has not answered, or not usefully."""

    type_name = "unreachable"


def _url(url: str, path: str, query: Mapping[str, str]) -> URL:
    return URL(url + path).with_query(query)


def _detail(body: bytes) -> str:
    try:
        return f": {msgspec.json.decode(body)['detail']}"
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return ""
