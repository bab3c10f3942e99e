"""What the routes of a gateway work with."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from app.gateway.connection import Connection
from app.gateway.intake import Intake
from app.gateway.receipts import Receipts
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a gateway; whoever has metrics registers a collector with `metrics`."""

    settings: Settings
    connection: Connection
    intake: Intake
    receipts: Receipts
    metrics: CollectorRegistry
