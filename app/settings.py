"""Settings: environment variables, typed and checked at start. docs/reference/settings.md documents each of them."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from app import topic_names
from app.errors import SettingInvalid
from app.http.allow_list import AllowList, allow_list
from app.rates import optional, rates
from app.settings_checks import COLD_MEMORY_MS, check
from app.settings_values import (
    each,
    lower_words,
    one_of,
    pairs,
    patterns,
    processes,
    servers,
    topic_name,
    url_patterns,
    urls,
    web_address,
    whole,
    words,
)
from punctual.contract import queue_report
from punctual.contract.dialects import NATIVE, Dialect, dialect_of
from punctual.contract.policies import Policies, parse_policies, with_policies
from punctual.contract.rate import Rate
from punctual.contract.times import parse_duration
from tables.entry import VERSION

MAX_PARTITIONS = 10_000
#: Hosts that stand for all addresses of a machine: nobody else reaches it by them.
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on


def _is_secret(env: str) -> bool:
    return "PASSWORD" in env or env.endswith("_SECRET")


def _setting(env: str, default: str, parse: Callable[[str], Any] = str, was: str = "") -> Any:
    """Declare a setting; `was` is the name that it had before, which goes on working."""
    return field(repr=not _is_secret(env), metadata={"env": env, "default": default, "parse": parse, "was": was})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All that a worker can be told. Durations and times are milliseconds, sizes bytes."""

    bootstrap: str = _setting("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092", servers)
    security_protocol: str = _setting(
        "KAFKA_SECURITY_PROTOCOL", "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    sasl_mechanism: str = _setting(
        "KAFKA_SASL_MECHANISM", "SCRAM-SHA-512", one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    sasl_username: str = _setting("KAFKA_SASL_USERNAME", "")
    sasl_password: str = _setting("KAFKA_SASL_PASSWORD", "")
    ssl_cafile: str = _setting("KAFKA_SSL_CAFILE", "")
    ssl_certfile: str = _setting("KAFKA_SSL_CERTFILE", "")
    ssl_keyfile: str = _setting("KAFKA_SSL_KEYFILE", "")
    app_id: str = _setting("DELAY_APP_ID", "delay", topic_name)
    extra_inputs: dict[str, str] = _setting("DELAY_INPUTS", "", pairs)
    policies: dict[str, Policies] = _setting("DELAY_POLICIES", "", each(parse_policies))
    partitions: int = _setting("DELAY_PARTITIONS", "16", whole(1, MAX_PARTITIONS))
    repartitioned: str = _setting("DELAY_REPARTITIONED", "off", one_of("off", "on"))
    replication_factor: int = _setting("DELAY_REPLICATION_FACTOR", "3", whole(1, 100))
    min_insync_replicas: int = _setting("DELAY_MIN_INSYNC_REPLICAS", "2", whole(1, 100))
    destinations: dict[str, tuple[str, ...]] = _setting("DELAY_DESTINATIONS", "", patterns)
    callbacks: tuple[str, ...] = _setting("DELAY_CALLBACKS", "", urls)
    http_destinations: dict[str, tuple[str, ...]] = _setting("DELAY_HTTP_DESTINATIONS", "", url_patterns)
    http_headers: tuple[str, ...] = _setting("DELAY_HTTP_HEADERS", "", lower_words)
    http_give_up_ms: int = _setting("DELAY_HTTP_GIVE_UP", "P3D", parse_duration)
    http_secrets_file: str = _setting("DELAY_HTTP_SECRETS_FILE", "")
    clusters: dict[str, str] = _setting("DELAY_CLUSTERS", "", pairs)
    log_format: str = _setting("DELAY_LOG_FORMAT", "text", one_of("text", "json"))
    guarantee: str = _setting("DELAY_GUARANTEE", "at_least_once", one_of("at_least_once", "exactly_once"))
    max_delay_ms: int = _setting("DELAY_MAX_DELAY", "P1827D", parse_duration)
    events: str = _setting("DELAY_EVENTS", "on", one_of("on", "off"))
    dedupe_window_ms: int = _setting("DELAY_DEDUPE_WINDOW", "0", parse_duration)
    command_memory_ms: int = _setting("DELAY_COMMAND_MEMORY", "PT10M", parse_duration, was="DELAY_CANCEL_MEMORY")
    horizon_ms: int = _setting("DELAY_HORIZON", "0", parse_duration)
    catch_up_ms: int = _setting("DELAY_CATCH_UP", "PT2M", parse_duration)
    fire_batch: int = _setting("DELAY_FIRE_BATCH", "500", whole(1, 100_000))
    fire_depth: int = _setting("DELAY_FIRE_DEPTH", "4", whole(1, 1_000))
    give_up_ms: int = _setting("DELAY_GIVE_UP", "0", parse_duration)
    rates: dict[str, Rate] = _setting("DELAY_RATES", "", rates)
    catch_up_rate: Rate | None = _setting("DELAY_CATCH_UP_RATE", "0", optional)
    traces: str = _setting("DELAY_TRACES", "off", one_of("off", "on"))
    min_free_disk: int = _setting("DELAY_MIN_FREE_DISK", str(1 << 30), whole(0))
    row_version: int = _setting("DELAY_ROW_VERSION", "0", whole(0, VERSION))
    accept_recreated: tuple[str, ...] = _setting("DELAY_ACCEPT_RECREATED", "", words)
    skip_records: tuple[str, ...] = _setting("DELAY_SKIP_RECORDS", "", words)
    max_destinations: int = _setting("DELAY_MAX_DESTINATIONS", "10000", whole(1))
    worker_url: str = _setting("WORKER_URL", "")
    datadir: str = _setting("DATADIR", "")
    host: str = _setting("HOST", "127.0.0.1")
    web_hosts: tuple[str, ...] = _setting("DELAY_WEB_HOSTS", "", words)
    web_payloads: str = _setting("DELAY_WEB_PAYLOADS", "shown", one_of("shown", "masked"))
    web_read_only: str = _setting("DELAY_WEB_READ_ONLY", "auto", one_of("auto", "on", "off"))
    web_secret: str = _setting("DELAY_WEB_SECRET", "")
    web_users_file: str = _setting("DELAY_WEB_USERS_FILE", "")
    web_oidc_issuer: str = _setting("DELAY_WEB_OIDC_ISSUER", "", web_address)
    web_oidc_client_id: str = _setting("DELAY_WEB_OIDC_CLIENT_ID", "")
    web_oidc_client_secret_file: str = _setting("DELAY_WEB_OIDC_CLIENT_SECRET_FILE", "")
    web_oidc_scopes: tuple[str, ...] = _setting("DELAY_WEB_OIDC_SCOPES", "openid,profile,email", words)
    web_oidc_roles: str = _setting("DELAY_WEB_OIDC_ROLES", "")
    web_url: str = _setting("DELAY_WEB_URL", "", web_address)
    web_metrics: str = _setting("DELAY_WEB_METRICS", "signed-in", one_of("signed-in", "open"))
    web_insecure: str = _setting("DELAY_WEB_INSECURE", "off", one_of("on", "off"))
    port: int = _setting("PORT", "6066", whole(1, 65_535))
    processes: int = _setting("DELAY_PROCESSES", "1", processes)

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from `env`.

        Raises SettingInvalid, which names the variable and says what it takes.
        """
        values = {}
        for setting in fields(cls):
            name, parse = setting.metadata["env"], setting.metadata["parse"]
            if not env.get(name) and env.get(setting.metadata["was"]):
                name = setting.metadata["was"]
            text = env.get(name) or setting.metadata["default"]
            try:
                values[setting.name] = parse(text)
            except ValueError as error:
                shown = "(not shown)" if _is_secret(name) else repr(text)
                raise SettingInvalid(name, shown, str(error)) from error
        settings = cls(**values)
        check(settings)
        return settings

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
        """Return the dialect of an input topic, with its policies.

        What comes from elsewhere, as forwards do, is spoken of in our own.
        """
        dialect = dialect_of(self.extra_inputs.get(topic, NATIVE.name))
        policies = self.policies.get(topic)
        return dialect if policies is None else with_policies(dialect, policies)

    def url_list(self, source: str) -> AllowList:
        """Return the URLs that requests on the input `source` may have as destinations."""
        return allow_list(self.http_destinations.get(source, ()) + self.http_destinations.get("*", ()))

    @property
    def internal_topics(self) -> frozenset[str]:
        """Topics that no message may be delivered to."""
        named = (self.forwards, self.changelog, self.events_topic, self.progress, self.dead_letters, self.cold)
        others = (*topic_names.fixed(self.app_id), self.controls, self.queues, self.audit, self.jobs)
        return frozenset({*named, *others, *self.inputs})

    # what is remembered ----------------------------------------------------------------------------------------------
    @property
    def exactly_once(self) -> bool:
        """Whether deliveries are part of transactions."""
        return self.guarantee == "exactly_once"

    @property
    def fire_room(self) -> int:
        """How many rows of a partition may be outstanding."""
        return self.fire_batch * self.fire_depth

    @property
    def cold_memory_ms(self) -> int:
        """How long it is remembered what the cold tier was told of an id."""
        return max(self.dedupe_window_ms, COLD_MEMORY_MS)

    @property
    def orders_ms(self) -> int:
        """How long orders for an id that is not pending are remembered."""
        return max(self.command_memory_ms, self.dedupe_window_ms) if self.horizon_ms else self.command_memory_ms

    def skipped(self, log: str) -> frozenset[int]:
        """Return the offsets in a changelog partition, `topic-partition`, whose records are left out."""
        named = (record.rpartition("-") for record in self.skip_records)
        return frozenset(int(offset) for name, _, offset in named if name == log)

    # places ----------------------------------------------------------------------------------------------------------
    @property
    def data_path(self) -> Path:
        """The data directory; by default it follows from the port, so that workers run side by side."""
        return Path(self.datadir or f".data/{self.app_id}-{self.port}")

    @property
    def public(self) -> bool:
        """Whether others than this machine reach the web view."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    @property
    def signs_in(self) -> bool:
        """Whether people have to sign in."""
        return bool(self.web_users_file or self.web_oidc_issuer)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed over HTTP: by default where others reach the port and nobody signs in."""
        if self.web_read_only == "auto":
            return self.public and not self.signs_in
        return self.web_read_only == "on"

    @property
    def people_url(self) -> str:
        """The address at which people open the web view."""
        return (self.web_url or self.url).rstrip("/")

    @property
    def url(self) -> str:
        """The address at which other workers and people reach this worker's web view."""
        host = socket.gethostname() if self.host in _EVERYWHERE else self.host
        return self.worker_url or f"http://{host}:{self.port}"

    def kafka_options(self) -> dict[str, Any]:
        """Return the security options that aiokafka's clients take."""
        options: dict[str, Any] = {"security_protocol": self.security_protocol}
        if "SSL" in self.security_protocol:
            context = ssl.create_default_context(cafile=self.ssl_cafile or None)
            if self.ssl_certfile:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile or None)
            options["ssl_context"] = context
        if self.security_protocol.startswith("SASL"):
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        return options
