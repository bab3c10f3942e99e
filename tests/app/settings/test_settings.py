"""Settings: every variable is read and checked, and the error for an invalid value has the valid values."""

import socket
from pathlib import Path

import pytest

from app.base.errors import SettingInvalid
from app.settings.declared import is_secret
from app.settings.gateway import SPOOL
from app.settings.quotas import Quota
from app.settings.settings import Settings
from app.settings.unknown import unknown
from app.settings.values import patterns, url_patterns
from punctual.contract.namespaces import Namespaces
from punctual.contract.policies import Policies
from punctual.contract.rate import Rate
from punctual.security.secret_file import SecretFile
from tables import keys

GOOD = {
    "KAFKA_BOOTSTRAP_SERVERS": ("a:1, b:2,", "a:1,b:2"),
    "KAFKA_SECURITY_PROTOCOL": ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
    "KAFKA_SASL_MECHANISM": ("PLAIN", "PLAIN"),
    "KAFKA_SASL_USERNAME": ("worker", "worker"),
    "KAFKA_SASL_PASSWORD": ("secret", "secret"),
    "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": ("https://id.example/token", "https://id.example/token"),
    "KAFKA_SASL_OAUTHBEARER_CLIENT_ID": ("worker", "worker"),
    "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": ("secret", "secret"),
    "KAFKA_SASL_OAUTHBEARER_SCOPE": ("kafka", "kafka"),
    "KAFKA_SASL_OAUTHBEARER_EXTENSIONS": ("logicalCluster=lkc-1", "logicalCluster=lkc-1"),
    "KAFKA_SSL_CAFILE": ("/ca", "/ca"),
    "KAFKA_SSL_CERTFILE": ("/cert", "/cert"),
    "KAFKA_SSL_KEYFILE": ("/key", "/key"),
    "DELAY_APP_ID": ("shop.delay_1-x", "shop.delay_1-x"),
    "DELAY_INPUTS": ("orders=native, payments=native,", {"orders": "native", "payments": "native"}),
    "DELAY_POLICIES": (
        "delay-requests=no-later PT10S jitter 500, ",
        {"delay-requests": Policies(no_later_ms=10_000, jitter_ms=500)},
    ),
    "DELAY_NAMESPACES": ("team-b, team-c,", Namespaces(others=frozenset({"team-b", "team-c"}))),
    "DELAY_QUOTAS": ("team-b=messages:5|rate:20/s, ", {"team-b": Quota(5, None, Rate(20.0))}),
    "DELAY_PARTITIONS": ("64", 64),
    "DELAY_REPARTITIONED": ("on", "on"),
    "DELAY_REPLICATION_FACTOR": ("1", 1),
    "DELAY_DESTINATIONS": ("a,b|c,in:d|e", {"*": ("a", "b", "c"), "in": ("d", "e")}),
    "DELAY_CALLBACKS": ("https://a/*, in:https://b/", {"*": ("https://a/*",), "in": ("https://b/",)}),
    "DELAY_HTTP_DESTINATIONS": (
        "https://a/*, in:https://b|http://c:*,*,",
        {"*": ("https://a/*", "*"), "in": ("https://b", "http://c:*")},
    ),
    "DELAY_HTTP_HEADERS": ("X-*, traceparent", ("x-*", "traceparent")),
    "DELAY_HTTP_SECRETS_FILE": ("/dev/null", "/dev/null"),
    "DELAY_CLUSTERS": ("emea=h:1", {"emea": "h:1"}),
    "DELAY_LOG_FORMAT": ("json", "json"),
    "PUNCTUAL_KERNEL": ("off", "off"),
    "DELAY_GUARANTEE": ("at_least_once", "at_least_once"),
    "DELAY_DEDUPE_WINDOW": ("PT1H", 3_600_000),
    "DELAY_ROW_VERSION": ("2", 2),
    "DELAY_HORIZON": ("PT1H", 3_600_000),
    "DELAY_CATCH_UP": ("5000", 5_000),
    "DELAY_MAX_IN_FLIGHT": ("1", 1),
    "DELAY_GIVE_UP": ("PT1H", 3_600_000),
    "DELAY_RATES": ("emails=20/s burst 100", {"emails": Rate(20.0, 100)}),
    "DELAY_CATCH_UP_RATE": ("500/s", Rate(500.0)),
    "DELAY_ACCEPT_LOSS": (
        "delay-delays-changelog-3, recreated:orders,",
        ("delay-delays-changelog-3", "recreated:orders"),
    ),
    "DELAY_SESSION_TIMEOUT": ("PT10S", 10_000),
    "DELAY_MAX_DESTINATIONS": ("5", 5),
    "WORKER_URL": ("http://worker:1", "http://worker:1"),
    "DATADIR": ("/data", "/data"),
    "HOST": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - a value like another
    "PORT": ("7000", 7000),
    "DELAY_TLS_CERT": ("/etc/punctual/cert.pem", "/etc/punctual/cert.pem"),
    "DELAY_TLS_KEY": ("/etc/punctual/key.pem", "/etc/punctual/key.pem"),
    "DELAY_PROCESSES": ("3", 3),
    "DELAY_WEB_PAYLOADS": ("masked", "masked"),
    "DELAY_WEB_READ_ONLY": ("on", "on"),
    "DELAY_WEB_SECRET": ("between us and nobody else", "between us and nobody else"),
    "DELAY_WEB_USERS_FILE": ("/etc/punctual/users", "/etc/punctual/users"),
    "DELAY_WEB_URL": ("https://punctual.example", "https://punctual.example"),
    "DELAY_WEB_METRICS": ("open", "open"),
    "DELAY_WEB_INSECURE": ("on", "on"),
    "DELAY_GATEWAY_PORT": ("7001", 7_001),
    "DELAY_GATEWAY_SPOOL_BYTES": ("1000000", 1_000_000),
    "GATEWAY_CONFLUENT": ("on", "on"),
    "DELAY_WEB_HOSTS": ("a.example, *.b.example", ("a.example", "*.b.example")),
}
BAD = {
    "KAFKA_BOOTSTRAP_SERVERS": ("a:1;b:2", "'a:1;b:2' is not a server. Use host:port, several separated by commas"),
    "KAFKA_SECURITY_PROTOCOL": ("TLS", "it must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    "KAFKA_SASL_MECHANISM": ("GSSAPI", "it must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    "DELAY_APP_ID": ("a b", "it must have 1 to 200 letters, digits, dots, underscores or hyphens, as in topic names"),
    "DELAY_INPUTS": ("orders", "'orders' is not of the form name=value"),
    "DELAY_POLICIES": ("delay-requests=sooner PT1S", "delay-requests: 'sooner' is not a policy. Use no-later"),
    "DELAY_NAMESPACES": (
        "orders=Team",
        "'Team' is not the name of a namespace. Use 1 to 63 lower-case letters, digits",
    ),
    "DELAY_QUOTAS": ("orders=5", "orders=5: a quota must look like messages:1000000|bytes:1073741824|rate:500/s"),
    "DELAY_PARTITIONS": ("0", "it must be a whole number from 1 to 10000"),
    "DELAY_REPLICATION_FACTOR": ("three", "it must be a whole number from 1 to 100"),
    "DELAY_CALLBACKS": ("*.example.com", "'*.example.com' has no scheme"),
    "DELAY_HTTP_DESTINATIONS": ("hooks.example.com", "'hooks.example.com' has no scheme"),
    "DELAY_HTTP_SECRETS_FILE": ("/no/such/file", "it cannot be read: No such file or directory"),
    "DELAY_CLUSTERS": ("=h:1", "'=h:1' is not of the form name=value"),
    "DELAY_LOG_FORMAT": ("xml", "it must be one of text, json"),
    "PUNCTUAL_KERNEL": ("on", "it must be one of auto, off, require"),
    "DELAY_GUARANTEE": ("twice", "one of at_least_once"),
    "DELAY_DEDUPE_WINDOW": ("-1", "'-1' is not a duration."),
    "DELAY_ROW_VERSION": ("5", "it must be a whole number from 0 to 4"),
    "DELAY_HORIZON": ("59999", "the minimum is PT1M; 0 turns it off"),
    "DELAY_CATCH_UP": ("soon", "'soon' is not a duration."),
    "DELAY_MAX_IN_FLIGHT": ("1.5", "it must be a whole number from 1 to 100000"),
    "DELAY_GIVE_UP": ("never", "'never' is not a duration."),
    "DELAY_RATES": ("emails=500", "'500' is not a rate. Use messages per second, minute or hour: 500/s, 20/m"),
    "DELAY_CATCH_UP_RATE": ("fast", "'fast' is not a rate."),
    "DELAY_SESSION_TIMEOUT": ("PT5S", "the minimum is 6 seconds"),
    "DELAY_ACCEPT_LOSS": ("delay-progress-0-1", "delay-delays-changelog-<partition>-<offset>, delay-controls or"),
    "DELAY_MAX_DESTINATIONS": ("0", "a whole number from 1 to"),
    "DELAY_WEB_READ_ONLY": ("yes", "it must be one of auto, on, off"),
    "DELAY_WEB_PAYLOADS": ("some", "it must be one of shown, masked-for-viewers, masked"),
    "DELAY_WEB_OIDC_ISSUER": ("https://id.example", "it is no longer a setting, and the console would need no login."),
    "DELAY_WEB_URL": ("https://user@punctual.example", "it must be an address such as https://punctual.example.com"),
    "DELAY_WEB_METRICS": ("closed", "it must be one of signed-in, open"),
    "DELAY_WEB_INSECURE": ("yes", "it must be one of on, off"),
    "GATEWAY_CONFLUENT": ("yes", "it must be one of on, off"),
    "DELAY_WEB_OIDC_FILE": ("/etc/oidc", "it is no longer a setting. Remove it, and set DELAY_WEB_USERS_FILE to /etc"),
    "DELAY_GATEWAY_TOKENS_FILE": ("/etc/tokens", "set DELAY_WEB_USERS_FILE to /etc/tokens, or to a file to which"),
    "PORT": ("70000", "it must be a whole number from 1 to 65535"),
}


@pytest.mark.parametrize(
    ("secret", "fits"),
    [
        ("", True),
        ("x", False),
        ("between us", False),
        ("a" * 100, False),
        ("abcabcabcabcabcabcabc", False),
        ("0123456789abcde", False),
        ("0123456789abcdef", True),
    ],
)
def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(secret: str, *, fits: bool) -> None:
    if fits:
        assert Settings.from_env({"DELAY_WEB_SECRET": secret}).web.secret == secret
        return
    with pytest.raises(SettingInvalid, match="it is too easy to guess") as refused:
        Settings.from_env({"DELAY_WEB_SECRET": secret})
    assert str(refused.value).startswith("DELAY_WEB_SECRET=(not shown)")
    assert repr(secret) not in str(refused.value)


SECRETS = {setting.metadata["env"] for setting in Settings.declared() if is_secret(setting.metadata["env"])}


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_every_secret_may_be_in_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("between us and nobody else\n")
    value = dict(Settings.from_env({f"{name}_FILE": str(tmp_path / "secret")}).values())[name]
    assert (value.text() if isinstance(value, SecretFile) else value) == "between us and nobody else"
    assert list(unknown({f"{name}_FILE": "x"})) == []
    with pytest.raises(SettingInvalid, match=f"^{name}_FILE='/x': {name} is set too. Remove one of the two"):
        Settings.from_env({name: "0123456789abcdef", f"{name}_FILE": "/x"})


def test_only_secrets_can_be_in_files() -> None:
    assert {"KAFKA_SASL_PASSWORD", "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET", "DELAY_WEB_SECRET"} == SECRETS
    assert [sentence.split()[0] for sentence in unknown({"DELAY_APP_ID_FILE": "x"})] == ["DELAY_APP_ID_FILE"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "it cannot be read: No such file"),
        ("", "it must contain one secret"),
        ("abc", "it is too easy to guess"),
    ],
)
def test_a_secret_in_a_file_is_checked_at_the_start(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingInvalid, match=f"^DELAY_WEB_SECRET_FILE='{file}': {why}"):
        Settings.from_env({"DELAY_WEB_SECRET_FILE": str(file)})


def test_a_password_in_a_file_is_read_again_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first")
    settings = Settings.from_env(
        {
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_USERNAME": "u",
            "KAFKA_SASL_PASSWORD_FILE": str(file),
        }
    )
    password = settings.kafka.login.password
    assert isinstance(password, SecretFile)
    assert password.text() == "first"
    file.write_text("second")
    assert password.text() == "second"
    with pytest.raises(
        SettingInvalid, match=r"^KAFKA_SASL_PASSWORD_FILE='/not/there': it cannot be read: No such file"
    ):
        Settings.from_env(
            {
                "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "KAFKA_SASL_USERNAME": "u",
                "KAFKA_SASL_PASSWORD_FILE": "/not/there",
            }
        )


def test_every_setting_is_in_this_test() -> None:
    missing = {setting.metadata["env"] for setting in Settings.declared()} - GOOD.keys()

    assert not missing, f"Add a value that is not the default to GOOD, and an invalid value to BAD, for {missing}."


@pytest.mark.parametrize("name", sorted({setting.metadata["env"] for setting in Settings.declared()} & GOOD.keys()))
def test_each_variable_is_read(name: str) -> None:
    text, value = GOOD[name]

    needed = {"DELAY_REPLICATION_FACTOR": "1", "DELAY_DEDUPE_WINDOW": "PT10M", "KAFKA_SASL_USERNAME": "u"}
    if name == "DELAY_QUOTAS":
        needed["DELAY_NAMESPACES"] = "team-b"
    assert dict(Settings.from_env({**needed, name: text}).values())[name] == value


@pytest.mark.parametrize("name", sorted(BAD))
def test_an_invalid_value_is_an_error_with_the_variable_and_its_valid_values(name: str) -> None:
    text, why = BAD[name]
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({name: text})

    assert str(raised.value).startswith(f"{name}=")
    assert why in str(raised.value)
    assert "docs/reference/settings.md" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("DELAY_PARTITIONS", "many", "it must be a whole number from 1 to 10000"),
        ("DELAY_DEDUPE_WINDOW", "1 year", "ISO 8601"),
        ("DELAY_GUARANTEE", "exactly_twice", "one of"),
        ("DELAY_CLUSTERS", "other", "not of the form name=value"),
        ("DELAY_APP_ID", "two words", "as in topic names"),
    ],
)
def test_a_bad_value_is_shown(name: str, value: str, why: str) -> None:
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({name: value})

    assert str(raised.value).startswith(f"{name}=")
    assert value in str(raised.value)
    assert why in str(raised.value)


def test_an_empty_variable_is_as_if_it_were_not_there() -> None:
    assert Settings.from_env(dict.fromkeys(GOOD, "")) == Settings.from_env({})


def test_the_defaults_are_for_production() -> None:
    settings = Settings.from_env({})

    assert (settings.topics.replication_factor, settings.topics.partitions) == (3, 16)
    assert (settings.destinations.allowed_topics, settings.destinations.allowed_callbacks) == ({}, {})
    assert settings.retention.horizon_ms == 0


def test_inputs_have_their_dialects_and_other_topics_have_the_native_one() -> None:
    settings = Settings.from_env({"DELAY_INPUTS": "orders=native"})

    assert settings.topics.inputs == {"delay-requests": "native", "orders": "native"}
    assert {
        settings.topics.dialect(topic).name for topic in (*settings.topics.inputs, settings.topics.forwards, "gone")
    } == {"native"}


def test_what_follows_a_dialects_name_is_bound_to_it() -> None:
    settings = Settings.from_env(
        {"DELAY_INPUTS": "orders.delayed=deliver-after:orders,late=publish-after:orders:after-ts"}
    )

    assert settings.topics.inputs["late"] == "publish-after:orders:after-ts"
    assert (settings.topics.dialect("orders.delayed").name, settings.topics.dialect("orders.delayed").to) == (
        "deliver-after",
        "orders",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=spring", "spring needs a destination topic after its name"),
        ("a=spring:a", "a is an internal topic. Use a topic of your own"),
        ("a=spring:b,b=native", "b is an internal topic"),
        ("a=deliver-after:delay-events", "delay-events is an internal topic"),
        ("a=etf1:later", "'later' is not a duration"),
    ],
)
def test_what_no_input_can_be_stops_the_start(text: str, why: str) -> None:
    with pytest.raises(SettingInvalid, match=f"DELAY_INPUTS=a=.*: {why}"):
        Settings.from_env({"DELAY_INPUTS": text})


def test_policies_are_those_of_inputs() -> None:
    with pytest.raises(
        SettingInvalid, match=r"DELAY_POLICIES=orders: it is not an input. The inputs are delay-requests, late"
    ):
        Settings.from_env({"DELAY_INPUTS": "late=native", "DELAY_POLICIES": "orders=jitter PT1S"})


def test_namespaces_are_those_of_inputs_but_of_the_requests_topic() -> None:
    inputs = {"DELAY_INPUTS": "late=native"}
    settings = Settings.from_env({**inputs, "DELAY_NAMESPACES": "late=team-a"})

    assert (
        settings.topics.namespaces.of_topic("late"),
        settings.topics.namespaces.of_topic(settings.topics.requests),
    ) == ("team-a", "")
    for text, why in (
        ("orders=team-a", "orders is not an input. The inputs are delay-requests, late"),
        ("delay-requests=team-a", "this topic has no namespace: operators, the console and the command line write to"),
    ):
        with pytest.raises(SettingInvalid, match=f"DELAY_NAMESPACES={text}: {why}"):
            Settings.from_env({**inputs, "DELAY_NAMESPACES": text})


def test_an_unknown_dialect_is_an_error_with_the_known_dialects() -> None:
    with pytest.raises(
        SettingInvalid, match=r"DELAY_INPUTS=orders=klingon: 'klingon' is not a dialect; the dialects are native"
    ):
        Settings.from_env({"DELAY_INPUTS": "orders=klingon"})


def test_a_rate_for_an_unknown_cluster_stops_the_start() -> None:
    with pytest.raises(SettingInvalid, match="DELAY_RATES=emea/emails: emea is not a cluster of DELAY_CLUSTERS"):
        Settings.from_env({"DELAY_RATES": "emea/emails=5/s"})
    assert Settings.from_env({"DELAY_RATES": "emea/emails=5/s", "DELAY_CLUSTERS": "emea=h:1"}).destinations.rates


def test_a_horizon_needs_what_keeps_parked_messages_safe() -> None:
    good = {"DELAY_HORIZON": "PT1M", "DELAY_DEDUPE_WINDOW": "PT10M"}
    Settings.from_env(good)
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({**good, "DELAY_DEDUPE_WINDOW": "599999"})

    assert str(raised.value).startswith("DELAY_DEDUPE_WINDOW=599999: with DELAY_HORIZON, the minimum is PT10M")


def test_with_a_horizon_cancels_are_remembered_as_long_as_deliveries() -> None:
    long, short = {"DELAY_DEDUPE_WINDOW": "PT1H"}, {"DELAY_DEDUPE_WINDOW": "PT10M"}

    assert Settings.from_env(long).retention.command_memory_ms == 600_000
    assert Settings.from_env({**long, "DELAY_HORIZON": "P1D"}).retention.command_memory_ms == 3_600_000
    assert Settings.from_env({**short, "DELAY_HORIZON": "P1D"}).retention.command_memory_ms == 600_000


def test_commands_to_the_cold_tier_are_remembered_for_ten_minutes_or_longer() -> None:
    assert Settings.from_env({}).retention.cold_memory_ms == 600_000
    assert Settings.from_env({"DELAY_DEDUPE_WINDOW": "PT1H"}).retention.cold_memory_ms == 3_600_000


def test_inputs_whose_names_have_the_same_key_in_rows_stop_the_start() -> None:
    one, other = "plumless", "buckeroo"  # the classic pair
    assert keys.topic_crc(one) == keys.topic_crc(other)

    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({"DELAY_INPUTS": f"{one}=native,{other}=native"})

    assert "two names have the same CRC-32; rename one" in str(raised.value)


def test_another_number_of_partitions_has_topics_of_its_own() -> None:
    settings = Settings.from_env({"DELAY_APP_ID": "shop", "DELAY_PARTITIONS": "24", "DELAY_REPARTITIONED": "on"})

    assert (settings.topics.changelog, settings.topics.forwards) == ("shop-p24-delays-changelog", "shop-p24-forwards")
    assert {"shop-delays-changelog", "shop-forwards", "shop-p24-forwards"} <= settings.topics.internal_topics


def test_an_input_whose_crc_stands_for_rows_that_have_moved_stops_the_start() -> None:
    name = next(name for name in map("orders-{}".format, range(100_000)) if keys.topic_crc(name) < keys.MOVED)

    Settings.from_env({"DELAY_INPUTS": f"{name}=native"})
    with pytest.raises(SettingInvalid, match=f"{name}.*one name in 4,096"):
        Settings.from_env({"DELAY_INPUTS": f"{name}=native", "DELAY_REPARTITIONED": "on"})


def test_passwords_are_never_shown() -> None:
    settings = Settings.from_env({"KAFKA_SASL_PASSWORD": "hunter2"})

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)


def test_topics_begin_with_the_app_id() -> None:
    settings = Settings.from_env({"DELAY_APP_ID": "shop", "DELAY_INPUTS": "orders=native"})

    assert settings.topics.inputs == {"shop-requests": "native", "orders": "native"}
    assert settings.topics.internal_topics == {
        "shop-requests",
        "orders",
        "shop-forwards",
        "shop-delays-changelog",
        "shop-events",
        "shop-progress",
        "shop-dead-letters",
        "shop-cold",
        "shop-controls",
        "shop-queues",
        "shop-audit",
        "shop-jobs",
        "shop-receipts",
        "shop-layout",
    }


def test_directories_and_addresses_follow_from_the_port_unless_they_are_set() -> None:
    settings = Settings.from_env({"PORT": "7001"})

    assert str(settings.data_path) == ".data/delay-7001"
    assert settings.process.url == "http://127.0.0.1:7001"
    assert str(Settings.from_env({"DATADIR": "/d"}).data_path) == "/d"
    assert Settings.from_env({"WORKER_URL": "https://w"}).process.url == "https://w"
    assert Settings.from_env({"HOST": "::"}).process.url == f"http://{socket.gethostname()}:6066"
    assert Settings.from_env({"HOST": "fd00::5"}).process.url == "http://[fd00::5]:6066"


def test_a_worker_and_a_gateway_share_a_directory_and_another_port_has_the_same_spool() -> None:
    one = Settings.from_env({"DATADIR": "/d"})
    other = Settings.from_env({"DATADIR": "/d", "DELAY_GATEWAY_PORT": "7002"})

    assert (str(one.data_path), str(one.gateway_path), other.gateway_path) == ("/d", "/d/gateway", one.gateway_path)
    assert str(Settings.from_env({"DELAY_APP_ID": "shop"}).gateway_path) == ".data/shop-gateway-6067"


def test_a_spool_of_an_earlier_version_is_used_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    default, root = Path(".data/delay-gateway-6067"), tmp_path / "d"
    settings = Settings.from_env({"DATADIR": str(root)})
    (default / SPOOL).mkdir(parents=True)
    assert settings.gateway_path == default
    (root / SPOOL).mkdir(parents=True)
    assert settings.gateway_path == root
    (root / "gateway" / SPOOL).mkdir(parents=True)
    assert settings.gateway_path == root / "gateway"


def test_blanks_around_patterns_are_ignored() -> None:
    assert patterns("in: a | b ,c") == {"in": ("a", "b"), "*": ("c",)}
    assert url_patterns("in: https://a.example | https://b.example") == url_patterns(
        "in:https://a.example|https://b.example"
    )


def test_what_security_needs_and_is_not_there_stops_the_start(tmp_path: Path) -> None:
    tls = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u"}
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate", "utf-8")
    for env, says in (
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "KAFKA_SASL_USERNAME='': SASL_SSL needs a user"),
        ({**tls, "KAFKA_SSL_CAFILE": f"{tmp_path}/gone"}, f"KAFKA_SSL_CAFILE='{tmp_path}/gone': there is no such file"),
        ({**tls, "KAFKA_SSL_CAFILE": str(broken)}, f"KAFKA_SSL_CAFILE={broken}: "),
    ):
        with pytest.raises(SettingInvalid) as raised:
            Settings.from_env(env)
        assert str(raised.value).startswith(says)


def test_security_becomes_what_kafka_clients_take() -> None:
    assert Settings.from_env({}).kafka.options() == {"security_protocol": "PLAINTEXT"}
    sasl = Settings.from_env(
        {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p"}
    ).kafka.options()
    assert sasl == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    assert "ssl_context" in Settings.from_env({"KAFKA_SECURITY_PROTOCOL": "SSL"}).kafka.options()


def test_records_to_be_left_out_are_those_of_their_partition() -> None:
    settings = Settings.from_env(
        {"DELAY_ACCEPT_LOSS": "delay-delays-changelog-3-7,delay-delays-changelog-13-8,delay-delays-changelog-1"}
    )
    assert settings.engine.skipped("delay-delays-changelog-3") == {7}
    assert settings.engine.skipped("delay-delays-changelog-1") == frozenset()


def test_recreated_topics_and_lost_records_are_accepted_separately() -> None:
    settings = Settings.from_env({"DELAY_ACCEPT_LOSS": "recreated:delay-requests,delay-delays-changelog"})
    assert settings.engine.accepts_recreated("delay-requests")
    assert not settings.engine.accepts_recreated("delay-delays-changelog")


@pytest.mark.parametrize("text", ["recreated:", "orders", "lost:orders", "delay-delays-changelog-3-x"])
def test_accepted_losses_have_the_names_that_workers_print(text: str) -> None:
    with pytest.raises(SettingInvalid, match=r"it must be delay-delays-changelog, .* or recreated:<topic>"):
        Settings.from_env({"DELAY_ACCEPT_LOSS": text})


@pytest.mark.parametrize("name", ["DELAY_CALLBACKS", "DELAY_HTTP_DESTINATIONS"])
def test_a_pattern_of_addresses_that_none_can_match_stops_the_start(name: str) -> None:
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({name: "https://a.example,ftp://b.example"})

    assert "'ftp://b.example' is not a pattern of https:// or http:// addresses" in str(raised.value)


@pytest.mark.parametrize(
    ("host", "said", "read_only"),
    [
        ("127.0.0.1", "", False),
        ("127.0.1.1", "", False),
        ("localhost", "", False),
        ("::1", "", False),
        ("0.0.0.0", "", True),  # noqa: S104 - a value like another
        ("10.0.0.1", "", True),
        ("worker-0.punctual", "auto", True),
        ("0.0.0.0", "off", False),  # noqa: S104
        ("127.0.0.1", "on", True),
        ("127.example.com", "", True),  # a name like another
    ],
)
def test_without_logins_a_worker_that_others_can_reach_is_read_only_by_default(
    host: str,
    said: str,
    read_only: bool,  # noqa: FBT001 - a case
) -> None:
    assert Settings.from_env({"HOST": host, "DELAY_WEB_READ_ONLY": said}).read_only == read_only


def test_with_logins_roles_decide_about_changes() -> None:
    signed = {"DELAY_WEB_USERS_FILE": "/etc/punctual/users", "HOST": "10.0.0.1"}
    assert not Settings.from_env(signed).read_only
    assert Settings.from_env(signed | {"DELAY_WEB_READ_ONLY": "on"}).read_only
    assert Settings.from_env({"HOST": "10.0.0.1", "DELAY_WEB_INSECURE": "on"}).read_only


@pytest.mark.parametrize(
    "servers", ["a:0", "a:70000", "a:port", "a:9092 b:9092", "kafka://a:9092", "a:9092/x", "[::1", ","]
)
def test_an_invalid_list_of_servers_is_refused(servers: str) -> None:
    for name, value in (("KAFKA_BOOTSTRAP_SERVERS", servers), ("DELAY_CLUSTERS", f"other={servers}")):
        with pytest.raises(SettingInvalid, match=f"^{name}="):
            Settings.from_env({name: value})


@pytest.mark.parametrize("servers", ["a", "a.b-c_d:9092", "10.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:9092"])
def test_servers_are_names_and_addresses(servers: str) -> None:
    assert Settings.from_env({"KAFKA_BOOTSTRAP_SERVERS": servers}).kafka.bootstrap == servers
