"""What a worker is told by environment variables, and what follows from it: names of topics, limits, addresses."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from app.base import topic_names
from app.base.http.allow_list import AllowList, allow_list
from app.settings.declared import setting
from app.settings.gateway import GATEWAY_DEDUPE_MS, SPOOL, GatewaySettings
from app.settings.kafka import KafkaSettings
from app.settings.quotas import Quota, quotas
from app.settings.rates import optional, rates
from app.settings.values import (
    LEAST_FREE_DISK,
    each,
    lower_words,
    one_of,
    pairs,
    patterns,
    processes,
    topic_name,
    url_patterns,
    whole,
    words,
)
from app.settings.web import WebSettings
from punctual.contract import queue_report
from punctual.contract.dialects.dialects import NATIVE, Dialect, dialect_of
from punctual.contract.namespaced import with_namespace
from punctual.contract.namespaces import Namespaces, parse_namespaces
from punctual.contract.policies import Policies, parse_policies, with_policies
from punctual.contract.rate import Rate
from punctual.contract.times import parse_duration
from tables.entry import VERSION

_GUARANTEES = ("at_least_once", "exactly_once")
MAX_PARTITIONS = 10_000
#: A sender makes workers remember an id for no longer: each takes disk space until its window ends. Operators may.
MOST_DEDUPE_MS = 30 * 86_400_000
#: Of what the cold tier is told of ids so much is remembered at least, two minutes of it for clocks that differ and
#: records that are not readable yet.
COLD_MEMORY_MS = 10 * 60_000
#: A command for an ID that is not pending is remembered for this long, and so is the end of a message: producers retry
#: for minutes, and a late request must not undo a later command. Ten minutes of ended messages fit on a small disk.
COMMAND_MEMORY_MS = 10 * 60_000
#: Begins what DELAY_ACCEPT_LOSS has of a topic that was deleted and created again.
RECREATED = "recreated:"
#: Hosts that stand for all addresses of a machine: nobody else reaches it by them.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings(KafkaSettings, GatewaySettings, WebSettings):
    """All that a worker can be told. Durations and times are milliseconds, sizes bytes."""

    app_id: str = setting("DELAY_APP_ID", "delay", topic_name)
    extra_inputs: dict[str, str] = setting("DELAY_INPUTS", "", pairs)
    policies: dict[str, Policies] = setting("DELAY_POLICIES", "", each(parse_policies))
    namespaces: Namespaces = setting("DELAY_NAMESPACES", "", parse_namespaces)
    quotas: dict[str, Quota] = setting("DELAY_QUOTAS", "", quotas)
    partitions: int = setting("DELAY_PARTITIONS", "16", whole(1, MAX_PARTITIONS))
    repartitioned: str = setting("DELAY_REPARTITIONED", "off", one_of("off", "on"))
    replication_factor: int = setting("DELAY_REPLICATION_FACTOR", "3", whole(1, 100))
    destinations: dict[str, tuple[str, ...]] = setting("DELAY_DESTINATIONS", "", patterns)
    callbacks: dict[str, tuple[str, ...]] = setting("DELAY_CALLBACKS", "", url_patterns)
    http_destinations: dict[str, tuple[str, ...]] = setting("DELAY_HTTP_DESTINATIONS", "", url_patterns)
    http_headers: tuple[str, ...] = setting("DELAY_HTTP_HEADERS", "", lower_words)
    http_secrets_file: str = setting("DELAY_HTTP_SECRETS_FILE", "")
    log_format: str = setting("DELAY_LOG_FORMAT", "text", one_of("text", "json"))
    kernel: str = setting("PUNCTUAL_KERNEL", "auto", one_of("auto", "off", "require"))
    guarantee: str = setting("DELAY_GUARANTEE", "at_least_once", one_of("at_least_once", "exactly_once"))
    dedupe_window_ms: int = setting("DELAY_DEDUPE_WINDOW", "0", parse_duration)
    horizon_ms: int = setting("DELAY_HORIZON", "0", parse_duration)
    session_timeout_ms: int = setting("DELAY_SESSION_TIMEOUT", "PT6S", parse_duration)
    catch_up_ms: int = setting("DELAY_CATCH_UP", "PT2M", parse_duration)
    max_in_flight: int = setting("DELAY_MAX_IN_FLIGHT", "4000", whole(1, 1_000_000))
    give_up_ms: int = setting("DELAY_GIVE_UP", "0", parse_duration)
    rates: dict[str, Rate] = setting("DELAY_RATES", "", rates)
    catch_up_rate: Rate | None = setting("DELAY_CATCH_UP_RATE", "0", optional)
    min_free_disk: int = setting("DELAY_MIN_FREE_DISK", str(1 << 30), whole(LEAST_FREE_DISK))
    row_version: int = setting("DELAY_ROW_VERSION", "0", whole(0, VERSION))
    accept_loss: tuple[str, ...] = setting("DELAY_ACCEPT_LOSS", "", words)
    max_destinations: int = setting("DELAY_MAX_DESTINATIONS", "10000", whole(1))
    worker_url: str = setting("WORKER_URL", "")
    datadir: str = setting("DATADIR", "")
    host: str = setting("HOST", "127.0.0.1")
    port: int = setting("PORT", "6066", whole(1, 65_535))
    processes: int = setting("DELAY_PROCESSES", "1", processes)

    # topics ----------------------------------------------------------------------------------------------------------
    @property
    def requests(self) -> str:
        """The topic that takes requests and commands."""
        return f"{self.app_id}-requests"

    @property
    def forwards(self) -> str:
        """The topic for records on their way to their id's home partition."""
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
        """The topic where each partition says how far it is and what it holds."""
        return f"{self.app_id}-progress"

    @property
    def controls(self) -> str:
        """The topic where operators pause destinations and say how much they get."""
        return f"{self.app_id}-controls"

    @property
    def audit(self) -> str:
        """The topic of what people have done over HTTP, if anybody has."""
        return f"{self.app_id}-audit"

    @property
    def jobs(self) -> str:
        """The topic of acts on all that match a filter, if there has been one."""
        return f"{self.app_id}-jobs"

    @property
    def queues(self) -> str:
        """The topic where consumers of acknowledged queues say how they are, if there is one."""
        return queue_report.topic_of(self.app_id)

    @property
    def receipts(self) -> str:
        """The topic of requests with a key that have come to gateways, if there is one."""
        return f"{self.app_id}-receipts"

    @property
    def dead_letters(self) -> str:
        """The topic for what could not be accepted or delivered."""
        return f"{self.app_id}-dead-letters"

    @property
    def cold(self) -> str:
        """The topic for what is due beyond the horizon, and for what concerns ids that may be parked."""
        return f"{self.app_id}-cold"

    @property
    def inputs(self) -> dict[str, str]:
        """Input topics and their dialects, each with what follows its name, the requests topic first."""
        return {self.requests: NATIVE.name, **self.extra_inputs}

    def dialect(self, topic: str) -> Dialect:
        """Return the dialect of an input topic, with its namespace and its policies.

        What comes from elsewhere, as forwards do, is spoken of in our own.
        """
        dialect = dialect_of(self.extra_inputs.get(topic, NATIVE.name))
        policies, namespace = self.policies.get(topic), self.namespaces.of_topic(topic)
        if namespace:
            dialect = with_namespace(dialect, self.namespaces, namespace)
        return dialect if policies is None else with_policies(dialect, policies)

    def url_list(self, source: str) -> AllowList:
        """Return the URLs that requests on the input `source` may have as destinations."""
        return allow_list(self.http_destinations.get(source, ()) + self.http_destinations.get("*", ()))

    def callback_list(self, source: str) -> AllowList:
        """Return the URLs that requests on the input `source` may have as failure callbacks."""
        patterns = self.callbacks.get(source, ()) + self.callbacks.get("*", ())
        return allow_list(patterns, ("https", "http"))

    @property
    def internal_topics(self) -> frozenset[str]:
        """Topics that no message may be delivered to."""
        named = (self.forwards, self.changelog, self.events_topic, self.progress, self.dead_letters, self.cold)
        others = (self.controls, self.queues, self.audit, self.jobs, self.receipts, *topic_names.fixed(self.app_id))
        return frozenset({*named, *others, *self.inputs})

    # what is remembered ----------------------------------------------------------------------------------------------
    @property
    def exactly_once(self) -> bool:
        """Whether deliveries are part of transactions."""
        return self.guarantee == "exactly_once"

    @property
    def longest_dedupe_ms(self) -> int:
        """How long a delivery may be remembered: what the settings themselves ask for is allowed."""
        of_inputs = (policies.dedupe_ms or 0 for policies in self.policies.values())
        return max(MOST_DEDUPE_MS, self.dedupe_window_ms, *of_inputs)

    @property
    def gateway_dedupe_ms(self) -> int:
        """How long the delivery of a message from a gateway is remembered, unless the message or its input says."""
        return max(GATEWAY_DEDUPE_MS, self.dedupe_window_ms)

    @property
    def cold_memory_ms(self) -> int:
        """How long it is remembered what the cold tier was told of an id."""
        return max(self.dedupe_window_ms, COLD_MEMORY_MS)

    @property
    def orders_ms(self) -> int:
        """How long orders for an id that is not pending are remembered."""
        return max(COMMAND_MEMORY_MS, self.dedupe_window_ms) if self.horizon_ms else COMMAND_MEMORY_MS

    def accepts_recreated(self, topic: str) -> bool:
        """Return whether it is accepted that a topic was deleted and created again."""
        return f"{RECREATED}{topic}" in self.accept_loss

    def skipped(self, log: str) -> frozenset[int]:
        """Return the offsets in a changelog partition, `topic-partition`, whose records are left out."""
        named = (record.rpartition("-") for record in self.accept_loss)
        return frozenset(int(offset) for name, _, offset in named if name == log)

    # places ----------------------------------------------------------------------------------------------------------
    @property
    def data_path(self) -> Path:
        """The data directory; by default it follows from the port, so that workers run side by side."""
        return Path(self.datadir or f".data/{self.app_id}-{self.port}")

    @property
    def gateway_path(self) -> Path:
        """The gateway's data directory: by default it follows from its port, so that gateways run side by side.

        In DATADIR it does not: a gateway on another port goes on with the spool. A spool that an earlier version has
        left in DATADIR itself, or in the default place, is used where it is.
        """
        default = Path(f".data/{self.app_id}-gateway-{self.gateway_port}")
        if not self.datadir:
            return default
        place = Path(self.datadir) / "gateway"
        return next((one for one in (place, Path(self.datadir), default) if (one / SPOOL).is_dir()), place)

    @property
    def public(self) -> bool:
        """Whether others than this machine reach the console."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed over HTTP: by default where others reach the port and nobody signs in."""
        if self.web_read_only == "auto":
            return self.public and not self.signs_in
        return self.web_read_only == "on"

    @property
    def people_url(self) -> str:
        """The address at which people open the console."""
        return (self.web_url or self.url).rstrip("/")

    @property
    def url(self) -> str:
        """The address at which other workers and people reach this worker's console."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return self.worker_url or f"http://{host}:{self.port}"
