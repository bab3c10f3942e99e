"""Header names that are not UTF-8: brokers accept them, and such a name must not stop a partition."""

import asyncio

from app.kafka import Batch
from tests.harness.raw import HOLE, RawBatch, send_batches
from tests.integration.installation import Installation


def batch_of(to: str, values: range, bad: set[int]) -> Batch:
    batch = RawBatch()
    for value in values:
        headers: list[tuple[str, bytes | None]] = [("delay-to", to.encode()), ("delay-after", b"0")]
        if value in bad:
            headers.append((HOLE.decode(), b"\x00"))
        assert batch.append(0, b"%d" % value, b"%d" % value, headers)
    return batch


def test_a_header_name_that_is_no_text_is_malformed_and_its_neighbours_are_delivered(
    installation: Installation,
) -> None:
    to, bad = installation.topic(), {0, 7, 8, 19, 20, 39}
    batches = [batch_of(to, range(begin, begin + 10), bad) for begin in range(0, 40, 10)]
    asyncio.run(send_batches(installation.bootstrap, installation.requests.topic, 0, *batches))

    records = installation.wait_for(to, 40 - len(bad))
    assert [int(record.value or b"") for record in records] == [n for n in range(40) if n not in bad]
    dead_letters = installation.dead_letters(*(b"%d" % number for number in bad))
    for dead_letter in dead_letters.values():
        assert dead_letter.header("delay-reason") == "malformed"
        assert "UTF-8" in dead_letter.header("delay-error")
        assert dead_letter.headers[2] == (r"\udcffname-that-is-not-so", b"\x00")
