"""The how-to about access: its files are valid, and its commands have the described effects."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.base.watched_file import lines_of
from app.serve.access.access_file import AccessFile
from app.serve.access.entries import access_of
from app.serve.access.former import tables_of
from tests.app.serve.access.conftest import hashed
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

PAGE = (ROOT / "docs/how-to/access.md").read_text("utf-8")
TOML = [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]
ENV = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def commands(word: str) -> list[str]:
    """Return the lines of the page's blocks that run a command with this word."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [
        line.strip() for block in blocks for line in block.splitlines() if line.strip().startswith(f"punctual {word}")
    ]


def run(line: str, place: Path, typed: str = "") -> str:
    done = subprocess.run(
        ["sh", "-ec", line],  # noqa: S607
        cwd=place,
        env=ENV,
        input=typed,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROGRAM_S,
    )
    return done.stdout


def test_its_files_are_valid_together(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    text = "\n".join(TOML).replace("/etc/punctual/client-secret", str(tmp_path / "secret"))
    tables, places, form = tables_of(lines_of(text))
    mistakes, access = access_of(tables, places, ("shop", "orders", "billing"))

    assert (mistakes, form) == ([], "")
    assert set(access.users) == {"ann", "shop"}
    assert set(access.groups) == {"sre", "orders-team", "*"}


@pytest.mark.core
def test_its_commands_write_and_check_and_convert_a_file(tmp_path: Path) -> None:
    [ann, bob], [shop], [check], [convert] = map(commands, ("password", "token", "access check", "access convert"))
    run(ann, tmp_path, "correct horse\n")
    run(shop, tmp_path)
    run(bob, tmp_path, "battery staple\n")

    access = AccessFile("", str(tmp_path / "access.toml"), ("orders",)).last
    assert {name: user.caller.role for name, user in access.users.items()} == {
        "ann": "admin",
        "shop": "operator",
        "bob": "operator",
    }
    assert access.of_token((tmp_path / "shop.token").read_text().strip()) == access.users["shop"].caller
    assert [line.split()[:3] for line in run(check, tmp_path).splitlines()[1:4]] == [
        ["ann", "password", "admin"],
        ["shop", "token", "operator"],
        ["bob", "password", "operator"],
    ]

    (tmp_path / "users").write_text(f"eve:viewer:{hashed('eve')}\n")
    (tmp_path / "oidc.toml").write_text('issuer = "https://id.example"\nclient_id = "x"\nroles = "*=viewer"\n')
    (tmp_path / "tokens").write_text(f'[mail]\ndestinations = ["*"]\ntokens = [{{ sha256 = "{"0" * 64}" }}]\n')
    run(convert, tmp_path)
    made = AccessFile("", str(tmp_path / "access.toml"), ())
    assert (set(made.last.users), set(made.last.groups), made.form) == ({"eve", "mail"}, {"*"}, "")


def test_the_table_of_keys_has_each_key() -> None:
    from app.serve.access.entries import Provider, _User  # noqa: PLC0415 - the page's keys are theirs

    for kind, heading in ((_User, "## Keys of the file"), (Provider, "| key of `[provider]`")):
        section = PAGE[PAGE.index(heading) :]
        rows = re.findall(r"^\| `(\w+)` \|", section[: section.index("\n\n", section.index("|---|"))], re.MULTILINE)
        assert set(rows) == set(kind.__struct_fields__)
