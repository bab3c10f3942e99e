"""The command line without a worker: imported modules and output."""

import itertools
import os
import pty
import shlex
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, get_args

import msgspec
import pytest

from punctual.cli import main, times
from punctual.cli.errors import CommandError, Incomplete, Unreachable
from punctual.cli.exits import Exit
from punctual.cli.exported import Exported
from punctual.cli.parser import Options
from punctual.cli.progress import Progress
from punctual.cli.registry import COMMANDS
from punctual.cli.table import Column, Table
from punctual.cli.tail import EVENTS
from punctual.contract.events import Kind
from tests.harness.terminal import shown_at
from tests.harness.waiting import PROGRAM_S

HEAVY = {"aiohttp", "aiokafka", "app", "faust", "asyncio"}
BUDGET_MS = 300


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
@pytest.mark.slow
def test_a_command_loads_no_heavy_module(name: str) -> None:
    script = (
        "import sys; from punctual import command; from punctual.cli import main\n"
        f"code = main.run({name!r}, ['--help'])\n"
        f"sys.exit(code or ', '.join({HEAVY!r} & sys.modules.keys()) or 0)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"usage: punctual {name} ")


@pytest.mark.slow
def test_help_takes_less_than_its_budget_of_processor_time() -> None:
    script = "import time; from punctual import command; print(time.process_time() * 1000)"
    ran = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PROGRAM_S, check=True)
        for _ in range(3)
    ]

    assert min(float(one.stdout) for one in ran) < BUDGET_MS


class _Answering(BaseHTTPRequestHandler):
    """Returns a given response."""

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Stranger(_Answering):
    """Answers as servers do that are no worker's: a status by the path, and a page."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1])
        self.answer(
            status, b'{"type": "/problems/malformed", "detail": "says why"}' if status >= 400 else b"<p>hello</p>"
        )


class _Worker(_Answering):
    """Answers as a worker that has one message, and one dead letter, whose value was left out."""

    TOLD: ClassVar[dict[str, Any]] = {
        "/api/v1/overview": {"app_id": "delay", "at_ms": 1, "pending": 1},
        "/api/v1/messages": {"missing": [], "next": None, "rows": [
            {"id": "ü-€", "to": "t", "due_ms": 2, "source": "s-0-1"}
        ]},
        "/api/v1/dead-letters/0-7": {"masked": False, "incomplete": True, "value": None, "source": "s-0-1"},
    }  # fmt: skip

    def do_GET(self) -> None:
        self.answer(200, msgspec.json.encode(self.TOLD[self.path.split("?")[0]]))


@contextmanager
def answering(how: type[_Answering] = _Stranger) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), how) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (200, Exit.FAILED, "is not a Punctual worker (200 OK)"),
        (302, Exit.NOT_ALLOWED, "give --user NAME, or a token in PUNCTUAL_TOKEN"),
        (401, Exit.NOT_ALLOWED, "rejected the login (says why)"),
        (403, Exit.NOT_ALLOWED, "refused it: says why"),
        (400, Exit.WRONG_USE, "says why"),
        (422, Exit.WRONG_USE, "says why"),
        (503, Exit.UNREACHABLE, "cannot answer at the moment: says why"),
    ],
)
def test_an_unusable_answer_is_an_error_with_the_next_step(
    status: int, code: Exit, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering() as url:
        assert main.run("pending", ["--url", f"{url}/{status}"]) == code

    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err


@pytest.mark.parametrize(
    ("token", "code", "says"),
    [
        ("se-cret\n", Exit.NOT_ALLOWED, "rejected the login"),
        (" se-cret\r\n", Exit.NOT_ALLOWED, "rejected the login"),
        ("se-cret\nmore", Exit.WRONG_USE, "PUNCTUAL_TOKEN is not a token"),
        ("se-cret more", Exit.WRONG_USE, "PUNCTUAL_TOKEN is not a token"),
        ("se-cret€", Exit.WRONG_USE, "PUNCTUAL_TOKEN is not a token"),
        ("se-crét", Exit.WRONG_USE, "PUNCTUAL_TOKEN is not a token"),
    ],
)
def test_a_token_is_taken_without_the_white_space_around_it_and_never_shown(
    token: str, code: Exit, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PUNCTUAL_TOKEN", token)
    with answering() as url:
        assert main.run("list", ["--url", f"{url}/401"]) == code

    said = capsys.readouterr().err
    assert says in said
    assert "se-cr" not in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("url", ["http://h:99999", "http://h:port", "http://[::1", "ftp://h", "h:6066", "http://"])
def test_an_invalid_address_is_an_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run("list", ["--url", url]) == Exit.WRONG_USE

    said = capsys.readouterr().err
    assert said.startswith(f"punctual list: --url {url!r} is not the address of a worker")
    assert len(said.splitlines()) == 1


def test_what_would_change_a_terminal_is_written_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    Table([Column("ID", str), Column("N", lambda _: "1", number=True)]).add(["a\x1b[2J", "日本"])

    assert capsys.readouterr().out.splitlines() == ["ID        N", "a\\x1b[2J  1", "日本      1"]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
@pytest.mark.slow
def test_an_export_is_utf_8_in_every_locale_as_an_import_reads_it(encoding: str) -> None:
    punctual = Path(sys.executable).with_name("punctual")
    with answering(_Worker) as url:
        command = [str(punctual), "export", "--url", url]
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        said = subprocess.run(command, capture_output=True, env=env, timeout=PROGRAM_S, check=True)

    assert Exported.read(said.stdout).id == "ü-€"


def test_a_value_that_was_left_out_is_an_error_and_not_written_as_an_empty_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answering(_Worker) as url:
        assert main.run("dead-letters", ["0-7", "--raw", "--url", url]) == Exit.FAILED

    said = capsys.readouterr()
    assert (said.out, "the value of 0-7 was too large" in said.err) == ("", True)


@pytest.mark.parametrize(
    ("moment_ms", "text"),
    [
        (1_777_901_820_120, "2026-05-04T13:37:00.120Z"),
        (1_777_901_820_000, "2026-05-04T13:37:00Z"),
        (999_999_999_999_999, "999999999999999"),
    ],
)
def test_a_time_is_written_as_arguments_take_it(moment_ms: int, text: str) -> None:
    assert times.written(moment_ms) == text
    assert times.moment_ms(text) == moment_ms


@pytest.mark.parametrize("read", [times.moment_ms, times.past_ms, times.moment])
@pytest.mark.parametrize("text", ["1795949315", "90", "15000", "1795949315.5", "1_795_949_315", "1795949315000000"])
def test_a_bare_number_is_never_a_span_where_a_time_belongs(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


def test_epoch_seconds_are_refused_with_the_milliseconds_that_they_stand_for() -> None:
    with pytest.raises(ArgumentTypeError, match=r"looks like seconds.* use 1795949315000"):
        times.moment_ms("1795949315")


@pytest.mark.parametrize(
    "line",
    [
        "send --to orders --at 1795949315",
        "reschedule order-7 --at 1795949315",
        "pause orders --until 1795949315",
        "list --due-to 1795949315",
        "cancel order-7 --if-due 1795949315",
        "tail --since 1795949315",
        "forecast --from 1795949315",
        "dead-letters --written-from 1795949315",
    ],
)
def test_no_command_takes_epoch_seconds_for_a_span(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = line.split()
    assert main.run(name, arguments) == Exit.WRONG_USE
    assert "looks like seconds" in capsys.readouterr().err


def test_all_times_of_one_command_count_from_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, seen = itertools.count(1_000), list[tuple[int, int]]()
    monkeypatch.setattr(times, "now_ms", lambda: next(moments))
    monkeypatch.setattr("punctual.cli.forecast.run", lambda options: seen.append((options.since, options.until)))
    main.run("forecast", ["--from", "now", "--until", "2h"])
    main.run("forecast", ["--from", "soon"])
    main.run("forecast", ["--from", "now", "--until", "1s"])

    assert [until - since for since, until in seen] == [7_200_000, 1_000]
    assert seen[0][0] < seen[1][0]


@pytest.mark.parametrize("lacks", [Incomplete("3 is missing"), Unreachable("nobody answers")])
def test_a_watch_goes_on_when_something_is_missing_and_its_times_go_with_the_clock(
    lacks: CommandError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments, seen = itertools.count(1_000), list[tuple[int, int]]()

    def show(_: object, options: Options) -> Exit:
        seen.append((options.since, options.until))
        if len(seen) == 1:
            raise lacks
        if len(seen) == 3:
            raise KeyboardInterrupt
        return Exit.DONE

    monkeypatch.setattr(times, "now_ms", lambda: next(moments))
    monkeypatch.setattr("punctual.cli.forecast._show", show)
    assert main.run("forecast", ["--from", "now", "--until", "2h", "--watch", "0.1"]) == Exit.INTERRUPTED

    assert capsys.readouterr().err == f"{lacks}. Trying again in 0.1 s\n\n"
    assert seen == [(at_ms, at_ms + 7_200_000) for at_ms in (1_000, 1_001, 1_002)]


def test_progress_is_a_line_of_a_terminal_and_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(its, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress("messages", 4) as progress:
            progress.add(1)

    assert shown_at(ours).split("\r\x1b[K") == ["", f"{'▇' * 6}{' ' * 18} 1 of 4 messages", ""]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("punctual", "ca"), ["cancel"]),
        (("punctual", "--v"), ["--version"]),
        (("punctual", "list", "--due"), ["--due-from", "--due-to"]),
        (("punctual", "list", "--format", ""), ["table", "json"]),
        (("punctual", "list", "--format", "=", "j"), ["json"]),
        (("punctual", "list", "--format", "="), ["table", "json"]),
        (("punctual", "list", "--to", "a"), []),
        (("punctual", "cancel", "an id", "--dr"), ["--dry-run"]),
        (("punctual", "completion", ""), ["bash", "zsh"]),
        (("punctual", "completion", "--"), ["--help"]),
        (("punctual", "nonsense", ""), []),
        (("punctual", "send", "--file", f"{__file__[:-1]}"), [__file__]),
    ],
)
@pytest.mark.slow
def test_a_shell_completes_the_typed_text(typed: tuple[str, ...], offered: list[str]) -> None:
    punctual = shlex.quote(str(Path(sys.executable).with_name("punctual")))
    script = (
        f'eval "$({punctual} completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        'eval "$(complete -p punctual | sed "s/.*-F \\([^ ]*\\) .*/\\1/")"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "-c", script, "bash", *typed]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)

    assert (said.stderr, [line for line in said.stdout.splitlines() if line]) == ("", offered)


def test_every_kind_of_event_can_be_followed() -> None:
    assert set(EVENTS) == set(get_args(Kind))


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (
            {"SECURITY_PROTOCOL": "TLS"},
            "KAFKA_SECURITY_PROTOCOL is 'TLS': it must be one of PLAINTEXT, SSL, ",
        ),
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "KAFKA_SASL_USERNAME is '': SASL_SSL needs a user"),
        (
            {"SECURITY_PROTOCOL": "SSL", "SSL_CAFILE": "/nowhere"},
            "KAFKA_SSL_CAFILE is '/nowhere': there is no such file",
        ),
        ({"BOOTSTRAP_SERVERS": "here:there"}, "rejected its options"),
    ],
)
@pytest.mark.parametrize("command", [["tail"], ["send", "--to", "t", "--at", "now", "v"]])
def test_text_that_kafka_s_client_cannot_encode_is_an_error_before_any_message_is_sent(
    command: list[str],
    env: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(f"KAFKA_{name}", value)

    assert main.run(command[0], command[1:]) == Exit.WRONG_USE

    assert says in capsys.readouterr().err


def _punctual(*arguments: str | bytes, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a process."""
    line = [str(Path(sys.executable).with_name("punctual")), *arguments]
    return subprocess.run(line, timeout=PROGRAM_S, check=False, stderr=subprocess.PIPE, **how)


@pytest.mark.parametrize(
    "arguments", [["cancel", b"\xff"], ["send", "--to", b"t\xfe", "--after", "1s", "v"], ["show", b"\x80"]]
)
@pytest.mark.core
@pytest.mark.slow
def test_arguments_that_are_not_utf_8_are_an_error(arguments: list[str | bytes]) -> None:
    done = _punctual(*arguments, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (Exit.WRONG_USE, b"")
    assert b"is not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["export"], ["list", "--format", "json"]])
@pytest.mark.core
@pytest.mark.slow
def test_output_that_is_full_is_an_error_with_one_line(arguments: list[str]) -> None:
    with answering(_Worker) as url, Path("/dev/full").open("wb") as full:
        done = _punctual(*arguments, stdout=full, env={**os.environ, "PUNCTUAL_URL": url})
    assert done.returncode == Exit.FAILED
    assert done.stderr.splitlines()[-1].startswith(b"the output cannot be written: No space left on device.")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.core
@pytest.mark.slow
def test_output_that_is_closed_goes_nowhere(closed: int) -> None:
    with answering(_Worker) as url:
        script = f'"$0" list --url {url} {closed}>&-'
        line = ["/bin/sh", "-c", script, str(Path(sys.executable).with_name("punctual"))]
        done = subprocess.run(line, timeout=PROGRAM_S, check=False, capture_output=True)
    assert done.returncode == Exit.DONE
    assert b"Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.slow
def test_a_table_has_escapes_for_characters_that_the_encoding_lacks(encoding: str) -> None:
    with answering(_Worker) as url:
        done = _punctual("list", "--url", url, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == Exit.DONE
    assert b"\\u20ac" in done.stdout
    assert done.stderr == b""
