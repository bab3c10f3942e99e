"""Users with passwords that cost little to check, and the routes of a real worker behind its own gate."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import encode_basic_auth, web
from aiohttp.test_utils import TestClient, TestServer

from app.base.watched_file import lines_of
from app.serve.access.caller import CALLER, ROLES
from app.serve.access.former import as_toml, tables_of
from app.serve.access.password import Hash
from app.serve.access.sessions import signing_key
from app.serve.access.token import digest_of
from app.settings.settings import Settings
from app.worker import create_app

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105 - only tests use it
Client = TestClient[web.Request, web.Application]
Serve = Callable[..., Awaitable[Client]]


def hashed(password: str) -> Hash:
    return Hash.of(password, ln=4, r=1, p=1)


def shown(name: str) -> dict[str, str]:
    """Return the header of a user whose password is their name."""
    return {"Authorization": encode_basic_auth(name, name)}


def token_of(name: str) -> str:
    """Return the token of a user, the same in each process of the suite, because tokens name tests."""
    return f"pgw_{name.replace('-', '_'):A<43}"


def bearer(name: str) -> dict[str, str]:
    """Return the header of a user whose token is that of their name."""
    return {"Authorization": f"Bearer {token_of(name)}"}


def user(role: str, *namespaces: str, name: str = "", program: str = "", **more: object) -> dict[str, object]:
    """Return the table of a user whose password is `name`, whose token is that of the name `program`, or both."""
    table: dict[str, object] = {"role": role, **more}
    if namespaces:
        table["namespaces"] = list(namespaces)
    if name:
        table["password"] = str(hashed(name))
    if program:
        table["tokens"] = [{"sha256": digest_of(token_of(program)).hex()}]
    return table


def provider(place: Path, users: Mapping[str, object] | None = None, **keys: object) -> dict[str, str]:
    """Write an access file with a provider and these users into a directory; return the setting that names it."""
    tables = oidc_tables(oidc(place, **keys))
    path = place / f"access-{len(list(place.glob('access-*')))}.toml"
    path.write_text(as_toml({"users": users or {}, **tables}))
    return {"DELAY_WEB_USERS_FILE": str(path)}


def oidc_tables(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the tables of the former file of a provider."""
    return tables_of(lines_of(Path(env["DELAY_WEB_USERS_FILE"]).read_text())).tables


def oidc(place: Path, **keys: object) -> dict[str, str]:
    """Write the former file of a provider with these keys into a directory; return the setting that names it."""
    path = place / f"oidc-{len(list(place.glob('oidc-*')))}.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    return {"DELAY_WEB_USERS_FILE": str(path)}


def session_key() -> bytes:
    """Return the key with which workers sign sessions."""
    return signing_key(SECRET, "delay")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file in which there is a user for each role, called like it."""
    path = tmp_path / "users"
    path.write_text("# who may\n" + as_toml({"users": {role: user(role, name=role) for role in ROLES}}), "utf-8")
    return path


def stubbed(settings: Settings, real_below: str = "/sign-") -> web.Application:
    """Return a worker's web application, with what surrounds each answer, and answers that only say who asks.

    Those of addresses that begin with `real_below` are the worker's own.
    """
    real = create_app(settings).web.web_app
    real.freeze()  # so that the API of its pages has what surrounds each answer, too
    stub = web.Application(middlewares=real.middlewares, client_max_size=real._client_max_size)
    stub.on_response_prepare.extend(real.on_response_prepare)
    for resource in real.router.resources():
        made = stub.router.add_resource(getattr(resource, "_orig_path", resource.canonical))
        for route in resource:
            keeps = resource.canonical.startswith(("/sign-", real_below)) or "signed-out" in resource.canonical
            made.add_route(route.method, route.handler if keeps else _says_who)
    return stub


async def _says_who(request: web.Request) -> web.Response:
    caller = request.get(CALLER)
    return web.Response(text=f"{caller.name}:{caller.role}" if caller else "")


@asynccontextmanager
async def served(*, real_below: str = "/sign-", **env: object) -> AsyncIterator[Client]:
    """Serve a worker's routes with these settings."""
    web_app = stubbed(Settings.from_env({name: str(value) for name, value in env.items()}), real_below)
    async with TestClient(TestServer(web_app)) as client:
        yield client
