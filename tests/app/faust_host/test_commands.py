"""`faust -A app`: help that is Punctual's, and no command of Faust's that would do harm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REFUSED = ("agents", "clean-versions", "completion", "livecheck", "model", "models", "reset", "send", "tables")


def faust(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "faust", "-A", "app", *arguments]
    env = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_help_is_punctuals() -> None:
    said = faust("--help")

    assert said.returncode == 0
    assert "Punctual: delayed messages for Kafka" in said.stdout
    assert "docs/reference/settings.md" in said.stdout
    _, _, commands = said.stdout.partition("Commands:\n")
    assert [line.split()[0] for line in commands.splitlines() if line.strip()] == ["doctor", "worker"]


def test_a_workers_help_has_what_the_environment_does_not_say() -> None:
    said = faust("worker", "--help")

    assert said.returncode == 0
    assert "DELAY_DESTINATIONS" in said.stdout
    assert "--loglevel" in said.stdout
    assert "--web-port" not in said.stdout


def test_the_version_is_told() -> None:
    assert faust("--version").returncode == 0


@pytest.mark.parametrize("command", REFUSED)
def test_other_commands_are_refused_in_a_sentence(command: str) -> None:
    said = faust(command, "-f", "anything", "--more")

    assert said.returncode == 1
    assert said.stdout == ""
    [sentence] = said.stderr.splitlines()
    assert sentence.startswith(f"punctual: there is no command '{command}' here.")


def test_a_level_may_have_pythons_name() -> None:
    assert "Invalid value" not in faust("worker", "-l", "warning", "--help").stderr
