"""The parts that a gateway's routes use."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.serve.messages.receipts import Receipts
from app.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """The parts of a gateway; parts with metrics register a collector with `metrics`.

    Each function in `unready` returns why the gateway is not ready, or None.
    """

    settings: Settings
    connection: KafkaConnection
    intake: Intake
    receipts: Receipts
    metrics: CollectorRegistry
    unready: list[Callable[[], str | None]] = field(default_factory=list)
