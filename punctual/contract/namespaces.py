"""Namespaces: whose an id is, and how it is named in full (records.md#namespaces)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES, Reason, Refusal

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
#: What ends an automatic id, that of an occurrence too: `-<partition>-<offset>` or `-<partition>-<offset>@<due>`.
_PLACE: Final = re.compile(r"-\d{1,19}-\d{1,19}(@\d{1,19})?", re.ASCII)
_MARK: Final = "/"


def namespace_name(text: str) -> str:
    """Return a namespace's name as it is. Raises ValueError if it cannot be one."""
    if not _NAME.fullmatch(text):
        msg = (
            f"{text[:64]!r} is not the name of a namespace. Use 1 to 63 lower-case letters, digits, dots, underscores "
            "or hyphens, the first a letter or a digit"
        )
        raise ValueError(msg)
    return text


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Which input belongs to which namespace. The full name of the id `x` in the namespace `a` is `a/x`.

    "" is no namespace: what is shared. Inputs without one are trusted, and name every id in full.
    """

    #: The namespaces of input topics that have one.
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: Namespaces that no input has: those of others who name ids in full.
    others: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.inputs or self.others)

    def __str__(self) -> str:
        """Return them as DELAY_NAMESPACES says them, in one order."""
        return ",".join([*(f"{topic}={name}" for topic, name in sorted(self.inputs.items())), *sorted(self.others)])

    @property
    def names(self) -> frozenset[str]:
        """All namespaces that there are."""
        return self.others.union(self.inputs.values())

    def part(self, wanted: Iterable[str]) -> "Namespaces":
        """Return some of these namespaces: ids of others are in none of them."""
        kept = self.names.intersection(wanted)
        inputs = {topic: name for topic, name in self.inputs.items() if name in kept}
        return Namespaces(inputs, kept.difference(inputs.values()))

    def of_topic(self, topic: str) -> str:
        """Return the namespace of an input topic, "" if it has none."""
        return self.inputs.get(topic, "")

    def of_id(self, id_: str) -> str:
        """Return the namespace that the full name of an id belongs to, "" if that is none."""
        prefix, mark, _ = id_.partition(_MARK)
        if mark:
            return prefix if prefix in self.others or prefix in self.inputs.values() else ""
        return self._of_automatic(id_)

    def full(self, namespace: str, id_: str) -> str:
        """Return the full name of an id in a namespace; one that has it already keeps it.

        So does an automatic id, `<topic>-<partition>-<offset>`, of an input of the namespace. Raises Refusal if the
        full name is too long.
        """
        if not namespace or id_.startswith(namespace + _MARK) or self._of_automatic(id_) == namespace:
            return id_
        name = f"{namespace}{_MARK}{id_}"
        if (size := len(name.encode())) > ID_BYTES:
            sentence = (
                f"{names.ID} has {size} bytes with its namespace ({namespace}{_MARK}). The maximum is {ID_BYTES}."
            )
            raise Refusal(Reason.BAD_ID, sentence)
        return name

    def _of_automatic(self, id_: str) -> str:
        """Return the namespace of the input that has given an id, "" if none has."""
        topic = id_.rsplit("-", 2)[0]
        namespace = self.inputs.get(topic, "")
        return namespace if namespace and _PLACE.fullmatch(id_, len(topic)) else ""


def parse_namespaces(text: str) -> Namespaces:
    """Return the namespaces that `text` says: `orders-delays=team-a,billing-delays=team-b,team-c`.

    One that no input has stands alone. Raises ValueError with a sentence.
    """
    inputs: dict[str, str] = {}
    others = set[str]()
    for item in filter(None, (part.strip() for part in text.split(","))):
        topic, equals, name = item.rpartition("=")
        if equals and (not topic or topic in inputs):
            msg = f"{item!r} {'gives an input a second namespace' if topic else 'has no input before the ='}"
            raise ValueError(msg)
        if equals:
            inputs[topic] = namespace_name(name)
        else:
            others.add(namespace_name(name))
    return Namespaces(inputs, frozenset(others))
