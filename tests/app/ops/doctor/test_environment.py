"""Likely mistakes in the environment are named, and nothing else is."""

import pytest

from app.ops.doctor.environment import doubts
from app.settings.settings import Settings

FINE = {"DELAY_DESTINATIONS": "*"}


def said(env: dict[str, str]) -> list[str]:
    return list(doubts(Settings.from_env(env), env))


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("DELAY_DESTINATION", "DELAY_DESTINATIONS"),
        ("DELAY_APPID", "DELAY_APP_ID"),
        ("DELAY_GARANTEE", "DELAY_GUARANTEE"),
        ("DELAY_DEDUP_WINDOW", "DELAY_DEDUPE_WINDOW"),
    ],
)
def test_a_name_that_is_near_a_setting_is_named_with_it(typo: str, meant: str) -> None:
    [sentence] = said(FINE | {typo: "x"})

    assert sentence.startswith(f"{typo} is set")
    assert f"did you mean {meant}?" in sentence


def test_a_name_that_is_near_none_is_named_alone() -> None:
    [sentence] = said(FINE | {"DELAY_XYZZY": "1"})

    assert "it is ignored" in sentence


def test_what_kubernetes_sets_for_services_called_delay_is_no_mistake() -> None:
    names = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_6066_TCP", "PORT_6066_TCP_PROTO"]
    names += ["PORT_6066_TCP_PORT", "PORT_6066_TCP_ADDR"]
    env = {f"DELAY{service}_{name}": "x" for service in ("", "_REQUESTS", "_WEB_2") for name in names}

    assert said(FINE | env) == []


def test_no_setting_and_no_other_variable_is_a_mistake() -> None:
    env = {"DELAY_APP_ID": "x", "PATH": "/bin", "MY_DELAY_DESTINATION": "x", "KAFKA_SASL_USERNAME": "x"}

    assert said(FINE | env) == []


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
