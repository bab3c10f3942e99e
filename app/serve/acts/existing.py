"""Whether a destination exists: a pause of a misspelt one would be in force, and hold nothing back."""

from app.base.http.allow_list import AllowList
from app.engine.engine import Engine
from punctual.contract.destination import Destination, named


class NotThere(Exception):
    """The destination does not exist, and no message waits for it: a sentence that says what to do."""


async def check_exists(engine: Engine, to: Destination) -> None:
    """Check that a destination exists: a topic, a URL pattern for it, a control, or messages that wait for it.

    Raises NotThere, or aiokafka.errors.KafkaError if no broker says whether the topic exists.
    """
    cluster, topic = to
    name = named(cluster, topic)
    if to in engine.controls.known or any(name in report.progress.pending for report in engine.reader.reports.values()):
        return
    if "://" in topic:
        settings = engine.settings
        allowed = (*settings.callbacks.values(), *settings.http_destinations.values())
        patterns = [pattern for patterns in allowed for pattern in patterns]
        if AllowList(patterns, ("https", "http")).reaches(topic):
            return
        raise NotThere(f"no pattern in DELAY_HTTP_DESTINATIONS or DELAY_CALLBACKS allows URLs of {topic}")
    target = engine.targets.get(cluster)
    if target is None:
        raise NotThere(f"DELAY_CLUSTERS has no cluster {cluster}")
    if target.cluster.partitions(topic) or not await target.cluster.refresh([topic]):
        return
    raise NotThere(
        f"the topic {topic} does not exist, and no message for it is pending. "
        "To pause a recurring message, use its ID: `punctual pause --id ID`"
    )
