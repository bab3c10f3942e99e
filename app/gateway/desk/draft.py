"""A message as a body describes it: the record that it would be, and where in the body each part is said."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.gateway.http.problem import pointer
from punctual.contract.request import Headers


@dataclass(slots=True)
class Draft:
    """A record for an input topic, before anybody has looked whether it makes sense."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    #: What kind key and value were said to be, if they were.
    key_type: str | None = None
    value_type: str | None = None
    #: The partition that was asked for.
    partition: int | None = None
    #: JSON pointers of what says each native header, by its name.
    places: Mapping[str, str] = field(default_factory=dict)
    #: Where headers are, for what is said nowhere.
    otherwise: str = pointer()

    def place(self, name: str) -> str:
        """Return the JSON pointer of what says a native header, or of where it should be said."""
        return self.places.get(name, self.otherwise)

    @property
    def said(self) -> set[str]:
        """The names of the headers that are there."""
        return {name for name, _ in self.headers}
