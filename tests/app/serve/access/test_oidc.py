"""People sign in with a real provider; forged, old, replayed and foreign tokens are refused."""

import asyncio
import hmac
import re
import socket
import tomllib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp import CookieJar, web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import RSAKey
from yarl import URL

from app.base.clock import Clock
from app.base.newest import Newest
from app.serve.access import sessions
from app.serve.access.access_file import AccessFile
from app.serve.access.entries import Provider as Table
from app.serve.access.oidc import Oidc, _digest
from app.serve.access.provider import Provider
from app.serve.access.sessions import CookieSigner, Session
from app.serve.access.sign_in import ProviderFailed, SignIn, local_address
from app.serve.access.token import digest_of
from tests.app.serve.access.conftest import (
    SECRET,
    Client,
    oidc,
    served,
    session_key,
    shown,
    token_of,
)
from tests.app.serve.access.conftest import (
    provider as provider_file,
)
from tests.harness.provider import provider

pytestmark = pytest.mark.slow

PEOPLE: tuple[dict[str, object], ...] = (
    {"sub": "1", "preferred_username": "ann", "groups": ["sre", "staff"]},
    {"sub": "2", "preferred_username": "bob", "groups": ["support"]},
    {"sub": "3", "preferred_username": "eve", "groups": ["sales"]},
)
ROLES = "groups:sre=admin,support=operator,staff=viewer"
ME = "http://127.0.0.1"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """A provider that knows its clients and asks for a nonce."""
    with provider(*PEOPLE, registers=True) as url:
        yield url


@pytest.fixture
async def env(issuer: str, tmp_path: Path) -> dict[str, str]:
    """The settings of a client that the provider knows."""
    body = {"redirect_uris": [f"{ME}/sign-in/done"]}
    async with aiohttp.ClientSession() as session, session.post(f"{issuer}/oauth2/clients", json=body) as answer:
        made = await answer.json()
    (tmp_path / "secret").write_text(f"{made['client_secret']}\n", "utf-8")
    return {
        **provider_file(
            tmp_path,
            issuer=issuer,
            client_id=made["client_id"],
            client_secret_file=str(tmp_path / "secret"),
            roles=ROLES,
        ),
        "DELAY_WEB_URL": ME,
        "DELAY_WEB_SECRET": SECRET,
    }


@pytest.fixture
async def client(env: dict[str, str]) -> AsyncIterator[Client]:
    async with served(**env) as client:
        yield client


def _session(env: dict[str, str], group: str, **times: int) -> Session:
    """Return a session as the worker gives it."""
    keys = AccessFile("", env["DELAY_WEB_USERS_FILE"], ()).last.provider
    return Session(id="x", name="ann", groups=(group,), provider=_digest(keys), **times)


def oidc_keys(env: dict[str, str]) -> dict[str, Any]:
    keys: dict[str, Any] = tomllib.loads(Path(env["DELAY_WEB_USERS_FILE"]).read_text())["provider"]
    return keys


async def begun(client: Client, back: str = "/") -> str:
    """Begin to sign in; return where the browser is sent."""
    answer = await client.get("/sign-in/begin", params={"next": back}, allow_redirects=False)
    assert answer.status == 303
    return answer.headers["Location"]


async def agreed(address: str, sub: str) -> str:
    """Sign in at the provider; return the path and query to which it sends the browser back."""
    async with (
        aiohttp.ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser,
        browser.post(URL(address, encoded=True), data={"sub": sub}, allow_redirects=False) as answer,
    ):
        found = answer.headers["Location"]
    assert found.startswith(f"{ME}/sign-in/done?")
    return found.removeprefix(ME)


async def signed_in(client: Client, sub: str, back: str = "/") -> Any:
    path = await agreed(await begun(client, back), sub)
    return await client.get(URL(path, encoded=True), allow_redirects=False)


def cookie(client: Client, name: str = "punctual-session") -> str:
    return next((one.value for one in client.session.cookie_jar if one.key == name), "")


async def who(client: Client, **headers: str) -> str:
    """Return whom the worker takes us for."""
    answer = await client.get("/api/v1/overview", headers=headers)
    return await answer.text() if answer.status == 200 else str(answer.status)


@pytest.mark.parametrize(("sub", "name"), [("1", "ann (1):admin"), ("2", "bob (2):operator")])
async def test_people_sign_in_and_return_to_their_page(client: Client, sub: str, name: str) -> None:
    answer = await client.get("/find?to=a%26b", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/sign-in?next=%2Ffind%3Fto%3Da%2526b")
    page = await (await client.get(answer.headers["Location"])).text()
    link = re.search(r'href="(/sign-in/begin\?[^"]+)"', page)
    assert link
    sent = (await client.get(URL(link[1], encoded=True), allow_redirects=False)).headers["Location"]
    asked = {key: value[0] for key, value in parse_qs(urlsplit(sent).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert len(asked["code_challenge"]) == 43
    answer = await client.get(URL(await agreed(sent, sub), encoded=True), allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/find?to=a%26b")
    given = answer.cookies["punctual-session"]
    assert (given["httponly"], given["samesite"], given["path"], given["domain"]) == (True, "Lax", "/", "")
    assert cookie(client, "punctual-sign-in") == ""
    assert await who(client) == name


async def test_people_without_a_role_get_no_session(client: Client) -> None:
    answer = await signed_in(client, "3")
    assert answer.headers["Location"] == "/sign-in?said=no-role"
    assert "have no role here" in await (await client.get("/sign-in?said=no-role")).text()
    assert (cookie(client), await who(client)) == ("", "401")


@pytest.mark.core
async def test_signing_out_ends_every_copy_of_the_cookie(client: Client) -> None:
    await signed_in(client, "1")
    old = cookie(client)
    for headers, status in (({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 303)):
        assert (await client.post("/sign-out", headers=headers, allow_redirects=False)).status == status
    assert (cookie(client), await who(client)) == ("", "401")
    assert await who(client, Cookie=f"punctual-session={old}") == "401"
    await signed_in(client, "1")
    assert cookie(client).partition(".")[0] != old.partition(".")[0]


async def test_other_workers_accept_a_session_and_learn_its_end(client: Client, env: dict[str, str]) -> None:
    await signed_in(client, "2")
    headers = {"Cookie": f"punctual-session={cookie(client)}"}
    async with served(**env) as other:
        assert await who(other, **headers) == "bob (2):operator"
        session = CookieSigner(session_key(), "session").read(cookie(client), Session)
        assert session is not None
        told = await other.get(
            "/api/v1/local/signed-out", params={"id": session.id}, headers={"Authorization": f"Bearer {SECRET}"}
        )
        assert told.status == 200
        assert await who(other, **headers) == "401"


@pytest.mark.parametrize("changed", ["DELAY_WEB_SECRET", "DELAY_APP_ID", "client_id", "claim", "groups"])
async def test_sessions_of_other_installations_and_providers_are_refused(
    client: Client, env: dict[str, str], tmp_path: Path, changed: str
) -> None:
    await signed_in(client, "1")
    headers = {"Cookie": f"punctual-session={cookie(client)}"}
    text = await asyncio.to_thread(Path(env["DELAY_WEB_USERS_FILE"]).read_text)
    other = {
        "client_id": re.sub('client_id = ".*"', 'client_id = "another-one"', text),
        "claim": text.replace('claim = "groups"', 'claim = "teams"'),
        "groups": text.replace("[groups.sre]", "[groups.ops]").replace("[groups.staff]", "[groups.guests]"),
    }.get(changed, text)
    assert (other == text) is changed.isupper()
    await asyncio.to_thread((tmp_path / "other.toml").write_text, other)
    change = {"DELAY_WEB_SECRET": SECRET[::-1], "DELAY_APP_ID": "another-one"}
    given = {changed: change[changed]} if changed.isupper() else {}
    async with served(**{**env, "DELAY_WEB_USERS_FILE": str(tmp_path / "other.toml"), **given}) as worker:
        assert await who(worker, **headers) == "401"


async def test_a_session_has_the_present_role_of_its_groups(
    client: Client, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.base.watched_file._EVERY_S", 0.0)
    await signed_in(client, "1")
    assert await who(client) == "ann (1):admin"
    path = Path(env["DELAY_WEB_USERS_FILE"])
    text = await asyncio.to_thread(path.read_text)
    await asyncio.to_thread(path.write_text, text.replace('role = "admin"', 'role = "operator"'))
    assert await who(client) == "ann (1):operator"
    await asyncio.to_thread(path.write_text, text.replace("[groups.sre]", "[groups.ops]"))
    assert await who(client) == "ann (1):viewer"


async def test_a_changed_or_removed_provider_takes_effect_within_a_second(
    client: Client, env: dict[str, str], forger: "Forger", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.base.watched_file._EVERY_S", 0.0)
    await signed_in(client, "1")
    path = Path(env["DELAY_WEB_USERS_FILE"])
    text = await asyncio.to_thread(path.read_text)
    other = re.sub('issuer = ".*"', f'issuer = "{forger.issuer}"', text)
    await asyncio.to_thread(path.write_text, re.sub('client_id = ".*"', 'client_id = "me"', other))
    assert await who(client) == "401"
    assert (await begun(client)).startswith(forger.issuer)
    only = f'[users.ann]\nrole = "viewer"\ntokens = [{{ sha256 = "{digest_of(token_of("ann")).hex()}" }}]\n'
    await asyncio.to_thread(path.write_text, only)
    assert await who(client) == "401"
    assert (await client.get("/sign-in/begin", allow_redirects=False)).headers["Location"] == "/sign-in?said=provider"
    assert await who(client, Authorization=f"Bearer {token_of('ann')}") == "ann:viewer"


@pytest.mark.core
async def test_forged_old_and_other_cookies_are_refused(client: Client, env: dict[str, str]) -> None:
    now_s = Clock.wall_ms() // 1_000
    fresh = _session(env, "sre", began_s=now_s, used_s=now_s)
    signer, change = CookieSigner(session_key(), "session"), msgspec.structs.replace
    good = signer.sign(fresh)
    content, _, mark = good.partition(".")
    viewer = signer.sign(change(fresh, groups=("staff",)))
    assert await who(client, Cookie=f"punctual-session={good}") == "ann:admin"
    bad = [
        "",
        content,
        f"{content}.",
        f".{mark}",
        f"{content}.{mark[:-1]}",
        f"{content}.{viewer.partition('.')[2]}",
        f"{good}.{mark}",
        good.replace(content, content[::-1]),
        "a" * 5_000,
        "\u00e9.\u00e9",
        CookieSigner(b"another key" * 3, "session").sign(fresh),
        CookieSigner(session_key(), "sign-in").sign(fresh),
        signer.sign(change(fresh, began_s=now_s - sessions.LONGEST_S)),
        signer.sign(change(fresh, used_s=now_s - sessions.IDLE_S)),
        signer.sign(change(fresh, began_s=now_s + 3_600)),
        signer.sign(SignIn.begin("/", now_s)),
    ]
    for one in bad:
        assert await who(client, Cookie=f"punctual-session={one}") == "401", one


async def test_a_session_in_use_is_extended_up_to_its_maximum(client: Client, env: dict[str, str]) -> None:
    now_s, signer = Clock.wall_ms() // 1_000, CookieSigner(session_key(), "session")
    used = _session(env, "staff", began_s=now_s - 5_000, used_s=now_s - 3_000)
    answer = await client.get("/", headers={"Cookie": f"punctual-session={signer.sign(used)}"})
    given = answer.cookies["punctual-session"]
    renewed = signer.read(given.value, Session)
    assert renewed is not None
    assert (renewed.began_s, renewed.used_s >= now_s) == (used.began_s, True)
    assert int(given["max-age"]) <= sessions.LONGEST_S - 5_000
    answer = await client.get("/", headers={"Cookie": f"punctual-session={given.value}"})
    assert "punctual-session" not in answer.cookies


async def test_a_session_changes_data_only_with_the_origin_of_the_request(client: Client) -> None:
    await signed_in(client, "1")
    headers = {"Content-Type": "application/json"}
    for more, status in (
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ):
        assert (await client.post("/api/v1/jobs", data=b"{}", headers=headers | more)).status == status


@pytest.mark.core
async def test_an_answer_counts_once_and_only_for_the_browser_that_signs_in(
    client: Client, env: dict[str, str]
) -> None:
    path = await agreed(await begun(client), "1")
    sign_in = cookie(client, "punctual-sign-in")
    async with served(**env) as stranger:  # somebody is made to follow a link to the end of another's sign-in
        answer = await stranger.get(URL(path, encoded=True), allow_redirects=False)
        assert answer.headers["Location"] == "/sign-in?said=again"
        assert cookie(stranger) == ""
    assert (await client.get(URL(path, encoded=True), allow_redirects=False)).headers["Location"] == "/"
    client.session.cookie_jar.clear()
    replayed = await client.get(
        URL(path, encoded=True), headers={"Cookie": f"punctual-sign-in={sign_in}"}, allow_redirects=False
    )
    assert replayed.headers["Location"] == "/sign-in?said=again"
    assert cookie(client) == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state={state}x&code=1", "again"),
        ("code=1", "again"),
        ("state=%ff&code=1", "again"),
        ("state={state}", "provider"),
        ("state={state}&code=guessed", "provider"),
        ("state={state}&error=access_denied%0d%0aSet-Cookie:%20a=b", "refused"),
    ],
)
async def test_an_answer_that_is_not_from_the_provider_is_refused(client: Client, query: str, said: str) -> None:
    state = parse_qs(urlsplit(await begun(client)).query)["state"][0]
    answer = await client.get(URL(f"/sign-in/done?{query.format(state=state)}", encoded=True), allow_redirects=False)
    assert answer.headers["Location"] == f"/sign-in?said={said}"
    assert [name for name in answer.cookies if name != "punctual-sign-in"] == []


async def test_a_sign_in_that_took_too_long_begins_again(client: Client) -> None:
    path = await agreed(await begun(client), "1")
    signer = CookieSigner(session_key(), "sign-in")
    sign_in = signer.read(cookie(client, "punctual-sign-in"), SignIn)
    assert sign_in is not None
    old = signer.sign(msgspec.structs.replace(sign_in, began_s=sign_in.began_s - 601))
    client.session.cookie_jar.clear()
    answer = await client.get(
        URL(path, encoded=True), headers={"Cookie": f"punctual-sign-in={old}"}, allow_redirects=False
    )
    assert answer.headers["Location"] == "/sign-in?said=again"


@pytest.mark.parametrize(
    "back",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "evil.example"),
        *("/\t/evil.example", "/a\r\nSet-Cookie: a=b", "///evil.example", "\\\\evil.example", "/\u2028", "/" * 1_100),
    ],
)
async def test_after_signing_in_the_browser_stays_on_this_site(client: Client, back: str) -> None:
    assert local_address(back) == "/"
    answer = await signed_in(client, "1", back)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert "a" not in answer.cookies


async def test_behind_https_cookies_are_secure_and_cannot_be_set_by_other_hosts(
    env: dict[str, str],
) -> None:
    async with served(**{**env, "DELAY_WEB_URL": "https://punctual.example"}) as client:
        answer = await client.get("/sign-in/begin", allow_redirects=False)
        given = answer.cookies["__Host-punctual-sign-in"]
        assert (given["secure"], given["path"], given["domain"]) == (True, "/", "")
        assert "redirect_uri=https%3A%2F%2Fpunctual.example%2Fsign-in%2Fdone" in answer.headers["Location"]


# tokens of programs ----------------------------------------------------------------------------------------------
@pytest.fixture
async def token(issuer: str, env: dict[str, str]) -> str:
    """An ID token of the provider for our client."""
    asked = {
        "response_type": "code", "client_id": oidc_keys(env)["client_id"], "nonce": SignIn.begin("/", 0).nonce,
        "redirect_uri": f"{ME}/sign-in/done", "scope": "openid profile",
    }  # fmt: skip
    path = await agreed(str(URL(f"{issuer}/oauth2/authorize").with_query(asked)), "2")
    form = {"grant_type": "authorization_code", "code": URL(path).query["code"], "redirect_uri": asked["redirect_uri"]}
    secret = await asyncio.to_thread(Path(oidc_keys(env)["client_secret_file"]).read_text)
    auth = {"Authorization": aiohttp.encode_basic_auth(asked["client_id"], secret.strip())}
    url = f"{issuer}/oauth2/token"
    async with aiohttp.ClientSession() as session, session.post(url, data=form, headers=auth) as answer:
        found: str = (await answer.json())["id_token"]
    return found


async def test_a_program_signs_in_with_a_token_of_the_provider(client: Client, token: str) -> None:
    assert await who(client, Authorization=f"Bearer {token}") == "bob (2):operator"
    answer = await client.post(
        "/api/v1/messages", data=b"{}", headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    )
    assert answer.status == 200


@pytest.mark.core
async def test_tokens_of_others_for_others_or_outside_their_time_are_refused(
    client: Client, issuer: str, env: dict[str, str], token: str, tmp_path: Path
) -> None:
    head, body, mark = token.split(".")
    async with aiohttp.ClientSession() as session, session.get(f"{issuer}/jwks") as answer:
        [public] = (await answer.json())["keys"]
    now_s = Clock.wall_ms() // 1_000
    claims = {
        "iss": issuer, "aud": oidc_keys(env)["client_id"], "sub": "1", "groups": ["sre"],
        "iat": now_s, "exp": now_s + 600,
    }  # fmt: skip
    theirs = RSAKey.generate_key(2048)
    pem = RSAKey.import_key(public).as_pem(private=False)
    secret = ".".join(_encoded(part) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    by_secret = urlsafe_b64encode(hmac.digest(pem, secret.encode(), "sha256")).rstrip(b"=").decode()
    none = ".".join(_encoded(part) for part in ({"alg": "none"}, claims))
    bad = {
        "empty": "",
        "nonsense": "a.b.c",
        "no signature": f"{head}.{body}.",
        "none": f"{none}.",
        "none, signed": f"{none}.{mark}",
        "other claims": f"{head}.{_encoded(claims)}.{mark}",
        "another key": jwt.encode({"alg": "RS256", "kid": public.get("kid", "")}, claims, theirs),
        "the public key as a secret": f"{secret}.{by_secret}",
        "a key in the header": jwt.encode({"alg": "RS256", "jwk": theirs.as_dict(private=False)}, claims, theirs),
        "long": f"{token}{'x' * 6_000}",
        "the workers' secret": SECRET,
    }
    for name, one in bad.items():
        assert await who(client, Authorization=f"Bearer {one}") == "401", name
    async with served(
        **env | provider_file(tmp_path, **{**oidc_keys(env), "client_id": "another", "roles": ROLES})
    ) as other:
        assert await who(other, Authorization=f"Bearer {token}") == "401"


def _encoded(part: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=").decode()


# a provider of our own, whose tokens have the claims of a test ---------------------------------------------------
KEY = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})


class Forger:
    """A provider that issues the tokens of a test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.claims: dict[str, Any] = {}
        self.issuer = self.called = ""
        self.asked_for_keys, self.away = 0, False
        self.keys = [KEY.as_dict(private=False), {"kty": "new kind", "kid": "9"}]

    def app(self) -> web.Application:
        web_app = web.Application()
        web_app.add_routes(
            [
                web.get("/.well-known/openid-configuration", self.metadata),
                web.get("/jwks", self.jwks),
                web.post("/token", self.token),
            ]
        )
        return web_app

    async def metadata(self, _: web.Request) -> web.Response:
        if self.away:
            raise web.HTTPServiceUnavailable
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        ends = {name: f"{self.issuer}/{path}" for name, path in paths.items()}
        return web.json_response({"issuer": self.called or self.issuer, **ends})

    async def jwks(self, _: web.Request) -> web.Response:
        self.asked_for_keys += 1
        if self.away:
            raise web.HTTPServiceUnavailable
        return web.json_response({"keys": self.keys})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["code_verifier"]
        return web.json_response({"id_token": jwt.encode({"alg": "RS256", "kid": "1"}, self.claims, KEY)})


@pytest.fixture
async def forger(tmp_path: Path) -> AsyncIterator[Forger]:
    forger = Forger(tmp_path)
    async with TestServer(forger.app()) as server:
        forger.issuer = str(server.make_url("")).rstrip("/")
        yield forger


def forged(forger: Forger) -> dict[str, str]:
    return {
        **oidc(forger.place, issuer=forger.issuer, client_id="me", roles="*=viewer"),
        "DELAY_WEB_URL": ME,
        "DELAY_WEB_SECRET": SECRET,
    }


@pytest.mark.core
@pytest.mark.parametrize(
    ("changes", "well"),
    [
        ({}, True),
        ({"aud": ["me"]}, True),
        ({"aud": ["me", "you"], "azp": "me"}, True),
        ({"nonce": "another"}, False),
        ({"nonce": None}, False),
        ({"aud": "you"}, False),
        ({"aud": ["me", "you"], "azp": "you"}, False),
        ({"iss": "http://127.0.0.1:1"}, False),
        ({"exp": -3_600}, False),
        ({"exp": None}, False),
        ({"nbf": 3_600}, False),
        ({"iat": 3_600}, False),
        ({"sub": None}, False),
    ],
)
async def test_every_claim_of_an_id_token_is_checked(forger: Forger, changes: dict[str, Any], well: bool) -> None:  # noqa: FBT001 - a case
    now_s = Clock.wall_ms() // 1_000
    async with served(**forged(forger)) as client:
        asked = parse_qs(urlsplit(await begun(client)).query)
        usual = {"iss": forger.issuer, "aud": "me", "sub": "1", "iat": now_s, "exp": now_s + 600}
        moved = {
            name: now_s + value if name in ("exp", "nbf", "iat") and value else value for name, value in changes.items()
        }
        given = usual | {"nonce": asked["nonce"][0]} | moved
        forger.claims = {name: value for name, value in given.items() if value is not None}
        answer = await client.get(
            "/sign-in/done", params={"state": asked["state"][0], "code": "c"}, allow_redirects=False
        )
        assert answer.headers["Location"] == ("/" if well else "/sign-in?said=provider")
        assert bool(cookie(client)) == well


async def test_a_provider_with_another_issuer_is_refused(forger: Forger) -> None:
    forger.called = "http://evil.example"
    async with served(**forged(forger)) as client:
        answer = await client.get("/sign-in/begin", allow_redirects=False)
        assert answer.headers["Location"] == "/sign-in?said=provider"


async def test_tokens_with_unknown_keys_do_not_cause_a_request_to_the_provider_each(forger: Forger) -> None:
    now_s = Clock.wall_ms() // 1_000
    claims = {"iss": forger.issuer, "aud": "me", "sub": "1", "iat": now_s, "exp": now_s + 600}
    async with served(**forged(forger)) as client:
        good = jwt.encode({"alg": "RS256", "kid": "1"}, claims, KEY)
        assert await who(client, Authorization=f"Bearer {good}") == "oidc:1:viewer"
        for number in range(5):
            bad = jwt.encode({"alg": "RS256", "kid": f"{number}"}, claims, RSAKey.generate_key(2048))
            assert await who(client, Authorization=f"Bearer {bad}") == "401"
        assert forger.asked_for_keys == 1


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock of the answers of the provider to a number of seconds after now."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr("app.serve.access.provider._now_s", lambda: asyncio.get_running_loop().time() + seconds)

    return set_clock


def forged_token(forger: Forger, kid: str = "1", key: RSAKey = KEY) -> str:
    now_s = Clock.wall_ms() // 1_000
    claims = {"iss": forger.issuer, "aud": "me", "sub": "1", "iat": now_s, "exp": now_s + 600}
    return f"Bearer {jwt.encode({'alg': 'RS256', 'kid': kid}, claims, key)}"


async def test_a_key_that_the_provider_has_withdrawn_is_not_accepted_after_an_hour(
    forger: Forger, later: Callable[[float], None]
) -> None:
    token = forged_token(forger)
    async with served(**forged(forger)) as client:
        assert await who(client, Authorization=token) == "oidc:1:viewer"
        other = RSAKey.generate_key(2048, {"kid": "2", "use": "sig", "alg": "RS256"})
        forger.keys = [other.as_dict(private=False)]
        later(3_599)
        assert await who(client, Authorization=token) == "oidc:1:viewer"
        later(3_601)
        assert await who(client, Authorization=token) == "401"
        assert await who(client, Authorization=forged_token(forger, "2", other)) == "oidc:1:viewer"
        assert forger.asked_for_keys == 2


async def test_tokens_are_accepted_for_hours_while_the_provider_is_down_but_not_for_ever(
    forger: Forger, later: Callable[[float], None]
) -> None:
    token = forged_token(forger)
    async with served(**forged(forger)) as client:
        assert await who(client, Authorization=token) == "oidc:1:viewer"
        forger.away = True
        later(3_601)
        for _ in range(5):
            assert await who(client, Authorization=token) == "oidc:1:viewer"
        assert forger.asked_for_keys == 2  # who waits for it is not kept waiting again
        later(6 * 3_600 + 1)
        assert await who(client, Authorization=token) == "401"
        forger.away = False
        later(6 * 3_600 + 10)
        assert await who(client, Authorization=token) == "oidc:1:viewer"


async def test_many_tokens_with_a_new_key_are_all_accepted_at_once(
    forger: Forger, later: Callable[[float], None]
) -> None:
    async with served(**forged(forger)) as client:
        assert await who(client, Authorization=forged_token(forger)) == "oidc:1:viewer"
        other = RSAKey.generate_key(2048, {"kid": "2", "use": "sig", "alg": "RS256"})
        forger.keys.append(other.as_dict(private=False))
        later(31)
        new = forged_token(forger, "2", other)
        assert await asyncio.gather(*(who(client, Authorization=new) for _ in range(5))) == ["oidc:1:viewer"] * 5
        assert forger.asked_for_keys == 2


async def test_requests_share_their_wait_for_a_provider_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.serve.access.provider._PATIENCE", aiohttp.ClientTimeout(total=0.5))
    with socket.create_server(("127.0.0.1", 0), backlog=20) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        asked = Provider(Table(issuer=issuer, client_id="me"))
        began = asyncio.get_running_loop().time()
        flows = [asked.address(SignIn.begin("/", 0), ME) for _ in range(20)]
        told = await asyncio.gather(*flows, return_exceptions=True)
        took = asyncio.get_running_loop().time() - began
        await asked.close()
    assert all(isinstance(one, ProviderFailed) and "did not respond as expected" in str(one) for one in told)
    assert took < 5.0, "each has waited for half a second of its own"


async def test_json_with_too_many_levels_from_a_provider_is_refused() -> None:
    async def deep(_: web.Request) -> web.Response:
        return web.Response(text='{"issuer":' * 10_000, content_type="application/json")

    web_app = web.Application()
    web_app.router.add_get("/{path:.*}", deep)
    async with TestServer(web_app) as server:
        asked = Provider(Table(issuer=str(server.make_url("")).rstrip("/"), client_id="me"))
        with pytest.raises(ProviderFailed, match="did not respond as expected"):
            await asked.address(SignIn.begin("/", 0), ME)
        await asked.close()


async def test_a_provider_that_is_down_is_reported_in_one_sentence(tmp_path: Path) -> None:
    named = oidc(tmp_path, issuer="http://127.0.0.1:1", client_id="me", roles="*=viewer")
    async with served(**named, DELAY_WEB_SECRET=SECRET) as client:
        answer = await client.get("/sign-in/begin")
        assert "did not respond as expected" in await answer.text()
        assert await who(client, Authorization="Bearer a.b.c") == "401"


async def test_passwords_and_a_provider_work_together(client: Client, env: dict[str, str], users: Path) -> None:
    assert "Sign in with a password" not in await (await client.get("/sign-in")).text()
    given = await asyncio.to_thread(Path(env["DELAY_WEB_USERS_FILE"]).read_text)
    await asyncio.to_thread(users.write_text, f"{await asyncio.to_thread(users.read_text)}\n{given}")
    async with served(**{**env, "DELAY_WEB_USERS_FILE": str(users)}) as both:
        assert await who(both, **shown("operator")) == "operator:operator"
        page = await (await both.get("/find")).text()
        assert "Sign in with the identity provider" in page
        assert '<a class="button" href="/sign-in/password?next=%2Ffind">' in page
        answer = await both.get("/sign-in/password")
        assert (answer.status, answer.headers["WWW-Authenticate"][:5]) == (401, "Basic")
        answer = await both.get("/sign-in/password?next=/find", headers=shown("viewer"), allow_redirects=False)
        assert answer.headers["Location"] == "/find"
        await signed_in(both, "1")
        wrong = {"Authorization": aiohttp.encode_basic_auth("admin", "wrong")}
        assert await who(both, **wrong) == "401"  # not made good by the session


@pytest.mark.core
def test_an_answer_belongs_to_the_sign_in_that_the_browser_began() -> None:
    begun, oidc = (
        SignIn.begin("/", Clock.wall_ms() // 1_000),
        cast("Oidc", SimpleNamespace(_used_states=Newest[str, None](10))),
    )

    assert not Oidc._belongs(oidc, begun, {"state": "of another browser"})
    assert not Oidc._belongs(oidc, begun, {})
    assert Oidc._belongs(oidc, begun, {"state": begun.state})
    assert not Oidc._belongs(oidc, begun, {"state": begun.state}), "once"
