"""Passwords are kept as hashes that the command makes."""

import subprocess
import sys

import pytest

from app.serve.access.password import Hash, main
from tests.app.serve.access.conftest import hashed
from tests.harness.waiting import PROGRAM_S


def test_a_hash_fits_its_password_alone_and_is_read_again_as_it_was() -> None:
    made = hashed("correct horse")
    assert Hash.parse(str(made)) == made
    assert made.fits("correct horse")
    assert not made.fits("correct horse ")
    assert str(hashed("correct horse")) != str(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "correct horse",
        "$2b$12$abcdefghijklmnopqrstuv",
        str(hashed("x")).replace("ln=4", "ln=17"),
        str(hashed("x")).replace("r=1", "r=9"),
        str(hashed("x")).replace("p=1", "p=0"),
        str(hashed("x"))[:-1],
        str(hashed("x")) + "\n",
    ],
    ids=["empty", "a password", "bcrypt", "memory", "blocks", "parallel", "short", "long"],
)
def test_what_is_no_hash_or_takes_too_much_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hash"):
        Hash.parse(text)


@pytest.mark.slow
def test_the_command_makes_a_line_of_what_it_is_told() -> None:
    command = [sys.executable, "-m", "app.serve.access.password", "ann", "operator"]
    ended = subprocess.run(
        command, input="correct horse\n", capture_output=True, text=True, check=True, timeout=PROGRAM_S
    )
    name, role, text = ended.stdout.strip().split(":")
    assert (name, role) == ("ann", "operator")
    assert text.startswith("$scrypt$ln=14,r=8,p=5$")
    assert Hash.parse(text).fits("correct horse")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ann", "owner"], "invalid choice"),
        (["ann:x", "viewer"], "1 to 64 characters"),
        (["a b", "viewer"], "1 to 64 characters"),
        (["", "viewer"], "1 to 64 characters"),
        (["ann", "viewer", "--namespaces", "team-a,"], "'' is not the name of a namespace"),
    ],
)
def test_a_name_or_a_role_that_is_none_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_a_line_may_name_namespaces() -> None:
    command = [sys.executable, "-m", "app.serve.access.password", "ann", "viewer", "--namespaces", "team-a,team-b"]
    made = subprocess.run(
        command, input="correct horse\n", capture_output=True, text=True, check=True, timeout=PROGRAM_S
    )
    assert made.stdout.startswith("ann:viewer:$scrypt$")
    assert made.stdout.endswith(":team-a,team-b\n")


@pytest.mark.slow
def test_a_password_that_is_short_is_refused() -> None:
    command = [sys.executable, "-m", "app.serve.access.password", "ann", "viewer"]
    ended = subprocess.run(command, input="short\n", capture_output=True, text=True, check=False, timeout=PROGRAM_S)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "at least 8 characters" in ended.stderr
