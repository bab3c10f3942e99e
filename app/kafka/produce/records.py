"""Sends records in batches, and finds the records that keep a broker from accepting a batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from app.kafka.errors import BatchRejected, Recalled, SendError, TooLarge
from app.kafka.produce.batch import Ack, Batch
from punctual.contract.request import Headers

#: Key, value and headers.
Record = tuple[bytes | None, bytes | None, Headers]

_AGAIN_S: Final = 0.05


async def send_records(
    records: Sequence[Record], now_ms: Callable[[], int], submit: Callable[[Batch], Awaitable[Ack]]
) -> list[Ack | SendError]:
    """Send records of one partition in order with `submit`, and return the outcome of each: its Ack, or its error.

    TooLarge and BatchRejected are the outcome of a record that is refused alone: a batch that is refused is sent again
    in halves. After another error no more records are sent, and it is the outcome of all that are left. The offset
    is -1 for a batch that was sent twice if the broker does not remember it (KIP-98).
    """
    outcomes: list[Ack | SendError] = []
    while len(outcomes) < len(records):
        batch = Batch()
        for record in records[len(outcomes) :]:
            if not batch.append(now_ms(), *record):
                break
        part = records[len(outcomes) : len(outcomes) + batch.count]
        try:
            ack = await submit(batch)
        except Recalled:
            await asyncio.sleep(_AGAIN_S)
        except (TooLarge, BatchRejected) as error:
            half = len(part) // 2
            # The loop goes on with the second half, unless another error has stopped the first one.
            outcomes += await send_records(part[:half], now_ms, submit) if half else [error]
            if _stops(outcomes[-1]):
                outcomes += [outcomes[-1]] * (len(records) - len(outcomes))
        except SendError as error:
            outcomes += [error] * (len(records) - len(outcomes))
        else:
            offsets = range(ack.offset, ack.offset + len(part)) if ack.offset >= 0 else [-1] * len(part)
            outcomes += [Ack(offset, ack.timestamp_ms) for offset in offsets]
    return outcomes


def _stops(outcome: Ack | SendError) -> bool:
    return isinstance(outcome, SendError) and not isinstance(outcome, (TooLarge, BatchRejected))


def offsets_of(outcomes: Sequence[Ack | SendError]) -> list[int]:
    """Return the offsets of records that were sent. Raises the error of the first record that was not."""
    for outcome in outcomes:
        if isinstance(outcome, SendError):
            raise outcome
    return [outcome.offset for outcome in outcomes if isinstance(outcome, Ack)]
