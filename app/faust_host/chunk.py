"""Records handed to Faust's agent whole chunks at a time, instead of one by one."""

from collections.abc import Sequence
from typing import Any

import faust


class Chunk:
    """Records of one topic partition, in order, that Faust handles as one message."""

    __slots__ = (
        "_records",
        "checksum",
        "generation",
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

    def __init__(self, records: Sequence[Any], generation: int) -> None:
        """Wrap records that were fetched in a generation of the group; their last one's place stands for all."""
        self.generation = generation
        last = records[-1]
        self.topic, self.partition, self.offset = last.topic, last.partition, last.offset
        self.timestamp = last.timestamp
        self.key = self.headers = self.checksum = self.timestamp_type = None
        self.value = self
        self._records = records
        self.serialized_key_size = self.serialized_value_size = 0

    def unwrap(self) -> Sequence[Any]:
        """Return the records, once: what Faust keeps of a chunk is in a cycle, and collected much later."""
        records, self._records = self._records, ()
        return records


class ChunkSchema(faust.Schema):
    """Hands a chunk through to the agent as it is: records are decoded by their dialect, not by Faust."""

    def compile(self, app: Any, **_: Any) -> Any:
        """Return the decoder that Faust's conductor calls (faust/serializers/schemas.py)."""
        create_event = app.create_event

        async def decode(message: Any, **_: Any) -> Any:
            return create_event(None, message.value, None, message)

        return decode
