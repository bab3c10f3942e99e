"""Two teams on a real worker, each bound to a namespace: each does everything to its own messages, and cannot touch the
other's."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from aiohttp import encode_basic_auth

from app.serve.access.password import Hash
from punctual.cli import main
from punctual.cli.exits import Exit
from tests.harness.chromium import CHROMIUM
from tests.harness.kafka import create_topic, now_ms
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import Installation

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECRET = "between these workers, and nobody else"  # noqa: S105 - only for tests
TEAMS = ("a", "b")
USERS = {"root": "admin:{}", "look": "viewer:{}:team-a", **{team: f"admin:{{}}:team-{team}" for team in TEAMS}}
MANY = 30


@pytest.fixture(scope="module")
def installation(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A worker with an input and a destination for each team."""
    users = tmp_path_factory.mktemp("teams") / "users"
    hashes = {name: Hash.of(name, ln=4, r=1, p=1) for name in USERS}
    users.write_text("".join(f"{name}:{said.format(hashes[name])}\n" for name, said in USERS.items()), "utf-8")

    def env(app_id: str) -> dict[str, str]:
        return {
            "DELAY_WEB_USERS_FILE": str(users),
            "DELAY_WEB_SECRET": SECRET,
            "DELAY_WEB_PAYLOADS": "masked-for-viewers",
            "DELAY_INPUTS": ",".join(f"{app_id}-{team}=native" for team in TEAMS),
            "DELAY_NAMESPACES": ",".join(f"{app_id}-{team}=team-{team}" for team in TEAMS),
            "DELAY_DESTINATIONS": ",".join(f"{app_id}-{team}:{app_id}-to-{team}" for team in TEAMS),
        }

    with run("teams", env=env) as made:
        for team in TEAMS:
            create_topic(made.bootstrap, to(made, team), 1)
        yield made


def to(installation: Installation, team: str) -> str:
    return f"{installation.app_id}-to-{team}"


def asked(installation: Installation, user: str, path: str, body: Any = None, url: str = "") -> tuple[int, Any]:
    """Ask the API, by POST if there is a body; return the status and the answer."""
    headers = {"Content-Type": "application/json", "Authorization": encode_basic_auth(user, user)}
    raw = None if body is None else json.dumps(body).encode()
    where = f"{url or installation.worker.url}/api/v1{path}"
    request = urllib.request.Request(where, raw, headers)  # noqa: S310 - our own worker
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ids(installation: Installation, user: str, query: str = "", url: str = "") -> set[str]:
    status, page = ask_until(
        lambda: asked(installation, user, f"/messages?limit=500{query}", url=url),
        lambda said: said[1].get("complete"),
        "all that is pending",
    )
    assert status == 200, page
    return {row["id"] for row in page["rows"]}


def ask_for(installation: Installation, team: str, *names: str, **more: str) -> None:
    """Ask for messages by a team's input, due in an hour, with the names that the team has for them."""
    for name in names:
        headers = {"delay-to": to(installation, team), "delay-after": "PT1H", "delay-id": name, **more}
        installation.requests.send(headers, b"key", f"of {team}".encode(), topic=f"{installation.app_id}-{team}")
    installation.requests.flush()
    # An event is written before the table has its message.
    wanted = {f"team-{team}/{name}" for name in names}
    eventually(lambda: wanted <= ids(installation, "root"), what="the messages among the pending ones")


@pytest.fixture(scope="module")
def both(installation: Installation) -> Installation:
    """Messages of both teams, by their inputs, that have the same names."""
    for team in TEAMS:
        ask_for(installation, team, "one", "two", "to-move", "to-run")
    return installation


@pytest.mark.parametrize("team", TEAMS)
def test_each_team_does_everything_to_its_own(both: Installation, team: str) -> None:
    other = TEAMS[team == "a"]
    before = ids(both, other)
    full = f"team-{team}/"
    assert ids(both, team) >= {full + name for name in ("one", "two")}
    assert {id_.partition("/")[0] for id_ in ids(both, team)} == {f"team-{team}"}
    status, made = asked(both, team, "/messages", {"to": to(both, team), "after": "PT1H", "id": "by-api", "value": "v"})
    assert (status, made["event"]["id"], made["event"]["source"].rsplit("-", 2)[0]) == (
        201,
        f"{full}by-api",
        f"{both.app_id}-{team}",
    )
    for named in ("by-api", quote(f"{full}by-api", safe=""), f"{full}by-api"):
        status, found = asked(both, team, f"/messages/{named}?life=1")
        assert (status, found["id"], found["life"][0]["event"]) == (200, f"{full}by-api", "accepted")
    assert asked(both, team, "/messages/to-move/reschedule", {"after": "PT2H"})[1]["outcome"] == "rescheduled"
    assert asked(both, team, "/messages/to-run/deliver-now", {})[1]["outcome"] == "rescheduled"
    assert both.wait_for(to(both, team), 1)[0].header("delay-id") == f"{full}to-run"
    assert asked(both, team, "/messages/two/cancel", {})[1]["outcome"] == "cancelled"
    ask_until(
        lambda: (sum(one["total"] for one in asked(both, team, "/timeline")[1]["buckets"]), len(ids(both, team))),
        lambda counts: counts[0] == counts[1],
        "a timeline of all that is pending",
    )
    eventually(lambda: asked(both, team, "/namespaces")[0] == 200, what="the reports of all")
    told = asked(both, team, "/namespaces")[1]
    assert [one["namespace"] for one in told["namespaces"]] == [f"team-{team}"]
    acts = {(act["act"], act["target"]) for act in asked(both, team, "/audit")[1]["acts"]}
    assert acts >= {
        ("create", f"{full}by-api"), ("reschedule", f"{full}to-move"),
        ("deliver-now", f"{full}to-run"), ("cancel", f"{full}two"),
    }  # fmt: skip
    targets = {target for act, target in acts if act in ("create", "reschedule", "deliver-now", "cancel")}
    assert {target.partition("/")[0] for target in targets} == {f"team-{team}"}
    assert ids(both, other) == before


def test_neither_team_can_change_messages_of_the_other(both: Installation) -> None:
    ask_for(both, "b", "theirs")
    for id_ in ("team-b/theirs", "theirs", "team-a/../team-b/theirs", "team-b%2Ftheirs"):
        assert asked(both, "a", f"/messages/{id_}")[0] == 404
        for act in ("cancel", "deliver-now", "reschedule"):
            body = {"after": "PT5H"} if act == "reschedule" else {}
            assert asked(both, "a", f"/messages/{id_}/{act}", body)[0] == 404
    assert asked(both, "a", "/messages", {"to": to(both, "b"), "after": "PT1H", "id": "x"})[0] == 403
    # Replaced it would be, if this were the same id.
    assert asked(both, "a", "/messages", {"to": to(both, "a"), "after": "PT9H", "id": "team-b/theirs"})[0] == 201
    status, theirs = asked(both, "b", "/messages/theirs")
    assert (status, theirs["to"], theirs["due_ms"] < now_ms() + 3_700_000) == (200, to(both, "b"), True)
    assert asked(both, "a", "/messages/team-a%2Fteam-b%2Ftheirs")[0] == 200
    for path in ("/overview", "/destinations", "/history", "/findings", "/partitions/0/destinations"):
        assert asked(both, "a", path)[0] == 403
    assert asked(both, "a", f"/destinations/{to(both, 'b')}/pause", {"reason": "x"})[0] == 403
    assert ids(both, "root") >= ids(both, "a") | ids(both, "b")


def test_a_team_acts_on_all_of_its_own_messages_and_on_no_others(both: Installation) -> None:
    for team in TEAMS:
        ask_for(both, team, *(f"many-{number}" for number in range(MANY)), campaign="spring")
    wanted = {"header": "campaign:spring"}
    assert asked(both, "a", "/messages/count?header=campaign:spring")[1]["matching"] == MANY
    status, given = asked(both, "a", "/jobs", {"act": "cancel", "filter": wanted, "confirm": MANY})
    assert status == 202, given
    path = f"/jobs/{given['job']['job_id']}"
    both.worker.kill()  # the job's record has the namespaces that bind it
    both.worker.start().wait_ready()
    eventually(lambda: asked(both, "a", path)[1]["state"] == "done", what="the end of the job")
    for team, left in (("a", 0), ("b", MANY)):
        ask_until(
            lambda team=team: asked(both, team, "/messages/count?header=campaign:spring")[1],  # type: ignore[misc]
            lambda said: said.get("complete") and said["matching"] == left,  # noqa: B023 - it is called at once
            f"{left} messages of team {team}",
        )
    assert asked(both, "b", path)[0] == asked(both, "b", f"{path}/stop", {})[0] == 404
    assert asked(both, "b", "/jobs")[1]["jobs"] == []
    assert [one["job"]["ends"] for one in asked(both, "a", "/jobs")[1]["jobs"]] == [[]]


def test_dead_letters_are_their_teams_own(both: Installation) -> None:
    for team in TEAMS:
        other = TEAMS[team == "a"]
        headers = {"delay-to": to(both, other), "delay-after": "PT1H", "delay-id": "lost"}
        both.requests.send(headers, f"lost by {team}".encode(), b"v", topic=f"{both.app_id}-{team}")
    both.requests.flush()
    both.dead_letters(*(f"lost by {team}".encode() for team in TEAMS))
    rows = {team: asked(both, team, "/dead-letters")[1]["rows"] for team in TEAMS}
    assert {team: [row["id"] for row in found] for team, found in rows.items()} == {
        team: [f"team-{team}/lost"] for team in TEAMS
    }
    for team in TEAMS:
        [row], other = rows[team], TEAMS[team == "a"]
        path = f"/dead-letters/{row['partition']}-{row['offset']}"
        assert asked(both, other, path)[0] == asked(both, other, f"{path}/resend", {})[0] == 404
        body = {"headers": {"delay-to": to(both, team)}}
        assert asked(both, team, f"{path}/resend", body)[1]["outcome"] == "accepted"
        assert f"team-{team}/lost" in ids(both, team)
        assert asked(both, team, path)[1]["sent_again"]["by"] == team


def test_the_command_line_exports_and_changes_only_the_teams_own_messages(
    both: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ask_for(both, "a", "two-more", "one-less")
    monkeypatch.setenv("PUNCTUAL_URL", both.worker.url)

    def cli(user: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("PUNCTUAL_PASSWORD", user)
        code = main.run(arguments[0], [*arguments[1:], "--user", user])
        said = capsys.readouterr()
        return code, said.out, said.err

    code, lines, said = cli("a", "export")
    found = [json.loads(line) for line in lines.splitlines()]
    assert (code, {one["id"] for one in found}) == (Exit.DONE, ids(both, "a")), said
    assert cli("look", "export")[0] == Exit.NOT_ALLOWED  # keys and values are masked for viewers
    assert cli("a", "pending")[0] == Exit.NOT_ALLOWED
    code, lines, _ = cli("a", "list", "--format", "json")
    assert "team-b" not in lines.replace("team-a/team-b", "")
    assert cli("b", "show", "team-a/one")[0] == Exit.NOT_FOUND
    assert cli("a", "cancel", "one-less")[0] == Exit.DONE
    assert "team-a/one-less" not in ids(both, "a")
    backup = tmp_path / "backup"
    [line] = [one for one in found if one["id"] == "team-a/two-more"]
    backup.write_text("\n".join(json.dumps({**line, "id": id_}) for id_ in ("team-a/again", "team-b/again")), "utf-8")
    arguments = ("--bootstrap", both.bootstrap, "--app-id", both.app_id, "--input", f"{both.app_id}-a", "--ids", "keep")
    assert main.run("import", [str(backup), *arguments]) == Exit.DONE
    assert both.await_event("accepted", "team-a/again", "team-a/team-b/again")


def test_whoever_only_looks_sees_no_payloads(both: Installation) -> None:
    wanted = {"to": to(both, "a"), "after": "PT1H", "id": "looked-at", "key": "k", "value": "v"}
    assert asked(both, "a", "/messages", wanted)[0] == 201
    status, found = asked(both, "look", "/messages/looked-at?whole=1")
    assert (status, found["masked"], "key" in found, "value" in found, found["value_bytes"]) == (
        200,
        True,
        False,
        False,
        1,
    )
    assert asked(both, "a", "/messages/looked-at")[1]["value"]
    assert asked(both, "look", "/messages?key=key")[0] == 400
    assert asked(both, "look", "/messages/looked-at/cancel", {})[0] == 403


def test_other_workers_keep_to_a_namespace_too(both: Installation, tmp_path: Path) -> None:
    before = {team: ids(both, team) for team in TEAMS}
    path = tmp_path / "second"
    with Worker(both.bootstrap, both.app_id, path, partitions=4, env=both.worker.env) as second:
        second.start().wait_ready()

        def shared() -> bool:
            workers = asked(both, "root", "/overview")[1].get("workers", [])
            return sorted(len(one["partitions"]) for one in workers) == [2, 2]

        def whole() -> bool:
            """Return whether each worker finds all messages: a page without messages that have just moved is not
            complete."""
            pages = [asked(both, "root", "/messages?limit=500", url=url)[1] for url in (both.worker.url, second.url)]
            return all(page["complete"] for page in pages)

        eventually(shared, what="two partitions each")
        eventually(whole, what="a whole page of each")
        for url in (both.worker.url, second.url):
            for team in TEAMS:
                assert ids(both, team, url=url) == before[team]
                counted = asked(both, team, "/messages/count", url=url)[1]
                assert (counted["matching"], counted["looked_at"]) == (len(before[team]), len(before[team]))
                timeline = asked(both, team, "/timeline", url=url)[1]
                assert sum(one["total"] for one in timeline["buckets"]) == len(before[team])
                for id_ in before[team]:
                    assert asked(both, team, f"/messages/{quote(id_, safe='')}", url=url)[0] == 200


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install it, or name it by CHROMIUM")
def test_the_console_shows_a_team_only_its_own_messages(both: Installation, browser: "Browser") -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - as above

    ask_for(both, "a", "in-the-console")
    headers = {"Authorization": encode_basic_auth("a", "a")}
    with browser.new_context(base_url=both.worker.url, extra_http_headers=headers) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto("/")
        assert page.locator("nav[aria-label=Pages] a").all_inner_texts() == [
            *("Home", "Find", "Dead letters", "Recurring", "Jobs", "Audit")
        ]
        assert page.locator("h1").inner_text() == "team-a"
        assert page.locator(".user").inner_text() == "a admin in team-a"
        assert "team-b" not in page.content().replace("team-a/team-b", "")
        page.locator(".stacks").first.wait_for()
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        page.get_by_role("link", name="Find messages").click()
        page.get_by_role("link", name="team-a/in-the-console").click()
        assert page.locator("h1").inner_text() == "team-a/in-the-console"
        page.get_by_role("button", name="Cancel the message").click()
        page.get_by_text("Cancelled.").wait_for()
        page.goto("/new")
        page.locator("#to").fill(to(both, "a"))
        page.locator("#id").fill("by-form")
        page.get_by_role("button", name="Schedule the message").click()
        page.wait_for_url("**/messages/team-a%2Fby-form")
        page.goto(f"/messages/{quote('team-b/one', safe='')}")
        page.get_by_text("No message with the id 'team-a/team-b/one' is pending").wait_for()
        for path in ("/workers", "/destinations", f"/destinations/{to(both, 'b')}"):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 403
