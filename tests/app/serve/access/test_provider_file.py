"""The file of DELAY_WEB_OIDC_FILE: what it may contain, and what a wrong one is told."""

from pathlib import Path

import pytest

from app.base.errors import SettingInvalid
from app.serve.access.provider_file import ProviderFile
from app.settings.settings import Settings
from tests.app.serve.access.conftest import SECRET, oidc, stubbed

KEYS = {"issuer": "https://id.example/realm", "client_id": "punctual", "roles": "groups:sre=admin"}


def read(place: Path, **keys: object) -> ProviderFile:
    return ProviderFile.read(oidc(place, **keys)["DELAY_WEB_OIDC_FILE"])


def test_three_keys_are_enough(tmp_path: Path) -> None:
    scopes = ("openid", "profile", "email")
    assert read(tmp_path, **KEYS) == ProviderFile(**KEYS, client_secret_file="", scopes=scopes)


def test_all_keys_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    found = read(tmp_path, **KEYS, client_secret_file=str(secret), scopes=["openid", "groups"])
    assert (found.client_secret_file, found.scopes) == (str(secret), ("openid", "groups"))


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
def test_an_issuer_is_asked_by_https_or_on_this_machine(tmp_path: Path, issuer: str, *, fits: bool) -> None:
    if fits:
        assert read(tmp_path, **{**KEYS, "issuer": issuer}).issuer == issuer
        return
    with pytest.raises(ValueError, match=r"issuer .*: it must use https"):
        read(tmp_path, **{**KEYS, "issuer": issuer})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"clientid": "x"},
            r"the file has 'clientid', which is not a known key. The keys are issuer, client_id, roles, ",
        ),
        ({"client_secret": "x"}, "the file has 'client_secret', which is not a known key"),
        ({"issuer": ""}, "the file has no issuer. Add it, such as issuer ="),
        ({"client_id": ""}, "the file has no client_id. Add it, such as client_id ="),
        ({"roles": ""}, "the file has no roles. Add it, such as roles ="),
        ({"issuer": "id.example"}, "issuer 'id.example': it must be an address such as"),
        ({"client_id": 7}, "client_id must be text, in quotes"),
        ({"roles": ["*=viewer"]}, "roles must be text, in quotes"),
        ({"scopes": "openid"}, "scopes must be a list of texts"),
        ({"scopes": []}, "scopes must be a list of texts"),
        ({"scopes": [1]}, "scopes must be a list of texts"),
        ({"client_secret_file": "/not/there"}, "client_secret_file '/not/there': there is no such file"),
        ({"roles": "groups:sre=king"}, "roles 'groups:sre=king': 'sre=king' is not of the form value=role"),
    ],
)
def test_a_wrong_key_stops_the_start_with_its_name(tmp_path: Path, change: dict[str, object], why: str) -> None:
    env = oidc(tmp_path, **{**KEYS, **change})
    with pytest.raises(SettingInvalid, match=why) as refused:
        stubbed(Settings.from_env({**env, "DELAY_WEB_SECRET": SECRET}))
    assert str(refused.value).startswith("DELAY_WEB_OIDC_FILE=")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "the file cannot be read: No such file or directory"),
        (b"issuer: x", "the file is not valid TOML"),
        (b"\xff", "the file cannot be read: it is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "oidc.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        ProviderFile.read(str(path))


def test_a_console_that_asked_for_sign_in_is_not_opened_by_an_upgrade(tmp_path: Path) -> None:
    former = {"DELAY_WEB_OIDC_ISSUER": "https://id.example/realm"}
    with pytest.raises(SettingInvalid, match=r"set DELAY_WEB_OIDC_FILE to its path"):
        Settings.from_env(former)
    assert Settings.from_env(former | oidc(tmp_path, **KEYS)).web.signs_in
