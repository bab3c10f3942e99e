"""The command line against a real worker: what is written where, and what a command ends with."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.embedded.ports import free_port
from punctual.cli import main
from punctual.cli.exits import Exit
from tests.harness.kafka import now_ms
from tests.harness.worker import eventually
from tests.integration.installation import Installation

HOUR_MS = 3_600_000
#: The command as it is installed.
PUNCTUAL = str(Path(sys.executable).with_name("punctual"))
BYTES = b"\x00\xff\xfe"


class Said(NamedTuple):
    """What a command ended with, and wrote."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """What it wrote as JSON lines."""
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
    installation.await_event("accepted", *(f"stays-{number}" for number in range(3)))
    return topic


def process(*arguments: str, **env: str) -> "subprocess.Popen[str]":
    """Start a command as its users do."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([PUNCTUAL, *arguments], env={**os.environ, **env}, text=True, **pipes)


def test_what_is_pending_is_listed_as_a_table_and_as_json(cli: Cli, to: str) -> None:
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
    assert (len(said.rows), said.err) == (2, "these are the first 2: --limit shows more, a filter others\n")
    assert cli("list", "--id-prefix", "nobody") == (Exit.DONE, "", "nothing that is pending matches\n")


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
    assert subprocess.run(command, capture_output=True, timeout=20, check=True).stdout == BYTES


def test_pending_counts_by_destination(cli: Cli, to: str) -> None:
    # Until all partitions have reported, which takes a second, nothing is counted.
    eventually(lambda: any(row["pending"] >= 3 for row in cli("pending", "--format", "json").rows))
    [told] = cli("pending", "--format", "json").rows
    assert {row["destination"]: row["pending"] for row in told["destinations"]}[to] == 3
    said = cli("pending")
    assert [line.split()[:2] for line in said.out.splitlines() if to in line] == [[to, "3"]]
    assert "pending, none overdue, the next due in 59 min" in said.err


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
    (("list", "--limit", "x"), "'x' should be a whole number, 0 or more"),
    (("list", "--due-from", "soon"), "'soon' is no time"),
    (("list", "--lim", "3"), "unrecognized arguments: --lim 3"),
    (("show",), "the following arguments are required: ID"),
    (("forecast", "--from", "now"), "--from and --until belong together"),
    (("forecast", "--from", "2h", "--until", "1h"), "should be before to="),
    (("lists",), "there is no command 'lists', perhaps you mean list"),
    (("pending", "--url", "localhost:6066"), "is no address of a worker"),
    (("pending", "--watch", "0"), "should be seconds, 0.1 or more"),
    (("pending", "--user", "me"), "PUNCTUAL_PASSWORD"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_arguments_that_make_no_sense_end_with_2_and_a_sentence(
    cli: Cli, arguments: tuple[str, ...], says: str
) -> None:
    said = cli(*arguments)
    assert (said.code, said.out) == (Exit.WRONG_USE, "")
    assert says in said.err
    assert len(said.err.splitlines()) == 1


def test_what_is_not_there_ends_with_3_and_what_nobody_serves_with_5(cli: Cli) -> None:
    said = cli("show", "nobody")
    assert (said.code, said.out) == (Exit.NOT_FOUND, "")
    assert said.err == "no message with the id nobody is pending\n"
    url = f"http://127.0.0.1:{free_port()}"
    said = cli("list", "--url", url)
    assert (said.code, said.out) == (Exit.UNREACHABLE, "")
    assert said.err.startswith(f"punctual list: cannot reach {url} (")
    assert said.err.endswith("start a worker there, or name another by --url or PUNCTUAL_URL\n")


def test_a_watch_goes_on_until_it_is_interrupted(installation: Installation, to: str) -> None:
    with process("pending", "--watch", "0.2", "--format", "json", PUNCTUAL_URL=installation.worker.url) as watching:
        assert watching.stdout is not None
        told = [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(2)
        assert watching.wait(10) == Exit.INTERRUPTED
    assert to in {row["destination"] for row in told[-1]["destinations"]}
    assert told[0]["at_ms"] < told[1]["at_ms"] < told[2]["at_ms"]
