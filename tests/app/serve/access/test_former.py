"""The three files of earlier versions are still read, and are printed in the new form with the same hashes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.base.errors import SettingInvalid
from app.serve.access.access_file import AccessFile
from app.serve.access.caller import Caller
from app.serve.access.former import as_toml
from app.serve.access.token import digest_of
from app.settings.settings import Settings
from tests.app.serve.access.conftest import SECRET, hashed, oidc, oidc_tables, provider, stubbed, token_of

HASH, OTHER = str(hashed("ann")), str(hashed("bob"))
ONE, TWO = token_of("one"), token_of("two")
TEAMS = ("team-a", "team-b", "team-c")
KEYS = {"issuer": "https://id.example/realm", "client_id": "punctual", "roles": "groups:sre=admin"}


def read(place: Path, text: str) -> AccessFile:
    (place / "former").write_text(text, "utf-8")
    return AccessFile("DELAY_WEB_USERS_FILE", str(place / "former"), TEAMS)


def table(token: str, name: str = "shop", *lines: str) -> str:
    said = "\n".join(
        [f"[{name}]", 'destinations = ["*"]', f'tokens = [{{ sha256 = "{digest_of(token).hex()}" }}]', *lines]
    )
    return f"{said}\n"


def test_lines_of_users_are_read_and_the_log_says_how_to_convert_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = read(tmp_path, f"# who\nann:viewer:{HASH}\nbob:admin:{OTHER}:team-b, team-a,team-b\n").last
    assert access.users["ann"].caller == Caller("ann", "viewer")
    assert access.users["bob"].caller == Caller("bob", "admin", namespaces=("team-b", "team-a"))
    assert [str(user.hash) for user in access.users.values()] == [HASH, OTHER]
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"DELAY_WEB_USERS_FILE={tmp_path}/former has the form of an earlier version")
    assert said.endswith(f"punctual access convert {tmp_path}/former")
    assert HASH not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"ann:viewer:{HASH}\nann:admin:{HASH}\n", "line 2 names ann a second time"),
        (f"ann:{HASH}", "line 1 is not of the form name:role:hash"),
        (f"ann:owner:{HASH}", "line 1: .* the role must be one of viewer, operator, admin, not 'owner'"),
        (f":viewer:{HASH}", "line 1: .* a name must have 1 to 64 characters"),
        (f"a\u200bnn:viewer:{HASH}", "line 1: .* a name must have 1 to 64 characters"),
        ("ann:viewer:secret123", "line 1: .* the hash was not made by `punctual password`"),
        ("ann:viewer", "line 1 is not of the form"),
        (f"ann:viewer:{HASH}:", "line 1: .* there is no namespace ''; DELAY_NAMESPACES has team-a, team-b"),
        (f"ann:viewer:{HASH}:team-a,team-d", "line 1: .* there is no namespace 'team-d'; DELAY_NAMESPACES has"),
        (f"ann:viewer:{HASH}:team-a:team-b", "line 1 is not of the form"),
        (f"ann:viewer:{HASH}:*", "line 1: .* there is no namespace"),
        (f"ann:viewer:{HASH}\n[users.bob]\n", "line 2 .* the new form with `punctual access convert`"),
        ("[shop]\ndestinations = []\ntokens = []\n", "add a password"),
        (table(ONE).replace("shop", "'a b'"), "a name must have 1 to 64 characters without space"),
        (table(ONE).replace("destinations", "destination"), r"line 1: \[users.shop\]"),
        ("[shop]\ntokens = []\n", "destinations: expected array"),
        (table("x").replace(digest_of("x").hex(), ONE), "the file contains a token instead of its sha256"),
        (table(ONE) + table(ONE, "mail"), "given twice"),
        (table(ONE, "shop", "rate = 0"), "line 4: .*rate"),
    ],
    ids=map(str, range(19)),
)
def test_a_mistake_has_its_line_and_never_a_secret(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        read(tmp_path, text)
    assert not any(secret in str(raised.value) for secret in (HASH, "secret123", ONE))


def test_tables_of_tokens_are_read_as_operators(tmp_path: Path) -> None:
    text = table(ONE, "shop", 'namespace = "shop"', "rate = 20", "burst = 50") + table(TWO, "users")
    access = read(tmp_path, text.replace('"*"', '"orders.*"', 1)).last
    assert access.of_token(ONE) == Caller(
        "shop",
        "operator",
        namespaces=("shop",),  # not one of DELAY_NAMESPACES, which was never checked
        destinations=("orders.*",),
        rate=20.0,
        burst=50,
        max_message_bytes=1 << 20,
    )
    other = access.of_token(TWO)
    assert other is not None
    assert (other.name, other.namespaces, other.destinations, other.rate, other.burst) == (
        "users",
        None,
        ("*",),
        100,
        100,
    )


def rules(text: str) -> dict[str, Any]:
    return {"issuer": "https://id.example", "client_id": "x", "roles": text}


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (
            "groups:sre=admin,a=operator@team-b+team-c",
            {"sre": ("admin", None), "a": ("operator", ["team-b", "team-c"])},
        ),
        ("groups:sre=admin@team-a,sre=admin@team-b", {"sre": ("admin", ["team-a", "team-b"])}),
        ("groups:sre=admin@team-a,sre=admin", {"sre": ("admin", None)}),
        ("groups:sre=admin,sre=admin@team-a", {"sre": ("admin", None)}),
        ("groups:sre=admin,sre=viewer", {"sre": ("admin", None)}),
        ("groups:sre=viewer,sre=admin@team-a", {"sre": ("admin", ["team-a"])}),
        ("*=viewer@team-a,*=viewer@team-b", {"*": ("viewer", ["team-a", "team-b"])}),
    ],
)
def test_rules_become_groups(tmp_path: Path, text: str, groups: dict[str, tuple[str, list[str] | None]]) -> None:
    found = oidc_tables(oidc(tmp_path, **rules(text)))
    assert {name: (one["role"], one.get("namespaces")) for name, one in found["groups"].items()} == groups


@pytest.mark.parametrize(
    ("text", "claim", "value"),
    [
        ("[cognito:groups]:sre=admin", "cognito:groups", "sre"),
        (" [https://x.example/roles]: sre=admin", "https://x.example/roles", "sre"),
        ("[groups]:urn:x:sre=admin", "groups", "urn:x:sre"),
        ("groups:sre=viewer,urn:x:sre=admin", "groups", "urn:x:sre"),
        ("realm_access.roles:sre=admin", "realm_access.roles", "sre"),
    ],
)
def test_a_claim_whose_name_has_a_colon_is_in_brackets(tmp_path: Path, text: str, claim: str, value: str) -> None:
    found = oidc_tables(oidc(tmp_path, **rules(text)))
    assert found["provider"]["claim"] == claim
    assert found["groups"][value] == {"role": "admin"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cognito:groups:sre=admin", "'cognito:groups:sre' has more than one colon. Put the claim in brackets"),
        ("https://x/roles:sre=admin", "'https://x/roles:sre' has more than one colon. Put the claim in brackets"),
        ("[cognito:groups:sre=admin", "']:' is missing after the claim"),
        ("[]:sre=admin", "it has no claim"),
        ("groups:ops=owner@team-a", "is not of the form value=role"),
        ("groups:", "without it, no user has a role"),
    ],
)
def test_invalid_rules_are_errors_with_the_reason(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        oidc_tables(oidc(tmp_path, **rules(text)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"clientid": "x"}, "unknown field clientid. The keys are issuer, client_id, "),
        ({"client_secret": "x"}, "unknown field client_secret"),
        ({"issuer": ""}, "it has no issuer. Add it, such as issuer ="),
        ({"client_id": 7}, "line 2: [provider]: client_id: expected str, got int"),
        ({"roles": ""}, 'roles must be a text, such as roles = "groups:sre=admin'),
        ({"roles": ["*=viewer"]}, "roles must be a text"),
        ({"client_secret_file": "/not/there"}, "there is no file '/not/there', or it cannot be read"),
        ({"roles": "groups:sre=king"}, "roles 'groups:sre=king': 'sre=king' is not of the form value=role"),
        ({"roles": "groups:ops=operator@team-d"}, "there is no namespace 'team-d'; DELAY_NAMESPACES has none"),
        ({"roles": "groups:ops=operator@"}, "there is no namespace ''"),
    ],
)
def test_a_wrong_key_of_a_provider_stops_the_start_with_its_name(
    tmp_path: Path, change: dict[str, object], why: str
) -> None:
    env = oidc(tmp_path, **{**KEYS, **change})
    with pytest.raises(SettingInvalid, match=re.escape(why)) as refused:
        stubbed(Settings.from_env({**env, "DELAY_WEB_SECRET": SECRET}))
    assert str(refused.value).startswith("DELAY_WEB_USERS_FILE=")


@pytest.mark.parametrize("name", ["DELAY_WEB_OIDC_FILE", "DELAY_GATEWAY_TOKENS_FILE"])
@pytest.mark.parametrize("other", [{}, {"DELAY_WEB_USERS_FILE": "/etc/punctual/access.toml"}])
def test_the_setting_of_a_former_file_stops_the_start_and_says_what_to_do(name: str, other: dict[str, str]) -> None:
    why = r"no longer a setting.*set DELAY_WEB_USERS_FILE to /etc/old, or .*`punctual access convert /etc/old`"
    with pytest.raises(SettingInvalid, match=why) as refused:
        Settings.from_env({name: "/etc/old", **other})
    assert str(refused.value).startswith(f"{name}=")
    Settings.from_env({name: ""})


def test_a_console_that_asked_for_sign_in_is_not_opened_by_an_upgrade(tmp_path: Path) -> None:
    former = {"DELAY_WEB_OIDC_ISSUER": "https://id.example/realm"}
    with pytest.raises(SettingInvalid, match=r"set DELAY_WEB_USERS_FILE to its path"):
        Settings.from_env(former)
    assert Settings.from_env(former | oidc(tmp_path, **KEYS)).web.signs_in
    assert Settings.from_env(former | provider(tmp_path, None, **KEYS)).web.signs_in


def test_tables_that_are_written_as_text_keep_their_meaning() -> None:
    tables = {
        "users": {
            "a": {"role": "viewer", "namespaces": ["x", "y"], "rate": 1.5, "tokens": [{"sha256": "00"}]},
            'b "\\é.': {"role": "admin"},
        },
        "provider": {"issuer": "https://x"},
        "groups": {"*": {"role": "viewer"}},
    }
    assert tomllib.loads(as_toml(tables)) == tables
