"""Where messages go, and what that is called: by the topic alone on our own cluster, else with the cluster's name.

`@` is in no topic's name, so that both can be told from what a report has.
"""

import re
from typing import Final

from punctual.contract.request import TOPIC_NAME

#: Where a message goes: cluster (None: our own), topic, partition (-1: not known yet).
Route = tuple[str | None, str, int]
#: All of a topic: cluster (None: our own) and topic; or None and the origin of URLs, `https://host:port`.
Destination = tuple[str | None, str]

#: The partition of a route that a message without a key waits for: any of the topic. And that of callbacks' routes,
#: whose cluster is the host: what does not fit is held like a message whose destination is blocked.
ANY: Final = -3
CALLBACK: Final = -2

_AT = "@"
_ORIGIN = re.compile(r"https?://[^\s/?#@\\,=]{1,300}")


def named(cluster: str | None, topic: str) -> str:
    """Return a destination's name in reports and addresses: `orders`, or `orders@other`."""
    return topic if cluster is None else f"{topic}{_AT}{cluster}"


def described(name: str) -> str:
    """Return such a name in words: `orders`, or `orders on cluster other`."""
    topic, at, cluster = name.partition(_AT)
    return f"{topic} on cluster {cluster}" if at else topic


def destination(key: str) -> Destination:
    """Return the destination that operators call so: `orders`, `other/orders` or `https://host:port`.

    Raises ValueError with a sentence.
    """
    if _ORIGIN.fullmatch(key):
        return None, key
    cluster, slash, topic = key.rpartition("/")
    if not TOPIC_NAME.fullmatch(topic) or (slash and (not cluster or "/" in cluster)):
        msg = f"{key[:300]!r} is no destination. Write a topic, cluster/topic, or a URL without a path: https://host"
        raise ValueError(msg)
    return cluster or None, topic
