"""The commands for the access file."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.ops.access import main
from app.serve.access.access_file import AccessFile
from app.serve.access.password import Hash
from app.serve.access.token import digest_of, is_token
from tests.app.serve.access.conftest import hashed, token_of
from tests.harness.waiting import PROGRAM_S

HASH = str(hashed("ann"))
COMMAND = [sys.executable, "-m", "app.ops.access"]
SHA256 = digest_of(token_of("shop")).hex()
FILE = f"""
[users.ann]
role = "admin"
password = "{HASH}"

[users.shop]
role = "operator"
namespaces = ["shop"]
destinations = ["orders.*", "https://hooks.example.com/*"]
rate = 200
burst = 500
tokens = [
  {{ sha256 = "{SHA256}", expires = 2020-01-01T00:00:00Z }},
  {{ sha256 = "{SHA256[::-1]}", expires = 2100-01-01T00:00:00Z }},
]

[provider]
issuer = "https://id.example.com"
client_id = "punctual"

[groups."*"]
role = "viewer"
"""


def written(place: Path, text: str, name: str = "access.toml") -> str:
    (place / name).write_text(text, "utf-8")
    return str(place / name)


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_check_prints_who_may_do_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["access", "check", written(tmp_path, FILE)])
    table, legend = capsys.readouterr().out.split("viewer: ", 1)
    assert [re.split(r"  +", line) for line in table.splitlines()] == [
        ["NAME", "LOGIN", "ROLE", "NAMESPACES", "DESTINATIONS", "REQUESTS"],
        ["ann", "password", "admin", "all", "all", "no limit"],
        [
            *("shop", "expired token, token until 2100-01-01", "operator", "shop"),
            *("orders.*, https://hooks.example.com/*", "200/s, burst 500"),
        ],
        ["group *", "provider", "viewer", "all", "all", "no limit"],
    ]
    assert legend.splitlines() == [
        "read messages, dead letters and jobs",
        "operator: read; act on one message or dead letter at a time",
        "admin: read; act on one or all messages; control destinations; read the audit",
    ]


def test_check_names_each_mistake_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DELAY_NAMESPACES", "mail")
    path = written(tmp_path, FILE.replace('"admin"', '"king"'))
    with pytest.raises(SystemExit) as ended:
        main(["access", "check", path])
    assert str(ended.value.code).splitlines() == [
        f"{path}: line 3: [users.ann]: the role must be one of viewer, operator, admin, not 'king'",
        f"{path}: line 8: [users.shop]: there is no namespace 'shop'; DELAY_NAMESPACES has mail",
    ]
    assert capsys.readouterr().out == ""


def test_check_of_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["access", "check", str(tmp_path / "none")])
    assert str(ended.value.code).startswith("punctual access: [Errno 2] No such file")


def test_convert_prints_one_file_that_allows_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = written(tmp_path, f"ann:admin:{HASH}\nbob:viewer:{HASH}:team-a,team-b\n", "users")
    tokens = written(
        tmp_path,
        '[shop]\nnamespace = "team-a"\ndestinations = ["orders"]\nrate = 2.5\n'
        f'tokens = [{{ sha256 = "{SHA256}", expires = 2100-01-01T00:00:00Z }}]\n',
        "tokens",
    )
    oidc = written(
        tmp_path, 'issuer = "https://id.example"\nclient_id = "x"\nroles = "[a:b]:sre=admin,*=viewer@team-b"\n'
    )
    main(["access", "convert", users, tokens, oidc])
    text = capsys.readouterr().out
    teams = ("team-a", "team-b")

    made = AccessFile("", written(tmp_path, text, "new"), teams)
    assert made.form == ""
    former = [AccessFile("", path, teams).last for path in (users, tokens)]
    assert made.last.users == {**former[0].users, **former[1].users}
    assert made.last.provider is not None
    assert made.last.provider.claim == "a:b"
    assert made.last.grant(["sre"]) is not None
    main(["access", "convert", str(tmp_path / "new")])
    assert capsys.readouterr().out == text


def test_convert_does_not_join_two_users_of_one_name(tmp_path: Path) -> None:
    users = written(tmp_path, f"shop:admin:{HASH}\n", "users")
    tokens = written(tmp_path, f'[shop]\ndestinations = []\ntokens = [{{ sha256 = "{SHA256}" }}]\n', "tokens")
    with pytest.raises(SystemExit) as ended:
        main(["access", "convert", users, tokens])
    assert "[users.shop] is in another of the files too. Rename one" in str(ended.value.code)


@pytest.mark.slow
def test_password_prints_the_lines_of_a_user() -> None:
    command = [*COMMAND, "password", "ann", "operator", "--namespaces", "team-a,team-b"]
    ended = subprocess.run(
        command, input="correct horse\n", capture_output=True, text=True, check=True, timeout=PROGRAM_S
    )
    head, role, namespaces, password = ended.stdout.splitlines()
    assert (head, role, namespaces) == ("[users.ann]", 'role = "operator"', 'namespaces = ["team-a", "team-b"]')
    assert password.startswith('password = "$scrypt$ln=14,r=8,p=5$')
    assert Hash.parse(password.removeprefix('password = "')[:-1]).fits("correct horse")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ann", "owner"], "invalid choice"),
        (["ann:x", "viewer"], "1 to 64 characters"),
        (["a b", "viewer"], "1 to 64 characters"),
        (["", "viewer"], "1 to 64 characters"),
        (["ann", "viewer", "--namespaces", "team-a,"], "'' is not the name of a namespace"),
        (["ann", "viewer"], "at least 8 characters"),
    ],
)
def test_a_name_a_role_or_a_password_that_is_none_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "short\n")
    with pytest.raises(SystemExit) as raised:
        main(["password", *arguments])
    assert raised.value.code == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""


def test_token_prints_a_token_to_stdout_and_its_digest_to_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["token", "shop"])
    shown = capsys.readouterr()
    token = shown.out.strip()
    assert is_token(token)
    assert token not in shown.err
    caller = AccessFile("", written(tmp_path, shown.err), ()).last.of_token(token)
    assert caller is not None
    assert (caller.name, caller.role, caller.destinations) == ("shop", "operator", ("*",))


@pytest.mark.parametrize("name", ["", "a b", "-a", "a]", "x" * 65])
def test_the_name_of_a_token_is_one_word(name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["token", name])

    assert ended.value.code == 2
