"""Likely mistakes in the environment are reported, and valid environments are not."""

from app.ops.doctor.process import doubts
from app.settings.settings import Settings

FINE = {"DELAY_DESTINATIONS": "*"}


def said(env: dict[str, str]) -> list[str]:
    return list(doubts(Settings.from_env(env).destinations, Settings.from_env(env).web, env))


def test_variables_that_are_no_settings_are_named() -> None:
    [sentence] = said(FINE | {"DELAY_GARANTEE": "x"})

    assert "did you mean DELAY_GUARANTEE?" in sentence


def test_an_installation_that_cannot_accept_any_message_is_reported() -> None:
    [sentence] = said({})

    assert "'*'" in sentence


def test_posts_without_signatures_are_reported() -> None:
    urls = {"DELAY_HTTP_DESTINATIONS": "https://hooks.example.com/*"}
    [sentence] = said(urls)

    assert "Without signatures" in sentence
    assert said(urls | {"DELAY_HTTP_SECRETS_FILE": "/dev/null"}) == []


def test_logins_without_a_secret_between_workers_are_reported() -> None:
    signed = FINE | {"DELAY_WEB_USERS_FILE": "/etc/punctual/users"}
    [sentence] = said(signed)

    assert "DELAY_WEB_SECRET is not set" in sentence
    assert said(signed | {"DELAY_WEB_SECRET": "between us and nobody else"}) == []
