"""A stream of events ends with the right to listen to it: it asks again with each event who listens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientResponse

from app.base.clock import Clock
from app.serve.access.entries import Provider
from app.serve.access.oidc import _digest
from app.serve.access.sessions import IDLE_S, CookieSigner, Session
from app.serve.console.live import MOST
from tests.app.serve.access.conftest import SECRET, Client, hashed, oidc, oidc_tables, served, session_key, shown
from tests.app.serve.access.test_within import TEAMS

PATIENCE_S = 10.0


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"ann:viewer:{hashed('ann')}\nbob:viewer:{hashed('bob')}:team-a\n", "utf-8")
    return path


@pytest.fixture
async def client(users: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr("app.base.watched_file._EVERY_S", 0.0)
    monkeypatch.setattr("app.serve.console.live.EVERY_S", 0.02)
    async with served(real_below="/api/v1/events", DELAY_WEB_USERS_FILE=users, **TEAMS) as client:
        yield client


async def listen(client: Client, headers: dict[str, str]) -> ClientResponse:
    """Return a stream that has told something."""
    answer = await client.get("/api/v1/events", headers=headers)
    assert answer.status == 200
    await told(answer)
    return answer


async def told(stream: ClientResponse) -> dict[str, object]:
    """Return the next event."""
    while True:
        line = await asyncio.wait_for(stream.content.readline(), PATIENCE_S)
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            found: dict[str, object] = msgspec.json.decode(line.removeprefix(b"data: "))
            return found


async def ended(stream: ClientResponse) -> bool:
    """Whether a stream ends soon."""
    try:
        await asyncio.wait_for(stream.content.read(), PATIENCE_S)
    except TimeoutError:
        return False
    return True


async def test_a_stream_continues_while_the_line_of_its_user_stays(client: Client, users: Path) -> None:
    stream = await listen(client, shown("ann"))
    text = await asyncio.to_thread(users.read_text)
    await asyncio.to_thread(users.write_text, text + f"eve:admin:{hashed('eve')}\n")
    for _ in range(5):
        await told(stream)
    stream.close()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ann", lambda text: text.replace("ann:viewer", "ann:operator")),
        ("ann", lambda text: text.replace("ann:", "eve:")),
        (
            "ann",
            lambda text: text.replace("bob", "eve").replace("ann:viewer:", f"ann:viewer:{hashed('new')}\nx:viewer:"),
        ),
        ("ann", lambda text: text.replace("\nbob", ":team-a\nbob")),
        ("bob", lambda text: text.replace(":team-a", ":team-b")),
        ("bob", lambda text: text.replace(":team-a", "")),
    ],
    ids=("another role", "gone", "another password", "bound", "bound to another", "not bound any more"),
)
async def test_a_stream_ends_when_its_line_of_the_users_file_changes(
    client: Client, users: Path, name: str, change: Callable[[str], str]
) -> None:
    stream = await listen(client, shown(name))
    text = await asyncio.to_thread(users.read_text)
    assert change(text) != text
    await asyncio.to_thread(users.write_text, change(text))
    assert await ended(stream)


async def test_bound_callers_learn_of_changes_without_numbers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = {"ready": True, "at_ms": 1, "pending": 7, "overdue": 1, "next_due_ms": 2, "level": "good", "verdict": "v"}
    monkeypatch.setattr("app.serve.console.live.LiveUpdates._summary", lambda _: summary)
    whole, bound = await listen(client, shown("ann")), await listen(client, shown("bob"))
    assert await told(whole) == summary
    assert await told(bound) == {"ready": True, "at_ms": 1}
    whole.close()
    bound.close()


async def by_session(client: Client, env: dict[str, str]) -> dict[str, str]:
    """Return the cookie of a session that the worker has given."""
    now_s = Clock.wall_ms() // 1_000
    table = oidc_tables(env)["provider"]
    digest = _digest(Provider(**table))
    session = Session(id="s", name="cat", groups=(), provider=digest, began_s=now_s, used_s=now_s)
    headers = {"Cookie": f"punctual-session={CookieSigner(session_key(), 'session').sign(session)}"}
    assert await (await client.get("/jobs", headers=headers)).text() == "cat:viewer"
    return headers


async def _signs_out(client: Client, headers: dict[str, str], _: pytest.MonkeyPatch) -> None:
    given = {**headers, "Sec-Fetch-Site": "same-origin"}
    assert (await client.post("/sign-out", headers=given, allow_redirects=False)).status == 303


async def _signs_out_elsewhere(client: Client, _: dict[str, str], __: pytest.MonkeyPatch) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    assert (await client.get("/api/v1/local/signed-out", params={"id": "s"}, headers=headers)).status == 200


async def _does_nothing_for_long(_: Client, __: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    later_s = Clock.wall_ms() // 1_000 + IDLE_S
    monkeypatch.setattr("app.serve.access.sessions._now_s", lambda: later_s)


@pytest.mark.parametrize("end", [_signs_out, _signs_out_elsewhere, _does_nothing_for_long])
async def test_a_stream_ends_with_its_session(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    end: Callable[[Client, dict[str, str], pytest.MonkeyPatch], Awaitable[None]],
) -> None:
    monkeypatch.setattr("app.serve.console.live.EVERY_S", 0.02)
    monkeypatch.setattr("app.serve.search.search.Search.tell_signed_out", lambda *_: asyncio.sleep(0))
    env = oidc(tmp_path, issuer="http://127.0.0.1:1", client_id="punctual", roles="*=viewer@team-a")
    async with served(real_below="/api/v1/events", **TEAMS, **env, DELAY_WEB_SECRET=SECRET) as client:
        headers = await by_session(client, env)
        stream = await listen(client, headers)
        for _ in range(3):
            await told(stream)
        await end(client, headers, monkeypatch)
        assert await ended(stream)


async def test_one_viewer_leaves_room_for_others(client: Client) -> None:
    mine = [await listen(client, shown("ann")) for _ in range(MOST // 2)]

    refused = await client.get("/api/v1/events", headers=shown("ann"))
    assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
    assert f"{MOST // 2} of them yours" in (await refused.json())["detail"]

    mine.pop().close()
    async with asyncio.timeout(PATIENCE_S):
        while (again := await client.get("/api/v1/events", headers=shown("ann"))).status != 200:
            await again.read()
    others = [await listen(client, shown("bob")) for _ in range(MOST // 4)]
    for stream in (*mine, *others, again):
        stream.close()
