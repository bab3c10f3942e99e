"""Commands that use Kafka: sent messages are delivered, and exported messages are imported unchanged."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka.consumer.fetcher import Fetcher, OffsetResetStrategy

from punctual.cli import main
from punctual.cli.events import begun
from punctual.cli.exits import Exit
from tests.docs.how_to import blocks
from tests.harness.kafka import ends, now_ms
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, PROGRAM_S, ask_until, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import Installation, users
from tests.integration.test_actions import get
from tests.integration.test_cli import BYTES, HOUR_MS, PUNCTUAL, Said

pytestmark = pytest.mark.core


class Cli:
    """Runs commands in this process, against one installation or another."""

    def __init__(self, installation: Installation, capsys: pytest.CaptureFixture[str]) -> None:
        self.installation, self._capsys = installation, capsys

    def __call__(self, name: str, *arguments: str, at: Installation | None = None) -> Said:
        there = at or self.installation
        address = ["--bootstrap", there.bootstrap, "--app-id", there.app_id]
        self._capsys.readouterr()
        code = main.run(name, [*arguments, *(["--url", there.worker.url] if name in _ASKING else address)])
        return Said(code, *self._capsys.readouterr())


_ASKING = ("list", "show", "export", "dead-letters")


@pytest.fixture
def cli(installation: Installation, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(installation, capsys)


# send ----------------------------------------------------------------------------------------------------------------
def test_a_sent_message_is_delivered_unchanged(cli: Cli, installation: Installation, tmp_path: Path) -> None:
    to, file = installation.topic(), tmp_path / "value"
    file.write_bytes(BYTES)
    said = cli(
        "send", "--to", to, "--after", "1ms", "--key", "k", "--header", "h:a:b", "--header", "n", "--id", "mine", "é"
    )
    assert said == (Exit.DONE, "mine\n", "")
    [answer] = cli("send", "--to", to, "--at", "now", "--file", str(file), "--format", "json").rows
    assert (answer["to"], answer["id"].rpartition("-")[0].rpartition("-")[0]) == (to, f"{installation.app_id}-requests")
    assert cli("send", "--to", to, "--at", "now", "--null", "--key", "null").code == Exit.DONE
    command = [PUNCTUAL, "send", "--to", to, "--at", "now", "--id", "piped"]
    env = {"KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap, "DELAY_APP_ID": installation.app_id}
    subprocess.run(command, env=env, input=b"from\nstdin", check=True, timeout=PROGRAM_S, capture_output=True)

    records = {record.header("delay-id"): record for record in installation.wait_for(to, 4)}
    mine = records.pop("mine")
    assert (mine.key, mine.value, users(mine.headers)) == (b"k", "é".encode(), [("h", b"a:b"), ("n", None)])
    assert {(record.key, record.value) for record in records.values()} == {
        (None, BYTES), (b"null", None), (None, b"from\nstdin"),
    }  # fmt: skip
    assert records[answer["id"]].value == BYTES


def test_a_recurring_message_is_sent_with_all_its_options(cli: Cli, installation: Installation) -> None:
    arguments = ["--cron", "0 8 * * mon", "--zone", "Europe/Berlin", "--count", "3", "--misfire", "skip PT1M"]
    arguments += ["--jitter", "1m", "--max-late", "1h", "--if-late", "drop", "--to-partition", "0"]
    said = cli("send", "--to", installation.topic(), "--id", "report", *arguments, "value")
    assert said == (Exit.DONE, "report\n", "")
    installation.await_listed("report")
    [told] = cli("show", "report", "--format", "json").rows
    assert {
        "max-late": HOUR_MS, "if-late": "drop", "to-partition": 0, "cron": "0 8 * * mon", "zone": "Europe/Berlin",
        "count": "3", "misfire": "catch-up-last 60000", "jitter": "60000",
    }.items() <= told.items()  # fmt: skip
    doubtful = cli("send", "--to", installation.topic(), "--id", "report", "--cron", "*/90 * * * *", "value")
    assert (doubtful.code, doubtful.out) == (Exit.DONE, "report\n")
    assert doubtful.err.startswith("warning: cron='*/90 * * * *': the step of */90 is longer than the minute field")
    installation.requests.cancel("report")
    installation.requests.flush()
    installation.await_event("cancelled", "report")


WRONG = [
    (("send", "--to", "t", "v"), "the due time is missing: give --at TIME"),
    (("send", "--at", "now", "v"), "the following arguments are required: --to"),
    (("send", "--to", "t", "--at", "soon", "v"), "'soon' is not a time"),
    (("send", "--to", "t", "--at", "now", "--after", "1s", "v"), "not allowed with argument --at"),
    (("send", "--to", "no topic", "--at", "now", "v"), "'no topic' is neither a topic"),
    (("send", "--to", "t", "--at", "now", "--header", "delay-to:x", "v"), "begins with delay-"),
    (("send", "--to", "t", "--cron", "every day", "v"), "'every day'"),
    (("send", "--to", "t", "--at", "now", "--null", "v"), "the value is given twice"),
    (("send", "--to", "t", "--at", "now", "--file", "/nowhere"), "--file '/nowhere' cannot be read: No such file"),
    (("import", "/nowhere"), "'/nowhere' cannot be read: No such file"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_invalid_arguments_send_no_message(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    said = cli(*arguments)
    assert (said.code, said.out) == (Exit.WRONG_USE, "")
    assert says in said.err
    assert len(said.err.splitlines()) == 1


def test_brokers_and_topics_that_are_not_there_have_their_exit_codes(cli: Cli, installation: Installation) -> None:
    message, nobody = ("send", "--to", "t", "--at", "now", "v"), f"127.0.0.1:{free_port()}"
    said = cli(*message, at=replace(installation, bootstrap=nobody))
    assert (said.code, said.out) == (Exit.UNREACHABLE, "")
    assert said.err.startswith(f"punctual send: No Kafka broker answers at {nobody}")
    said = cli(*message, at=replace(installation, app_id="nobody-s"))
    assert (said.code, said.out) == (Exit.NOT_FOUND, "")
    assert said.err.startswith("punctual send: The topic nobody-s-requests does not exist")


# export and import ---------------------------------------------------------------------------------------------------
@pytest.fixture
def other(run: Run) -> Iterator[Installation]:
    """Another, empty installation on the same broker."""
    with run("cli-other", env=lambda _: {"DELAY_SESSION_TIMEOUT": "PT60S"}) as made:
        yield made


class Exported(NamedTuple):
    """A file with all that was pending in the installation, and its lines."""

    file: Path
    lines: list[dict[str, Any]]


def fill(installation: Installation) -> None:
    """Have one message of each kind pending, nine in all."""
    send, to, base = installation.requests.send, installation.topic(2), now_ms() + HOUR_MS
    due, said = {"delay-at": f"{base}", "delay-to": to}, {"delay-to": to}
    send([*due.items(), ("delay-id", "own"), ("h", b"1"), ("h", BYTES), ("n", None)], b"key", b'{"n": 1}')
    send(due, None, BYTES)
    send({**due, "delay-id": "null", "delay-max-late": "PT1H", "delay-if-late": "drop"}, b"", None)
    send({**due, "delay-id": "placed", "delay-to-partition": "1", "delay-dedupe": "P1D"}, b"k", b"")
    send({**said, "delay-id": "bounded", "delay-after": "PT10H", "delay-no-later": "PT2H"}, b"k", b"v")
    send({**said, "delay-retry": "exponential 1h 2 9h", "delay-attempt": "2"}, b"k", b"tried")
    for id_, recurs in {"weekly": "cron", "moved": "every", "paused": "every"}.items():
        rule = {"delay-cron": "0 8 * * mon"} if recurs == "cron" else {"delay-every": "PT1H", "delay-at": f"{base}"}
        send({**said, **rule, "delay-id": id_, "delay-jitter": "PT10M", "delay-count": "5"}, b"k", b"again")
    installation.requests.flush()
    installation.await_event("accepted", "own", "null", "placed", "bounded", "weekly", "moved", "paused")
    installation.requests.reschedule("moved", base + 7)
    installation.requests.reschedule("null", base + 8)
    installation.requests.command("pause", "paused")
    installation.requests.flush()
    installation.await_event("rescheduled", "moved", "null", "paused")
    await_nine(installation, {"moved": base + 7, "null": base + 8})


@pytest.fixture(scope="module")
def exported(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An export of the installation with one message of each kind."""
    fill(installation)
    said_ = subprocess.run(
        [PUNCTUAL, "export", "--url", installation.worker.url], check=True, timeout=PROGRAM_S, capture_output=True
    )
    file = tmp_path_factory.mktemp("exported") / "backup.jsonl"
    file.write_bytes(said_.stdout)
    assert said_.stderr == b"9 messages are exported\n"
    return Exported(file, [json.loads(line) for line in said_.stdout.splitlines()])


def await_nine(installation: Installation, dues: dict[str, int]) -> None:
    """Wait until the nine messages are all that is found, some with these due times.

    What other tests had delivered or cancelled may be found for a moment longer than its event is there.
    """

    def found() -> dict[str, int]:
        _, page = get(installation, "/messages?limit=100")
        return {row["id"]: row["due_ms"] for row in page.get("rows", [])}

    ask_until(found, lambda rows: len(rows) == 9 and rows.items() >= dues.items(), "the nine messages")


def rows(cli: Cli, at: Installation) -> dict[str, dict[str, Any]]:
    """Return the pending messages by id, without their row, partition, source and id."""
    left_out = ("row", "partition", "source", "id")
    found = {row["id"]: row for row in cli("list", "--limit", "0", "--format", "json", at=at).rows}
    return {id_: {name: row[name] for name in row if name not in left_out} for id_, row in found.items()}


def test_an_export_has_text_as_text_and_other_bytes_in_base64(exported: Exported, installation: Installation) -> None:
    by_id = {line["id"]: line for line in exported.lines}
    assert {line["app_id"] for line in exported.lines} == {installation.app_id}
    own = by_id["own"]
    assert (own["key"], own["value"]) == ("key", '{"n": 1}')
    assert own["headers"] == [["h", "1"], ["h", {"base64": "AP/+"}], ["n", None]]
    assert [line["value"] for line in exported.lines if line["id"] == line["source"]] == [{"base64": "AP/+"}]
    assert ("value" in by_id["null"], by_id["null"]["key"], by_id["placed"]["value"]) == (False, "", "")
    dues = [line["due_ms"] for line in exported.lines]
    assert dues == sorted(dues)


def test_an_import_into_another_installation_has_the_exported_messages_once(
    cli: Cli, installation: Installation, other: Installation, exported: Exported
) -> None:
    before = named_elsewhere(cli, installation)
    dry = cli("import", str(exported.file), "--dry-run", "--format", "json", at=other)
    assert (dry.code, dry.err) == (Exit.DONE, "nothing was sent\n")
    assert dry.rows == [
        {
            "messages": 9,
            "recurring": 3,
            "new_ids": 2,
            "dry_run": True,
            "accepted": 0,
            "outdated": 0,
            "refused": 0,
            "unknown": 0,
        }
    ]
    assert rows(cli, other) == {}
    for times in (1, 2):
        said = cli("import", str(exported.file), at=other)
        assert (said.code, said.err) == (Exit.DONE, "")
        titles = ["MESSAGES", "RECURRING", "NEW", "IDS", "ACCEPTED", "OUTDATED", "REFUSED", "UNKNOWN"]
        assert said.out.split() == [*titles, "9", "3", "2", "9", "0", "0", "0"]
        await_accepted(other, 9 * times)
        # Messages that were paused and moved are so again once their commands have arrived.
        eventually(lambda: stamped(rows(cli, other)) == stamped(before), what="the same as before")


def named_elsewhere(cli: Cli, installation: Installation) -> dict[str, dict[str, Any]]:
    """Return the pending messages, by the ids that they get in another installation."""
    found = rows(cli, installation).items()
    return {f"{installation.app_id}/{id_}" if id_.startswith(installation.app_id) else id_: row for id_, row in found}


def test_a_repeated_import_loses_to_later_changes(
    cli: Cli, installation: Installation, other: Installation, exported: Exported
) -> None:
    assert cli("import", str(exported.file), at=other).code == Exit.DONE
    await_accepted(other, 9)
    later = now_ms() + 3 * HOUR_MS
    other.requests.reschedule("own", later)
    other.requests.cancel("placed")
    other.requests.schedule("null", later, installation.topic(), b"new")
    other.requests.flush()
    other.await_event("cancelled", "placed")
    other.await_event("rescheduled", "own")
    eventually(lambda: rows(cli, other).get("null", {}).get("due_ms") == later)
    before = accepted(other)
    said = cli("import", str(exported.file), "--format", "json", at=other)
    assert said.code == Exit.TOO_LATE
    # Moved messages have their content again; cancelled and replaced ones stay so.
    assert (said.rows[0]["accepted"], said.rows[0]["outdated"]) == (7, 2)
    assert "2 messages were cancelled, moved or replaced after the export" in said.err
    await_accepted(other, before + 9)
    there = ask_until(
        lambda: rows(cli, other),
        lambda there: "placed" not in there and there["own"]["due_ms"] == there["null"]["due_ms"] == later,
        "what has changed since",
    )
    assert there["null"]["value"] == "new"


def test_a_restored_message_keeps_the_id_that_the_installation_gave_it(
    cli: Cli, installation: Installation, exported: Exported
) -> None:
    said = cli("import", str(exported.file))
    assert (said.code, said.out) == (Exit.WRONG_USE, "")
    assert f"is an automatic id of an installation named {installation.app_id}" in said.err
    before, known = rows(cli, installation), accepted(installation)
    said = cli("import", str(exported.file), "--ids", "keep", "--format", "json")
    assert said.rows == [{"messages": 9, "recurring": 3, "new_ids": 0, "dry_run": False,
                          "accepted": 9, "outdated": 0, "refused": 0, "unknown": 0}]  # fmt: skip
    await_accepted(installation, known + 9)
    eventually(lambda: stamped(rows(cli, installation)) == stamped(before), what="the same as before")


def test_after_too_many_cancels_an_import_reports_what_it_restores_and_asked_now_restores_all(
    cli: Cli, installation: Installation, other: Installation, exported: Exported
) -> None:
    there = named_elsewhere(cli, installation)
    cli("import", str(exported.file), at=other)
    for id_ in there:
        other.requests.cancel(id_)
    other.requests.flush()
    eventually(lambda: not rows(cli, other), what="a cancel of too much")
    said = cli("import", str(exported.file), "--format", "json", at=other)
    assert (said.code, said.rows[0]["accepted"], said.rows[0]["outdated"]) == (Exit.TOO_LATE, 0, 9)
    assert "`punctual import --asked now` brings them back" in said.err
    assert rows(cli, other) == {}
    said = cli("import", str(exported.file), "--asked", "now", "--format", "json", at=other)
    assert (said.code, said.rows[0]["accepted"], said.rows[0]["outdated"]) == (Exit.DONE, 9, 0)
    eventually(lambda: essence(rows(cli, other)) == essence(there), what="all that was there")


def essence(found: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return when messages are due, and their contents."""
    return {id_: (row["due_ms"], row.get("latest_ms"), row.get("key"), row.get("value")) for id_, row in found.items()}


def test_an_import_that_no_worker_reports_on_is_incomplete(
    cli: Cli, exported: Exported, other: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("punctual.cli.outcomes._PATIENCE_S", 0.5)
    other.worker.stop()
    try:
        said = cli("import", str(exported.file), "--asked", "now", "--format", "json", at=other)
        assert (said.code, said.rows[0]["unknown"]) == (Exit.INCOMPLETE, 9)
        assert cli("import", str(exported.file), "--no-wait", at=other).code == Exit.DONE
    finally:
        other.worker.start().wait_ready()


def await_accepted(installation: Installation, count: int) -> None:
    eventually(lambda: accepted(installation) == count, what="all of it")


def accepted(installation: Installation) -> int:
    return sum(event["event"] == "accepted" for event in installation.events())


def stamped(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return rows without their request times, which are not known for ids that Punctual gave."""
    return {id_: {**row, "asked_ms": None} for id_, row in found.items()}


BAD = [
    ("no JSON", "JSON is malformed"),
    ('{"id": "a"}', "missing required field"),
    ({"to": "no topic", "headers": [["delay-nothing", "x"]]}, "the header 'delay-nothing' is unknown"),
    ({"id": ""}, "delay-id has 0 bytes"),
]


@pytest.mark.parametrize(("line", "says"), BAD)
def test_a_line_that_cannot_be_imported_is_named(
    cli: Cli, exported: Exported, tmp_path: Path, line: str | dict[str, Any], says: str
) -> None:
    file, good = tmp_path / "bad.jsonl", {**exported.lines[0], "app_id": "another"}
    bad = line if isinstance(line, str) else json.dumps({**good, **line})
    file.write_text(f"{json.dumps(good)}\n\n{bad}\n", "utf-8")
    said = cli("import", str(file), "--dry-run")
    assert (said.code, said.out) == (Exit.FAILED, "")
    assert said.err.startswith("punctual import: line 3 is not a message that can be imported: ")
    assert says in said.err


# tail and dead letters -----------------------------------------------------------------------------------------------
def test_only_matching_events_are_printed(cli: Cli, exported: Exported) -> None:
    said = cli("tail", "--since", "1h", "--no-follow", "--id", "null", "--format", "json")
    told = said.rows
    assert [event["event"] for event in told][:2] == ["accepted", "rescheduled"]
    assert {event["id"] for event in told} == {"null"}
    assert all(event["offset"].rpartition("-")[0].startswith(f"{cli.installation.app_id}-events-") for event in told)
    to = exported.lines[0]["to"]
    said = cli("tail", "--since", "1h", "--no-follow", "--to", to, "--event", "rescheduled")
    title, *lines = [line.split() for line in said.out.splitlines()]
    assert title == ["AT", "EVENT", "ID", "TO"]
    assert {(line[1], line[2]) for line in lines} == {("rescheduled", id_) for id_ in ("moved", "null", "paused")}
    assert cli("tail", "--no-follow", "--id", "null") == (Exit.DONE, "", "no event matches\n")


async def test_events_from_now_on_begin_at_the_end_though_the_answer_to_another_question_is_late(
    exported: Exported, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Fetcher._proc_offset_request

    async def late(fetcher: Any, node: int, asked: dict[str, list[tuple[int, int]]]) -> Any:
        """Answer as usual, but requests for the earliest offsets late."""
        answer = await usual(fetcher, node, asked)
        if any(time == OffsetResetStrategy.EARLIEST for times in asked.values() for _, time in times):
            await asyncio.sleep(0.5)
        return answer

    monkeypatch.setattr(Fetcher, "_proc_offset_request", late)
    topic = f"{installation.app_id}-events"
    assert exported.lines, "there are events"
    before = ends(installation.bootstrap, topic)
    consumer = await begun(installation.bootstrap, topic)
    try:
        await asyncio.sleep(1)
        at = {place.partition: await consumer.position(place) for place in consumer.assignment()}
    finally:
        await consumer.stop()
    after = ends(installation.bootstrap, topic)  # other tests' events may still come
    assert all(before[number] <= at[number] <= after[number] for number in after), (before, at, after)
    assert at.keys() == before.keys()


def test_events_are_followed_until_an_interrupt(installation: Installation) -> None:
    command = [PUNCTUAL, "tail", "--since", "1h", "--id", "told", "--format", "json"]
    address = ["--bootstrap", installation.bootstrap, "--app-id", installation.app_id]
    with subprocess.Popen([*command, *address], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        installation.requests.schedule("told", now_ms() + HOUR_MS, installation.topic())
        installation.requests.cancel("told")
        installation.requests.flush()
        told = [json.loads(following.stdout.readline())["event"] for _ in range(2)]
        following.send_signal(2)
        assert following.wait(LIMIT_S) == Exit.INTERRUPTED
    assert told == ["accepted", "cancelled"]


def test_dead_letters_are_listed_and_shown(cli: Cli, installation: Installation) -> None:
    to = f"{installation.app_id}-missing"
    installation.requests.schedule("lost", now_ms(), to, b'{"n": 1}')
    installation.requests.flush()
    [letter] = installation.letters_for(1, to)
    [told] = cli("dead-letters", "--id-prefix", "lost", "--format", "json").rows
    assert (told["reason"], told["to"], told["sent_again"]) == ("unknown-topic", to, None)
    place = f"{letter.partition}-{letter.offset}"
    said = cli("dead-letters", "--reason", "unknown-topic", "--written-from", "5m", "--limit", "1")
    assert [line.split()[0] for line in said.out.splitlines()] == ["PLACE", place]
    shown = dict(line.split(None, 1) for line in cli("dead-letters", place).out.splitlines())
    assert (shown["place"], shown["value"]) == (place, '{"n": 1}')
    assert shown["error"].startswith(f"topic {to} does not exist")
    assert cli("dead-letters", "0-999999").code == Exit.NOT_FOUND
    assert cli("dead-letters", "first").code == Exit.WRONG_USE
    assert cli("dead-letters", "--sent-again", "yes") == (Exit.DONE, "", "no dead letter matches\n")


# docs/how-to/backup.md -----------------------------------------------------------------------------------------------
def test_the_commands_of_the_how_to_have_the_described_effects(other: Installation, tmp_path: Path) -> None:
    fill(other)
    env = {
        "PATH": f"{Path(PUNCTUAL).parent}:/usr/bin:/bin", "PUNCTUAL_URL": other.worker.url,
        "KAFKA_BOOTSTRAP_SERVERS": other.bootstrap, "DELAY_APP_ID": other.app_id,
    }  # fmt: skip
    said = []
    for kind, code in blocks("backup.md"):
        assert kind == "sh"
        done = subprocess.run(
            ["/bin/bash", "-ec", code],
            cwd=tmp_path,
            env=env,
            check=True,
            timeout=PROGRAM_S,
            capture_output=True,
            text=True,
        )
        said.append(done.stderr)
    assert said == ["9 messages are exported\n", "nothing was sent\n", ""]


# what an export lacks ------------------------------------------------------------------------------------------------
def test_masked_or_unserved_messages_are_not_silently_left_out_of_an_export(
    cli: Cli, other: Installation, exported: Exported, tmp_path: Path
) -> None:
    assert cli("import", str(exported.file), at=other).code == Exit.DONE
    eventually(lambda: len(rows(cli, other)) == 9, what="what is imported")
    env = {**other.worker.env, "DELAY_WEB_PAYLOADS": "masked"}
    with Worker(other.bootstrap, other.app_id, tmp_path / "second", env=env) as second:
        second.start().wait_ready()
        await_sharing(other.worker, second)
        said = cli("export", at=other)
        assert said.code == Exit.NOT_ALLOWED
        assert "masked for you (DELAY_WEB_PAYLOADS)" in said.err
        gone = second.assigned
        second.kill()  # its partitions stay with it for DELAY_SESSION_TIMEOUT
        said = cli("export", "--patience", "0s", at=other)
        assert said.code == Exit.INCOMPLETE
        assert f"no data from {len(gone)} partitions" in said.err
        assert 0 < len(said.rows) < 9
