"""Each way to see keys, values and headers' values, by role and by setting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from app.serve.access.caller import ROLES, masks
from app.serve.actions.audit import Action, Audit
from app.serve.actions.job import Job, JobStatus, status_of
from app.serve.actions.job_log import JobLog
from app.serve.actions.jobs import Jobs
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.dead_letters.dead_letters import DeadLetterPage, DeadLetters
from app.serve.search.filter import Filter
from app.serve.search.life import Life
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.pending import PendingMessage
from app.serve.search.search import Search
from tests.app.serve.access.conftest import SECRET, served, shown

SEEN: Final = {"shown": ROLES, "masked-for-viewers": ("operator", "admin"), "masked": ()}
#: Each address at which a payload, or what somebody has said of one, can be seen; from which role on.
PLACES: Final = {
    "/api/v1/messages": "viewer",
    "/api/v1/messages?whole=1": "viewer",
    "/api/v1/messages/x": "viewer",
    "/api/v1/messages/x?whole=1&life=1": "viewer",
    "/api/v1/dead-letters": "viewer",
    "/api/v1/dead-letters/0-1": "viewer",
    "/api/v1/jobs": "viewer",
    "/api/v1/jobs/j": "viewer",
    "/api/v1/audit": "admin",
}
HEADERS: Final = [("kind", b"payload of a header"), ("none", None)]
ROW: Final = PendingMessage(id="x", partition=0, due_ms=1, to="t", source="s-0-0", key="payload key", value="payload",
                            value_bytes=7, headers=[("kind", "payload of a header"), ("none", None)])  # fmt: skip
DEAD: Final = DeadLetter(partition=0, offset=1, at_ms=1, reason="r", error="e", source="s-0-0", key=b"payload key",
                         value=b"payload", headers=HEADERS)  # fmt: skip
FILTER: Final = Filter(to="t", key="payload key", header="kind:payload of a header")
JOB: Final = Job(job_id="j", at_ms=1, by="a", role="admin", act="cancel", filter=FILTER, counted=1, ends=[{}])
STANDING: JobStatus = status_of(JOB, [])
ACT: Final = Action(act_id="1", at_ms=1, by="a", act="cancel all", target="job j", asked={"filter": FILTER.query()})


def says(answer: Any) -> Callable[..., Any]:
    async def say(*_: Any, **__: Any) -> Any:
        return answer

    return say


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is: one message, one dead letter, one job, one act; all with payloads."""
    page = PendingPage(rows=[ROW], next=None, looked_at=1, looked_to_ms=None, complete=True, missing=[])
    dead = DeadLetterPage(rows=[DEAD], next=None, looked_at=1, looked_back_to_ms=None)
    for kind, name, answer in (
        (Search, "page", page),
        (Search, "message", ROW),
        (Search, "life", Life([], None)),
        (Search, "count", SearchCount(matching=1, looked_at=1, complete=True, missing=[])),
        (DeadLetters, "page", dead),
        (DeadLetters, "one", DEAD),
        (Jobs, "all", [STANDING]),
        (Jobs, "one", STANDING),
        (Audit, "last", [ACT]),
        (JobLog, "read", True),
    ):
        monkeypatch.setattr(kind, name, says(answer))


def tells(body: Any) -> bool:
    """Whether an answer has a payload, as text or in base64."""
    raw = msgspec.json.encode(body)
    return b"payload" in raw or b"cGF5bG9hZ" in raw


@pytest.mark.parametrize("payloads", SEEN)
async def test_each_role_sees_payloads_exactly_where_the_setting_allows_it(users: Path, payloads: str) -> None:
    env = {"DELAY_WEB_USERS_FILE": users, "DELAY_WEB_SECRET": SECRET, "DELAY_WEB_PAYLOADS": payloads}
    wrong = []
    async with served(real_below="/api/v1/", **env) as client:
        for place, need in PLACES.items():
            for role in ROLES[ROLES.index(need) :]:
                answer = await client.get(place, headers=shown(role))
                body = await answer.json()
                if answer.status != 200 or tells(body) != (role in SEEN[payloads]):
                    wrong.append((place, role, answer.status, body))
    assert wrong == []


async def counted(client: TestClient[Any, Any], query: str, role: str) -> int:
    answers = [await client.get(f"/api/v1/messages{rest}?{query}", headers=shown(role)) for rest in ("", "/count")]
    [status] = {answer.status for answer in answers}
    return status


async def test_viewers_cannot_guess_masked_values_by_searching(users: Path) -> None:
    for payloads, status in (("shown", 200), ("masked-for-viewers", 400), ("masked", 400)):
        async with served(real_below="/api/v1/", DELAY_WEB_USERS_FILE=users, DELAY_WEB_PAYLOADS=payloads) as client:
            for query in ("key=payload", "header=kind:payload"):
                assert await counted(client, query, "viewer") == status
                assert await counted(client, query, "operator") == 200
            assert await counted(client, "header=kind&to=t&id_prefix=x", "viewer") == 200


def test_a_setting_masks_payloads_for_the_roles_that_it_names() -> None:
    assert {said: tuple(role for role in ROLES if not masks(said, role)) for said in SEEN} == SEEN
