"""Whether settings make sense beside each other; what each takes by itself is in app/settings/values.py."""

import re

from app.base.errors import SettingInvalid
from app.base.http.signatures import SecretsFile
from app.settings.quotas import OTHERS
from app.settings.worker import COLD_MEMORY_MS, RECREATED, WorkerSettings
from punctual.contract.destination import destination
from punctual.contract.dialects.dialects import dialect_of
from punctual.installing import install_command
from punctual.security.errors import LoginInvalid
from tables import native_extension
from tables.keys import MOVED, topic_crc

_MINUTE_MS = 60_000
#: Workers send a heartbeat each 1.5 s: a few of them may get lost.
LEAST_SESSION_MS = 6_000
MOST_NAMESPACES = 300


def check(settings: WorkerSettings) -> None:
    """See that settings make sense beside each other. Raises SettingInvalid, which names one and says why."""
    _check_inputs(settings)
    if settings.kernel == "require" and native_extension.module is None:
        install = install_command("punctual-kafka-worker[kernel]")
        brings = f"Build it in a checkout: `make build NAME=kernel`. Or {install}"
        why = (
            f"the native extension cannot be used: {native_extension.missing}. {brings}. To run without it, leave this "
            "setting out"
        )
        raise SettingInvalid("PUNCTUAL_KERNEL", settings.kernel, why)
    if settings.session_timeout_ms < LEAST_SESSION_MS:
        why = f"the minimum is {LEAST_SESSION_MS // 1_000} seconds, such as PT6S"
        raise SettingInvalid("DELAY_SESSION_TIMEOUT", str(settings.session_timeout_ms), why)
    _check_rates(settings)
    _check_accepted(settings)
    if settings.horizon_ms:
        _check_horizon(settings)
    _check_security(settings)
    try:
        SecretsFile(settings.http_secrets_file)
    except ValueError as error:
        raise SettingInvalid("DELAY_HTTP_SECRETS_FILE", repr(settings.http_secrets_file), str(error)) from error


def _check_accepted(settings: WorkerSettings) -> None:
    """See that what is accepted of the changelog or the controls is named as workers name it."""
    for name in settings.accept_loss:
        of_changelog = re.fullmatch(rf"{re.escape(settings.changelog)}(-[0-9]{{1,9}}(-[0-9]{{1,19}})?)?", name)
        recreated = name.removeprefix(RECREATED) not in ("", name)
        if name != settings.controls and not of_changelog and not recreated:
            why = (
                f"it must be {settings.changelog}, {settings.changelog}-<partition>, "
                f"{settings.changelog}-<partition>-<offset>, {settings.controls} or {RECREATED}<topic>"
            )
            raise SettingInvalid("DELAY_ACCEPT_LOSS", name, why)


def _check_inputs(settings: WorkerSettings) -> None:
    """See that inputs can be told apart, and that what is said of them makes sense."""
    for topic, text in settings.inputs.items():
        try:
            to = dialect_of(text).to
        except ValueError as error:
            raise SettingInvalid("DELAY_INPUTS", f"{topic}={text}", str(error)) from error
        if to in settings.internal_topics:
            raise SettingInvalid(
                "DELAY_INPUTS", f"{topic}={text}", f"{to} is an internal topic. Use a topic of your own"
            )
    crcs = {topic_crc(topic): topic for topic in (*settings.inputs, settings.forwards)}
    if len(crcs) <= len(settings.inputs):
        raise SettingInvalid("DELAY_INPUTS", ",".join(settings.inputs), "two names have the same CRC-32; rename one")
    if settings.repartitioned == "on":
        _check_numbers(crcs)
    stranger = next((topic for topic in settings.policies if topic not in settings.inputs), None)
    if stranger is not None:
        raise SettingInvalid(
            "DELAY_POLICIES", stranger, f"it is not an input. The inputs are {', '.join(settings.inputs)}"
        )
    _check_namespaces(settings)


def _check_namespaces(settings: WorkerSettings) -> None:
    """See that namespaces are those of inputs, and that the requests topic stays everybody's."""
    for topic, name in settings.namespaces.inputs.items():
        if topic == settings.requests:
            why = (
                "this topic has no namespace: operators, the console and the command line write to it. Give the team "
                "an input of its own with DELAY_INPUTS"
            )
            raise SettingInvalid("DELAY_NAMESPACES", f"{topic}={name}", why)
        if topic not in settings.inputs:
            why = f"{topic} is not an input. The inputs are {', '.join(settings.inputs)}"
            raise SettingInvalid("DELAY_NAMESPACES", f"{topic}={name}", why)

    stranger = next((name for name in settings.quotas if name not in {OTHERS, *settings.namespaces.names}), None)
    if stranger is not None:
        known = ", ".join(sorted(settings.namespaces.names)) or "none"
        raise SettingInvalid("DELAY_QUOTAS", stranger, f"it is not a namespace of DELAY_NAMESPACES: {known}")
    if settings.quotas and not settings.namespaces:
        raise SettingInvalid("DELAY_QUOTAS", OTHERS, "quotas apply to namespaces, but DELAY_NAMESPACES has none")
    if len(settings.namespaces.names) > MOST_NAMESPACES:
        why = f"the maximum is {MOST_NAMESPACES} namespaces, because of the size of partition reports"
        raise SettingInvalid("DELAY_NAMESPACES", f"{len(settings.namespaces.names)} namespaces", why)


def _check_numbers(crcs: dict[int, str]) -> None:
    """See that rows that have come from other partitions can be told from those of inputs."""
    for crc, topic in crcs.items():
        if crc < MOVED:
            why = "the CRC-32 of this name is reserved (as for one name in 4,096). Rename the topic"
            raise SettingInvalid("DELAY_INPUTS", topic, why)


def _check_rates(settings: WorkerSettings) -> None:
    """See that there is each cluster of which a destination has a rate."""
    for name in settings.rates:
        cluster, _ = destination(name)
        if cluster is not None and cluster not in settings.clusters:
            raise SettingInvalid("DELAY_RATES", name, f"{cluster} is not a cluster of DELAY_CLUSTERS")


def _check_security(settings: WorkerSettings) -> None:
    """See that files are there and can be used, and that there is a user where one is needed, for each cluster."""
    try:
        settings.kafka_options()
    except LoginInvalid as error:
        names = ", ".join(f"KAFKA_{name}" for name in error.name.split(", "))
        raise SettingInvalid(names, error.shown, error.why) from error
    for name in settings.clusters.logins:
        try:
            settings.kafka_options(name)
        except LoginInvalid as error:
            raise SettingInvalid("DELAY_CLUSTERS", name, f"{error.name.lower()}: {error.why}") from error


def _check_horizon(settings: WorkerSettings) -> None:
    """See that what is parked can be followed, and known again when it comes back."""
    if settings.horizon_ms < _MINUTE_MS:
        raise SettingInvalid("DELAY_HORIZON", str(settings.horizon_ms), "the minimum is PT1M; 0 turns it off")
    if settings.dedupe_window_ms < COLD_MEMORY_MS:
        why = "with DELAY_HORIZON, the minimum is PT10M: the workers remember commands to the cold tier for this long"
        raise SettingInvalid("DELAY_DEDUPE_WINDOW", str(settings.dedupe_window_ms), why)
