"""What operators call a destination: a topic, `cluster/topic`, or the origin of URLs."""

import re

from punctual.contract.request import TOPIC_NAME

#: All of a topic: cluster (None: our own) and topic; or None and the origin of URLs, `https://host:port`.
Destination = tuple[str | None, str]

#: What is a URL, or is meant to be one: its scheme, what parts that from the host, and user, host and port.
_PARTS = re.compile(r"([a-z][a-z0-9+.-]*:(?=[/\\]))?([/\\]{0,2})([^/\\?#]*)", re.IGNORECASE | re.DOTALL)
#: Between topic and cluster in the names of reports; no topic's name has it.
_AT = "@"
_ORIGIN = re.compile(r"https?://[^\s/?#@\\,=]{1,300}")


def destination(name: str) -> Destination:
    """Return the destination that is called so: `orders`, `other/orders` or `https://host:port`.

    Raises ValueError with a sentence.
    """
    if _ORIGIN.fullmatch(name):
        origin = name.lower()
        return None, origin.removesuffix(":443" if origin.startswith("https:") else ":80")
    cluster, slash, topic = name.rpartition("/")
    if not TOPIC_NAME.fullmatch(topic) or (slash and (not cluster or "/" in cluster)):
        msg = f"{shown(name)[:300]!r} is not a destination. Use a topic, cluster/topic, or a URL without a path: https://host"
        raise ValueError(msg)
    return cluster or None, topic


def shown(to: str) -> str:
    """Return what may be shown of a destination: a topic's name, or of a URL the origin, `https://host:port`.

    User, password, path and query may be secrets, also of a URL that is refused because it is not written correctly.
    """
    if TOPIC_NAME.fullmatch(to):
        return to
    found = _PARTS.match(to)
    assert found is not None, "each part may be empty"
    scheme, slashes, authority = found[1] or "", found[2], found[3].rpartition("@")[2]
    if "@" in to[found.end() :] and not authority.endswith("]") and not authority.rpartition(":")[2].isdecimal():
        authority = authority.partition(":")[0]  # what follows is the beginning of a password that has a slash in it
    return f"{scheme}{slashes}{authority}"


def named(cluster: str | None, topic: str) -> str:
    """Return a destination's name in reports and addresses: `orders`, or `orders@other`."""
    return topic if cluster is None else f"{topic}{_AT}{cluster}"


def described(name: str) -> str:
    """Return such a name in words: `orders`, or `orders on cluster other`."""
    topic, at, cluster = name.partition(_AT)
    return f"{topic} on cluster {cluster}" if at else topic
