"""Records that Kafka refuses for good though they were promised: they become dead letters."""

import logging

from app.engine.steps.dead_letters import unsent
from app.engine.topics.internal_topics import INPUT_BYTES
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.delivery import deliver
from app.gateway.spool.errors import DeadLetterRefused
from app.gateway.spool.spool_store import Place
from app.gateway.spool.submission import Refused, Submission
from app.gateway.spool.tally import SpoolTally
from app.settings.settings import Settings
from punctual.contract.request import Reason

log = logging.getLogger(__name__)


class Poison:
    """Writes such records to the dead letters topic, where they are seen and can be sent again."""

    def __init__(self, settings: Settings, connection: KafkaConnection, tally: SpoolTally) -> None:
        """Write to the installation's topic."""
        self._topic, self._connection, self._tally = settings.dead_letters, connection, tally

    async def bury(self, place: Place, submission: Submission, refused: Refused) -> None:
        """Make a record a dead letter; returns when that is in Kafka, however long it takes.

        Raises NotAuthorised if the gateway may not write there, DeadLetterRefused if the letter is refused.
        """
        record = submission.key, submission.value, submission.headers
        letter = unsent(self._topic, INPUT_BYTES, place[1], record, Reason(refused.reason), refused.sentence)
        written = Submission(letter.topic, letter.partition, letter.key, letter.value, letter.headers, submission.id)
        [outcome] = await deliver(self._connection, (letter.topic, letter.partition), [written])
        if isinstance(outcome, Refused):
            raise DeadLetterRefused(
                f"{submission.id} is refused ({refused.sentence}), and so is its dead letter: {outcome}"
            )
        self._tally.buried += 1
        log.error("Kafka refused %s from the spool. It is now a dead letter: %s", submission.id, refused.sentence)
