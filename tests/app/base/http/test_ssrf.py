"""No URL leads to a private address: the same list applies at acceptance and when a connection is made."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Network, ip_address
from pathlib import Path
from typing import Any

import aiohappyeyeballs
import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from app.base.http import addresses, allow_list, client, target
from app.base.http.allow_list import AllowList
from app.base.http.answers import HttpOutcome
from app.base.http.client import HttpClient
from app.base.http.resolver import CheckedResolver
from app.base.http.target import target_of
from tests.app.base.http import hostile
from tests.app.workbench import Workbench

#: As wide as settings can make it without naming anybody.
WIDE = ("*", "https://*", "https://*:*", "https://*.example.com:*", "https://10.*", "https://127.*")
GOOD = "93.184.216.34"


class Said(AbstractResolver):
    """A resolver in an attacker's hands."""

    def __init__(self, *answers: Mapping[str, Sequence[str]]) -> None:
        """Give these answers, one after the other, the last one again and again."""
        self._answers, self.asked = answers, Counter[str]()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:  # noqa: ARG002 - theirs
        answers = self._answers[min(self.asked[host], len(self._answers) - 1)]
        self.asked[host] += 1
        return [
            ResolveResult(
                hostname=host,
                host=one,
                port=port,
                family=socket.AF_INET if ip_address(one).version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for one in answers.get(host, (GOOD,))
        ]

    async def close(self) -> None:
        """Close no resources."""


class Dialled(Exception):
    """A connection would have been made."""


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which a connection was attempted; none succeeds."""
    found: list[str] = []

    async def start_connection(addr_infos: Sequence[Any], **_: Any) -> Any:
        found.extend(info[4][0] for info in addr_infos)
        raise OSError("simulated")

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", start_connection)
    return found


async def connect(url: str, allowed: AllowList, resolver: AbstractResolver) -> HttpOutcome | None:
    """Post to a URL as a worker does; None if it is refused before."""
    posts = HttpClient(lambda: 0, resolver)
    try:
        return await posts.post(allowed.allowed(url), b"", [])
    except ValueError:
        return None
    finally:
        await posts.stop()


async def let_through(urls: Sequence[str], dialled: list[str]) -> list[str]:
    """Return the URLs for which a connection to a private address, or to any port, is attempted."""
    allowed, through = AllowList(WIDE), []
    for url in urls:
        dialled.clear()
        await connect(url, allowed, Said(hostile.ADDRESSES))
        if dialled:
            through.append(url)
    return through


def test_the_list_has_many_urls() -> None:
    assert len(set(hostile.ALL)) == len(hostile.ALL)
    assert len(hostile.ALL) >= 200


@pytest.mark.parametrize("url", hostile.WRITTEN)
def test_what_can_be_seen_is_refused_at_acceptance(url: str, tmp_path: Path) -> None:
    https = ",".join(WIDE[1:])
    bench = Workbench(
        tmp_path / "bench.db",
        DELAY_DESTINATIONS="orders",
        DELAY_HTTP_DESTINATIONS=f"*,{https}",
        DELAY_CALLBACKS=https,
    )
    try:
        bench.ask(delay_to=url, delay_at="0")
        bench.ask(delay_to="orders", delay_at="x", delay_on_failure=url)

        assert [event["event"] for event in bench.events] == ["refused", "refused"]
        assert not list(bench.store.rows())
    finally:
        bench.close()


async def test_none_gets_through_where_connections_are_made(dialled: list[str]) -> None:
    assert await let_through(hostile.ALL, dialled) == []


async def test_a_name_of_the_world_does(dialled: list[str]) -> None:
    await connect("https://good.example.com/", AllowList(WIDE), Said({}))
    assert dialled == [GOOD]
    dialled.clear()
    await connect("https://93.184.216.34/", AllowList(WIDE), Said({}))
    await connect("https://1572395042/", AllowList(WIDE), Said({}))
    await connect("https://[2606:2800:220:1::1]/", AllowList(WIDE), Said({}))
    await connect("https://nat64.example.com/", AllowList(WIDE), Said({"nat64.example.com": ("64:ff9b::5db8:d822",)}))
    assert dialled == [GOOD, GOOD, "2606:2800:220:1::1", "64:ff9b::5db8:d822"]


async def test_a_name_that_resolves_differently_the_second_time_is_connected_to_its_first_address(
    dialled: list[str],
) -> None:
    first, then = {"rebind.example.com": (GOOD,)}, {"rebind.example.com": ("127.0.0.1",)}
    said = Said(first, then)
    posts = HttpClient(lambda: 0, said)
    allowed = AllowList(WIDE).allowed("https://rebind.example.com/")
    answers = [await posts.post(allowed, b"", []) for _ in range(3)]
    await posts.stop()

    assert dialled == [GOOD]
    assert said.asked["rebind.example.com"] == 3
    assert [answer.why for answer in answers] == ["no connection", "address not allowed", "address not allowed"]


async def test_the_system_resolver_is_asked_once_for_each_connection(
    dialled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server on the private address is real, and receives no request."""
    answers = iter([GOOD, "127.0.0.1", "127.0.0.1"])
    asked = []

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    posts = HttpClient(lambda: 0)
    allowed = AllowList(WIDE).allowed("https://rebind.example.com/")
    for _ in range(3):
        await posts.post(allowed, b"", [])
    await posts.stop()

    assert asked == ["rebind.example.com"] * 3
    assert dialled == [GOOD]


async def test_what_resolves_to_metadata_is_refused_even_if_its_name_is_listed(dialled: list[str]) -> None:
    names = {
        "hooks.corp": ("169.254.169.254",),
        "hooks.lan": ("fd00:ec2::254",),
        "hooks": ("100.100.100.200",),
        "down": (hostile.ANY,),
    }
    for name in names:
        await connect(f"http://{name}/", AllowList([f"http://{name}"]), Said(names))
    assert dialled == []
    await connect("http://hooks.corp/", AllowList(["http://hooks.corp"]), Said({"hooks.corp": ("10.1.2.3",)}))
    assert dialled == ["10.1.2.3"]


async def test_a_private_host_is_reached_only_by_a_list_that_names_it(dialled: list[str]) -> None:
    """One list's connections are not another's."""
    said = Said({"hooks.example.com": ("10.1.2.3",)})
    posts = HttpClient(lambda: 0, said)
    await posts.post(AllowList(["https://hooks.example.com"]).allowed("https://hooks.example.com/"), b"", [])
    await posts.post(AllowList(["https://*.example.com"]).allowed("https://hooks.example.com/"), b"", [])
    await posts.stop()
    assert dialled == ["10.1.2.3"]


# each guard is needed -------------------------------------------------------------------------------------------------
Removal = Callable[[pytest.MonkeyPatch], None]


def _without(of: Any, name: str, place: int) -> Removal:
    def remove(patch: pytest.MonkeyPatch) -> None:
        all_of_them = list(getattr(of, name))
        patch.setattr(of, name, tuple(all_of_them[:place] + all_of_them[place + 1 :]))

    return remove


def _set(of: Any, name: str, value: Any) -> Removal:
    return lambda patch: patch.setattr(of, name, value)


class _Never:
    """A pattern that is found nowhere."""

    def search(self, _: str) -> None:
        """Find nothing."""

    match = fullmatch = search


class _Always(_Never):
    """A pattern that everything is."""

    def fullmatch(self, _: str) -> bool:  # type: ignore[override]
        """Find it."""
        return True


async def _unchecked(self: CheckedResolver, host: str, port: int = 0, family: Any = 0) -> Any:
    return await self._resolver.resolve(host, port, family)


async def _some_checked(self: CheckedResolver, host: str, port: int = 0, family: Any = 0) -> Any:
    found = await self._resolver.resolve(host, port, family)
    if not any(self._may(ip_address(one["host"])) for one in found):
        raise OSError
    return found


REMOVALS: dict[str, Removal] = {
    **{
        f"network {network}": _without(addresses, "RESERVED", place) for place, network in enumerate(addresses.RESERVED)
    },
    **{
        f"network {network}": _without(addresses, "RESERVED_6", place)
        for place, network in enumerate(addresses.RESERVED_6)
    },
    "what IANA has given out": _set(addresses, "GLOBAL_6", IPv6Network("::/0")),
    **{f"names of {name}": _without(allow_list, "LOCAL", place) for place, name in enumerate(allow_list.LOCAL)},
    "public hosts only": _set(allow_list, "_assure_public", lambda _: None),
    "addresses as literals": _set(allow_list, "is_global", lambda _: True),
    "resolved addresses": _set(CheckedResolver, "resolve", _unchecked),
    "all resolved addresses": _set(CheckedResolver, "resolve", _some_checked),
    "odd spellings": _set(target, "_NUMBER", _Never()),
    "labels": _set(target, "_LABEL", _Always()),
    "clean characters": _set(target, "_UNCLEAN", _Never()),
    "brackets": _set(target, "_BRACKETS", _Never()),
    "users": _set(target, "_USER", _Never()),
    "length": _set(target, "_assure_short", lambda _: None),
    "ports": _set(allow_list.Pattern, "opens", lambda *_: True),
    "schemes": _set(allow_list.Pattern, "admits", lambda *_: True),
}


@pytest.mark.parametrize("guard", REMOVALS)
async def test_without_a_guard_something_gets_through(
    guard: str, dialled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    REMOVALS[guard](monkeypatch)

    assert await let_through(hostile.ALL, dialled)


def test_every_network_that_stands_for_another_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, network in enumerate(addresses.EMBEDDING):
        with monkeypatch.context() as patch:
            _without(addresses, "EMBEDDING", place)(patch)
            public = network.network_address + int(ip_address(GOOD))
            assert not addresses.is_global(public)  # without it, none in it is the world's
        assert addresses.is_global(public)


def test_the_address_that_was_checked_is_the_address_of_the_connection() -> None:
    for url in (
        "https://EXAMPLE.com.:443/a/../b?c=d#e",
        "https://0x5db8d822/",
        "https://ex\u00e4mple.com/\u00e9?q=\u00e9",
    ):
        once = target_of(url)
        assert target_of(str(once.url)) == once
        assert once.url.raw_host == once.host


async def test_sessions_take_no_proxy_cookie_or_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    posts = HttpClient(lambda: 0)
    session = posts._session(addresses.is_global)
    assert session.trust_env is False
    assert isinstance(session.cookie_jar, aiohttp.DummyCookieJar)
    await session.close()
    assert client.TIMEOUT_S == 15
    await asyncio.sleep(0)
