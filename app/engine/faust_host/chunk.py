"""Records handed to Faust's agent a whole fetch at a time, instead of one by one."""

from collections.abc import Sequence
from typing import Any

import faust


class Chunk:
    """Records of one topic partition, in order."""

    __slots__ = ("_records", "generation", "heavy", "partition", "topic")

    def __init__(self, records: Sequence[Any], generation: int, *, heavy: bool = False) -> None:
        """Wrap records that were fetched in a generation of the group; `heavy` ones have many bytes."""
        self.generation, self.heavy = generation, heavy
        self.topic, self.partition = records[0].topic, records[0].partition
        self._records = records

    def unwrap(self) -> Sequence[Any]:
        """Return the records, only once: Faust keeps the chunk in a reference cycle, which is collected much later."""
        records, self._records = self._records, ()
        return records


class FetchedChunks:
    """The chunks of one fetch, which Faust handles as one message of one topic partition."""

    __slots__ = (
        "_chunks",
        "checksum",
        "headers",
        "key",
        "offset",
        "partition",
        "serialized_key_size",
        "serialized_value_size",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(self, chunks: Sequence[Chunk], offset: int) -> None:
        """Wrap chunks; the place of the first one and an `offset` there represent all."""
        self.topic, self.partition, self.offset = chunks[0].topic, chunks[0].partition, offset
        self.timestamp = self.key = self.headers = self.checksum = self.timestamp_type = None
        self.value = self
        self._chunks = chunks
        self.serialized_key_size = self.serialized_value_size = 0

    def unwrap(self) -> Sequence[Chunk]:
        """Return the chunks, only once, as Chunk does its records."""
        chunks, self._chunks = self._chunks, ()
        return chunks


class ChunkSchema(faust.Schema):
    """Passes chunks to the agent unchanged: dialects decode the records, not Faust."""

    def compile(self, app: Any, **_: Any) -> Any:
        """Return the decoder that Faust's conductor calls (faust/serializers/schemas.py)."""
        create_event = app.create_event

        async def decode(message: Any, **_: Any) -> Any:
            return create_event(None, message.value, None, message)

        return decode
