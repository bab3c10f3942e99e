"""What a destination is called: by its topic alone on our own cluster, else with the cluster's name.

`@` is in no topic's name, so that both can be told from what a report has.
"""

_AT = "@"


def named(cluster: str | None, topic: str) -> str:
    """Return a destination's name in reports and addresses: `orders`, or `orders@other`."""
    return topic if cluster is None else f"{topic}{_AT}{cluster}"


def described(name: str) -> str:
    """Return such a name in words: `orders`, or `orders on cluster other`."""
    topic, at, cluster = name.partition(_AT)
    return f"{topic} on cluster {cluster}" if at else topic
