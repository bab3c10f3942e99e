"""`faust -A app`: help that is Punctual's, and no command of Faust's that would do harm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from punctual.cli.exits import Exit
from punctual.cli.registry import COMMANDS
from tests.harness.waiting import PROGRAM_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
FAUSTS = {"agents", "clean-versions", "completion", "livecheck", "model", "models", "reset", "send", "tables"}
OURS = {command.name for command in COMMANDS}


def faust(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-m", "faust", "-A", "app", *arguments)


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PROGRAM_S, check=False)


def test_help_is_punctuals() -> None:
    said = faust("--help")

    assert said.returncode == 0
    assert "Punctual: delayed messages for Kafka" in said.stdout
    assert "docs/reference/settings.md" in said.stdout
    _, _, commands = said.stdout.partition("Commands:\n")
    own = {"doctor", "gateway", "repartition", "worker"}
    assert re.findall(r"^  (\S+)", commands, re.MULTILINE) == sorted(own | OURS)


def test_a_workers_help_has_the_options_that_the_environment_lacks() -> None:
    said = faust("worker", "--help")

    assert said.returncode == 0
    assert "DELAY_DESTINATIONS" in said.stdout
    assert "--loglevel" in said.stdout
    assert "--web-port" not in said.stdout


def test_the_version_is_printed() -> None:
    assert faust("--version").returncode == 0


def test_the_commands_of_punctual_are_the_same_here() -> None:
    script = (
        "import contextlib, app.worker\n"
        "from faust.cli.base import cli\n"
        "from punctual.cli import main\n"
        "from punctual.cli.registry import COMMANDS\n"
        "for command in COMMANDS:\n"
        "    with contextlib.suppress(SystemExit): cli.commands[command.name].main(['--help', '--'])\n"
        "    print('=====')\n"
        "    main.run(command.name, ['--help'], 'faust -A app')\n"
        "    print('=====')\n"
    )
    said = run(sys.executable, "-c", script)

    assert (said.returncode, said.stderr) == (0, "")
    helps = said.stdout.split("=====\n")
    assert helps[:-1:2] == helps[1::2]
    assert len(helps) == 2 * len(COMMANDS) + 1


def test_a_command_ends_and_writes_as_punctual_does() -> None:
    arguments = ("cancel", "--url", "http://127.0.0.1:1", "--", "-id", "--format")
    here, there = faust(*arguments), run(str(Path(sys.executable).with_name("punctual")), *arguments)

    assert here.returncode == there.returncode == Exit.UNREACHABLE
    assert here.stderr == there.stderr.replace("punctual cancel:", "faust -A app cancel:")
    assert "-id: cannot reach http://127.0.0.1:1 (" in here.stderr


@pytest.mark.parametrize("command", sorted(FAUSTS - OURS))
def test_other_commands_are_refused_in_a_sentence(command: str) -> None:
    said = faust(command, "-f", "anything", "--more")

    assert said.returncode == 1
    assert said.stdout == ""
    [sentence] = said.stderr.splitlines()
    assert sentence.startswith(f"punctual: unknown command '{command}'.")


def test_a_level_may_have_pythons_name() -> None:
    assert "Invalid value" not in faust("worker", "-l", "warning", "--help").stderr
