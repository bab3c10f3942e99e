"""The access file: its permissions, its mistakes, a change while it is used, and the forms of earlier versions."""

import logging
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.base.watched_file import lines_of
from app.serve.access.access_file import AccessFile
from app.serve.access.caller import Caller, Grant
from app.serve.access.entries import Access, access_of
from app.serve.access.former import tables_of
from app.serve.access.token import digest_of
from tests.app.serve.access.conftest import hashed, token_of

#: Each hash has a salt of its own, and tests are named by their expectations.
HASH = str(hashed("ann"))
ONE, TWO, THREE = map(token_of, ("one", "two", "three"))
TEAMS = ("team-a", "team-b")
PROVIDER = '[provider]\nissuer = "https://id.example/realm"\nclient_id = "punctual"\n'
ANN = f'[users.ann]\nrole = "viewer"\npassword = "{HASH}"\n'


def sha256(token: str) -> str:
    return digest_of(token).hex()


def shop(*lines: str, token: str = ONE) -> str:
    return "\n".join(["[users.shop]", 'role = "operator"', f'tokens = [{{ sha256 = "{sha256(token)}" }}]', *lines, ""])


def written(path: Path, text: str) -> str:
    other = path.with_suffix(".new")
    other.write_text(text, "utf-8")
    if path.exists():
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    other.replace(path)
    return str(path)


def read(place: Path, text: str, namespaces: Iterable[str] = TEAMS) -> Access:
    return AccessFile("DELAY_WEB_USERS_FILE", written(place / "access", text), tuple(namespaces)).last


def mistakes(text: str) -> list[str]:
    tables, places, _ = tables_of(lines_of(text))
    return access_of(tables, places, TEAMS)[0]


def test_people_programs_and_groups_have_the_permissions_of_their_tables(tmp_path: Path) -> None:
    text = f"""
    # who may
    [users.ann]
    role = "admin"
    password = "{HASH}"

    [users.shop]  # the shop's orders
    role = "operator"
    namespaces = ["team-a"]
    destinations = ["orders.*", "reminders"]
    rate = 20
    burst = 50
    max_message_bytes = 100_000
    tokens = [{{ sha256 = "{sha256(ONE)}" }}]

    [users.mail]
    role = "operator"
    password = "{HASH}"
    tokens = [{{ sha256 = "{sha256(TWO)}" }}]

    {PROVIDER}
    [groups.sre]
    role = "admin"

    [groups."*"]
    role = "viewer"
    namespaces = ["team-b"]
    """
    access = read(tmp_path, text)

    shop_ = Caller(
        "shop",
        "operator",
        namespaces=("team-a",),
        destinations=("orders.*", "reminders"),
        rate=20.0,
        burst=50,
        max_message_bytes=100_000,
    )
    assert access.of_token(ONE) == shop_
    assert access.users["ann"].caller == Caller("ann", "admin")
    mail = access.of_token(TWO)
    assert mail is not None
    assert (mail.name, mail.namespaces, mail.rate, mail.burst, mail.max_message_bytes) == (
        "mail",
        None,
        100,
        100,
        1 << 20,
    )
    assert access.of_token(THREE) is None
    assert access.grant(["sre"]) == Grant("admin")
    assert access.grant(["sales"]) == Grant("viewer", namespaces=("team-b",))
    assert access.provider is not None
    assert (access.provider.claim, access.provider.scopes) == ("groups", ("openid", "profile", "email"))


GROUPS = (
    PROVIDER
    + """
[groups.sre]
role = "admin"
[groups.a-ops]
role = "operator"
namespaces = ["team-a"]
destinations = ["orders"]
rate = 5
[groups.b-ops]
role = "operator"
namespaces = ["team-b"]
destinations = ["bills"]
rate = 7
[groups.a-look]
role = "viewer"
namespaces = ["team-a"]
[groups.staff]
role = "viewer"
"""
)


@pytest.mark.parametrize(
    ("groups", "grant"),
    [
        (["sre"], Grant("admin")),
        (["a-ops"], Grant("operator", namespaces=("team-a",), destinations=("orders",), rate=5, burst=5)),
        (
            ["b-ops", "a-ops", "a-look"],
            Grant("operator", namespaces=("team-a", "team-b"), destinations=("bills", "orders"), rate=7, burst=7),
        ),
        (["a-look"], Grant("viewer", namespaces=("team-a",))),
        (["a-look", "staff"], Grant("viewer")),
        # Only the highest role counts, without the permissions of lower roles.
        (["staff", "a-ops"], Grant("operator", namespaces=("team-a",), destinations=("orders",), rate=5, burst=5)),
        (["sre", "a-ops"], Grant("admin")),
        (["sales"], None),
        ([], None),
    ],
    ids=str,
)
def test_the_highest_role_has_the_limits_of_all_groups_with_that_role(
    tmp_path: Path, groups: list[str], grant: Grant | None
) -> None:
    assert read(tmp_path, GROUPS).grant(groups) == grant


def test_a_new_token_replaces_an_old_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = (
        f'tokens = [{{ sha256 = "{sha256(ONE)}", expires = 2026-11-26T00:00:00Z }}, {{ sha256 = "{sha256(TWO)}" }}]'
    )
    access = read(tmp_path, f'[users.shop]\nrole = "operator"\n{tokens}\n')
    end_ms = int(datetime(2026, 11, 26, tzinfo=UTC).timestamp() * 1000)

    monkeypatch.setattr("app.base.clock.Clock.wall_ms", lambda: end_ms - 1)
    assert access.of_token(ONE) == access.of_token(TWO) is not None
    monkeypatch.setattr("app.base.clock.Clock.wall_ms", lambda: end_ms)
    assert access.of_token(ONE) is None
    assert access.of_token(TWO) is not None


async def test_a_change_takes_effect_within_a_second_and_a_mistake_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "access"
    file = AccessFile("DELAY_WEB_USERS_FILE", written(path, ANN), TEAMS)
    now_s = 0.0
    monkeypatch.setattr("asyncio.get_running_loop", lambda: type("Loop", (), {"time": staticmethod(lambda: now_s)}))
    assert set(file.now().users) == {"ann"}
    written(path, shop())
    now_s = 0.9
    assert set(file.now().users) == {"ann"}
    now_s = 1.1
    assert set(file.now().users) == {"shop"}
    assert file.now().of_token(ONE) is not None
    with caplog.at_level(logging.ERROR):
        written(path, f"[users.shop]\ntokens = ['{TWO}'")
        now_s = 2.2
        assert file.now().of_token(ONE) is not None
    assert "is not valid: it is not TOML" in caplog.text
    assert TWO not in caplog.text
    path.unlink()
    now_s = 3.3
    assert file.now().of_token(ONE) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no user. Print the lines of one with `punctual password NAME ROLE` or `punctual token NAME`"),
        ("# nobody\n\n", "it has no user"),
        ("[users]\n", "it has no user"),
        ("[users.ann\n", "it is not TOML"),
        ("# who\n\n[users.ann]\nrole = = 5\n", "line 4"),
        (
            ANN + "[teams.a]\nx = 1\n",
            r"line 4: \[teams\]: is not a table of this file: use \[users.NAME\], \[groups.NAME\]",
        ),
        ('[users]\nann = "viewer"\n', r"\[users.ann\]: write a table for each, as in \[users.NAME\]"),
        (
            ANN.replace("viewer", "owner"),
            r"line 2: \[users.ann\]: the role must be one of viewer, operator, admin, not 'ow",
        ),
        (ANN.replace('role = "viewer"', ""), r"\[users.ann\]: the role must be one of .*, not ''"),
        (ANN.replace("ann", "'a b'"), "a name must have 1 to 64 characters without space, ':' or '#'"),
        (ANN.replace("ann]", '"a\u200bnn"]'), "a name must have 1 to 64 characters"),
        (ANN.replace(HASH, "secret123"), r"line 3: \[users.ann\]: the hash was not made by `punctual password`"),
        (
            '[users.ann]\nrole = "viewer"\n',
            r"line 1: \[users.ann\]: add a password \(`punctual password ann ROLE`\) or a tok",
        ),
        (
            ANN + "namespaces = ['team-c']\n",
            "line 4: .* there is no namespace 'team-c'; DELAY_NAMESPACES has team-a, team-b",
        ),
        (ANN + "namespaces = []\n", "the list is empty. Leave it out for the whole installation"),
        (ANN + "namespaces = 'team-a'\n", "line 4: .*namespaces: expected array, got str"),
        (ANN + "destination = ['orders']\n", "line 4: .*unknown field destination. The keys are "),
        (shop("rate = 0"), "line 4: .*rate"),
        (shop("rate = 1e9"), "line 4: .*at most"),
        (shop("burst = 0"), "line 4: .*burst"),
        (
            shop().replace("operator", "admin") + "destinations = ['orders']\n",
            "line 4: .*an admin acts on all destinations",
        ),
        (
            shop().replace(sha256(ONE), "abc"),
            r"line 3: .*a sha256 has 64 digits from 0 to f. Make one with `punctual token shop`",
        ),
        (
            shop().replace(sha256(ONE), ONE),
            "line 3: .*the file contains a token instead of its sha256. Make a new token",
        ),
        (shop() + shop().replace("shop", "mail"), r"line 6: \[users.mail\]: one of its tokens is given twice"),
        (shop().replace(" }]", ", expires = 2026-11-26T00:00:00 }]"), "line 3: .*tokens"),
        ('[groups.sre]\nrole = "admin"\n', r"\[groups\]: groups need the table \[provider\]"),
        (PROVIDER, r"\[provider\]: without groups, no user has a role"),
        (GROUPS.replace('issuer = "https://id.example/realm"\n', ""), "it has no issuer. Add it, such as issuer ="),
        (
            GROUPS.replace('client_id = "punctual"', 'client_id = ""'),
            "it has no client_id. Add it, such as client_id =",
        ),
        (
            GROUPS.replace("https://id.example/realm", "id.example"),
            "line 2: .*issuer 'id.example': it must be an address",
        ),
        (GROUPS.replace('"punctual"', "7"), r"line 3: \[provider\]: client_id: expected str, got int"),
        (
            GROUPS.replace("[groups.sre]", "clientid = 'x'\n[groups.sre]"),
            "unknown field clientid. The keys are issuer, client_id",
        ),
        (GROUPS.replace("[groups.sre]", "scopes = []\n[groups.sre]"), "scopes must be a list of texts"),
        (GROUPS.replace("[groups.sre]", "scopes = [1]\n[groups.sre]"), "scopes"),
        (
            GROUPS.replace("[groups.sre]", "client_secret_file = '/not/there'\n[groups.sre]"),
            "there is no file '/not/there'",
        ),
        (GROUPS + "password = 'x'\n", "unknown field password"),
    ],
    ids=map(str, range(36)),
)
def test_a_mistake_is_reported_with_its_line_and_a_remedy_and_never_a_secret(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        read(tmp_path, text)
    assert HASH not in str(raised.value)
    assert "secret123" not in str(raised.value)
    assert ONE not in str(raised.value)


def test_all_mistakes_are_found_at_once() -> None:
    found = mistakes(ANN.replace("viewer", "owner") + shop("namespaces = ['x', 'y']"))
    assert [re.sub(r": .*", "", one) for one in found] == ["line 2", "line 7", "line 7"]


@pytest.mark.parametrize(
    ("issuer", "fits"),
    [
        ("https://id.example/realm", True),
        ("http://127.0.0.1:8080/realm", True),
        ("http://[::1]:8080", True),
        ("http://localhost:8080", True),
        ("http://id.localhost", True),
        ("http://id.example/realm", False),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
        ("http://127.0.0.1.example", False),
        ("http://[127.0.0.1", False),
    ],
)
def test_an_issuer_is_asked_by_https_or_on_this_machine(issuer: str, *, fits: bool) -> None:
    found = mistakes(GROUPS.replace("https://id.example/realm", issuer))
    assert [one for one in found if "it must use https" in one] == found
    assert bool(found) is not fits


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read: No such file"), (b"\xff", "it is not UTF-8")])
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "access").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        AccessFile("DELAY_WEB_USERS_FILE", str(tmp_path / "access"), ())


def test_without_a_file_every_token_is_refused() -> None:
    file = AccessFile("DELAY_WEB_USERS_FILE", "", ())
    assert not file
    assert file.last.of_token(ONE) is None
