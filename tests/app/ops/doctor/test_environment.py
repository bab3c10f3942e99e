"""Likely mistakes in the environment are named, and nothing else is."""

from app.ops.doctor.process import doubts
from app.settings.settings import Settings

FINE = {"DELAY_DESTINATIONS": "*"}


def said(env: dict[str, str]) -> list[str]:
    return list(doubts(Settings.from_env(env).destinations, Settings.from_env(env).web, env))


def test_variables_that_are_no_settings_are_named() -> None:
    [sentence] = said(FINE | {"DELAY_GARANTEE": "x"})

    assert "did you mean DELAY_GUARANTEE?" in sentence


def test_an_installation_that_can_accept_nothing_is_told() -> None:
    [sentence] = said({})

    assert "'*'" in sentence


def test_what_is_posted_and_not_signed_is_told() -> None:
    urls = {"DELAY_HTTP_DESTINATIONS": "https://hooks.example.com/*"}
    [sentence] = said(urls)

    assert "Without signatures" in sentence
    assert said(urls | {"DELAY_HTTP_SECRETS_FILE": "/dev/null"}) == []


def test_who_signs_people_in_without_a_secret_between_workers_is_told() -> None:
    signed = FINE | {"DELAY_WEB_USERS_FILE": "/etc/punctual/users"}
    [sentence] = said(signed)

    assert "DELAY_WEB_SECRET is not set" in sentence
    assert said(signed | {"DELAY_WEB_SECRET": "between us and nobody else"}) == []
