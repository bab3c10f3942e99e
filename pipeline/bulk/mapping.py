"""How a row becomes a request: the mapping and the limits of a bulk request."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mapping:
    """The fields of a request, as SQL expressions over a row's columns where no other meaning is given.

    Attributes:
        job: a name, the prefix of ids.
        at: the due time.
        to: the destination.
        value: the value, or None.
        value_columns: without `value`, the columns of the JSON object that is the value; empty for all columns.
        key: the key, or None.
        id: the id, or None.
        natural_key: without `id`, the columns that together identify a message.
        headers: names and expressions of the user's headers, in their order.
        to_partition: the destination partition, or None.
        policies: names and values of the contract's headers that are the same for all rows.
    """

    job: str
    at: str
    to: str
    value: str | None = None
    value_columns: tuple[str, ...] = ()
    key: str | None = None
    id: str | None = None
    natural_key: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    to_partition: str | None = None
    policies: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowLimits:
    """The time of the run (epoch ms), and the maximum delay (ms) and size (bytes) of a request."""

    now_ms: int
    max_delay_ms: int
    max_bytes: int
