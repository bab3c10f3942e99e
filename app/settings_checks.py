"""Whether settings make sense beside each other; what each takes by itself is in app/settings_values.py."""

import os
import re
from typing import TYPE_CHECKING

from app.errors import SettingInvalid
from app.http.secrets_file import SecretsFile
from punctual.contract.destination import destination
from punctual.contract.dialects import dialect_of
from tables.keys import MOVED, topic_crc

if TYPE_CHECKING:
    from app.settings import Settings

_MINUTE_MS = 60_000
#: Of what the cold tier is told of ids so much is remembered at least, two minutes of it for clocks that differ and
#: records that are not readable yet.
COLD_MEMORY_MS = 10 * _MINUTE_MS


def check(settings: "Settings") -> None:
    """See that settings make sense beside each other. Raises SettingInvalid, which names one and says why."""
    _check_inputs(settings)
    if settings.min_insync_replicas > settings.replication_factor > 1:
        raise SettingInvalid(
            "DELAY_MIN_INSYNC_REPLICAS",
            str(settings.min_insync_replicas),
            f"it cannot be above DELAY_REPLICATION_FACTOR ({settings.replication_factor})",
        )
    _check_rates(settings)
    for record in settings.skip_records:
        if not re.fullmatch(rf"{re.escape(settings.changelog)}-[0-9]{{1,9}}-[0-9]{{1,19}}", record):
            why = f"a record of the changelog is named {settings.changelog}-<partition>-<offset>"
            raise SettingInvalid("DELAY_SKIP_RECORDS", record, why)
    if settings.horizon_ms:
        _check_horizon(settings)
    _check_security(settings)
    try:
        SecretsFile(settings.http_secrets_file)
    except ValueError as error:
        raise SettingInvalid("DELAY_HTTP_SECRETS_FILE", repr(settings.http_secrets_file), str(error)) from error


def _check_inputs(settings: "Settings") -> None:
    """See that inputs can be told apart, and that what is said of them makes sense."""
    for topic, text in settings.inputs.items():
        try:
            to = dialect_of(text).to
        except ValueError as error:
            raise SettingInvalid("DELAY_INPUTS", f"{topic}={text}", str(error)) from error
        if to in settings.internal_topics:
            raise SettingInvalid("DELAY_INPUTS", f"{topic}={text}", f"{to} is an internal topic; deliver to yours")
    crcs = {topic_crc(topic): topic for topic in (*settings.inputs, settings.forwards)}
    if len(crcs) <= len(settings.inputs):
        raise SettingInvalid("DELAY_INPUTS", ",".join(settings.inputs), "two names have the same CRC-32; rename one")
    if settings.repartitioned == "on":
        _check_numbers(crcs)
    stranger = next((topic for topic in settings.policies if topic not in settings.inputs), None)
    if stranger is not None:
        raise SettingInvalid("DELAY_POLICIES", stranger, f"it is no input; they are {', '.join(settings.inputs)}")


def _check_numbers(crcs: dict[int, str]) -> None:
    """See that rows that have come from other partitions can be told from those of inputs."""
    for crc, topic in crcs.items():
        if crc < MOVED:
            why = "its CRC-32 stands for rows that have come from another partition (one name in 4,096); rename it"
            raise SettingInvalid("DELAY_INPUTS", topic, why)


def _check_rates(settings: "Settings") -> None:
    """See that there is each cluster of which a destination has a rate."""
    for name in settings.rates:
        cluster, _ = destination(name)
        if cluster is not None and cluster not in settings.clusters:
            raise SettingInvalid("DELAY_RATES", name, f"{cluster} is none of DELAY_CLUSTERS")


def _check_security(settings: "Settings") -> None:
    """See that the files are there and can be used, and that there is a user where one is needed."""
    if settings.security_protocol.startswith("SASL") and not settings.sasl_username:
        raise SettingInvalid("KAFKA_SASL_USERNAME", "''", f"{settings.security_protocol} needs a user")
    if "SSL" not in settings.security_protocol:
        return
    names = ("KAFKA_SSL_CAFILE", "KAFKA_SSL_CERTFILE", "KAFKA_SSL_KEYFILE")
    files = dict(zip(names, (settings.ssl_cafile, settings.ssl_certfile, settings.ssl_keyfile), strict=True))
    for name, file in files.items():
        if file and not os.access(file, os.R_OK):
            raise SettingInvalid(name, repr(file), "there is no such file, or it cannot be read")
    try:
        settings.kafka_options()
    except OSError as error:
        given = {name: file for name, file in files.items() if file}
        raise SettingInvalid(", ".join(given), ", ".join(given.values()), str(error)) from error


def _check_horizon(settings: "Settings") -> None:
    """See that what is parked can be followed, and known again when it comes back."""
    if settings.horizon_ms < _MINUTE_MS:
        raise SettingInvalid("DELAY_HORIZON", str(settings.horizon_ms), "at least PT1M is needed, or 0 for none")
    if settings.events == "off":
        why = "with DELAY_HORIZON events are needed: nothing else tells what was parked"
        raise SettingInvalid("DELAY_EVENTS", settings.events, why)
    if settings.dedupe_window_ms < COLD_MEMORY_MS:
        why = "with DELAY_HORIZON at least PT10M is needed: for so long is remembered what the cold tier was told"
        raise SettingInvalid("DELAY_DEDUPE_WINDOW", str(settings.dedupe_window_ms), why)
