"""Limits of the access file hold on a worker too: destinations, sizes and rates, of people and of programs."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.serve.access.caller import Caller
from app.serve.access.former import as_toml
from app.serve.actions.namespace_bounds import NamespaceBounds, OutsideNamespaces
from app.serve.actions.resend import Sending
from app.settings.settings import Settings
from punctual.client.requests import Request
from punctual.contract.request import Reason, Refusal
from punctual.contract.request import Request as Asked
from tests.app.serve.access.conftest import Client, bearer, served, shown, user

EACH = pytest.mark.parametrize("credentials", [shown, bearer], ids=["password", "token"])
Credentials = Callable[[str], dict[str, str]]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    tables = {
        "few": user("operator", name="few", program="few", destinations=["orders", "https://a.example/*"]),
        "small": user("operator", name="small", program="small", max_message_bytes=10),
        "slow": user("viewer", name="slow", program="slow", rate=1, burst=2),
    }
    (tmp_path / "access").write_text(as_toml({"users": tables}))
    everywhere = {"DELAY_DESTINATIONS": "*", "DELAY_HTTP_DESTINATIONS": "*"}
    env = {"DELAY_WEB_USERS_FILE": tmp_path / "access", **everywhere}
    async with served(real_below="/api/v1/messages", **env) as client:
        yield client


async def create(client: Client, headers: dict[str, str], **body: object) -> tuple[int, Any]:
    message = {"to": "orders", "after": "PT1H", **body}
    async with client.post("/api/v1/messages", headers=headers, json=message) as answer:
        return answer.status, await answer.json()


@EACH
@pytest.mark.parametrize("to", ["bills", "orders-2", "https://b.example/x"])
async def test_a_message_for_another_destination_is_refused(client: Client, credentials: Credentials, to: str) -> None:
    status, body = await create(client, credentials("few"), to=to)
    assert (status, body["type"]) == (403, "/problems/not-allowed")
    assert "few has no permission to deliver to" in body["detail"]


@EACH
async def test_a_message_that_is_too_large_is_refused(client: Client, credentials: Credentials) -> None:
    status, body = await create(client, credentials("small"), key="k", value="x" * 10)
    assert (status, body["type"]) == (413, "/problems/too-large")


@EACH
async def test_requests_beyond_the_rate_have_to_wait(client: Client, credentials: Credentials) -> None:
    answers = [await client.get("/api/v1/overview", headers=credentials("slow")) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert (answers[2].headers["Retry-After"], answers[2].headers["RateLimit"]) == ("1", '"requests";r=0;t=2')
    assert (await client.get("/metrics", headers=credentials("slow"))).status == 200, "monitoring goes on"


FEW = Caller("few", "operator", destinations=("orders",), max_message_bytes=10)


def again(to: str, value: bytes = b"x", on_failure: str | None = None, *, read: bool = True) -> Sending:
    asked = None
    if read:
        asked = Asked("schedule", "x", "delay-requests-0-1", 1, "delay-requests", to=to, on_failure=on_failure)
    return Sending("delay-requests", 0, Request(None, value, (), b"x"), asked)


def test_a_dead_letter_goes_only_to_destinations_of_the_caller_who_resends_it() -> None:
    bounds = NamespaceBounds(Settings.from_env({}))
    bounds.check_resend(FEW, again("orders"))
    for one, reason in (
        (again("bills"), Reason.NOT_ALLOWED),
        (again("orders", on_failure="https://b.example/"), Reason.NOT_ALLOWED),
        (again("orders", b"x" * 11), Reason.TOO_LARGE),
    ):
        with pytest.raises(Refusal) as refused:
            bounds.check_resend(FEW, one)
        assert refused.value.reason is reason
    with pytest.raises(OutsideNamespaces, match="cannot be read"):
        bounds.check_resend(FEW, again("", read=False))
    bounds.check_resend(Caller("all", "operator"), again("", read=False))
