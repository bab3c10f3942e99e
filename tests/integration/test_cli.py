"""The command line against a real worker: output, error output and exit codes."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from punctual.cli import main, times
from punctual.cli.exits import Exit
from punctual.durations import moment
from tests.harness.kafka import now_ms
from tests.harness.ports import free_port
from tests.harness.terminal import shown_at
from tests.harness.waiting import LIMIT_S, PROGRAM_S, ask_until, eventually
from tests.integration.installation import Installation
from tests.integration.test_actions import get

pytestmark = pytest.mark.core

HOUR_MS = 3_600_000
#: The command as it is installed.
PUNCTUAL = str(Path(sys.executable).with_name("punctual"))
BYTES = b"\x00\xff\xfe"


class Said(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The output, parsed as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Said]


@pytest.fixture
def cli(installation: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in this process, against the installation: `cli("show", "id", "--format", "json")`."""
    monkeypatch.setenv("PUNCTUAL_URL", installation.worker.url)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", installation.bootstrap)
    monkeypatch.setenv("DELAY_APP_ID", installation.app_id)

    def run(name: str, *arguments: str) -> Said:
        capsys.readouterr()
        code = main.run(name, arguments)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def to(installation: Installation) -> str:
    """A destination of three messages that stay, an hour from now."""
    topic, base = installation.topic(), now_ms() + HOUR_MS
    for number, value in enumerate((b'{"n": 1}', BYTES, None)):
        headers = {"delay-id": f"stays-{number}", "delay-at": str(base + number), "delay-to": topic, "h": f"{number}"}
        installation.requests.send(headers, b"key", value)
    installation.requests.flush()
    await_count(installation, topic, 3)
    return topic


def pending(installation: Installation, count: int) -> tuple[str, list[str]]:
    """Return a destination, and ids of messages that wait for it."""
    topic, ids = installation.topic(), [installation.new_id() for _ in range(count)]
    for id_ in ids:
        installation.requests.schedule(id_, now_ms() + HOUR_MS, topic, b"v")
    installation.requests.flush()
    await_count(installation, topic, count)
    return topic, ids


def await_count(installation: Installation, to: str, count: int) -> None:
    """Wait until `count` messages for a destination are found: events are written before the table has their
    message."""
    eventually(lambda: get(installation, f"/messages/count?to={to}")[1].get("matching") == count, what=f"{count}")


def process(*arguments: str, **env: str) -> "subprocess.Popen[str]":
    """Start a command as its users do."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([PUNCTUAL, *arguments], env={**os.environ, **env}, text=True, **pipes)


def test_pending_messages_are_listed_as_a_table_and_as_json(cli: Cli, to: str) -> None:
    said = cli("list", "--to", to)
    assert (said.code, said.err) == (Exit.DONE, "")
    title, *lines = said.out.splitlines()
    assert title.split() == ["DUE", "ID", "TO", "KEY", "BYTES"]
    assert [line.split()[-4:] for line in lines] == [
        ["stays-0", to, "key", "8"],
        ["stays-1", to, "key", "3"],
        ["stays-2", to, "key", "0"],
    ]
    assert [row["id"] for row in cli("list", "--to", to, "--format", "json").rows] == ["stays-0", "stays-1", "stays-2"]


def test_a_filter_and_a_limit_choose(cli: Cli, to: str) -> None:
    assert [row["id"] for row in cli("list", "--header", "h:1", "--format", "json").rows] == ["stays-1"]
    said = cli("list", "--to", to, "--limit", "2", "--due-from", "30m", "--due-to", "2h", "--format", "json")
    assert (len(said.rows), said.err) == (2, "first 2 shown; use --limit for more, or a filter\n")
    assert cli("list", "--id-prefix", "nobody") == (Exit.DONE, "", "no pending messages match\n")


def test_a_message_is_shown_with_its_life(cli: Cli, to: str) -> None:
    said = cli("show", "stays-0")
    assert (said.code, said.err) == (Exit.DONE, "")
    assert f"to         {to}\n" in said.out
    assert 'value      {"n": 1}\n' in said.out
    assert said.out.splitlines()[-1].endswith("accepted")
    [told] = cli("show", "stays-0", "--format", "json").rows
    assert (told["id"], told["life"][0]["event"]) == ("stays-0", "accepted")


@pytest.mark.usefixtures("to")
def test_a_value_is_written_byte_for_byte(installation: Installation) -> None:
    command = [PUNCTUAL, "show", "stays-1", "--raw", "--url", installation.worker.url]
    assert subprocess.run(command, capture_output=True, timeout=PROGRAM_S, check=True).stdout == BYTES


def test_pending_counts_by_destination(cli: Cli, to: str) -> None:
    await_reported(cli, to)
    said = cli("pending")
    assert [line.split()[:2] for line in said.out.splitlines() if to in line] == [[to, "3"]]
    assert re.search(r"pending, none overdue, next due in [1-5]?\d min", said.err), said.err


def await_reported(cli: Cli, to: str) -> None:
    """Wait until the workers' reports count the three messages for `to`: there is a report each second."""

    def destinations() -> dict[str, int]:
        return {
            row["destination"]: row["pending"]
            for told in cli("pending", "--format", "json").rows
            for row in told["destinations"]
        }

    ask_until(destinations, lambda found: found.get(to) == 3, "the report of three messages")


def test_a_forecast_says_how_many_are_due_when(cli: Cli, to: str) -> None:
    said = cli("forecast", "--from", "now", "--until", "2h", "--step", "1h", "--format", "json")
    [told] = said.rows
    assert sum(bucket["by"].get(to, 0) for bucket in told["buckets"]) == 3
    assert [bucket["to_ms"] - bucket["from_ms"] for bucket in told["buckets"]] == [HOUR_MS] * 2
    said = cli("forecast")
    assert said.out.splitlines()[0].split() == ["FROM", "UNTIL", "DUE", "MOST", "TO"]
    assert "▇" in said.out
    assert " due, 0 overdue" in said.err


WRONG = [
    (("list", "--limit", "x"), "'x' is not a whole number of 0 or more"),
    (("list", "--due-from", "soon"), "'soon' is not a time"),
    (("list", "--lim", "3"), "unrecognized arguments: --lim 3"),
    (("show",), "the following arguments are required: ID"),
    (("forecast", "--from", "now"), "give both --from and --until"),
    (("forecast", "--from", "2h", "--until", "1h"), "must be before to="),
    (("lists",), "there is no command 'lists' (did you mean list?)"),
    (("pending", "--url", "localhost:6066"), "is not the address of a worker"),
    (("pending", "--watch", "0"), "is not a number of seconds of 0.1 or more"),
    (("pending", "--user", "me"), "PUNCTUAL_PASSWORD"),
    (("list", "--to", ""), "--to is empty"),
    (("cancel",), "give the messages: either IDs or a filter"),
    (("cancel", "id", "--to", "a"), "either IDs or a filter, not both"),
    (("cancel", "id", "-"), "- reads IDs from stdin and cannot be combined"),
    (("cancel", "id", "--dry-run"), "work only with a filter"),
    (("cancel", "--to", "a", "--if-due", "now"), "--if-due works only with IDs"),
    (("reschedule", "id"), "one of the arguments --at --after is required"),
    (("jobs", "--stop"), "--stop needs the ID of a job"),
    (("rate", "a", "fast"), "'fast' is not a rate"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_arguments_that_make_no_sense_end_with_2_and_a_sentence(
    cli: Cli, arguments: tuple[str, ...], says: str
) -> None:
    said = cli(*arguments)
    assert (said.code, said.out) == (Exit.WRONG_USE, "")
    assert says in said.err
    assert len(said.err.splitlines()) == 1


def test_a_missing_message_exits_with_3_and_an_unserved_one_with_5(cli: Cli) -> None:
    said = cli("show", "never-asked-for")
    assert (said.code, said.out) == (Exit.NOT_FOUND, "")
    assert said.err == "no message with the id never-asked-for is pending\n"
    url = f"http://127.0.0.1:{free_port()}"
    said = cli("list", "--url", url)
    assert (said.code, said.out) == (Exit.UNREACHABLE, "")
    assert said.err.startswith(f"punctual list: cannot reach {url} (")
    assert said.err.endswith("start a worker there, or give another address with --url or PUNCTUAL_URL\n")


def test_messages_are_cancelled_by_their_ids_and_each_outcome_is_printed(
    cli: Cli, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (one, other, third) = pending(installation, 3)
    assert cli("cancel", one) == (Exit.DONE, f"{one}: cancelled\n", "")
    again = f"{one}: no longer pending: the message was cancelled"
    assert (said := cli("cancel", one))[:2] == (Exit.TOO_LATE, "")
    assert said.err.startswith(again)

    lines = io.TextIOWrapper(io.BytesIO(f"{other}\nnobody\n\n{third}\n".encode()), "utf-8")
    monkeypatch.setattr(sys, "stdin", lines)
    said = cli("cancel", "-", "--format", "json")
    assert (said.code, said.err) == (Exit.NOT_FOUND, "2 of 3 done\n")
    assert [(row["id"], row["outcome"]) for row in said.rows] == [
        (other, "cancelled"),
        ("nobody", "unknown"),
        (third, "cancelled"),
    ]


def test_a_message_gets_another_due_time_if_it_is_due_as_was_seen_and_is_delivered_now(
    cli: Cli, installation: Installation
) -> None:
    to, [id_] = pending(installation, 1)
    [row] = cli("show", id_, "--format", "json").rows
    due = times.written(row["due_ms"] + HOUR_MS)
    said = cli("reschedule", id_, "--at", due, "--if-due", str(row["due_ms"] - 1))
    changed = "no change: the message is being delivered, or its due time has changed since you last saw it"
    assert said == (Exit.TOO_LATE, "", f"{id_}: {changed}\n")
    said = cli("reschedule", id_, "--at", due, "--if-due", times.written(row["due_ms"]))
    assert (said.code, said.err) == (Exit.DONE, "")
    assert said.out.startswith(f"{id_}: rescheduled, due {moment(row['due_ms'] + HOUR_MS)} (in ")
    assert cli("reschedule", id_, "--after", "3h", "--format", "json").rows[0]["event"]["due"] > now_ms() + 2 * HOUR_MS
    said = cli("reschedule", id_, "--at", "9999-01-01T00:00:00Z")
    assert (said.code, "the maximum delay is" in said.err) == (Exit.FAILED, True)
    assert cli("deliver-now", id_) == (Exit.DONE, f"{id_}: due now; it is being delivered\n", "")
    assert len(installation.wait_for(to, 1)) == 1


def test_all_that_match_are_counted_confirmed_and_done_by_a_job(cli: Cli, installation: Installation) -> None:
    to, _ = pending(installation, 5)
    assert cli("cancel", "--to", to, "--dry-run") == (Exit.DONE, "5 pending messages match\n", "")
    said = cli("cancel", "--to", to)
    assert (said.code, said.out) == (Exit.WRONG_USE, "")
    assert "5 messages match, and there is no terminal to ask for confirmation: give --yes" in said.err

    said = cli("reschedule", "--to", to, "--after", "3h", "--yes")
    assert [line.split() for line in said.out.splitlines()] == [["OUTCOME", "COUNT"], ["rescheduled", "5"]]
    assert (said.code, "is done: 5 commands for at most 5 messages" in said.err) == (Exit.DONE, True)
    said = cli("deliver-now", "--to", to, "--yes", "--no-wait")
    [told] = cli("jobs", said.out.strip(), "--format", "json").rows
    assert (told["state"], told["outcomes"]) == ("done", {"rescheduled": 5})
    assert len(installation.wait_for(to, 5)) == 5
    jobs = [row["job"] for row in cli("jobs", "--format", "json").rows]
    assert [job["act"] for job in jobs if job["filter"]["to"] == to] == ["deliver-now", "reschedule"]
    assert f"job {said.out.strip()} is done after 5 commands" in cli("jobs", said.out.strip(), "--stop").err
    await_count(installation, to, 0)
    assert cli("cancel", "--to", to, "--yes") == (Exit.DONE, "", "no pending messages match\n")


@pytest.mark.parametrize(("typed", "code"), [("1\n", Exit.FAILED), ("2\n", Exit.DONE)])
def test_at_a_terminal_the_number_is_typed_and_progress_is_shown(
    installation: Installation, typed: str, code: Exit
) -> None:
    to, _ = pending(installation, 2)
    ours, its = pty.openpty()
    command = [PUNCTUAL, "cancel", "--to", to, "--url", installation.worker.url]
    with subprocess.Popen(command, stdin=its, stderr=its, stdout=subprocess.PIPE) as asked:
        os.close(its)
        os.write(ours, typed.encode())
        said, _ = asked.communicate(timeout=PROGRAM_S)
    shown = shown_at(ours)
    assert asked.returncode == code, shown
    assert "2 messages match. Type 2 to cancel them all: " in shown
    if code is Exit.DONE:
        assert [line.split() for line in said.decode().splitlines()] == [["OUTCOME", "COUNT"], ["cancelled", "2"]]
        assert "of 2" in shown
    else:
        assert (said, "the number does not match; nothing was changed" in shown) == (b"", True)


def test_a_destination_is_paused_capped_and_resumed(cli: Cli, to: str) -> None:
    def state() -> str:
        return next((line for line in cli("pending").out.splitlines() if line.startswith(to)), "")

    said = cli("pause", to, "--reason", "a test", "--until", "2099-01-01T00:00:00Z")
    assert (said.code, said.err) == (Exit.DONE, "")
    assert said.out.startswith(f"{to}: paused until 1 Jan 2099 00:00:00 UTC (in ")
    assert cli("rate", to, "20/s burst 5") == (Exit.DONE, f"{to}: rate limit 20/s burst 5\n", "")
    eventually(
        lambda: state().split(maxsplit=2)[2:] == ["20/s  paused by anonymous until 1 Jan 2099 00:00:00 UTC: a test"]
    )
    [told] = cli("resume", to, "--format", "json").rows
    assert (told["outcome"], told["sentence"]) == ("sent", "Resumed.")
    assert cli("rate", to, "none") == (Exit.DONE, f"{to}: no rate limit\n", "")
    in_settings = f"{to}: rate limit from the workers' settings\n"
    assert cli("rate", to, "default") == (Exit.DONE, in_settings, "")
    assert cli("pause", to) == (Exit.DONE, f"{to}: paused\n", "")
    assert cli("resume", to) == (Exit.DONE, f"{to}: resumed\n", "")
    eventually(lambda: state().split() == [to, "3"])


def test_a_control_of_a_missing_destination_is_an_error(cli: Cli, installation: Installation) -> None:
    for name, *more in (("pause",), ("resume",), ("rate", "20/s")):
        said = cli(name, "no-such-topic", *more)
        assert (said.code, said.out) == (Exit.NOT_FOUND, "")
        assert "the topic no-such-topic does not exist, and no message for it is pending" in said.err
        assert "`punctual pause --id ID`" in said.err
    assert cli("pause", "elsewhere/orders").code == Exit.NOT_FOUND
    assert cli("pause", "https://nowhere.example").code == Exit.NOT_FOUND
    said = cli("pause", installation.topic(), "--until", "2020-01-01T00:00:00Z")
    assert (said.code, "until is 1 Jan 2020 00:00:00 UTC, which is in the past" in said.err) == (Exit.WRONG_USE, True)
    assert cli("pause").code == Exit.WRONG_USE
    assert cli("pause", "a", "--id", "b").code == Exit.WRONG_USE


def test_a_recurring_message_is_paused_and_resumed_by_its_id(cli: Cli, installation: Installation, to: str) -> None:
    id_ = installation.new_id()
    installation.requests.send({"delay-to": to, "delay-every": "PT1H", "delay-id": id_})
    installation.requests.flush()
    await_count(installation, to, 4)
    assert cli("pause", "--id", id_, "--until", "1h").code == Exit.WRONG_USE
    said = cli("pause", "--id", id_)
    assert said == (Exit.DONE, f"{id_}: paused\n", "")
    [row] = [line for line in cli("list", "--to", to).out.splitlines() if id_ in line]
    assert row.startswith("paused ")
    assert "9999" not in row
    shown = cli("show", id_).out
    assert re.search(r"^due +paused since 20[0-9T:.-]+Z, ", shown, re.MULTILINE)
    assert "9999" not in shown
    assert cli("resume", "--id", id_).code == Exit.DONE
    assert cli("pause", "--id", "no-such-id").code == Exit.NOT_FOUND
    assert cli("cancel", id_).code == Exit.DONE


def test_a_watch_goes_on_until_it_is_interrupted(cli: Cli, installation: Installation, to: str) -> None:
    await_reported(cli, to)
    with process("pending", "--watch", "0.2", "--format", "json", PUNCTUAL_URL=installation.worker.url) as watching:
        assert watching.stdout is not None
        told = [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(2)
        assert watching.wait(LIMIT_S) == Exit.INTERRUPTED
    assert to in {row["destination"] for row in told[-1]["destinations"]}
    assert told[0]["at_ms"] < told[1]["at_ms"] < told[2]["at_ms"]
