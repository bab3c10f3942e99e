"""Settings of the gateway alone, which no worker reads. docs/reference/settings.md documents each of them."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import LEAST_FREE_DISK, whole
from punctual.contract.times import parse_duration


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """All that a gateway can be told beside where Kafka is. Durations are milliseconds, sizes bytes."""

    gateway_port: int = setting("DELAY_GATEWAY_PORT", "6067", whole(1, 65_535))
    gateway_datadir: str = setting("DELAY_GATEWAY_DATADIR", "")
    gateway_patience_ms: int = setting("DELAY_GATEWAY_PATIENCE", "PT2S", parse_duration)
    gateway_spool_bytes: int = setting("DELAY_GATEWAY_SPOOL_BYTES", str(1 << 30), whole(0))
    gateway_spool_age_ms: int = setting("DELAY_GATEWAY_SPOOL_AGE", "PT12H", parse_duration)
    gateway_batch: int = setting("DELAY_GATEWAY_BATCH", "1000", whole(1, 100_000))
    gateway_dedupe_ms: int = setting("DELAY_GATEWAY_DEDUPE", "P1D", parse_duration)
    gateway_min_free_disk: int = setting("DELAY_GATEWAY_MIN_FREE_DISK", str(256 << 20), whole(LEAST_FREE_DISK))
    gateway_tokens_file: str = setting("DELAY_GATEWAY_TOKENS_FILE", "")
    gateway_max_body: int = setting("DELAY_GATEWAY_MAX_BODY", str(4 << 20), whole(1_024, 64 << 20))
    gateway_connections: int = setting("DELAY_GATEWAY_CONNECTIONS", "1000", whole(10, 60_000))
    gateway_connections_of_one: int = setting("DELAY_GATEWAY_CONNECTIONS_OF_ONE", "500", whole(1, 60_000))
