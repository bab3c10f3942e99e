"""Settings of the gateway alone, which no worker reads. docs/reference/settings.md documents each of them."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import whole
from punctual.contract.times import parse_duration


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """All that a gateway can be told beside where Kafka is. Durations are milliseconds, sizes bytes."""

    gateway_port: int = setting("DELAY_GATEWAY_PORT", "6067", whole(1, 65_535))
    gateway_datadir: str = setting("DELAY_GATEWAY_DATADIR", "")
    gateway_spool_bytes: int = setting("DELAY_GATEWAY_SPOOL_BYTES", str(1 << 30), whole(0))
    gateway_dedupe_ms: int = setting("DELAY_GATEWAY_DEDUPE", "P1D", parse_duration)
    gateway_tokens_file: str = setting("DELAY_GATEWAY_TOKENS_FILE", "")
