"""The other workers, asked over HTTP for what only they have: each partition's rows are with its owner alone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec

#: Beyond what a worker may take for what it is asked.
_PATIENCE_S, _CONNECT_S = 6.0, 2.0


class Missing(msgspec.Struct, frozen=True):
    """Partitions of which nothing is known here, who serves them, as far as that is known, and what went wrong."""

    partitions: list[int]
    worker: str | None
    why: str


class Spoken(Protocol):
    """What a worker says, and for which partitions it stands."""

    @property
    def partitions(self) -> list[int]:
        """Those of which it has spoken."""


T = TypeVar("T", bound=Spoken)


class Peers:
    """Asks the workers that the progress reports name; the session is made with the first question."""

    def __init__(self, owners: Callable[[], Mapping[int, str]], own_url: str, secret: str = "") -> None:
        """Ask those that `owners` gives, by partition; `secret` is what workers know each other by."""
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
        """Ask every worker that serves one of so many partitions that are not `here`; return their answers of a `kind`.

        It may take so many seconds. Partitions of which nobody has spoken are missing.
        """
        left, owners = set(range(partitions)) - set(here), self._owners()
        of: dict[str | None, list[int]] = {}
        for number in sorted(left):
            of.setdefault(owners.get(number), []).append(number)
        urls = [url for url in of if url is not None and url != self._own_url]
        asked = (self._ask_for(kind, url, path, query, seconds) for url in urls)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found, missing = list[T](), list[Missing]()
        for number in of.pop(None, []):
            missing.append(Missing([number], None, "no worker has reported this partition yet"))
        if self._own_url in of:
            missing.append(Missing(of[self._own_url], self._own_url, "the worker is taking the partition over"))
        for url, answer in zip(urls, answers, strict=True):
            if isinstance(answer, BaseException):
                missing.append(Missing(of[url], url, str(answer)))
                continue
            found.append(answer)
            gone = sorted(set(of[url]) - set(answer.partitions))
            if gone:
                missing.append(Missing(gone, url, "the worker is handing the partition over"))
        return found, missing

    async def _ask_for(self, kind: type[T], url: str, path: str, query: Mapping[str, str], seconds: float) -> T:
        """Return a worker's answer of a kind; another version, or what else listens there, may have none."""
        try:
            return msgspec.convert(await self.ask(url, path, query, seconds), kind)
        except msgspec.ValidationError as error:
            raise PeerSilent("the worker does not support this request") from error

    async def tell_all(self, path: str, query: Mapping[str, str]) -> None:
        """Tell every other worker something; whether one has heard it nobody learns."""
        urls = set(self._owners().values()) - {self._own_url}
        await asyncio.gather(*(self.ask(url, path, query) for url in urls), return_exceptions=True)

    async def ask(self, url: str, path: str, query: Mapping[str, str], seconds: float = 0.0) -> Any:
        """Return a worker's answer, which may take so many seconds; None if it has not what is asked for.

        Raises PeerSilent with a sentence if there is none that is of use.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers)
        patience = aiohttp.ClientTimeout(total=_PATIENCE_S + seconds, connect=_CONNECT_S)
        where = f"{url}{path}"
        try:
            async with self._session.get(where, params=query, allow_redirects=False, timeout=patience) as answer:
                body = await answer.read()
                if answer.status == HTTPStatus.NOT_FOUND:
                    return None
                if answer.status != HTTPStatus.OK:
                    raise PeerSilent(f"the worker answered {answer.status}{_said(body)}")
                return msgspec.json.decode(body)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, RecursionError) as error:
            raise PeerSilent(f"it does not answer ({type(error).__name__})") from error


class PeerSilent(Exception):
    """A worker that has not answered, or not with what was asked for."""


def _said(body: bytes) -> str:
    try:
        return f": {msgspec.json.decode(body)['detail']}"
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return ""
