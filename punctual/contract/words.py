"""A dialect's names for the parts of a request, for error messages."""

from dataclasses import dataclass

from punctual.contract import headers as names


@dataclass(frozen=True, slots=True)
class Words:
    """The names of a dialect; parts without a name of its own have the native header's."""

    id: str = names.ID
    to: str = names.TO
    due: str = f"{names.AT} or {names.AFTER}"
    partition: str = names.TO_PARTITION
    cluster: str = names.TO_CLUSTER
    max_late: str = names.MAX_LATE
    on_failure: str = names.ON_FAILURE
