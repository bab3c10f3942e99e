"""What the routes of a gateway work with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from app.gateway.desk.receipts import Receipts
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """The parts of a gateway; whoever has metrics registers a collector with `metrics`.

    Each of `unready` says what the gateway waits for before it is to be asked for something, None for nothing.
    """

    settings: Settings
    connection: KafkaConnection
    intake: Intake
    receipts: Receipts
    metrics: CollectorRegistry
    unready: list[Callable[[], str | None]] = field(default_factory=list)
