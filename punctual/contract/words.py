"""What the parts of a request are called in its dialect, for sentences to its sender."""

from dataclasses import dataclass

from punctual.contract import headers as names


@dataclass(frozen=True, slots=True)
class Words:
    """The names of a dialect; where it has none, the native header stands beside it and says the same."""

    id: str = names.ID
    to: str = names.TO
    due: str = f"{names.AT} or {names.AFTER}"
    partition: str = names.TO_PARTITION
    cluster: str = names.TO_CLUSTER
    max_late: str = names.MAX_LATE
    on_failure: str = names.ON_FAILURE
