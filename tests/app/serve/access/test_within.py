"""Route by role by namespace: whoever is bound to one is let in where the answer keeps to it, and nowhere else."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.serve.access.caller import ROLES, Caller, enough
from app.serve.access.permissions import NEEDS, WITHIN
from app.settings.settings import Settings
from tests.app.serve.access.conftest import SECRET, Client, hashed, served, shown, stubbed

TEAMS: Final = {"DELAY_INPUTS": "a-in=native,b-in=native", "DELAY_NAMESPACES": "a-in=team-a,b-in=team-b"}
#: Where whoever is bound is let in, spelled out once more: a new address has to be put into one of these by hand.
LET_IN: Final = {
    *("GET /", "GET /find", "GET /find/all", "GET /messages/{id}", "GET /new", "GET /recurring", "GET /jobs"),
    *("GET /jobs/{id}", "GET /dead-letters", "GET /dead-letters/all", "GET /dead-letters/{partition}-{offset}"),
    *("GET /sign-in/password", "GET /audit", "POST /new", "POST /find/all", "POST /dead-letters/all"),
    *("POST /messages/{id}/{act}", "POST /jobs/{id}/stop", "POST /dead-letters/{partition}-{offset}/resend"),
    *("GET /api/v1/messages", "GET /api/v1/messages/count", "GET /api/v1/messages/{id}", "GET /api/v1/timeline"),
    *("GET /api/v1/namespaces", "GET /api/v1/events", "GET /api/v1/jobs", "GET /api/v1/jobs/{id}", "GET /api/v1/audit"),
    *("GET /api/v1/dead-letters", "GET /api/v1/dead-letters/count"),
    *("GET /api/v1/dead-letters/{partition}-{offset}", "POST /api/v1/dead-letters/{partition}-{offset}/resend"),
    *("POST /api/v1/messages", "POST /api/v1/jobs", "POST /api/v1/jobs/{id}/stop"),
    *(f"POST /api/v1/messages/{{id}}/{act}" for act in ("cancel", "reschedule", "deliver-now", "pause", "resume")),
}
KEPT_OUT: Final = {
    *("GET /metrics", "GET /api/v1/overview", "GET /api/v1/partitions", "GET /api/v1/destinations"),
    *("GET /api/v1/partitions/{partition}/destinations", "GET /api/v1/history", "GET /api/v1/findings"),
    *("GET /destinations", "GET /destinations/{name}", "GET /workers"),
    *(f"POST /api/v1/destinations/{{to}}/{act}" for act in ("pause", "resume", "rate")),
    *(f"POST /destinations/{{name}}/{act}" for act in ("pause", "resume", "rate")),
}
FILLED: Final = {"act": "cancel", "partition": "0", "offset": "1"}


def address(place: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: FILLED.get(found[1], "x"), place.partition(" ")[2])


@pytest.fixture
def bound(tmp_path: Path) -> Path:
    """Users called after their role, and after their namespace where they are bound to one."""
    binding = {"": "", "-a": ":team-a", "-ab": ":team-a,team-b"}
    users = [(role, mark) for role in ROLES for mark in binding]
    path = tmp_path / "users"
    path.write_text(
        "".join(f"{role}{mark}:{role}:{hashed(role + mark)}{binding[mark]}\n" for role, mark in users), "utf-8"
    )
    return path


@pytest.fixture
async def client(bound: Path) -> AsyncIterator[Client]:
    async with served(DELAY_WEB_USERS_FILE=bound, DELAY_WEB_SECRET=SECRET, **TEAMS) as client:
        yield client


def test_each_address_that_a_role_opens_is_judged_for_whoever_is_bound() -> None:
    opened = {place for place, need in NEEDS.items() if need in ROLES}
    assert not LET_IN & KEPT_OUT
    assert opened ^ (LET_IN | KEPT_OUT) == set()
    assert WITHIN == LET_IN


async def test_each_role_and_namespace_is_let_in_where_the_table_says_so_and_nowhere_else(client: Client) -> None:
    wrong = []
    for place in sorted(LET_IN | KEPT_OUT):
        need = NEEDS[place]
        assert need in ROLES
        for role in ROLES:
            for mark in ("", "-a", "-ab"):
                headers = {"Content-Type": "application/json", **shown(f"{role}{mark}")}
                method = place.partition(" ")[0]
                answer = await client.request(method, address(place), headers=headers, allow_redirects=False)
                said = await answer.text()
                may = enough(role, need) and (not mark or place in LET_IN)
                right = 303 if place == "GET /sign-in/password" else 200
                if answer.status != (right if may else 403) or (
                    right == 200 and may and said != f"{role}{mark}:{role}"
                ):
                    wrong.append((place, role, mark, answer.status, said))
    assert wrong == []


async def test_a_route_of_which_nothing_is_said_for_the_bound_keeps_them_out(
    bound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web_app = stubbed(Settings.from_env({"DELAY_WEB_USERS_FILE": str(bound), **TEAMS}))
    web_app.router.add_get("/api/v1/new-one", _done)
    monkeypatch.setattr("app.serve.access.gate.NEEDS", {**NEEDS, "GET /api/v1/new-one": "viewer"})
    web_app.middlewares[:] = stubbed(Settings.from_env({"DELAY_WEB_USERS_FILE": str(bound), **TEAMS})).middlewares
    async with TestClient(TestServer(web_app)) as client:
        assert (await client.get("/api/v1/new-one", headers=shown("viewer"))).status == 200
        answer = await client.get("/api/v1/new-one", headers=shown("admin-a"))
        assert answer.status == 403
        assert "the whole installation" in (await answer.json())["detail"]


async def _done(_: web.Request) -> web.Response:
    return web.Response()


async def test_what_workers_tell_each_other_and_what_there_is_not_is_told_to_nobody_bound(client: Client) -> None:
    for place in (place for place, need in NEEDS.items() if need == "workers"):
        assert (await client.get(address(place), headers=shown("admin-a"))).status == 401
    assert (await client.get("/api/v1/nothing", headers=shown("admin-a"))).status == 404


async def test_no_page_of_another_site_acts_for_whoever_is_bound(client: Client) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        given = {"Content-Type": "application/json", **shown("admin-a"), **headers}
        for place in (place for place in LET_IN if place.startswith("POST ")):
            assert (await client.post(address(place), headers=given)).status == 403


def test_pages_lead_where_their_reader_may_go() -> None:
    from app.serve.access.permissions import may  # noqa: PLC0415 - beside the other tests of what is let in
    from app.serve.console.render import NAVIGATION  # noqa: PLC0415

    def seen(role: str, namespaces: tuple[str, ...] | None) -> list[str]:
        caller = Caller("x", role, namespaces=namespaces)  # type: ignore[arg-type] # it is one of them
        return [name for address, name in NAVIGATION if may(caller, f"GET {address}")]

    assert seen("admin", None) == [name for _, name in NAVIGATION]
    assert seen("viewer", None) == [name for _, name in NAVIGATION if name != "Audit"]
    assert seen("viewer", ("team-a",)) == ["Home", "Find", "Dead letters", "Recurring", "Jobs"]
    assert seen("admin", ("team-a",)) == ["Home", "Find", "Dead letters", "Recurring", "Jobs", "Audit"]
