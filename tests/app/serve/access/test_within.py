"""Route by role by namespace: a caller bound to a namespace may use the routes whose answers are limited to it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.serve.access.caller import ROLES, Caller
from app.serve.access.former import as_toml
from app.serve.access.permissions import NEEDS, WITHIN
from app.settings.settings import Settings
from tests.app.serve.access.conftest import SECRET, Client, bearer, served, shown, stubbed, user
from tests.app.serve.access.table import BOTH, GATEWAY, WORKER, address, may

TEAMS: Final = {"DELAY_INPUTS": "a-in=native,b-in=native", "DELAY_NAMESPACES": "a-in=team-a,b-in=team-b"}
#: The namespaces of users, by the end of their names.
MARKS: Final[dict[str, tuple[str, ...]]] = {"": (), "-a": ("team-a",), "-ab": ("team-a", "team-b")}


@pytest.fixture
def bound(tmp_path: Path) -> Path:
    """Users called after their role, and after their namespace where they are bound to one."""
    tables = {
        f"{role}{mark}": user(role, *teams, name=f"{role}{mark}", program=f"{role}{mark}", rate=100_000)
        for role in ROLES
        for mark, teams in MARKS.items()
    }
    path = tmp_path / "users"
    path.write_text(as_toml({"users": tables}), "utf-8")
    return path


@pytest.fixture
async def client(bound: Path) -> AsyncIterator[Client]:
    async with served(DELAY_WEB_USERS_FILE=bound, DELAY_WEB_SECRET=SECRET, **TEAMS) as client:
        yield client


def test_the_table_is_the_one_written_by_hand() -> None:
    assert {place: row.role for place, row in (WORKER | BOTH | GATEWAY).items()} == NEEDS
    assert {place for place, row in (WORKER | BOTH | GATEWAY).items() if row.bound} == WITHIN


@pytest.mark.parametrize("credentials", [shown, bearer], ids=["password", "token"])
async def test_each_role_and_namespace_may_use_exactly_the_routes_of_the_table(
    client: Client, credentials: Callable[[str], dict[str, str]]
) -> None:
    wrong = []
    for place, row in (WORKER | BOTH).items():
        if row.role not in ROLES:
            continue
        for role in ROLES:
            for mark in MARKS:
                headers = {"Content-Type": "application/json", **credentials(f"{role}{mark}")}
                method = place.partition(" ")[0]
                answer = await client.request(method, address(place), headers=headers, allow_redirects=False)
                said = await answer.text()
                allowed = may(row, role, bound=bool(mark))
                right = 303 if place == "GET /sign-in/password" else 200
                if answer.status != (right if allowed else 403) or (
                    right == 200 and allowed and said != f"{role}{mark}:{role}"
                ):
                    wrong.append((place, role, mark, answer.status, said))
    assert wrong == []


async def test_a_route_without_a_rule_for_bound_callers_refuses_them(
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


async def test_bound_callers_are_refused_internal_and_unknown_routes(client: Client) -> None:
    for place in (place for place, need in NEEDS.items() if need == "workers"):
        there = not place.endswith("signed-out")  # a route of the provider's sign-in, which is off
        assert (await client.get(address(place), headers=shown("admin-a"))).status == (401 if there else 404)
    assert (await client.get("/api/v1/nothing", headers=shown("admin-a"))).status == 404


async def test_pages_of_other_sites_cannot_act_for_bound_callers(client: Client) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        given = {"Content-Type": "application/json", **shown("admin-a"), **headers}
        for place in (place for place, row in (WORKER | BOTH).items() if row.bound and place.startswith("POST ")):
            assert (await client.post(address(place), headers=given)).status == 403


def test_pages_link_only_to_pages_that_their_reader_may_open() -> None:
    from app.serve.access.permissions import may as may_use  # noqa: PLC0415 - next to the other tests of permissions
    from app.serve.console.pages import NAVIGATION  # noqa: PLC0415

    def seen(role: str, namespaces: tuple[str, ...] | None) -> list[str]:
        caller = Caller("x", role, namespaces=namespaces)  # type: ignore[arg-type] # the role is a literal
        return [name for address, name in NAVIGATION if may_use(caller, f"GET {address}")]

    assert seen("admin", None) == [name for _, name in NAVIGATION]
    assert seen("viewer", None) == [name for _, name in NAVIGATION if name != "Audit"]
    assert seen("viewer", ("team-a",)) == ["Home", "Find", "Dead letters", "Recurring", "Jobs"]
    assert seen("admin", ("team-a",)) == ["Home", "Find", "Dead letters", "Recurring", "Jobs", "Audit"]
