"""Settings of an installation's topics, and the names that follow from them (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.base import topic_names
from app.settings.declared import setting
from app.settings.quotas import Quota, quotas
from app.settings.values import each, one_of, pairs, topic_name, whole
from punctual.contract import queue_report
from punctual.contract.dialects.dialects import NATIVE, Dialect, dialect_of
from punctual.contract.namespaced import with_namespace
from punctual.contract.namespaces import Namespaces, parse_namespaces
from punctual.contract.policies import Policies, parse_policies, with_policies

MAX_PARTITIONS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSettings:
    """The topics of an installation, and the dialects, policies, namespaces and quotas of its inputs."""

    app_id: str = setting("DELAY_APP_ID", "delay", topic_name)
    extra_inputs: dict[str, str] = setting("DELAY_INPUTS", "", pairs, shared=True)
    policies: dict[str, Policies] = setting("DELAY_POLICIES", "", each(parse_policies), shared=True)
    namespaces: Namespaces = setting("DELAY_NAMESPACES", "", parse_namespaces, shared=True)
    quotas: dict[str, Quota] = setting("DELAY_QUOTAS", "", quotas, shared=True)
    partitions: int = setting("DELAY_PARTITIONS", "16", whole(1, MAX_PARTITIONS), shared=True)
    repartitioned: str = setting("DELAY_REPARTITIONED", "off", one_of("off", "on"), shared=True)
    replication_factor: int = setting("DELAY_REPLICATION_FACTOR", "3", whole(1, 100), shared=True)

    @property
    def requests(self) -> str:
        """The topic of requests and commands."""
        return f"{self.app_id}-requests"

    @property
    def forwards(self) -> str:
        """The topic of records on their way to the home partition of their id."""
        return topic_names.forwards(self.app_id, self.repartitioned == "on" and self.partitions)

    @property
    def changelog(self) -> str:
        """The table's changelog topic."""
        return topic_names.changelog(self.app_id, self.repartitioned == "on" and self.partitions)

    @property
    def events_topic(self) -> str:
        """The topic of events, one per change in a message's lifecycle."""
        return f"{self.app_id}-events"

    @property
    def progress(self) -> str:
        """The topic in which each partition reports its progress and its number of pending messages."""
        return f"{self.app_id}-progress"

    @property
    def controls(self) -> str:
        """The topic with the pauses and rate limits that operators set."""
        return f"{self.app_id}-controls"

    @property
    def audit(self) -> str:
        """The topic of actions over HTTP; the first action creates it."""
        return f"{self.app_id}-audit"

    @property
    def jobs(self) -> str:
        """The topic of jobs, which act on all messages that match a filter; the first job creates it."""
        return f"{self.app_id}-jobs"

    @property
    def queues(self) -> str:
        """The topic of reports by consumers of acknowledged queues; it exists if there are such consumers."""
        return queue_report.topic_of(self.app_id)

    @property
    def receipts(self) -> str:
        """The topic of gateways' requests that have a key; it exists if there are gateways."""
        return f"{self.app_id}-receipts"

    @property
    def dead_letters(self) -> str:
        """The topic of refused requests and undeliverable messages."""
        return f"{self.app_id}-dead-letters"

    @property
    def cold(self) -> str:
        """The topic of messages due beyond the horizon, and of commands for ids that may be parked."""
        return f"{self.app_id}-cold"

    @property
    def internal_topics(self) -> frozenset[str]:
        """Topics that no message may be delivered to."""
        named = (self.forwards, self.changelog, self.events_topic, self.progress, self.dead_letters, self.cold)
        others = (self.controls, self.queues, self.audit, self.jobs, self.receipts, *topic_names.fixed(self.app_id))
        return frozenset({*named, *others, *self.inputs})

    # inputs ----------------------------------------------------------------------------------------------------------
    @property
    def inputs(self) -> dict[str, str]:
        """Input topics with their dialects and the dialects' options, the requests topic first."""
        return {self.requests: NATIVE.name, **self.extra_inputs}

    def dialect(self, topic: str) -> Dialect:
        """Return the dialect of an input topic, with its namespace and its policies.

        Topics that are not inputs, such as forwards, use our own dialect.
        """
        dialect = dialect_of(self.extra_inputs.get(topic, NATIVE.name))
        policies, namespace = self.policies.get(topic), self.namespaces.of_topic(topic)
        if namespace:
            dialect = with_namespace(dialect, self.namespaces, namespace)
        return dialect if policies is None else with_policies(dialect, policies)
