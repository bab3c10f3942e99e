"""The file of secrets: the first pattern holds, a change is seen, and no secret is ever said."""

import os
from pathlib import Path

import pytest

from app.base.errors import SettingInvalid
from app.base.http.signatures import SecretsFile, secret
from app.base.http.target import target_of
from app.settings.settings import Settings

A, B, C = (f"whsec_{letter * 32}" for letter in "ABC")


def test_the_first_pattern_that_a_url_matches_has_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"# comment\n\nhttps://a.example/*  {A} {B}\nhttps://*  {C}\n", "utf-8")
    secrets = SecretsFile(str(path))

    assert secrets.of(target_of("https://a.example/x"), 0) == (secret(A), secret(B))
    assert secrets.of(target_of("https://b.example/"), 0) == (secret(C),)
    assert secrets.of(target_of("http://b.example/"), 0) == ()
    assert SecretsFile("").of(target_of("https://a.example/x"), 0) == ()


def test_a_change_is_seen_within_a_second_and_an_invalid_file_changes_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"https://* {A}\n", "utf-8")
    secrets = SecretsFile(str(path))
    path.write_text(f"https://* {B} {A}\n", "utf-8")
    assert secrets.of(target_of("https://a/"), 10) == (secret(B), secret(A))
    path.write_text("https://* whsec_short\n", "utf-8")
    assert secrets.of(target_of("https://a/"), 10.5) == (secret(B), secret(A))
    assert not caplog.messages
    assert secrets.of(target_of("https://a/"), 11) == (secret(B), secret(A))
    assert secrets.of(target_of("https://a/"), 12) == (secret(B), secret(A))
    [said] = caplog.messages
    assert "DELAY_HTTP_SECRETS_FILE has changed, but is not valid: line 1: the text after whsec_" in said
    path.unlink()
    assert secrets.of(target_of("https://a/"), 13) == (secret(B), secret(A))
    assert all(text not in " ".join(caplog.messages) for text in (A, B, "whsec_short"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"https://a/*\n", "line 1 has no secret. Write a pattern and one or more secrets"),
        (b"\nhttps://a/* topsecret\n", "line 2: a secret must begin with whsec_, followed by base64"),
        (b"hooks.example.com whsec_x\n", "line 1 must begin with a pattern of https:// or http:// addresses"),
        (b"\xff", "it cannot be read: it is not UTF-8"),
        (None, "it cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start_with_a_sentence(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "secrets"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({"DELAY_HTTP_SECRETS_FILE": str(path)})

    assert str(raised.value).startswith(f"DELAY_HTTP_SECRETS_FILE={str(path)!r}: {why}")
    assert "topsecret" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_must_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text("", "utf-8")
    path.chmod(0)
    with pytest.raises(ValueError, match="Permission denied"):
        SecretsFile(str(path))


def test_a_secret_signs_no_request_to_another_host(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"https://*.example.com/* {A}\n", "utf-8")
    secrets = SecretsFile(str(path))

    assert secrets.of(target_of("https://hooks.example.com/a"), 0)
    assert not secrets.of(target_of("https://evil.test/x.example.com/a"), 0)
    assert not secrets.of(target_of("https://evil.test/?.example.com/a"), 0)


def test_a_star_is_all_urls(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"* {A}\n", "utf-8")

    assert SecretsFile(str(path)).of(target_of("http://10.0.0.1:8080/"), 0) == (secret(A),)
