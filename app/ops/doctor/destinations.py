"""Checks the topics in DELAY_DESTINATIONS: whether they exist, and accept the messages for them."""

import re
from collections.abc import Iterator

from app.ops.doctor.facts import Facts, Topic
from app.ops.doctor.finding import Finding
from app.settings.destinations import DestinationSettings
from app.settings.topics import TopicSettings
from punctual.contract.request import TOPIC_NAME

CHECK = "destinations"
_PATTERN = re.compile(r"[*?[]")


def named(destinations: DestinationSettings) -> list[str]:
    """Return the destinations that are complete, valid topic names."""
    patterns = dict.fromkeys(one for listed in destinations.allowed_topics.values() for one in listed)
    return [one for one in patterns if not _PATTERN.search(one) and TOPIC_NAME.fullmatch(one)]


def check(topic_settings: TopicSettings, destinations: DestinationSettings, facts: Facts) -> Iterator[Finding]:
    """Yield the state of each named destination, on our cluster and on the others that have it."""
    largest = _largest_request(topic_settings, facts)
    for name in named(destinations):
        if name in topic_settings.internal_topics:
            sentence = f"DELAY_DESTINATIONS names {name}, an internal topic. Nothing is delivered to it. Remove it."
            yield Finding("warning", CHECK, name, sentence)
            continue
        clusters = {where: topics[name] for where, topics in _clusters(facts).items() if name in topics}
        there = {where: topic for where, topic in clusters.items() if not topic.absent}
        if clusters and not there:
            sentence = (
                f"destination {name} does not exist: requests for it become dead letters. Create it, or remove it from "
                "DELAY_DESTINATIONS."
            )
            yield Finding("warning", CHECK, name, sentence)
        for where, topic in there.items():
            yield _one(topic, f" on cluster {where}" if where else "", largest)


def _clusters(facts: Facts) -> dict[str, dict[str, Topic]]:
    """Return the topics of each cluster that responds, our own under the empty name."""
    clusters = {"": facts.cluster, **facts.others}
    return {name: dict(cluster.topics) for name, cluster in clusters.items() if not cluster.error}


def _largest_request(topic_settings: TopicSettings, facts: Facts) -> int:
    topics = (facts.cluster.topics.get(name) for name in topic_settings.inputs)
    return max((int(one.config["max.message.bytes"]) for one in topics if one and one.config), default=0)


def _one(topic: Topic, where: str, largest: int) -> Finding:
    name, config = topic.name, topic.config or {}
    if not topic.there:
        sentence = f"destination {name}{where} cannot be described ({topic.error}). Grant Write on it."
        return Finding("warning", CHECK, name, sentence)
    headless = sum(one.leader < 0 for one in topic.partitions)
    if headless:
        sentence = (
            f"destination {name}{where} has {headless} partition(s) without a leader, so their messages are held. "
            "Check which of its brokers are down."
        )
        return Finding("warning", CHECK, name, sentence)
    takes = int(config.get("max.message.bytes", largest))
    if takes < largest:
        sentence = (
            f"destination {name}{where} accepts messages of up to {takes} bytes, the inputs up to {largest}: "
            "larger messages become "
            f"dead letters when they are due. Set max.message.bytes={largest} there."
        )
        return Finding("warning", CHECK, name, sentence)
    return Finding("ok", CHECK, name, f"destination {name}{where} exists, with {len(topic.partitions)} partition(s).")
