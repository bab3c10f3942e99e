"""Delivers records to one partition, and returns their outcomes; a record that Kafka refuses becomes a dead letter."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from app.base.clock import Clock
from app.engine.steps.dead_letters import unsent
from app.engine.topics.internal_topics import INPUT_BYTES
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.errors import DeadLetterRefused
from app.gateway.spool.spool_store import Place
from app.gateway.spool.submission import Outcome, Refused, Taken
from app.kafka.errors import BatchRejected, SendError, TooLarge, TopicUnknown
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.records import send_records
from app.serve.messages.acceptance import Submission
from punctual.contract.request import Reason

log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


async def deliver(connection: KafkaConnection, place: Place, submissions: Sequence[Submission]) -> list[Outcome]:
    """Return the outcome of each record, all of one place and in order; waits as long as Kafka is down.

    Raises NotAuthorised if the gateway may not write there.
    """

    async def submit(batch: Batch) -> Ack:
        sender = await connection.sender()
        while True:
            try:
                return await sender.submit(*place, batch)
            except TopicUnknown:
                await asyncio.sleep(_AGAIN_S)

    records = [(one.key, one.value, one.headers) for one in submissions]
    return [_outcome(place, stored) for stored in await send_records(records, Clock.wall_ms, submit)]


def _outcome(place: Place, stored: Ack | SendError) -> Outcome:
    if isinstance(stored, (TooLarge, BatchRejected)):
        reason = Reason.TOO_LARGE if isinstance(stored, TooLarge) else Reason.INVALID_RECORD
        return Refused(reason.value, str(stored))
    if isinstance(stored, SendError):
        raise stored
    offset, at_ms = stored
    return Taken(False, place[1], offset if offset >= 0 else None, at_ms if at_ms >= 0 else None)  # noqa: FBT003 - fast


async def bury(
    connection: KafkaConnection, dead_letters: str, place: Place, submission: Submission, refused: Refused
) -> None:
    """Write a refused record to the topic `dead_letters`, and wait until it is in Kafka, without a time limit.

    Raises NotAuthorised if the gateway may not write there, DeadLetterRefused if Kafka refuses the dead letter.
    """
    record = submission.key, submission.value, submission.headers
    letter = unsent(dead_letters, INPUT_BYTES, place[1], record, Reason(refused.reason), refused.sentence)
    written = Submission(letter.topic, letter.partition, letter.key, letter.value, letter.headers, submission.id)
    [outcome] = await deliver(connection, (letter.topic, letter.partition), [written])
    if isinstance(outcome, Refused):
        raise DeadLetterRefused(
            f"{submission.id} is refused ({refused.sentence}), and so is its dead letter: {outcome}"
        )
    log.error("Kafka refused %s from the spool. It is now a dead letter: %s", submission.id, refused.sentence)
