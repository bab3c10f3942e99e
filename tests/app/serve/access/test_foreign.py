"""Messages, jobs and dead letters of another namespace do not exist for a caller, in every request and spelling."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from app.serve.access.caller import FORWARDED, Caller, forwarded
from app.serve.actions.audit import Action, Audit
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.dead_letters.dead_letters import DeadLetters
from app.serve.search.filter import Filter
from app.serve.search.page import Cursor, SearchPart
from app.serve.search.scan import END, Place, Row
from app.serve.search.search import Search
from app.serve.search.visibility import sees
from app.serve.web.overview_rows import NamespaceRow
from app.settings.settings import Settings
from app.worker import create_app
from tests.app.serve.access.conftest import SECRET, Client, hashed, served, shown
from tests.app.serve.access.world import IDS, JOBS, OF, PLACES, TEAMS, THERE, USERS, World, asked, row
from tests.tables.rows import NOW, entry, key


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
async def client(world: World, tmp_path: Path) -> AsyncIterator[Client]:
    assert world is not None
    path = tmp_path / "users"
    path.write_text("".join(f"{name}:admin:{hashed(name)}{within}\n" for name, within in USERS.items()), "utf-8")
    env = {"DELAY_WEB_USERS_FILE": path, "DELAY_WEB_SECRET": SECRET, **TEAMS}
    async with served(real_below="/api/v1/", **env) as client:
        yield client


@pytest.mark.parametrize("user", USERS)
async def test_each_caller_finds_and_counts_only_messages_of_their_namespaces(client: Client, user: str) -> None:
    status, page = await asked(client, user, "/messages")
    assert (status, [one["id"] for one in page["rows"]]) == (200, list(OF[user]))
    assert (await asked(client, user, "/messages/count"))[1]["matching"] == len(OF[user])
    # Bound callers do not learn the number of messages of other namespaces.
    assert page["looked_at"] == (len(IDS) if user == "whole" else len(OF[user]))
    for id_ in IDS:
        status, found = await asked(client, user, f"/messages/{quote(id_, safe='')}?life=1")
        theirs = id_ in OF[user]
        assert (status, "due_ms" in found, bool(found["life"])) == (
            (200, True, True) if theirs else (404, False, False)
        )


@pytest.mark.parametrize("user", USERS)
async def test_each_caller_sees_only_dead_letters_and_jobs_of_their_namespaces(client: Client, user: str) -> None:
    teams = {"whole": ("a", "b", ""), "a": ("a",), "b": ("b",), "ab": ("a", "b")}[user]
    places = [place for place, team in PLACES.items() if team in teams]
    status, page = await asked(client, user, "/dead-letters")
    assert (status, [f"{one['partition']}-{one['offset']}" for one in page["rows"]]) == (200, places)
    assert (await asked(client, user, "/dead-letters/count"))[1]["matching"] == len(places)
    for place in PLACES:
        assert (await asked(client, user, f"/dead-letters/{place}"))[0] == (200 if place in places else 404)
    seen = {"whole": list(JOBS), "a": ["ja"], "b": ["jb", "jd"], "ab": ["ja", "jb", "jab", "jd"]}[user]
    told = (await asked(client, user, "/jobs"))[1]["jobs"]
    assert [one["job"]["job_id"] for one in told] == seen
    assert {len(one["job"]["ends"]) for one in told} == {1 if user == "whole" else 0}
    for job_id in JOBS:
        assert (await asked(client, user, f"/jobs/{job_id}"))[0] == (200 if job_id in seen else 404)


#: Spellings of ids of other namespaces.
SPELLINGS: Final = (
    *("team-b/x", "team-a/../team-b/x", "./team-b/x", "team-a/..%2Fteam-b%2Fx", "team-b%2Fx", "team-b%252Fx"),
    *("%2Fteam-b/x", "team-b//x", "b-in-0-5", "shared", "delay-requests-0-5", "TEAM-B/x", "t%D0%B5am-b/x"),
    *("team-b%E2%88%95x", "team-b%EF%BC%8Fx", "team-a%00/../team-b/x", "team-a/%2e%2e/team-b/x", "team-b/x@1"),
    *("%EF%BD%94eam-b/x", "team-a;/team-b/x", "team-b/x%3Fid=team-a/x", "team-a/x%23/../../team-b/x"),
    *("team-a%20/x", "%20team-b/x", "team-b/x%20"),
)


@pytest.mark.parametrize("spelled", SPELLINGS)
async def test_no_spelling_of_an_id_reaches_a_message_of_another_namespace(
    client: Client, world: World, spelled: str
) -> None:
    """The answer is the same as for an id that does not exist."""
    never = await asked(client, "a", "/messages/never-given")
    status, found = await asked(client, "a", f"/messages/{spelled}")
    assert status == never[0] == 404
    assert set(found) == set(never[1]) == {"type", "title", "status", "detail", "id"}
    assert THERE.of_id(found["id"]) == "team-a"
    status, found = await asked(client, "a", f"/messages/{spelled}?life=1")
    assert (status, found.get("life")) == (404, [])
    for act in ("cancel", "deliver-now", "pause", "resume", "reschedule"):
        body = {"after": "PT1H"} if act == "reschedule" else {}
        assert (await asked(client, "a", f"/messages/{spelled}/{act}", body))[0] == 202
    targets = {request.id.decode() for _, request, _ in world.sent if request.id is not None}
    assert len(world.sent) == 5
    assert {THERE.of_id(target) for target in targets} == {"team-a"}
    assert not targets & set(IDS)
    assert {within for _, _, within in world.audited} == {("team-a",)}


async def test_an_id_without_a_namespace_is_in_the_first_namespace_of_the_caller(client: Client, world: World) -> None:
    for user, said, full in (
        ("a", "x", "team-a/x"),
        ("a", "team-a/x", "team-a/x"),
        ("ab", "x", "team-a/x"),
        ("ab", "team-b/x", "team-b/x"),
        ("ab", "b-in-0-5", "b-in-0-5"),
        ("whole", "x", "x"),
        ("whole", "team-b/x", "team-b/x"),
    ):
        await asked(client, user, f"/messages/{quote(said, safe='')}/cancel", {})
        assert world.sent[-1][1].id == full.encode()
    status, found = await asked(client, "a", f"/messages/{'y' * 250}/cancel", {})
    assert (status, "257 bytes with its namespace" in found["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("user", "id_", "to", "status"),
    [
        ("a", "team-a/n", "orders", 202),
        ("a", "n", "orders.eu", 202),
        ("a", "n", "shared.x", 202),
        ("a", None, "orders", 202),
        ("a", "n", "billing", 403),
        ("a", "team-b/n", "billing", 403),
        ("ab", "team-b/n", "billing", 202),
        ("ab", "team-b/n", "orders", 403),
        ("ab", "n", "billing", 403),
        ("a", "n", "delay-events", 403),
        ("a", "n", "b-in", 403),
        ("a", "n", "__consumer_offsets", 403),
        ("a", "n", "https://a.example/hook", 202),
        ("a", "n", "https://b.example/hook", 403),
        ("a", "n", "https://a.example.evil/hook", 403),
        ("a", "n", "https://b.example/@a.example/", 403),
        ("a", "n", 7, 422),
        ("whole", "n", "billing", 403),
    ],
)
async def test_a_message_goes_only_to_destinations_of_the_inputs_of_its_namespace(
    client: Client, world: World, user: str, id_: str | None, to: Any, status: int
) -> None:
    body = {"to": to, "after": "PT1H", **({"id": id_} if id_ else {})}
    answer = await asked(client, user, "/messages", body)
    assert answer[0] == status, answer
    assert len(world.sent) == (status == 202)
    if world.sent and user != "whole":
        [(_, request, topic)] = world.sent
        assert request.id is not None
        namespace = THERE.of_id(request.id.decode())
        assert namespace in {"a": ("team-a",), "ab": ("team-a", "team-b")}[user]
        # It goes through the input of the namespace, where the worker checks the message again.
        assert THERE.of_topic(topic) == namespace


async def test_all_of_a_message_of_megabytes_is_read(client: Client, world: World) -> None:
    value = b"x" * (3 << 20)
    body = io.BytesIO(b'{"to": "shared.x", "after": 1, "value": "%s"}' % value)
    headers = {"Content-Type": "application/json", **shown("whole")}
    async with client.post("/api/v1/messages", headers=headers, data=body) as answer:
        assert answer.status == 202
    [(_, request, _)] = world.sent
    assert request.value == value


async def test_headers_of_a_message_cannot_name_ids_or_destinations_of_another_namespace(
    client: Client, world: World
) -> None:
    for name in ("delay-id", "delay-op", "delay-parked", "delay-to"):
        body = {"to": "orders", "after": "PT1H", "id": "n", "headers": {name: "team-b/x"}}
        assert (await asked(client, "a", "/messages", body))[0] == 422
    for to in ("billing", "b-in"):
        body = {"to": to, "to_cluster": "other", "after": "PT1H", "id": "n"}
        assert (await asked(client, "a", "/messages", body))[0] == 403
    assert world.sent == []


async def test_a_job_acts_only_on_namespaces_of_its_creator_with_every_filter(client: Client, world: World) -> None:
    given = {"confirm": 1, "act": "cancel"}
    for user, wanted, names in (
        ("a", {}, {"team-a"}),
        ("a", {"namespace": "team-a"}, {"team-a"}),
        ("a", {"id_prefix": "team-b/"}, {"team-a"}),
        ("a", {"source": "b-in"}, {"team-a"}),
        ("ab", {}, {"team-a", "team-b"}),
        ("ab", {"namespace": "team-b"}, {"team-b"}),
        ("a", {"namespace": "-"}, set[str]()),
        ("whole", {"namespace": "team-b"}, {"team-b"}),
    ):
        for act in ("cancel", "resend"):
            if act == "resend" and set(wanted) - {"namespace"}:
                continue
            assert (await asked(client, user, "/jobs", {**given, "filter": wanted, "act": act}))[0] == 202
            within = world.jobs[-1][1].within
            assert within is not None
            assert (world.jobs[-1][0], set(within.names)) == (act, names)
    assert (await asked(client, "whole", "/jobs", given))[0] == 202
    assert world.jobs[-1][1].within is None


async def test_a_job_keeps_the_blanks_in_its_filter(client: Client, world: World) -> None:
    body = {"confirm": 1, "act": "cancel", "filter": {"id_prefix": "team 1 "}}
    assert (await asked(client, "whole", "/jobs", body))[0] == 202
    [(_, wanted)] = world.jobs
    assert isinstance(wanted, Filter)
    fits = [id_ for id_ in ("team 1 x", "team 12 x") if wanted.fits(key(NOW), entry(id_))]
    assert fits == ["team 1 x"]


@pytest.mark.parametrize("path", ["/messages", "/messages/count", "/dead-letters", "/dead-letters/count", "/timeline"])
async def test_another_namespace_looks_like_a_namespace_that_does_not_exist(client: Client, path: str) -> None:
    foreign = await asked(client, "a", f"{path}?namespace=team-b")
    absent = await asked(client, "a", f"{path}?namespace=team-c")
    assert foreign[0] == absent[0] == 400
    assert foreign[1]["detail"].replace("team-b", "team-c") == absent[1]["detail"]
    assert "they are team-a" in absent[1]["detail"]
    assert (await asked(client, "a", f"{path}?namespace=team-a,team-b"))[0] == 400


async def test_a_job_with_a_filter_for_another_namespace_is_refused(client: Client, world: World) -> None:
    for act in ("cancel", "resend"):
        body = {"confirm": 1, "act": act, "filter": {"namespace": "team-b"}}
        assert (await asked(client, "a", "/jobs", body))[0] == 400
    assert world.jobs == []


async def test_bound_callers_cannot_stop_jobs_of_other_namespaces(client: Client, world: World) -> None:
    assert (await asked(client, "a", "/jobs/jb/stop", {})) == (await asked(client, "a", "/jobs/never/stop", {}))
    for job_id in ("jab", "jd", "all"):
        assert (await asked(client, "a", f"/jobs/{job_id}/stop", {}))[0] == 404
    assert world.stopped == []
    assert (await asked(client, "a", "/jobs/ja/stop", {}))[0] == 200
    assert world.stopped == ["ja"]


async def test_a_cursor_of_another_caller_does_not_show_their_messages(client: Client) -> None:
    cursor = f"{'00' * 20}.0"
    status, page = await asked(client, "a", f"/messages?cursor={cursor}")
    assert (status, [one["id"] for one in page["rows"]]) == (200, list(OF["a"]))


@pytest.mark.parametrize(
    ("user", "place", "body", "status"),
    [
        ("a", "0-1", {}, 200),
        ("a", "0-2", {}, 404),
        ("a", "0-3", {}, 404),
        ("a", "0-4", {}, 404),
        ("a", "0-9", {}, 404),
        ("b", "0-2", {}, 200),
        ("b", "0-3", {}, 200),
        ("whole", "0-4", {}, 200),
        # It goes to the namespace's own input, which takes it for one of its own, whatever it says.
        ("a", "0-1", {"headers": {"delay-id": "team-b/x"}}, 200),
    ],
)
async def test_a_dead_letter_of_another_namespace_is_not_resent(
    client: Client, world: World, user: str, place: str, body: Any, status: int
) -> None:
    assert (await asked(client, user, f"/dead-letters/{place}/resend", body))[0] == status
    assert len(world.sent) == (status == 200)
    if status == 200 and user == "a":
        assert [topic for _, _, topic in world.sent] == ["a-in"]
    if user != "whole":
        assert {within for _, _, within in world.audited} <= {(f"team-{user}",)}


SHARED: Final = {"delay-id": b"team-a/d", "delay-to": b"orders", "delay-at": b"9999999999999", "delay-reason": b"r"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"delay-id": "team-a/other"}, 200),
        ({"delay-to": "orders.eu"}, 200),
        ({"delay-id": "team-b/x"}, 403),
        ({"delay-id": "x"}, 403),
        ({"delay-id": None}, 403),
        ({"delay-id": "team-b/x", "delay-op": "cancel", "delay-to": None, "delay-at": None}, 403),
        ({"delay-to": "billing"}, 403),
        ({"delay-to": "https://b.example/x"}, 403),
        ({"delay-at": "nonsense"}, 403),
        ({"delay-parked": "1,1", "delay-source": "a-in-0-1"}, 403),
    ],
    ids=str,
)
async def test_corrections_of_messages_to_the_shared_input_stay_within_the_namespaces_of_the_caller(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch, changes: Any, status: int
) -> None:
    async def one(*_: Any) -> DeadLetter:
        return DeadLetter(partition=0, offset=1, at_ms=1, reason="r", error="e", source="delay-requests-0-1",
                          id="team-a/d", headers=list(SHARED.items()))  # fmt: skip

    monkeypatch.setattr(DeadLetters, "one", one)
    answer = await asked(client, "a", "/dead-letters/0-1/resend", {"headers": changes})
    assert (answer[0], len(world.sent)) == (status, status == 200), answer
    assert (await asked(client, "whole", "/dead-letters/0-1/resend", {"headers": changes}))[0] == 200


@pytest.mark.parametrize("user", USERS)
async def test_the_audit_of_a_namespace_has_only_its_own_entries(
    client: Client, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    told = {"1": ("team-a",), "2": ("team-b",), "3": ("team-a", "team-b"), "4": ()}
    acts = [Action(act_id=number, at_ms=1, by="x", act="cancel", target="t", namespaces=within)
            for number, within in told.items()]  # fmt: skip

    async def last(_: Any, __: int, caller: Caller) -> list[Action]:
        return [act for act in acts if sees(caller, act.namespaces)]

    monkeypatch.setattr(Audit, "last", last)
    found = (await asked(client, user, "/audit"))[1]["acts"]
    assert "".join(act["act_id"] for act in found) == {"whole": "1234", "a": "1", "b": "2", "ab": "123"}[user]


@pytest.mark.parametrize("user", USERS)
async def test_the_list_of_namespaces_counts_pending_messages_of_the_callers_namespaces(
    client: Client, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    def rows(*_: Any) -> list[NamespaceRow]:
        return [NamespaceRow(namespace=f"team-{name}", messages=3, bytes=9) for name in "ab"]

    monkeypatch.setattr("app.serve.search.namespaces.assure_reports", lambda _: None)
    monkeypatch.setattr("app.serve.search.namespaces.namespace_rows", rows)
    status, told = await asked(client, user, "/namespaces")
    theirs = {"whole": "ab", "a": "a", "b": "b", "ab": "ab"}[user]
    assert (status, told["pending"]) == (200, 3 * len(theirs))
    destinations = {"a": ["orders", "orders.*", "shared.*"], "b": ["billing", "shared.*"]}
    assert [(one["namespace"], one["inputs"], one["destinations"]) for one in told["namespaces"]] == [
        (f"team-{name}", [f"{name}-in"], destinations[name]) for name in theirs
    ]


async def test_rows_of_other_namespaces_in_the_answer_of_another_worker_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = Search(create_app(Settings.from_env(TEAMS)).engine)

    async def parts(*_: Any, **__: Any) -> tuple[list[SearchPart], list[Any]]:
        own = SearchPart(partitions=[0], rows=[Row(Place(), row("team-a/x"))], up_to=END)
        rows = [Row(Place(), row(id_)) for id_ in ("team-b/x", "shared", "a-in-0-1")]
        return [own, SearchPart(partitions=[1], rows=rows, up_to=END)], []

    monkeypatch.setattr(search, "_parts", parts)
    page = await search.page(Filter(within=THERE.part(["team-a"])), Cursor(), 10)
    assert {one.id for one in page.rows} == {"team-a/x", "a-in-0-1"}


def test_a_caller_with_an_empty_list_of_namespaces_is_bound() -> None:
    """An empty list would look like none, which is the whole installation."""
    assert Caller("x", "viewer", namespaces=()).bound
    assert not Caller("x", "viewer").bound


#: Reads whose answers depend on the caller.
READS: Final = (
    "/messages",
    "/messages/count",
    "/dead-letters",
    "/dead-letters/count",
    "/jobs",
    "/namespaces",
    "/overview",
)


async def read(client: Client, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    async with client.get(f"/api/v1{path}", headers=headers) as answer:
        return answer.status, await answer.read()


def bound_to(user: str) -> tuple[str, ...] | None:
    return tuple(USERS[user].removeprefix(":").split(",")) if USERS[user] else None


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("path", READS)
async def test_a_gateway_with_the_workers_secret_reads_what_its_caller_may_read(
    client: Client, user: str, path: str
) -> None:
    caller = Caller(user, "admin", namespaces=bound_to(user))
    through = {"Authorization": f"Bearer {SECRET}", FORWARDED: forwarded(caller)}
    status, body = await read(client, path, shown(user))
    assert (status, body) == await read(client, path, through) or path in ("/namespaces", "/overview")
    assert (await read(client, path, through))[0] == status


async def test_without_the_secret_a_gateway_cannot_read_for_another_caller(client: Client) -> None:
    whole = {FORWARDED: forwarded(Caller("whole", "admin"))}
    own = await read(client, "/messages", shown("a"))
    assert await read(client, "/messages", {**shown("a"), **whole}) == own
    assert (await read(client, "/messages", whole))[0] == 401
    assert (await read(client, "/messages", {**whole, "Authorization": f"Bearer {SECRET[:-1]}"}))[0] == 401
    secret = {"Authorization": f"Bearer {SECRET}"}
    assert (await read(client, "/messages", secret))[0] == 401, "without a caller"
    assert (await read(client, "/messages", {**secret, FORWARDED: "e30"}))[0] == 401, "without a valid caller"
    viewer = {**secret, FORWARDED: forwarded(Caller("x", "viewer"))}
    assert (await read(client, "/audit", viewer))[0] == 403
    json = {"Content-Type": "application/json"}
    async with client.post("/api/v1/jobs", headers={**secret, **whole, **json}, data=b"{}") as answer:
        assert answer.status == 401, "a gateway reads only"
