"""Checks of settings against each other; app/settings/values.py checks each by itself."""

import re
from collections.abc import Collection, Iterable

from app.base.errors import SettingInvalid
from app.base.http.signatures import SecretsFile
from app.settings.destinations import DestinationSettings
from app.settings.engine import RECREATED, EngineSettings
from app.settings.kafka import KafkaSettings
from app.settings.process import ProcessSettings
from app.settings.quotas import OTHERS
from app.settings.retention import COLD_MEMORY_MS, RetentionSettings
from app.settings.topics import TopicSettings
from punctual.contract.destination import destination
from punctual.contract.dialects.dialects import dialect_of
from punctual.installing import install_command
from punctual.security.errors import LoginInvalid
from tables import native_extension
from tables.keys import MOVED, topic_crc

_MINUTE_MS = 60_000
#: The minimum session timeout: workers send a heartbeat every 1.5 s, and a few may get lost.
LEAST_SESSION_MS = 6_000
MOST_NAMESPACES = 300


def check(
    kafka: KafkaSettings,
    topics: TopicSettings,
    destinations: DestinationSettings,
    retention: RetentionSettings,
    engine: EngineSettings,
    process: ProcessSettings,
) -> None:
    """Check settings against each other. Raises SettingInvalid, which names a setting and says why."""
    _check_inputs(topics)
    if process.kernel == "require" and native_extension.module is None:
        install = install_command("punctual-kafka-worker[kernel]")
        brings = f"Build it in a checkout: `make build NAME=kernel`. Or {install}"
        why = (
            f"the native extension cannot be used: {native_extension.missing}. {brings}. To run without it, leave this "
            "setting out"
        )
        raise SettingInvalid("PUNCTUAL_KERNEL", process.kernel, why)
    if engine.session_timeout_ms < LEAST_SESSION_MS:
        why = f"the minimum is {LEAST_SESSION_MS // 1_000} seconds, such as PT6S"
        raise SettingInvalid("DELAY_SESSION_TIMEOUT", str(engine.session_timeout_ms), why)
    _check_rates(destinations.rates, kafka.clusters)
    _check_accepted(topics, engine.accept_loss)
    if retention.horizon_ms:
        _check_horizon(retention)
    _check_security(kafka)
    try:
        SecretsFile(destinations.http_secrets_file)
    except ValueError as error:
        raise SettingInvalid("DELAY_HTTP_SECRETS_FILE", repr(destinations.http_secrets_file), str(error)) from error


def _check_accepted(topics: TopicSettings, accept_loss: Iterable[str]) -> None:
    """Check that accepted losses in the changelog or the controls have the names that workers print."""
    for name in accept_loss:
        of_changelog = re.fullmatch(rf"{re.escape(topics.changelog)}(-[0-9]{{1,9}}(-[0-9]{{1,19}})?)?", name)
        recreated = name.removeprefix(RECREATED) not in ("", name)
        if name != topics.controls and not of_changelog and not recreated:
            why = (
                f"it must be {topics.changelog}, {topics.changelog}-<partition>, "
                f"{topics.changelog}-<partition>-<offset>, {topics.controls} or {RECREATED}<topic>"
            )
            raise SettingInvalid("DELAY_ACCEPT_LOSS", name, why)


def _check_inputs(topics: TopicSettings) -> None:
    """Check that inputs can be distinguished, and that their dialects and policies are valid."""
    for topic, text in topics.inputs.items():
        try:
            to = dialect_of(text).to
        except ValueError as error:
            raise SettingInvalid("DELAY_INPUTS", f"{topic}={text}", str(error)) from error
        if to in topics.internal_topics:
            raise SettingInvalid(
                "DELAY_INPUTS", f"{topic}={text}", f"{to} is an internal topic. Use a topic of your own"
            )
    crcs = {topic_crc(topic): topic for topic in (*topics.inputs, topics.forwards)}
    if len(crcs) <= len(topics.inputs):
        raise SettingInvalid("DELAY_INPUTS", ",".join(topics.inputs), "two names have the same CRC-32; rename one")
    if topics.repartitioned == "on":
        _check_numbers(crcs)
    stranger = next((topic for topic in topics.policies if topic not in topics.inputs), None)
    if stranger is not None:
        raise SettingInvalid(
            "DELAY_POLICIES", stranger, f"it is not an input. The inputs are {', '.join(topics.inputs)}"
        )
    _check_namespaces(topics)


def _check_namespaces(topics: TopicSettings) -> None:
    """Check that only inputs have namespaces, and that the requests topic has none."""
    for topic, name in topics.namespaces.inputs.items():
        if topic == topics.requests:
            why = (
                "this topic has no namespace: operators, the console and the command line write to it. Give the team "
                "an input of its own with DELAY_INPUTS"
            )
            raise SettingInvalid("DELAY_NAMESPACES", f"{topic}={name}", why)
        if topic not in topics.inputs:
            why = f"{topic} is not an input. The inputs are {', '.join(topics.inputs)}"
            raise SettingInvalid("DELAY_NAMESPACES", f"{topic}={name}", why)

    stranger = next((name for name in topics.quotas if name not in {OTHERS, *topics.namespaces.names}), None)
    if stranger is not None:
        known = ", ".join(sorted(topics.namespaces.names)) or "none"
        raise SettingInvalid("DELAY_QUOTAS", stranger, f"it is not a namespace of DELAY_NAMESPACES: {known}")
    if topics.quotas and not topics.namespaces:
        raise SettingInvalid("DELAY_QUOTAS", OTHERS, "quotas apply to namespaces, but DELAY_NAMESPACES has none")
    if len(topics.namespaces.names) > MOST_NAMESPACES:
        why = f"the maximum is {MOST_NAMESPACES} namespaces, because of the size of partition reports"
        raise SettingInvalid("DELAY_NAMESPACES", f"{len(topics.namespaces.names)} namespaces", why)


def _check_numbers(crcs: dict[int, str]) -> None:
    """Check that rows from other partitions can be distinguished from those of inputs."""
    for crc, topic in crcs.items():
        if crc < MOVED:
            why = "the CRC-32 of this name is reserved (as for one name in 4,096). Rename the topic"
            raise SettingInvalid("DELAY_INPUTS", topic, why)


def _check_rates(rates: Iterable[str], clusters: Collection[str]) -> None:
    """Check that the cluster of each destination with a rate exists."""
    for name in rates:
        cluster, _ = destination(name)
        if cluster is not None and cluster not in clusters:
            raise SettingInvalid("DELAY_RATES", name, f"{cluster} is not a cluster of DELAY_CLUSTERS")


def _check_security(kafka: KafkaSettings) -> None:
    """Check the login of each cluster: its files must be usable, and a user must be there where one is needed."""
    try:
        kafka.options()
    except LoginInvalid as error:
        names = ", ".join(f"KAFKA_{name}" for name in error.name.split(", "))
        raise SettingInvalid(names, error.shown, error.why) from error
    for name in kafka.clusters.logins:
        try:
            kafka.options(name)
        except LoginInvalid as error:
            raise SettingInvalid("DELAY_CLUSTERS", name, f"{error.name.lower()}: {error.why}") from error


def _check_horizon(retention: RetentionSettings) -> None:
    """Check that the horizon is at least a minute, and that messages are recognized when the cold tier returns them."""
    if retention.horizon_ms < _MINUTE_MS:
        raise SettingInvalid("DELAY_HORIZON", str(retention.horizon_ms), "the minimum is PT1M; 0 turns it off")
    if retention.dedupe_window_ms < COLD_MEMORY_MS:
        why = "with DELAY_HORIZON, the minimum is PT10M: the workers remember commands to the cold tier for this long"
        raise SettingInvalid("DELAY_DEDUPE_WINDOW", str(retention.dedupe_window_ms), why)
