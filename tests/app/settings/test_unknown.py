"""Unknown variables that look like settings are reported, and other variables are not."""

import pytest

from app.settings.declared import variables
from app.settings.settings import Settings
from app.settings.unknown import REMOVED, unknown


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
    [sentence] = list(unknown({typo: "x"}))

    assert sentence.startswith(f"{typo} is set")
    assert f"did you mean {meant}?" in sentence


def test_a_name_that_is_near_none_is_named_alone() -> None:
    [sentence] = list(unknown({"DELAY_XYZZY": "1"}))

    assert "it is ignored" in sentence


def test_what_kubernetes_sets_for_services_called_delay_is_no_mistake() -> None:
    names = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_6066_TCP", "PORT_6066_TCP_PROTO"]
    names += ["PORT_6066_TCP_PORT", "PORT_6066_TCP_ADDR"]
    env = {f"DELAY{service}_{name}": "x" for service in ("", "_REQUESTS", "_WEB_2") for name in names}

    assert list(unknown(env)) == []


def test_no_setting_and_no_other_variable_is_a_mistake() -> None:
    env = {"DELAY_APP_ID": "x", "PATH": "/bin", "MY_DELAY_DESTINATION": "x", "KAFKA_SASL_USERNAME": "x"}

    assert list(unknown(env)) == []


def test_a_former_setting_is_reported_with_its_replacement() -> None:
    [sentence] = unknown({"DELAY_GATEWAY_CONNECTIONS": "5000"})

    assert sentence == (
        "DELAY_GATEWAY_CONNECTIONS is set, but is no longer a setting: a gateway has at most 1,000 connections. "
        "Remove it."
    )


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_each_removed_setting_is_named_once_and_is_none_any_more(name: str) -> None:
    [sentence] = unknown({name: "1", "DELAY_APP_ID": "x"})

    assert sentence.startswith(f"{name} is set, but is no longer a setting: ")
    assert name not in {variable for setting in Settings.declared() for variable in variables(setting)}
