"""Prints Strimzi resources for the settings in the environment: python deploy/strimzi.py --cluster my-cluster."""

import argparse
import re
from collections.abc import Iterator

from app.base.errors import SettingInvalid
from app.engine.topics.internal_topics import plan, when_needed
from app.ops.doctor.acl_lines import STRIMZI_API, quoted, strimzi
from app.settings.settings import Settings

_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]")


def resources(settings: Settings, cluster: str, user: str) -> str:
    """Return a KafkaTopic for each topic of an installation, and the KafkaUser of its workers."""
    topics = plan(settings.topics, cold=bool(settings.retention.horizon_ms)) | when_needed(settings.topics)
    documents = [
        "\n".join(_topic(settings, cluster, name, partitions, config))
        for name, (partitions, config) in topics.items()
        # Topics of others that are read from too: whoever they are of says how they are.
        if name not in settings.topics.extra_inputs
    ]
    return "\n---\n".join([*documents, strimzi(settings, f"User:{user}", cluster=cluster)])


def _topic(settings: Settings, cluster: str, name: str, partitions: int, config: dict[str, str]) -> Iterator[str]:
    yield f"apiVersion: {STRIMZI_API}"
    yield "kind: KafkaTopic"
    yield "metadata:"
    yield f"  name: {quoted(_NOT_IN_NAMES.sub('-', name.lower()).strip('-.'))}"
    yield "  labels:"
    yield f"    strimzi.io/cluster: {quoted(cluster)}"
    yield "spec:"
    yield f"  topicName: {quoted(name)}"
    yield f"  partitions: {partitions}"
    yield f"  replicas: {settings.topics.replication_factor}"
    yield "  config:"
    for key, value in config.items():
        yield f"    {key}: {quoted(value)}"


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="my-cluster", help="the name of the Kafka (%(default)s)")
    parser.add_argument("--user", default="punctual", help="the name of the KafkaUser (%(default)s)")
    options = parser.parse_args()
    try:
        settings = Settings.from_env()
    except SettingInvalid as error:
        parser.error(str(error))
    print(resources(settings, options.cluster, options.user))


if __name__ == "__main__":
    main()
