"""Reads the state of a cluster, without writing anything or creating topics."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import aiokafka.errors as kafka
import msgspec
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import ApiVersionRequest, DescribeConfigsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from app.base.clock import Clock
from app.kafka.metadata.authorized import DescribeGroup, DescribeTopics, operations
from app.ops.doctor.facts import ClusterFacts, PartitionReplicas, Topic, Versions
from punctual.security.reason import reason
from punctual.security.tls import end_ms

#: The timeouts of one request, and of all together.
_REQUEST_MS, _ALL_S = 5_000, 20.0
#: The number of topics per request for settings: unpacking more would block the event loop.
_AT_ONCE = 20
_TOPIC, _BROKER, _GROUP = 2, 4, 0
_IDS = "transactional.id.expiration.ms"
_SESSION = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")


async def ask(
    bootstrap: str, topics: Collection[str], options: Mapping[str, Any], group: str | None = None
) -> ClusterFacts:
    """Return the facts about a cluster, topics and a group; its `error` is the reason if they cannot be read.

    `options` are aiokafka's security options.
    """
    client = AIOKafkaClient(bootstrap_servers=bootstrap, request_timeout_ms=_REQUEST_MS, **options)
    began_ms = Clock.monotonic_ms()
    try:
        async with asyncio.timeout(_ALL_S):
            await client.bootstrap()
            answered_ms = Clock.monotonic_ms() - began_ms
            facts = await _Asked(client).facts(topics, group)
            return msgspec.structs.replace(facts, bootstrap=bootstrap, answered_ms=answered_ms)
    except TimeoutError:
        return ClusterFacts(bootstrap=bootstrap, error=f"no response within {_ALL_S:g} s")
    except kafka.KafkaConnectionError:
        why = await reason(bootstrap, options) or "no broker responds, or it refuses the connection"
        return ClusterFacts(bootstrap=bootstrap, error=why)
    except (kafka.KafkaError, OSError) as error:
        return ClusterFacts(bootstrap=bootstrap, error=str(error) or type(error).__name__)
    finally:
        await client.close()


class _Asked:
    """A cluster that responds."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._nodes = sorted(broker.nodeId for broker in client.cluster.brokers())

    async def facts(self, topics: Collection[str], group: str | None) -> ClusterFacts:
        session_ms, id_expiration_ms = await self._kept()
        versions = await asyncio.gather(*(self._versions(node) for node in self._nodes))
        answer = await self._any(DescribeTopics(topics))
        described = {one[1]: _topic(*one) for one in answer.topics}
        configs = await self._configs([name for name, topic in described.items() if topic.there])
        return ClusterFacts(
            bootstrap="",
            brokers=dict(zip(self._nodes, versions, strict=True)),
            controller=answer.controller_id,
            session_ms=session_ms,
            id_expiration_ms=id_expiration_ms,
            topics={name: _completed(topic, configs.get(name)) for name, topic in described.items()},
            group_operations=None if group is None else await self._group(group),
            certificates=self._certificates(),
        )

    def _certificates(self) -> dict[str, int]:
        """Return when the certificates of brokers expire."""
        certificates = {}
        for (node, _), connection in self._client._conns.items():  # noqa: SLF001 - aiokafka has no other way
            writer = connection._writer  # noqa: SLF001 - the same
            shown = writer.get_extra_info("peercert") if writer is not None else None
            if shown:
                certificates[f"broker {node}"] = end_ms(shown)
        return certificates

    async def _any(self, request: Any) -> Any:
        """Return the response of the first broker that has one. Raises KafkaError if none has."""
        for node in self._nodes:
            try:
                return await self._client.send(node, request)
            except NotImplementedError as error:
                raise kafka.IncompatibleBrokerVersion("its brokers are older than Kafka 2.3") from error
            except kafka.KafkaError as error:
                last = error
        raise last if self._nodes else kafka.KafkaConnectionError("it has no broker")

    async def _versions(self, node: int) -> Versions | None:
        try:
            answer = await self._client.send(node, ApiVersionRequest())
        except kafka.KafkaError:
            return None
        return {key: (oldest, newest) for key, oldest, newest in answer.api_versions}

    async def _configs(self, topics: list[str]) -> dict[str, tuple[int, Any]]:
        configs = {}
        for first in range(0, len(topics), _AT_ONCE):
            resources = [(_TOPIC, topic, None) for topic in topics[first : first + _AT_ONCE]]
            answer = await self._any(DescribeConfigsRequest(resources))
            configs.update({name: (error, entries) for error, _, _, name, entries in answer.resources})
        return configs

    async def _kept(self) -> tuple[tuple[int, int] | None, int | None]:
        """Return the bounds of session timeouts, and how long transactional ids are kept; None where it is unknown."""
        node = self._nodes[0]
        try:
            answer = await self._client.send(node, DescribeConfigsRequest([(_BROKER, str(node), [*_SESSION, _IDS])]))
        except (kafka.KafkaError, NotImplementedError):
            return None, None
        [(error, _, _, _, entries)] = answer.resources
        settings = {} if error else {name: int(value) for name, value, *_ in entries if value is not None}
        shortest, longest = (settings.get(name) for name in _SESSION)
        return (None if shortest is None or longest is None else (shortest, longest)), settings.get(_IDS)

    async def _group(self, group: str) -> frozenset[str] | None:
        """Return the allowed operations on a group, None if they are unknown."""
        try:
            coordinator = await self._any(FindCoordinatorRequest(group, _GROUP))
            if coordinator.error_code:
                return frozenset() if _is_forbidden(coordinator.error_code) else None
            answer = await self._client.send(coordinator.coordinator_id, DescribeGroup(group))
        except (kafka.KafkaError, NotImplementedError):
            return None
        error, *_, bits = answer.groups[0]
        return frozenset() if _is_forbidden(error) else operations(bits)


def _completed(topic: Topic, config: Any) -> Topic:
    """Return a topic with its settings, or with the error from reading them."""
    if config is None:
        return topic
    error, entries = config
    if error:
        return msgspec.structs.replace(topic, config_error=kafka.for_code(error).__name__)
    return msgspec.structs.replace(topic, config={name: value for name, value, *_ in entries})


def _topic(error: int, name: str, _internal: bool, partitions: Iterable[Any], bits: int) -> Topic:  # noqa: FBT001
    if error and kafka.for_code(error) is not kafka.LeaderNotAvailableError:
        return Topic(name=name, error=kafka.for_code(error).__name__)
    replicas = {
        number: PartitionReplicas(leader, tuple(all_), tuple(in_sync))
        for _, number, leader, _, all_, in_sync, _ in partitions
    }
    return Topic(
        name=name, partitions=tuple(replicas[number] for number in sorted(replicas)), operations=operations(bits)
    )


def _is_forbidden(error: int) -> bool:
    return kafka.for_code(error) in (kafka.GroupAuthorizationFailedError, kafka.ClusterAuthorizationFailedError)
