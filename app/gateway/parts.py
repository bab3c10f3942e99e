"""The parts that a gateway's routes use."""

from collections.abc import Callable

from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.serve.messages.receipts import Receipts
from app.settings.settings import Settings


class GatewayParts:
    """The parts of a gateway; each function in `unready` returns why the gateway is not ready, or None."""

    def __init__(self, settings: Settings, connection: KafkaConnection, intake: Intake) -> None:
        self.settings, self.connection, self.intake = settings, connection, intake
        self.receipts = Receipts(settings.topics.requests, settings.topics.partitions)
        self.unready = list[Callable[[], str | None]]()
