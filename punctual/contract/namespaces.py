"""Namespaces: the namespace of an id, and its full name (records.md#namespaces)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES, Reason, Refusal

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
#: The end of an automatic id, also of an occurrence: `-<partition>-<offset>` or `-<partition>-<offset>@<due>`.
_PLACE: Final = re.compile(r"-\d{1,19}-\d{1,19}(@\d{1,19})?", re.ASCII)
_MARK: Final = "/"


def namespace_name(text: str) -> str:
    """Return a namespace's name unchanged. Raises ValueError if it is invalid."""
    if not _NAME.fullmatch(text):
        msg = (
            f"{text[:64]!r} is not the name of a namespace. Use 1 to 63 lower-case letters, digits, dots, underscores "
            "or hyphens, the first a letter or a digit"
        )
        raise ValueError(msg)
    return text


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of inputs. The full name of the id `x` in the namespace `a` is `a/x`.

    "" is no namespace: shared ids. Inputs without a namespace are trusted, and use full names.
    """

    #: The namespaces of input topics that have one.
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: Namespaces without an input, for clients that use full names.
    others: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.inputs or self.others)

    def __str__(self) -> str:
        """Return them in the form of DELAY_NAMESPACES, sorted."""
        return ",".join([*(f"{topic}={name}" for topic, name in sorted(self.inputs.items())), *sorted(self.others)])

    @property
    def names(self) -> frozenset[str]:
        """The names of all namespaces."""
        return self.others.union(self.inputs.values())

    def part(self, wanted: Iterable[str]) -> "Namespaces":
        """Return only the `wanted` namespaces: ids of other namespaces then belong to none."""
        kept = self.names.intersection(wanted)
        inputs = {topic: name for topic, name in self.inputs.items() if name in kept}
        return Namespaces(inputs, kept.difference(inputs.values()))

    def of_topic(self, topic: str) -> str:
        """Return the namespace of an input topic, "" if it has none."""
        return self.inputs.get(topic, "")

    def of_id(self, id_: str) -> str:
        """Return the namespace of an id's full name, "" if it has none."""
        prefix, mark, _ = id_.partition(_MARK)
        if mark:
            return prefix if prefix in self.others or prefix in self.inputs.values() else ""
        return self._of_automatic(id_)

    def full(self, namespace: str, id_: str) -> str:
        """Return the full name of an id in a namespace; a full name stays unchanged.

        An automatic id, `<topic>-<partition>-<offset>`, of an input of the namespace also stays unchanged. Raises
        Refusal if the full name is too long.
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
        """Return the namespace of the input in an automatic id, "" if there is none."""
        topic = id_.rsplit("-", 2)[0]
        namespace = self.inputs.get(topic, "")
        return namespace if namespace and _PLACE.fullmatch(id_, len(topic)) else ""


def parse_namespaces(text: str) -> Namespaces:
    """Parse namespaces: `orders-delays=team-a,billing-delays=team-b,team-c`.

    A namespace without an input stands alone. Raises ValueError with a sentence.
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
