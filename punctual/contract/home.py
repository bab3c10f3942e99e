"""The home partition of an id, which every command for the id must reach (records.md#commands)."""

from collections.abc import Collection

from murmurhash2 import murmurhash2

_SEED = 0x9747B28C  # Kafka's: org.apache.kafka.common.utils.Utils.murmur2
#: The maximum bytes of an id; int() takes no more than some thousand digits.
_LONGEST = 256
_POSITIVE = 0x7FFFFFFF  # Kafka drops the sign bit before it takes the remainder: Utils.toPositive


def key_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's own clients choose for `key` among `partitions`."""
    hashed: int = murmurhash2(key, _SEED)
    return (hashed & _POSITIVE) % partitions


def home_partition(message_id: bytes | str, inputs: Collection[str], partitions: int) -> int:
    """Return the home partition of an id: the same in every client and every worker.

    For an id of the shape `<input topic>-<partition>-<offset>` whose topic is one of `inputs` and whose partition is
    below `partitions`, it is that partition. Every other id is placed by Kafka's key hash.
    """
    raw = message_id.encode() if isinstance(message_id, str) else message_id
    if raw.count(b"-") > 1 and len(raw) <= _LONGEST:
        topic, partition, offset = raw.rsplit(b"-", 2)
        # bytes.isdigit accepts ASCII digits only, so that no other script's digits make a partition.
        if partition.isdigit() and offset.isdigit():
            home = int(partition)
            if home < partitions and _is_input(topic, inputs):
                return home
    return key_partition(raw, partitions)


def _is_input(topic: bytes, inputs: Collection[str]) -> bool:
    return topic.isascii() and topic.decode("ascii") in inputs
