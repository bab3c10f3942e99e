"""What of a row means what: the options of a bulk request as values."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mapping:
    """SQL expressions over a row's columns, unless it says otherwise.

    `job` is a name, with which ids begin; `natural_key` are columns that together tell a message from all others, used
    if there is no `id`. `value_columns` (names; none: all) are sent as one JSON object if there is no `value`. In
    `headers` are names and expressions, in their order. `policies` are headers of the contract that are the same for
    all, and their values.
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
    """What makes a row too much: due times from now on and sizes, in milliseconds and bytes."""

    now_ms: int
    max_delay_ms: int
    max_bytes: int
