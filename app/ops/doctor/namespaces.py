"""Checks the isolation of teams, and how much of their quotas is used."""

from collections.abc import Iterator

from app.ops.doctor.facts import Facts
from app.ops.doctor.finding import Finding
from app.serve.web.overview_rows import NamespaceRow, namespace_rows
from app.settings.kafka import KafkaSettings
from app.settings.quotas import of_all
from app.settings.topics import TopicSettings

CHECK = "namespaces"
#: The share of a quota from which on there is a warning.
_MUCH = 0.9


def check(kafka: KafkaSettings, topics: TopicSettings, facts: Facts) -> Iterator[Finding]:
    """Yield the state of namespaces, if there are any."""
    if not topics.namespaces:
        return
    trusted = [topic for topic in topics.inputs if not topics.namespaces.of_topic(topic)]
    closed = ", ".join([*trusted, topics.forwards, topics.controls])
    if kafka.security_protocol == "PLAINTEXT":
        sentence = (
            f"anyone who can reach the brokers at {kafka.bootstrap} can write to every topic, so namespaces only "
            "prevent accidents. Require authentication (KAFKA_SECURITY_PROTOCOL), and let no team write to "
            f"{closed}."
        )
        yield Finding("warning", CHECK, topics.requests, sentence)
    else:
        sentence = f"use ACLs to keep teams from writing to {closed}: records there can name every ID."
        yield Finding("ok", CHECK, topics.requests, sentence)
    for row in namespace_rows(facts.reports.values(), of_all(topics.quotas, topics.namespaces)):
        yield _used(row)


def _used(row: NamespaceRow) -> Finding:
    for number, limit, what in (
        (row.messages, row.messages_limit, "messages"),
        (row.bytes, row.bytes_limit, "bytes of messages"),
        (row.remembered, row.remembered_limit, "remembered ids"),
    ):
        if limit is not None and number >= _MUCH * limit:
            sentence = (
                f"the namespace {row.namespace} holds {number:,} {what} of {limit:,}: further messages are refused as "
                "quota. Find the cause, or raise DELAY_QUOTAS."
            )
            return Finding("warning", CHECK, row.namespace, sentence)
    return Finding(
        "ok", CHECK, row.namespace, f"{row.messages:,} messages of the namespace {row.namespace} are pending."
    )
