"""Which address is for whom: every route, with every role, namespace, token and password."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, encode_basic_auth, web
from multidict import CIMultiDict

from app.base.errors import SignInMissing
from app.gateway import health, middlewares, routes
from app.gateway.gateway import REGISTER
from app.gateway.parts import GatewayParts
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.serve.access.access import access_file
from app.serve.access.caller import ROLES
from app.serve.access.former import as_toml
from app.serve.access.sessions import CookieSigner, Session
from app.serve.access.token import digest_of
from app.serve.web.answers import live
from app.settings.settings import Settings
from tests.app.serve.access.conftest import bearer, session_key, shown, user
from tests.app.serve.access.table import BOTH, GATEWAY, may

#: As tokens look, and the same in each process of the suite: they name tests.
SHOP, MAIL, ROOT, OLD, SLOW, SMALL, NOBODY, BOTH_TEAMS = (f"pgw_{letter * 43}" for letter in "ABCDEFGH")


#: The namespaces of users, by the end of their names.
MARKS: dict[str, tuple[str, ...]] = {"": (), "-shop": ("shop",), "-both": ("shop", "mail")}
#: Each role in each namespace, with a password and a token.
USERS = {f"{role}{mark}": (role, names) for role in ROLES for mark, names in MARKS.items()}


def users() -> str:
    """Return the file: all roles, two teams, a user with full ids, an expired token, and a token with a low rate."""

    def table(token: str, more: str = "", **keys: Any) -> dict[str, Any]:
        expires = {"expires": datetime(2020, 1, 1, tzinfo=UTC)} if more == "over" else {}
        return {"role": "operator", **keys, "tokens": [{"sha256": digest_of(token).hex(), **expires}]}

    return as_toml(
        {
            "users": {
                "shop": table(SHOP, namespaces=["shop"], destinations=["orders"], rate=100_000),
                "mail": table(MAIL, namespaces=["mail"], destinations=["mails"], rate=100_000),
                "both": table(BOTH_TEAMS, namespaces=["shop", "mail"], rate=100_000),
                "root": table(ROOT, destinations=["*"], rate=100_000),
                "old": table(OLD, "over", destinations=["*"]),
                "slow": table(SLOW, rate=1, burst=2),
                "small": table(SMALL, max_message_bytes=10, rate=100_000),
                **{
                    name: user(role, *names, name=name, program=name, rate=100_000)
                    for name, (role, names) in USERS.items()
                },
            }
        }
    )


class Site:
    """A gateway's routes behind its gate. Kafka is down, so accepted messages go to the spool."""

    def __init__(self, url: str, session: ClientSession, spooled: Callable[[], list[Any]]) -> None:
        self.url, self.session, self.spooled = url, session, spooled

    async def ask(
        self, place: str, token: str | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, dict[str, Any]]:
        method, path = place.split(" ")
        headers = headers or ({} if token is None else {"Authorization": f"Bearer {token}"})
        async with self.session.request(method, self.url + path, headers=headers, **options) as answer:
            body = await answer.json() if "json" in answer.content_type else {}
            return answer.status, body if isinstance(body, dict) else {}


class Noted(Intake):
    """An intake that records its submissions."""

    given: list[Any]

    async def submit(self, batch: Any) -> Any:
        self.given.extend(batch)
        return await super().submit(batch)


def _crash(error: BaseException) -> None:
    pytest.fail(repr(error))


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr("app.gateway.spool.intake.PATIENCE_S", 0.001)
    (tmp_path / "access").write_text(users(), "utf-8")
    settings = Settings.from_env(
        {
            "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
            "DELAY_DESTINATIONS": "*",
            "DELAY_NAMESPACES": "shop,mail",
            "DATADIR": str(tmp_path / "data"),
            "DELAY_WEB_USERS_FILE": str(tmp_path / "access"),
            "GATEWAY_CONFLUENT": "on",
        }
    )
    connection = KafkaConnection(settings.kafka, settings.topics, settings.gateway_path)
    spool = Spool(settings.topics, settings.gateway, settings.gateway_path, _crash)
    intake = Noted(settings.topics, connection, spool, _crash)
    intake.given = []
    parts = GatewayParts(settings, connection, intake)
    web_app = web.Application()
    for register in REGISTER:
        register(web_app, parts)
    web_app.add_routes([web.get("/v1/forgotten", live)])
    runner = web.AppRunner(web_app)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    try:
        async with ClientSession() as session:
            yield Site(f"http://127.0.0.1:{runner.addresses[0][1]}", session, lambda: intake.given)
    finally:
        await runner.cleanup()
        await intake.close()
        await connection.close()


def places(web_app: web.Application) -> set[str]:
    """Return the addresses that an application has."""
    found = {(route.method, route.resource.canonical) for route in web_app.router.routes() if route.resource}
    return {f"{method} {path}" for method, path in found if method != "HEAD"}


def concrete(place: str, id_: str = "shop/1") -> str:
    """Return an address of a place."""
    filled = {"id": id_, "cluster": "any", "topic": "delay-requests", "name": "rate", "partition": "0", "offset": "1"}
    for name, value in filled.items():
        place = place.replace(f"{{{name}}}", value)
    return place


TABLE = BOTH | GATEWAY
OPEN = {place for place, row in TABLE.items() if row.role == "open"}
NAMED = sorted(TABLE.keys() - OPEN)


@pytest.mark.parametrize("place", sorted(OPEN))
async def test_open_routes_need_no_token(site: Site, place: str) -> None:
    assert (await site.ask(concrete(place)))[0] != 401


@pytest.mark.parametrize("place", NAMED)
@pytest.mark.parametrize("token", [None, "", "x", NOBODY, OLD, SHOP[:-1], SHOP + "A", f"{SHOP} {SHOP}"])
async def test_other_routes_need_a_known_token_that_has_not_expired(site: Site, place: str, token: str | None) -> None:
    assert (await site.ask(concrete(place), token))[0] == 401
    assert not site.spooled()


@pytest.mark.parametrize("place", NAMED)
@pytest.mark.parametrize("credentials", [shown, bearer], ids=["password", "token"])
async def test_each_role_and_namespace_gets_past_the_gate_where_the_table_says_so_and_nowhere_else(
    site: Site, place: str, credentials: Callable[[str], dict[str, str]]
) -> None:
    wrong = []
    for name, (role, names) in USERS.items():
        status, body = await site.ask(concrete(place), headers=credentials(name), json={})
        if (status not in (401, 403)) is not may(TABLE[place], role, bound=bool(names)):
            wrong.append((name, status, body))
    assert wrong == []


async def test_wrong_passwords_are_slowed_down_on_a_gateway_too(site: Site) -> None:
    wrong = [
        await site.ask("GET /metrics", headers={"Authorization": encode_basic_auth("admin", "x")}) for _ in range(7)
    ]
    assert [status for status, _ in wrong] == [401] * 5 + [429] * 2
    assert (await site.ask("GET /metrics", headers=bearer("admin")))[0] == 200


async def test_two_authorization_headers_are_refused(site: Site) -> None:
    headers = CIMultiDict([("Authorization", f"Bearer {ROOT}"), ("Authorization", f"Bearer {SHOP}")])
    async with site.session.get(f"{site.url}/metrics", headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Punctual", error="invalid_request"'
    async with site.session.get(f"{site.url}/metrics", headers={"Authorization": f"Bearer {NOBODY}"}) as answer:
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Punctual", error="invalid_token"'


async def test_a_gateway_refuses_the_session_of_a_worker(site: Site) -> None:
    session = Session(id="x", name="ann", groups=(), provider="", began_s=0, used_s=0)
    cookie = CookieSigner(session_key(), "session").sign(session)
    assert (await site.ask("GET /metrics", headers={"Cookie": f"punctual-session={cookie}"}))[0] == 401


async def test_paths_outside_the_table_are_refused_for_every_caller(site: Site) -> None:
    for token in (None, SHOP, ROOT):
        status, body = await site.ask("GET /v1/forgotten", token)
        assert (status, body["type"]) == (403, "/problems/forbidden")


async def test_callers_without_a_token_do_not_learn_which_paths_exist(site: Site) -> None:
    assert (await site.ask("GET /nothing"))[0] == 401
    assert (await site.ask("GET /nothing", SHOP))[0] == 404
    assert (await site.ask("PUT /api/v1/messages", SHOP))[0] == 405


async def test_the_table_has_exactly_the_routes_of_a_gateway(site: Site, tmp_path: Path) -> None:
    del site
    settings = Settings.from_env({"DATADIR": str(tmp_path / "other"), "GATEWAY_CONFLUENT": "on"})
    web_app, connection = web.Application(), KafkaConnection(settings.kafka, settings.topics, settings.gateway_path)
    parts = GatewayParts(settings, connection, None)  # type: ignore[arg-type]
    health.register(web_app, parts)
    routes.register(web_app, parts)

    assert places(web_app) == set(TABLE)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_id_that_is_too_long_with_its_namespace_is_a_bad_id(site: Site, method: str) -> None:
    status, body = await site.ask(f"{method} /api/v1/messages/{'x' * 252}", SHOP, json={"after": "PT2H"})
    assert (status, body["type"]) == (422, "/problems/bad-id")
    assert "delay-id has 257 bytes with its namespace (shop/)" in body["detail"]


MESSAGE = {"after": "PT1H", "value": "x"}
#: Whose token, the id in its body or address, and its full name.
IDS = [
    (SHOP, "1", "shop/1"),
    (SHOP, "shop/1", "shop/1"),
    (SHOP, "mail/1", "shop/mail/1"),
    (MAIL, "1", "mail/1"),
    (MAIL, "shop/1", "mail/shop/1"),
    (BOTH_TEAMS, "1", "shop/1"),
    (BOTH_TEAMS, "mail/1", "mail/1"),
    (BOTH_TEAMS, "other/1", "shop/other/1"),
    (ROOT, "1", "1"),
    (ROOT, "shop/1", "shop/1"),
]


@pytest.mark.parametrize(("token", "id_", "full"), IDS)
async def test_every_id_that_a_team_sends_is_in_its_namespace(site: Site, token: str, id_: str, full: str) -> None:
    to = "mails" if token == MAIL else "orders"
    asked = [
        site.ask("POST /api/v1/messages", token, json={**MESSAGE, "to": to, "id": id_}),
        site.ask(f"DELETE /api/v1/messages/{id_}", token),
        site.ask(f"PATCH /api/v1/messages/{id_}", token, json={"after": "PT2H"}),
        site.ask(f"POST /api/v1/messages/{id_}/deliver-now", token),
        site.ask(
            "POST /kafka/v3/clusters/any/topics/delay-requests/records",
            token,
            json={
                "headers": [
                    {"name": "delay-to", "value": to_base64(to)},
                    {"name": "delay-after", "value": to_base64("3600000")},
                    {"name": "delay-id", "value": to_base64(id_)},
                ]
            },
        ),
    ]

    answers = await asyncio.gather(*asked)

    assert all(status in (200, 202) for status, _ in answers), answers
    assert [one.id for one in site.spooled()] == [full] * 5


def to_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("token", "to", "expected"), [(SHOP, "orders", 202), (SHOP, "mails", 403), (ROOT, "mails", 202)]
)
async def test_a_token_delivers_only_to_its_destinations(site: Site, token: str, to: str, expected: int) -> None:
    status, body = await site.ask("POST /api/v1/messages", token, json={**MESSAGE, "to": to})

    assert status == expected, body


async def test_a_token_bounds_the_size_of_a_message(site: Site) -> None:
    allowed = await site.ask("POST /api/v1/messages", SMALL, json={**MESSAGE, "to": "orders", "value": "x" * 10})
    refused = await site.ask("POST /api/v1/messages", SMALL, json={**MESSAGE, "to": "orders", "value": "x" * 11})

    assert (allowed[0], refused[0]) == (202, 413)


async def test_requests_beyond_the_rate_limit_have_to_wait(site: Site) -> None:
    url, headers = f"{site.url}/api/v1/messages", {"Authorization": f"Bearer {SLOW}"}

    async def ask() -> tuple[int, str | None, str | None]:
        async with site.session.post(url, headers=headers, json={**MESSAGE, "to": "orders"}) as answer:
            return answer.status, answer.headers.get("Retry-After"), answer.headers.get("RateLimit")

    answers = [await ask() for _ in range(3)]

    assert [status for status, _, _ in answers] == [202, 202, 429]
    assert answers[2][1:] == ("1", '"requests";r=0;t=2')
    assert (await site.ask("GET /metrics", SLOW))[0] == 200, "whoever watches is not counted"


async def test_without_tokens_a_gateway_does_not_listen_for_other_hosts(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOST": "0.0.0.0", "DATADIR": str(tmp_path)})  # noqa: S104
    parts = GatewayParts(settings, None, None)  # type: ignore[arg-type]

    with pytest.raises(SignInMissing, match="DELAY_WEB_USERS_FILE"):
        middlewares.register(web.Application(), parts)


async def test_the_former_file_of_tokens_is_read_where_the_setting_names_it(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(
        f'[shop]\ndestinations = []\ntokens = [{{ sha256 = "{digest_of(SHOP).hex()}" }}]\n'
    )
    env = {"DELAY_WEB_USERS_FILE": str(tmp_path / "tokens")}
    settings = Settings.from_env({**env, "DELAY_NAMESPACES": "shop,mail"})

    file = access_file(settings)

    assert list(file.last.users) == ["shop"]
    assert file.last.of_token(SHOP) is not None
