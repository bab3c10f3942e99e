"""Settings of the gateway alone, which no worker reads (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import one_of, whole

#: Messages that are sent again within a day are recognized: until then, each sender has its answer or has given up.
#: An id takes disk space until its window ends. DELAY_POLICIES sets another window for an input.
GATEWAY_DEDUPE_MS = 86_400_000
#: The directory of the spool, in a gateway's data directory.
SPOOL = "spool"


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewaySettings:
    """Settings that only a gateway has, in addition to Kafka's. Durations are milliseconds, sizes bytes."""

    port: int = setting("DELAY_GATEWAY_PORT", "6067", whole(1, 65_535))
    spool_bytes: int = setting("DELAY_GATEWAY_SPOOL_BYTES", str(1 << 30), whole(0))
    confluent: str = setting("GATEWAY_CONFLUENT", "off", one_of("on", "off"))
