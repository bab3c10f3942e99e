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
from app.kafka.errors import BatchRejected, Recalled, TooLarge, TopicUnknown
from app.kafka.produce.batch import Ack, Batch
from app.serve.messages.acceptance import Submission
from punctual.contract.request import Reason

log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


async def deliver(connection: KafkaConnection, place: Place, submissions: Sequence[Submission]) -> list[Outcome]:
    """Return the outcome of each record, all of one place and in order; waits as long as Kafka is down.

    Raises NotAuthorised if the gateway may not write there.
    """
    outcomes: list[Outcome] = []
    while len(outcomes) < len(submissions):
        batch = Batch()
        for submission in submissions[len(outcomes) :]:
            if not batch.append(Clock.wall_ms(), submission.key, submission.value, submission.headers):
                break
        part = submissions[len(outcomes) : len(outcomes) + batch.count]
        try:
            ack = await _acknowledged(connection, place, batch)
        except (TooLarge, BatchRejected) as error:
            outcomes += await _apart(connection, place, part, error)
        else:
            outcomes += _taken(place, ack, batch.count)
    return outcomes


async def _apart(
    connection: KafkaConnection, place: Place, submissions: Sequence[Submission], error: TooLarge | BatchRejected
) -> list[Outcome]:
    """Deliver records that are refused together in two halves; a record that is refused alone is refused for good."""
    if len(submissions) == 1:
        reason = Reason.TOO_LARGE if isinstance(error, TooLarge) else Reason.INVALID_RECORD
        return [Refused(reason.value, str(error))]
    half = len(submissions) // 2
    before = await deliver(connection, place, submissions[:half])
    return [*before, *await deliver(connection, place, submissions[half:])]


async def _acknowledged(connection: KafkaConnection, place: Place, batch: Batch) -> Ack:
    """Return the broker's acknowledgement of a batch; waits for a missing topic."""
    sender = await connection.sender()
    while True:
        try:
            return await sender.submit(*place, batch)
        except (TopicUnknown, Recalled):
            await asyncio.sleep(_AGAIN_S)


def _taken(place: Place, ack: Ack, count: int) -> list[Outcome]:
    """Return the outcomes of a batch of `count` records.

    A batch that was sent twice has no offset if the broker does not remember it (KIP-98: -1).
    """
    stamp = ack.timestamp_ms if ack.timestamp_ms >= 0 else None
    first = ack.offset
    return [
        Taken(spooled=False, partition=place[1], offset=first + i if first >= 0 else None, timestamp_ms=stamp)
        for i in range(count)
    ]


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
