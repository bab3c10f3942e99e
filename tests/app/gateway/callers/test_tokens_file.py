"""The file of tokens: what it takes, and what becomes of it while the gateway runs."""

import logging
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.gateway.callers.caller import Caller
from app.gateway.callers.tokens_file import TokensFile
from app.gateway.token import digest_of
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

ONE, TWO, THREE = (f"pgw_{letter * 43}" for letter in "ABC")
NOW_MS = int(datetime(2026, 11, 25, tzinfo=UTC).timestamp() * 1000)


def sha256(token: str) -> str:
    return digest_of(token).hex()


def written(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    return str(path)


def test_a_token_is_whose_table_has_its_digest(tmp_path: Path) -> None:
    text = f"""
    [shop]  # the shop's orders
    namespace = "shop"
    destinations = ["orders.*", "reminders"]
    rate = 20
    burst = 50
    max_message_bytes = 100_000
    tokens = [{{ sha256 = "{sha256(ONE)}" }}]

    [mail]
    destinations = ["*"]
    tokens = [{{ sha256 = "{sha256(TWO)}" }}]
    """
    tokens = TokensFile(written(tmp_path / "tokens", text))

    shop = Caller("shop", "shop", ("orders.*", "reminders"), 20.0, 50, 100_000)
    assert tokens.caller(ONE, 0, NOW_MS) == shop
    mail = tokens.caller(TWO, 0, NOW_MS)
    assert mail is not None
    assert (mail.name, mail.namespace, mail.rate, mail.burst) == ("mail", "", 100.0, 100)
    assert tokens.caller(THREE, 0, NOW_MS) is None
    assert tokens.namespaces == {"shop"}


def test_one_token_follows_another(tmp_path: Path) -> None:
    text = f"""
    [shop]
    destinations = ["*"]
    tokens = [
      {{ sha256 = "{sha256(ONE)}", expires = 2026-11-26T00:00:00Z }},
      {{ sha256 = "{sha256(TWO)}" }},
    ]
    """
    tokens = TokensFile(written(tmp_path / "tokens", text))
    end_ms = NOW_MS + 86_400_000

    assert tokens.caller(ONE, 0, end_ms - 1) == tokens.caller(TWO, 0, end_ms - 1) is not None
    assert tokens.caller(ONE, 0, end_ms) is None
    assert tokens.caller(TWO, 0, end_ms) is not None


def test_a_change_is_seen_within_a_second_and_one_that_is_wrong_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    tokens = TokensFile(written(path, table(ONE)))
    assert tokens.caller(TWO, 0, NOW_MS) is None

    written(path, table(TWO))
    assert tokens.caller(ONE, 2, NOW_MS) is None
    assert tokens.caller(TWO, 2, NOW_MS) is not None

    with caplog.at_level(logging.ERROR):
        written(path, f"[shop]\ntokens = ['{TWO}'")
        assert tokens.caller(TWO, 4, NOW_MS) is not None
    assert "is not valid" in caplog.text
    assert TWO not in caplog.text


def table(token: str) -> str:
    return f'[shop]\ndestinations = ["*"]\ntokens = [{{ sha256 = "{sha256(token)}" }}]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no token"),
        ("[shop]\ndestinations = []\ntokens = []\n", "it has no token"),
        ("[shop\n", "it is not TOML"),
        (table(ONE).replace("shop", "'a b'"), "letters, digits, hyphens or underscores as the name"),
        (table(ONE).replace("destinations", "destination"), r"\[shop\]: Object"),
        ("[shop]\ntokens = []\n", "destinations"),
        ("[shop]\ndestinations = []\ntokens = [{ sha256 = 'abc' }]\n", "64 digits"),
        (
            f"[shop]\ndestinations = []\ntokens = [{{ sha256 = '{ONE}' }}]\n",
            "the file contains a token instead of its sha256",
        ),
        (table(ONE) + table(ONE).replace("shop", "mail"), "given twice"),
        (table(ONE) + "rate = 0\n", "rate"),
        (table(ONE) + "rate = 1e9\n", "at most"),
        (table(ONE) + "burst = 0\n", "burst"),
        (table(ONE).replace(" }]", ", expires = 2026-11-26T00:00:00 }]"), "expires"),
    ],
)
def test_what_is_wrong_is_said_without_a_token(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        TokensFile(written(tmp_path / "tokens", text))

    assert ONE not in str(error.value)
    assert error.value.__cause__ is None


def test_the_line_that_is_wrong_is_named_as_it_is_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 4"):
        TokensFile(written(tmp_path / "tokens", "# tokens\n\n[shop]\nrate = = 5\n"))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        TokensFile(str(tmp_path / "none"))


def test_without_a_file_nobody_has_a_token() -> None:
    tokens = TokensFile("")

    assert not tokens
    assert tokens.caller(ONE, 0, NOW_MS) is None


def test_the_page_has_a_file_and_a_command_that_makes_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/gateway-tokens.md").read_text("utf-8")
    [shown] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [command] = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "punctual token" in block]

    assert TokensFile(written(tmp_path / "shown", shown)).namespaces == {"shop"}

    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, env=env, check=True, timeout=PROGRAM_S)  # noqa: S607
    token = (tmp_path / "shop.token").read_text("utf-8").strip()
    found = TokensFile(str(tmp_path / "tokens")).caller(token, 0, NOW_MS)
    assert found is not None
    assert found.name == "shop"
