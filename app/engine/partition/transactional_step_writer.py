"""Exactly once: each step of a partition is a transaction that includes its deliveries."""

import asyncio

from app.engine.partition.in_flight import InFlight
from app.engine.partition.services import Services
from app.engine.partition.step_deliveries import StepDeliveries
from app.engine.partition.step_writer import StepHooks, StepWriter
from app.engine.steps.step import Step
from app.kafka.transactions.transaction import Untaken


class TransactionalStepWriter(StepWriter):
    """Commits each step in one transaction with the deliveries that wait for it."""

    def __init__(
        self, number: int, services: Services, in_flight: InFlight, hooks: StepHooks, deliveries: StepDeliveries
    ) -> None:
        """Write the steps of partition `number`, each with the deliveries that wait in `deliveries`."""
        super().__init__(number, services, in_flight, hooks)
        self._deliveries = deliveries

    async def _build(self, step: Step) -> "list[asyncio.Future[None]]":
        """Fill a step with records and outcomes; leave it to the deliveries if the last step had no room for them."""
        if self._deliveries.crowded_out:
            self._wake.set()
            return []
        return await self._builder.build(step, self._wake.set)

    async def _commit(self, step: Step) -> None:
        """Commit a step with its deliveries, or without deliveries if a destination does not take its batch."""
        if self._deliveries.outdated(asyncio.get_running_loop().time()):
            self._hooks.withdraw()
        self._hooks.top_up()
        self._deliveries.put_into(step, self._clock.wall_ms())
        if self._deliveries:
            self._wake.set()
        while step:
            self.committing_s = asyncio.get_running_loop().time()
            try:
                for delivered in await self.journal.deliver(self._number, step):
                    self._builder.apply(step, delivered)
                await self.journal.commit(self._number, step)
            except Untaken as untaken:
                self._deliveries.take_back(step, untaken)
                self._wake.set()
            else:
                self._finish(step)
                self.committing_s = None
                return
        self.committing_s = None
        self._in_flight.end_step()
