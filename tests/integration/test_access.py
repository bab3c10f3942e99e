"""Users with passwords, and of a provider, on a real worker: each acts as far as they may; the audit says who."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import encode_basic_auth

from app.serve.access.caller import ROLES
from app.serve.access.former import as_toml
from app.serve.access.password import Hash
from punctual.cli import main
from punctual.cli.exits import Exit
from tests.harness.chromium import CHROMIUM
from tests.harness.provider import provider
from tests.harness.waiting import LIMIT_S
from tests.integration.conftest import Run
from tests.integration.installation import Installation

pytestmark = pytest.mark.core

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECRET = "between these workers, and nobody else"  # noqa: S105 - only for tests


@pytest.fixture(scope="module")
def installation(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A worker that listens on all addresses, and requires a login."""
    users = tmp_path_factory.mktemp("access") / "users"
    tables: dict[str, Any] = {
        "users": {role: {"role": role, "password": str(Hash.of(f"{role}-word"))} for role in ROLES},
        "groups": {"support": {"role": "operator"}},
    }
    secret = users.with_name("secret")
    secret.write_text("of the client", "utf-8")
    with provider({"sub": "ann", "groups": ["support"]}, {"sub": "eve", "groups": ["sales"]}) as issuer:
        tables["provider"] = {"issuer": issuer, "client_id": "punctual", "client_secret_file": str(secret)}
        users.write_text(as_toml(tables), "utf-8")
        env = {
            "HOST": "0.0.0.0",  # noqa: S104 - on purpose
            "DELAY_WEB_USERS_FILE": str(users),
            "DELAY_WEB_SECRET": SECRET,
        }
        with run("access", env=lambda _: env) as made:
            yield made


def asked(installation: Installation, role: str, path: str, body: object = None) -> tuple[int, str]:
    """Ask as a user of a role, by POST if there is a body; return the status and the answer."""
    headers = {"Content-Type": "application/json"}
    if role:
        headers["Authorization"] = encode_basic_auth(role, f"{role}-word")
    raw = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(installation.worker.url + path, raw, headers)  # noqa: S310 - our own worker
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_callers_without_a_login_see_no_data(installation: Installation) -> None:
    for path in ("/metrics", "/api/v1/overview", "/api/v1/messages", "/api/v1/local/messages", "/api/v1/nothing"):
        assert asked(installation, "", path)[0] == 401
    assert "Sign in with the identity provider" in asked(installation, "", "/audit")[1]
    assert asked(installation, "", "/health/ready")[0] == 200


def test_each_role_acts_as_far_as_it_may_and_the_audit_says_who_it_was(installation: Installation) -> None:
    to = installation.topic()
    wanted = {"to": to, "after": "PT1H", "id": "one", "value": "v"}
    pause: dict[str, Any] = {"reason": "a test"}
    for role, create, pausing in (("viewer", 403, 403), ("operator", 201, 403), ("admin", 201, 200)):
        assert asked(installation, role, "/api/v1/messages", {**wanted, "id": role})[0] == create
        assert asked(installation, role, f"/api/v1/destinations/{to}/pause", pause)[0] == pausing
        assert asked(installation, role, "/api/v1/messages")[0] == 200
    assert asked(installation, "operator", "/api/v1/audit")[0] == 403
    acts = json.loads(asked(installation, "admin", "/api/v1/audit")[1])["acts"]
    told = {(act["act"], act["by"], act["role"]) for act in acts if act["target"] in {*ROLES, to}}
    assert told == {("create", "operator", "operator"), ("create", "admin", "admin"), ("pause", "admin", "admin")}


def test_the_command_line_signs_in_and_reports_missing_permissions(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PUNCTUAL_URL", installation.worker.url)

    def cli(role: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("PUNCTUAL_PASSWORD", f"{role}-word")
        code = main.run(arguments[0], [*arguments[1:], *(["--user", role] if role else [])])
        return code, capsys.readouterr().err

    code, said = cli("", "list")
    assert (code, "rejected the login" in said, "give --user NAME" in said) == (Exit.NOT_ALLOWED, True, True)
    assert cli("nobody", "list")[0] == Exit.NOT_ALLOWED
    assert cli("viewer", "list", "--to", "nothing") == (Exit.DONE, "no pending messages match\n")
    for arguments in (("cancel", "a", "b"), ("pause", "a")):
        code, said = cli("viewer", *arguments)
        assert (code, f"{installation.worker.url} refused it: " in said) == (Exit.NOT_ALLOWED, True)
    assert cli("operator", "cancel", "a", "b")[0] == Exit.NOT_FOUND


def test_pages_ask_the_api_as_whoever_asks_for_the_page(installation: Installation) -> None:
    status, page = asked(installation, "viewer", "/")
    assert status == 200
    assert 'viewer <span class="note">viewer</span>' in page
    assert 'href="/audit"' not in page
    assert 'href="/new"' not in page
    assert asked(installation, "viewer", "/audit")[0] == 403
    assert 'href="/new"' in asked(installation, "operator", "/")[1]
    wanted = {"to": installation.topic(), "after": "PT1H", "id": "of-the-page", "value": "v"}
    assert asked(installation, "operator", "/api/v1/messages", wanted)[0] == 201
    status, page = asked(installation, "admin", "/audit")
    assert (status, "of-the-page" in page) == (200, True)


def test_other_addresses_of_the_machine_are_served_too(installation: Installation) -> None:
    with socket.create_connection((socket.gethostname(), installation.worker.port), timeout=LIMIT_S) as connection:
        connection.sendall(f"GET /api/v1/overview HTTP/1.0\r\nHost: {socket.gethostname()}\r\n\r\n".encode())
        assert b" 401 " in connection.recv(100)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install it, or name it by CHROMIUM")
def test_a_browser_signs_in_by_the_provider_acts_and_signs_out(installation: Installation, browser: "Browser") -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - as above

    own = f"http://{socket.gethostname()}:{installation.worker.port}"
    with browser.new_context(base_url=own) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto("/new")
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        page.get_by_role("link", name="Sign in with the identity provider").click()
        page.get_by_role("button", name="eve").click()
        page.get_by_text("have no role here").wait_for()
        page.goto("/new")
        page.get_by_role("link", name="Sign in with the identity provider").click()
        page.get_by_role("button", name="ann").click()
        page.wait_for_url(f"{own}/new")
        assert page.locator(".user").inner_text() == "oidc:ann operator"
        assert page.get_by_role("link", name="Audit").count() == 0
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        page.locator("#to").fill(installation.topic())
        page.locator("#id").fill("by-a-browser")
        page.get_by_role("button", name="Schedule the message").click()
        page.wait_for_url(f"{own}/messages/by-a-browser")
        [session] = [one for one in context.cookies() if one["name"] == "punctual-session"]
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You have signed out.").wait_for()
        context.add_cookies([{"name": session["name"], "value": session["value"], "url": own}])
        page.goto("/")
        assert page.get_by_role("link", name="Sign in with the identity provider").count() == 1
    [act] = [act for act in json.loads(asked(installation, "admin", "/api/v1/audit")[1])["acts"]
             if act["target"] == "by-a-browser"]  # fmt: skip
    assert (act["by"], act["role"], act["outcome"]) == ("oidc:ann", "operator", "accepted")
