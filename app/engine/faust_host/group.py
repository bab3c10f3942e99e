"""The consumer group, where Faust or aiokafka would leave a worker alive and idle."""

from typing import Any

import aiokafka
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor

from app.base.errors import GroupLost


class Assignor(PartitionAssignor):
    """Takes an assignment that was made for this member when it had another address.

    A static member that comes back is given the assignment that it had, with the address (PORT, WORKER_URL) that it
    had; Faust asserts that it is still the same (partition_assignor.py:144), and with that the member would be lost.
    """

    def on_assignment(self, assignment: Any) -> None:
        """Take an assignment."""
        given = ClientMetadata.loads(self._decompress(assignment.user_data))
        moved = self._compress(given.derive(url=str(self._url)).dumps())
        super().on_assignment(type(assignment)(assignment.version, assignment.assignment, moved))


def check(consumer: aiokafka.AIOKafkaConsumer | None) -> None:
    """Check that a consumer's coordinator, which keeps it in its group, still runs, and was not refused by its broker.

    aiokafka's coordinator ends at an error that it does not expect (consumer/group_coordinator.py:593), and keeps a
    refusal for whoever fetches next (`_push_error_to_user`): a worker without partitions never fetches.

    Raises GroupLost if it has ended, or was refused.
    """
    coordinator = getattr(consumer, "_coordinator", None)
    refusal = getattr(coordinator, "_pending_exception", None)
    if refusal is not None:
        raise GroupLost(refusal)
    task = getattr(coordinator, "_coordination_task", None)
    if task is not None and task.done() and not task.cancelled() and task.exception() is not None:
        raise GroupLost(task.exception())
