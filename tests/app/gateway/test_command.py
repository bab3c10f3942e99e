"""`faust -A app gateway` names what it ignores."""

from pathlib import Path

from tests.harness.gateway import GatewayProcess


def test_a_gateway_warns_once_of_each_variable_that_is_no_setting(tmp_path: Path) -> None:
    env = {"DELAY_GATEWAY_PATIENCE": "100", "DELAY_GATEWAY_SPOOL_BITES": "1"}
    with GatewayProcess("127.0.0.1:1", "delay", tmp_path / "gateway", env=env) as gateway:
        warnings = [line for line in gateway.log.splitlines() if "DELAY_" in line]

    assert len(warnings) == 2
    assert "DELAY_GATEWAY_PATIENCE is set, but is no longer a setting: a gateway waits 2 seconds" in warnings[0]
    assert "did you mean DELAY_GATEWAY_SPOOL_BYTES?" in warnings[1]
