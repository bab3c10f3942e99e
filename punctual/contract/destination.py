"""What operators call a destination: a topic, `cluster/topic`, or the origin of URLs."""

import re

from punctual.contract.request import TOPIC_NAME

#: All of a topic: cluster (None: our own) and topic; or None and the origin of URLs, `https://host:port`.
Destination = tuple[str | None, str]

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
        msg = f"{name[:300]!r} is no destination. Write a topic, cluster/topic, or a URL without a path: https://host"
        raise ValueError(msg)
    return cluster or None, topic
