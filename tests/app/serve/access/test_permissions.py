"""Each route of a worker is in the table of needs, and each role may use exactly the routes of the table."""

import tomllib
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from app.serve.access.caller import ROLES, enough
from app.serve.access.permissions import NEEDS
from app.settings.settings import Settings
from tests.app.serve.access.conftest import SECRET, Client, provider, served, shown, stubbed
from tests.app.serve.access.table import BOTH, WORKER, address
from tests.app.serve.access.world import is_problem


def places(web_app: web.Application) -> set[str]:
    return {
        f"{route.method} {route.resource.canonical}"
        for route in web_app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }


@pytest.fixture
def env(users: Path, tmp_path: Path) -> dict[str, str]:
    named = tomllib.loads(users.read_text())["users"]
    keys = {"issuer": "http://127.0.0.1:1", "client_id": "punctual", "roles": "*=viewer"}
    return {"DELAY_WEB_SECRET": SECRET, **provider(tmp_path, named, **keys)}


@pytest.fixture
async def client(env: dict[str, str]) -> AsyncIterator[Client]:
    async with served(**env) as client:
        yield client


def test_the_table_has_exactly_the_routes_of_a_worker(env: dict[str, str]) -> None:
    registered = places(stubbed(Settings.from_env(env)))
    assert registered == set(WORKER | BOTH)


async def test_each_role_may_use_exactly_the_routes_of_the_table(client: Client) -> None:
    there = places(client.app)
    wrong = []
    for place, need in NEEDS.items():
        if place not in there or need not in ROLES:
            continue
        method = place.partition(" ")[0]
        for role in (None, *ROLES):
            headers = {"Content-Type": "application/json", **(shown(role) if role else {})}
            answer = await client.request(method, address(place), headers=headers, allow_redirects=False)
            expected = {200} if role and enough(role, need) else {403} if role else {401, 303}
            if place == "GET /sign-in/password" and role:
                expected = {303}
            said = await answer.text() if answer.status == 200 else f"{role}:{role}"
            if answer.status >= HTTPStatus.BAD_REQUEST and address(place).startswith("/api/"):
                await is_problem(answer)
            if answer.status not in expected or said != f"{role}:{role}":
                wrong.append((place, role, answer.status, said))
    assert wrong == []


async def test_open_routes_are_open_to_all(client: Client) -> None:
    for place in ("/health/live", "/health/ready", "/static/page.css", "/sign-in"):
        assert (await client.get(place)).status == 200


@pytest.mark.parametrize("place", [place.partition(" ")[2] for place, need in NEEDS.items() if need == "workers"])
async def test_no_role_may_use_the_routes_between_workers(client: Client, place: str) -> None:
    for headers in ({}, shown("admin")):
        assert (await client.get(place, headers=headers)).status == 401
    if not place.endswith("signed-out"):
        assert (await client.get(place, headers={"Authorization": f"Bearer {SECRET}"})).status == 200


@pytest.mark.parametrize(
    ("secret", "given", "path", "status"),
    [
        (SECRET, f"Bearer {SECRET}", "/api/v1/local/count", 200),
        (SECRET, f"Bearer {SECRET[::-1]}", "/api/v1/local/count", 401),
        (SECRET, f"Bearer {SECRET}2", "/api/v1/local/count", 401),
        (SECRET, SECRET, "/api/v1/local/count", 401),
        (SECRET, "", "/api/v1/local/count", 401),
        (SECRET, "", "/api/v1/%6cocal/count", 401),
        (SECRET, "", "/api/v1/overview", 200),
        ("", "", "/api/v1/local/count", 200),
        (f"{SECRET}ä", f"Bearer {SECRET}ä", "/api/v1/local/count", 200),
    ],
)
async def test_only_callers_with_the_secret_may_use_the_routes_between_workers(
    secret: str, given: str, path: str, status: int
) -> None:
    async with served(DELAY_WEB_SECRET=secret) as client:
        url = URL(f"http://{client.host}:{client.port}{path}", encoded=True)
        headers = {"Authorization": given} if given else {}
        async with client.session.get(url, headers=headers) as answer:
            assert answer.status == status


async def test_without_a_secret_workers_do_not_answer_each_other(users: Path) -> None:
    async with served(DELAY_WEB_USERS_FILE=users) as client:
        answer = await client.get("/api/v1/local/messages")
        assert answer.status == 401
        assert "DELAY_WEB_SECRET" in (await answer.json())["detail"]


async def test_a_route_that_is_not_in_the_table_is_refused_to_an_admin(users: Path) -> None:
    web_app = stubbed(Settings.from_env({"DELAY_WEB_USERS_FILE": str(users)}))
    web_app.router.add_get("/api/v1/forgotten", _never)
    async with TestClient(TestServer(web_app)) as client:
        answer = await client.get("/api/v1/forgotten", headers=shown("admin"))
        assert answer.status == 403
        assert "GET /api/v1/forgotten" in (await answer.json())["detail"]


async def _never(_: web.Request) -> web.Response:
    raise AssertionError


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/api/v1/audit", 403),
        ("HEAD", "/api/v1/overview", 200),
        ("OPTIONS", "/api/v1/overview", 405),
        ("GET", "//api/v1/audit", 404),
        ("GET", "/api/v1//audit", 404),
        ("GET", "/api/v1/audit/", 404),
        ("GET", "/api%2fv1%2faudit", 404),
        ("GET", "/api/v1/%61udit", 403),
        ("GET", "/static/../api/v1/audit", 404),
        ("GET", "/static/..%2fapi/v1/audit", 404),
        ("GET", "/health/live/../../audit", 404),
        ("GET", "/API/v1/audit", 404),
        ("GET", "/api/v1/audit;x=/health/live", 404),
        ("GET", "/api/v1/%6cocal/messages", 401),
        ("POST", "/sign-in", 405),
    ],
)
async def test_no_spelling_of_a_path_bypasses_the_table(client: Client, method: str, path: str, status: int) -> None:
    url = URL(f"http://{client.host}:{client.port}{path}", encoded=True)
    headers = {"Content-Type": "application/json"}
    async with client.session.request(method, url, headers={**headers, **shown("viewer")}) as answer:
        assert answer.status == status
    async with client.session.request(method, url, headers=headers, allow_redirects=False) as answer:
        assert answer.status in (401, 303)


async def test_metrics_are_open_where_a_setting_says_so(users: Path) -> None:
    async with served(DELAY_WEB_USERS_FILE=users) as client:
        answer = await client.get("/metrics")
        assert (answer.status, answer.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    async with served(DELAY_WEB_USERS_FILE=users, DELAY_WEB_METRICS="open") as client:
        assert (await client.get("/metrics")).status == 200
        assert (await client.get("/api/v1/overview")).status == 401


async def test_without_a_sign_in_every_caller_is_an_admin_without_a_name() -> None:
    async with served() as client:
        assert await (await client.get("/api/v1/audit")).text() == "anonymous:admin"
        assert "No sign-in is needed here" in await (await client.get("/sign-in")).text()
        assert (await client.post("/sign-out")).status == 404
