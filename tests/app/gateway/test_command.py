"""`faust -A app gateway` names the variables that it ignores."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.base.errors import SettingInvalid
from app.gateway.command import gateway
from app.settings.gateway import SPOOL
from tests.harness.gateway import GatewayProcess


@pytest.mark.core
def test_a_gateway_warns_once_of_each_variable_that_is_no_setting(tmp_path: Path) -> None:
    env = {"DELAY_GATEWAY_PATIENCE": "100", "DELAY_GATEWAY_SPOOL_BITES": "1"}
    with GatewayProcess("127.0.0.1:1", "delay", tmp_path / "gateway", env=env) as gateway:
        warnings = [line for line in gateway.log.splitlines() if "DELAY_" in line]

    assert len(warnings) == 2
    assert "DELAY_GATEWAY_PATIENCE is set, but is no longer a setting: a gateway waits 2 seconds" in warnings[0]
    assert "did you mean DELAY_GATEWAY_SPOOL_BYTES?" in warnings[1]


@pytest.mark.parametrize("datadir", ["", "elsewhere"])
def test_a_spool_that_the_former_setting_names_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, datadir: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "former" / SPOOL).mkdir(parents=True)
    env = {name: None for name in os.environ if name.startswith(("DELAY_", "DATADIR"))}
    named = {"DELAY_GATEWAY_DATADIR": "former", "DATADIR": datadir}
    refused = CliRunner().invoke(gateway, env={**env, **named}).exception

    assert isinstance(refused, SettingInvalid)
    assert "Set DATADIR to this directory instead" in str(refused)
