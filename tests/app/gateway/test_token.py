"""Tokens, and the command that makes them."""

import subprocess
import sys

import pytest

from app.gateway.token import digest_of, is_token, main, new_token
from tests.harness.waiting import PROGRAM_S


def test_no_two_are_the_same() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(map(is_token, tokens))


def test_the_token_goes_to_stdout_and_its_digest_to_stderr() -> None:
    command = [sys.executable, "-m", "app.gateway.token", "shop"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROGRAM_S)

    token = done.stdout.strip()
    assert is_token(token)
    assert token not in done.stderr
    assert digest_of(token).hex() in done.stderr


@pytest.mark.parametrize("name", ["", "a b", "-a", "a]", "x" * 65])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name])

    assert ended.value.code == 2
