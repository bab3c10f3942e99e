"""An operation of the API, with its parameters, bodies and responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WORKER: Final = "worker"
GATEWAY: Final = "gateway"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of a URL, or a header of a request."""

    name: str
    where: str
    description: str
    example: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """A response: `body` names the possible structures of its body."""

    status: int
    description: str
    body: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `takes` names the possible structures of its body."""

    method: str
    path: str
    name: str
    summary: str
    description: str
    answers: tuple[OperationAnswer, ...]
    parameters: tuple[Parameter, ...] = ()
    takes: tuple[str, ...] = ()
    examples: Mapping[str, Any] = field(default_factory=dict)
    media_types: tuple[str, ...] = ("application/json",)
    problems: tuple[str, ...] = ()
    deprecated: bool = False
    #: The kind of process that serves it, empty for both.
    served_by: str = ""
