"""DELAY_CLUSTERS: pairs, or a file that says of each cluster how it is reached, and has no secret."""

from pathlib import Path

import pytest

from app.base.errors import SettingInvalid
from app.engine.reports.agreement import fingerprint
from app.settings.clusters import Clusters, clusters
from app.settings.settings import Settings
from punctual.contract.rate import Rate

CANARY = "canary-0f6b"
FULL = """
[clusters.eu]
bootstrap_servers = ["eu-1:9093", "eu-2:9093"]
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_username = "punctual"
sasl_password_env = "EU_PASSWORD"
rate = "500/s"

[clusters.plain]
bootstrap_servers = "plain:9092"
security_protocol = "PLAINTEXT"

[clusters.like-ours]
bootstrap_servers = "near:9092"
"""


def read(tmp_path: Path, text: str, **env: str) -> Clusters:
    file = tmp_path / "clusters.toml"
    file.write_text(text, "utf-8")
    return clusters(str(file), env)


def test_pairs_are_as_they_were() -> None:
    assert clusters("a=h:1, b=h:2") == {"a": "h:1", "b": "h:2"}
    assert clusters("a=h:1").logins == {}


def test_a_file_says_of_each_cluster_how_it_is_reached(tmp_path: Path) -> None:
    found = read(tmp_path, FULL, EU_PASSWORD=CANARY)

    assert found == {"eu": "eu-1:9093,eu-2:9093", "plain": "plain:9092", "like-ours": "near:9092"}
    assert found.rates == {"eu": Rate(500.0)}
    eu = found.logins["eu"]
    assert (eu.protocol, eu.mechanism, eu.username, eu.password) == ("SASL_PLAINTEXT", "PLAIN", "punctual", CANARY)
    assert found.logins.keys() == {"eu", "plain"}


def test_a_cluster_without_its_own_security_settings_uses_those_of_the_home_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clusters.toml").write_text(FULL, "utf-8")
    monkeypatch.setenv("EU_PASSWORD", CANARY)
    env = {"DELAY_CLUSTERS": str(tmp_path / "clusters.toml"), "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"}
    settings = Settings.from_env({**env, "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p"})

    assert settings.kafka.options("like-ours") == settings.kafka.options()
    assert settings.kafka.options("plain") == {"security_protocol": "PLAINTEXT"}
    assert settings.kafka.options("eu")["sasl_plain_password"] == CANARY
    assert CANARY not in repr(settings)


PLACE = '[clusters.eu]\nbootstrap_servers = "h:1"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            PLACE + f'sasl_password = "{CANARY}"',
            "[clusters.eu] has sasl_password: secrets are not allowed in this file",
        ),
        (PLACE + f'sasl_oauthbearer_client_secret = "{CANARY}"', "secrets are not allowed in this file"),
        (PLACE + f'password = "{CANARY}"', "has 'password', which is not a known key. The keys are bootstrap_servers"),
        (
            PLACE + f'ssl_keyfile = "-----BEGIN {CANARY}"\nsecurity_protocol = "SSL"',
            "must be the path of a file, not the key itself",
        ),
        (PLACE + 'sasl_username = "u"', "has security keys, but no security_protocol. Add it"),
        (PLACE + 'security_protocol = "TLS"', "security_protocol: it must be one of PLAINTEXT, SSL"),
        (PLACE + 'security_protocol = "SASL_SSL"', "sasl_username: SASL_SSL needs a user"),
        (PLACE + "security_protocol = 1", "security_protocol must be text"),
        (
            PLACE + 'security_protocol = "SASL_SSL"\nsasl_username = "u"\nsasl_password_env = "NOT_THERE"',
            "[clusters.eu] sasl_password_env names an environment variable that is not set",
        ),
        (
            PLACE + 'security_protocol = "SASL_SSL"\nsasl_username = "u"\nsasl_password_file = "/not/there"',
            "sasl_password_file: it cannot be read: No such file",
        ),
        (PLACE + 'rate = "fast"', "[clusters.eu] rate: 'fast' is not a rate"),
        ("[clusters.eu]\n", "[clusters.eu] needs bootstrap_servers"),
        ("[clusters]\neu = 'h:1'", "[clusters.eu] must be a table"),
        ("[eu]\n", "may only have tables [clusters.NAME], not 'eu'"),
        ("clusters", "the file is not valid TOML"),
        ("", "may only have tables [clusters.NAME], not 'none'"),
    ],
)
def test_an_error_in_a_file_has_its_position_and_never_a_secret(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "clusters.toml").write_text(text, "utf-8")
    with pytest.raises(SettingInvalid) as raised:
        Settings.from_env({"DELAY_CLUSTERS": str(tmp_path / "clusters.toml")})

    assert says in str(raised.value)
    assert CANARY not in str(raised.value)


def test_a_file_that_is_not_there_stops_the_start() -> None:
    with pytest.raises(SettingInvalid, match=r"the file cannot be read: No such file"):
        Settings.from_env({"DELAY_CLUSTERS": "/no/such/clusters.toml"})


def test_workers_compare_clusters_and_their_rates_but_not_logins(tmp_path: Path) -> None:
    def told(text: str) -> str:
        (tmp_path / "clusters.toml").write_text(text, "utf-8")
        return fingerprint(Settings.from_env({"DELAY_CLUSTERS": str(tmp_path / "clusters.toml")}))["DELAY_CLUSTERS"]

    bare = told(PLACE)
    assert bare == fingerprint(Settings.from_env({"DELAY_CLUSTERS": "eu=h:1"}))["DELAY_CLUSTERS"]
    assert told(PLACE + 'security_protocol = "SSL"') == bare
    assert told(PLACE + 'rate = "5/s"') != bare
