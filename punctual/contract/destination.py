"""Names of destinations: a topic, `cluster/topic`, or the origin of URLs."""

import re

from punctual.contract.request import TOPIC_NAME

#: A topic: its cluster (None: our own) and its name; or None and the origin of URLs, `https://host:port`.
Destination = tuple[str | None, str]

#: The parts of a valid or mistyped URL: scheme, slashes, and user, host and port.
_PARTS = re.compile(r"([a-z][a-z0-9+.-]*:(?=[/\\]))?([/\\]{0,2})([^/\\?#]*)", re.IGNORECASE | re.DOTALL)
#: Separates topic and cluster in the names of reports; topics' names cannot contain it.
_AT = "@"
_ORIGIN = re.compile(r"https?://[^\s/?#@\\,=]{1,300}")


def destination(name: str) -> Destination:
    """Parse the name of a destination: `orders`, `other/orders` or `https://host:port`.

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
    """Return the part of a destination that may be shown: a topic's name, or a URL's origin, `https://host:port`.

    User, password, path and query may be secrets, even in a URL that is refused because it is mistyped.
    """
    if TOPIC_NAME.fullmatch(to):
        return to
    match = _PARTS.match(to)
    assert match is not None, "each part may be empty"
    scheme, slashes, authority = match[1] or "", match[2], match[3].rpartition("@")[2]
    if "@" in to[match.end() :] and not authority.endswith("]") and not authority.rpartition(":")[2].isdecimal():
        authority = authority.partition(":")[0]  # a password with a slash would begin after the colon
    return f"{scheme}{slashes}{authority}"


def named(cluster: str | None, topic: str) -> str:
    """Return a destination's name in reports and addresses: `orders`, or `orders@other`."""
    return topic if cluster is None else f"{topic}{_AT}{cluster}"


def described(name: str) -> str:
    """Return a name from `named` in words: `orders`, or `orders on cluster other`."""
    topic, at, cluster = name.partition(_AT)
    return f"{topic} on cluster {cluster}" if at else topic
