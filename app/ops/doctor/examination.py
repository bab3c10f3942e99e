"""Collects the facts about an installation, and runs all checks."""

import asyncio
from collections.abc import Collection, Iterator, Mapping

import msgspec

from app.base.clock import Clock
from app.engine.reports.reader import ProgressReader, Report
from app.ops.doctor import (
    brokers,
    certificates,
    clocks,
    destinations,
    disk,
    lag,
    machine,
    namespaces,
    permissions,
    process,
    topics,
    workers,
)
from app.ops.doctor.cluster import ask
from app.ops.doctor.facts import ClockFacts, ClusterFacts, Facts
from app.ops.doctor.finding import Finding, Level, ordered, worst
from app.settings.kafka import KafkaSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings
from punctual.security import Login, kafka_options

#: The timeout for the reports of all partitions, which take some hundred milliseconds, or more over a slow network.
_REPORTS_S = 10.0
_FETCH_MS = 100


class Examination(msgspec.Struct, frozen=True):
    """The findings at one moment, the worst first; `reached` says whether our own cluster has responded."""

    at_ms: int
    level: Level
    reached: bool
    findings: list[Finding]


async def examine(
    settings: Settings,
    env: Mapping[str, str],
    *,
    reports: Mapping[int, Report] | None = None,
    clock: ClockFacts | None = None,
) -> Examination:
    """Examine the cluster, the workers and this machine, without writing anything.

    A worker passes the `reports` that it has read, and its `clock`; otherwise the reports are read here.
    """
    named = destinations.named(settings.destinations)
    own, *others = await asyncio.gather(
        _ask(
            settings.kafka.bootstrap,
            [*topics.names(settings.topics), *named],
            settings.kafka.login,
            settings.topics.app_id,
        ),
        *(_ask(servers, named, settings.kafka.login_to(name)) for name, servers in settings.kafka.clusters.items()),
    )
    here = await asyncio.to_thread(machine.look, settings.data_path)
    read = True
    if reports is None:
        reports, read = await _read(settings.kafka, settings.topics, own)
    facts = Facts(
        now_ms=Clock.wall_ms(),
        cluster=own,
        machine=here,
        others=dict(zip(settings.kafka.clusters, others, strict=True)),
        reports=dict(reports),
        reports_read=read,
        clock=clock,
        own_url="" if clock is None else settings.process.url,
        env=env,
    )
    ordered_findings = ordered(findings(settings, facts))
    return Examination(facts.now_ms, worst(ordered_findings), not own.error, ordered_findings)


def findings(settings: Settings, facts: Facts) -> Iterator[Finding]:
    """Yield the findings of all checks."""
    for name, cluster in {"": facts.cluster, **facts.others}.items():
        yield from brokers.check(cluster, name, exactly_once=settings.engine.exactly_once and not name)
        yield from certificates.check(cluster, facts.now_ms, name)
    if not facts.cluster.error:
        yield from brokers.check_session(facts.cluster, settings.engine.session_timeout_ms)
        if settings.engine.exactly_once:
            yield from brokers.check_ids(facts.cluster)
        yield from topics.check(settings.topics, settings.retention, facts)
        yield from lag.check(settings.topics, facts)
        yield from destinations.check(settings.topics, settings.destinations, facts)
        yield from permissions.check(settings, facts)
        yield from clocks.check(facts)
        yield from workers.check(settings, facts)
        yield from namespaces.check(settings.kafka, settings.topics, facts)
    yield from disk.check(facts.machine)
    yield from process.check(settings.topics, settings.destinations, settings.web, facts)


async def _ask(bootstrap: str, named: Collection[str], login: Login, group: str | None = None) -> ClusterFacts:
    """Return the facts about a cluster, with the expiry of the certificates in the login's files."""
    facts = await ask(bootstrap, named, kafka_options(login), group)
    return msgspec.structs.replace(facts, certificates={**facts.certificates, **certificates.of_files(login)})


async def _read(
    kafka: KafkaSettings, topic_settings: TopicSettings, cluster: ClusterFacts
) -> tuple[Mapping[int, Report], bool]:
    """Return the last report of each partition, and whether all could be read."""
    topic = cluster.topics.get(topic_settings.progress)
    if topic is None or not topic.there:
        return {}, topic is None or topic.absent
    reader = ProgressReader(
        kafka.bootstrap,
        topic_settings.progress,
        partitions=topic_settings.partitions,
        fetch_max_wait_ms=_FETCH_MS,
        **kafka.options(),
    )
    await reader.start()
    try:
        async with asyncio.timeout(_REPORTS_S):
            await reader.caught_up.wait()
    except TimeoutError:
        pass  # the reports until now are used
    finally:
        await reader.stop()
    return reader.reports, reader.caught_up.is_set()
