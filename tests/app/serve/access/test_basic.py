"""Passwords over HTTP: a known password costs no time; guessing is slow, and reveals no user."""

import asyncio
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import encode_basic_auth

from app.base.listening.limits import network
from app.serve.access.access_file import AccessFile
from app.serve.access.basic import Basic, LoginFailures
from app.serve.access.password import Hash
from tests.app.serve.access.conftest import SECRET, Client, hashed, served, shown
from tests.harness.waiting import LIMIT_S


@pytest.fixture
async def client(users: Path) -> AsyncIterator[Client]:
    async with served(DELAY_WEB_USERS_FILE=users, DELAY_WEB_SECRET=SECRET) as client:
        yield client


def guess(name: str, password: str = "wrong") -> dict[str, str]:  # noqa: S107 - it is
    return {"Authorization": encode_basic_auth(name, password)}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Return what each hash costs that is made from now on."""
    costs: list[tuple[int, int, int]] = []
    real = Hash.fits

    def fits(self: Hash, password: str) -> bool:
        costs.append((self.ln, self.r, self.p))
        return real(self, password)

    monkeypatch.setattr(Hash, "fits", fits)
    return costs


@pytest.mark.parametrize("path", ["/", "/api/v1/overview", "/sign-in/password?next=/find"])
async def test_requests_without_credentials_get_a_challenge(client: Client, path: str) -> None:
    answer = await client.get(path, allow_redirects=False)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="Punctual", charset="UTF-8"'
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "shown_",
    [
        *("Basic", "Basic ", "Basic !!!", "Basic YWRtaW4=", "Basic OmFkbWlu", f"Basic {'x' * 5_000}", "Bearer x"),
        *("Digest x", f"Bearer {SECRET}", "basic", encode_basic_auth("admin", ""), encode_basic_auth("", "admin")),
        *(encode_basic_auth("admin", "admin\0"), encode_basic_auth("Admin", "admin")),
    ],
)
async def test_wrong_credentials_are_refused(client: Client, shown_: str) -> None:
    answer = await client.get("/api/v1/overview", headers={"Authorization": shown_})
    assert (answer.status, "detail" in await answer.json()) == (401, True)


async def test_a_password_is_hashed_once_and_again_when_the_users_line_changes(
    client: Client, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = counted(monkeypatch)
    for _ in range(3):
        assert (await client.get("/", headers=shown("viewer"))).status == 200
    assert len(hashes) == 1
    await asyncio.to_thread(users.write_text, f'[users.viewer]\nrole = "viewer"\npassword = "{hashed("another")}"\n')
    monkeypatch.setattr("app.base.watched_file._EVERY_S", 0.0)
    assert (await client.get("/", headers=shown("viewer"))).status == 401
    assert (await client.get("/", headers=guess("viewer", "another"))).status == 200


async def test_an_unknown_name_takes_as_long_as_a_known_name(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = counted(monkeypatch)
    for name in ("viewer", "nobody"):
        assert (await client.get("/", headers=guess(name))).status == 401
    assert costs == [(4, 1, 1)] * 2


async def test_guessing_is_slowed_down_and_known_callers_continue(client: Client) -> None:
    assert (await client.get("/", headers=shown("viewer"))).status == 200
    answers = [await client.get("/api/v1/overview", headers=guess("admin")) for _ in range(7)]
    assert [answer.status for answer in answers] == [401] * 5 + [429] * 2
    assert answers[-1].headers["Retry-After"] == "1"
    assert "too many failed logins" in (await answers[-1].json())["detail"]
    assert (await client.get("/", headers=shown("admin"))).status == 429
    assert (await client.get("/", headers=shown("viewer"))).status == 200


async def test_parallel_guesses_get_no_more_tries(client: Client) -> None:
    answers = await asyncio.gather(*(client.get("/", headers=guess("admin", f"{n}")) for n in range(40)))
    assert sum(answer.status == 401 for answer in answers) == 5
    assert {answer.status for answer in answers} == {401, 429}


async def test_guesses_from_one_address_leave_turns_for_others(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(Hash, "fits", lambda *_: free.wait(LIMIT_S) and False)
    basic = Basic(AccessFile("DELAY_WEB_USERS_FILE", str(users), ()))
    wrong = b64encode(b"ann:wrong").decode()
    many = [asyncio.create_task(basic.user(wrong, "192.0.2.1")) for _ in range(200)]
    await asyncio.sleep(0.01)
    other = asyncio.create_task(basic.user(wrong, "192.0.2.2"))
    await asyncio.sleep(0.01)
    try:
        assert (sum(not one.done() for one in many), other.done()) == (25, False)
    finally:
        free.set()
        await asyncio.gather(*many, other, return_exceptions=True)


def test_each_failure_doubles_the_wait_up_to_a_minute_and_is_forgotten() -> None:
    failures = LoginFailures()
    waits = []
    for _ in range(14):
        failures.failed("192.0.2.1", 0.0)
        waits.append(failures.wait_s("192.0.2.1", 0.0))
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert failures.wait_s("192.0.2.2", 0.0) == 0
    assert failures.wait_s("192.0.2.1", 59.0) == 1
    assert failures.wait_s("192.0.2.1", 1_000.0) == 0


def test_the_number_of_remembered_addresses_has_a_maximum_and_an_ipv6_network_counts_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("::ffff:192.0.2.1") != network("::ffff:192.0.2.2")
    assert network("fe80::1%eth0") == network("fe80::2")
    monkeypatch.setattr("app.serve.access.basic._MOST_ADDRESSES", 10)
    failures = LoginFailures()
    for number in range(1_000):
        failures.failed(f"192.0.2.{number}", 0.0)
    assert len(failures._known) == 10
