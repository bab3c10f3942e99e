"""A login has the checked values of the settings, and never shows its secrets."""

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol import admin

from punctual.security import LoginInvalid, confluent_options, kafka_options, login_from_env, login_of
from punctual.security.secret_file import SecretFile

CANARY = "canary-71c3"
SASL = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_USERNAME": "u"}
OAUTH = {
    "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SASL_MECHANISM": "OAUTHBEARER",
    "SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": "https://id.example/token",
    "SASL_OAUTHBEARER_CLIENT_ID": "worker",
    "SASL_OAUTHBEARER_CLIENT_SECRET": CANARY,
}


@pytest.mark.parametrize(
    ("said", "name", "why"),
    [
        (SASL | {"SASL_MECHANISM": "GSSAPI"}, "SASL_MECHANISM", "one of PLAIN, SCRAM-SHA-256"),
        (SASL | {"SASL_USERNAME": ""}, "SASL_USERNAME", "needs a user"),
        (SASL | {"SASL_PASSWORD": CANARY, "SASL_PASSWORD_FILE": "/f"}, "SASL_PASSWORD_FILE", "SASL_PASSWORD is set"),
        (SASL | {"SASL_PASSWORD_FILE": "/not/there"}, "SASL_PASSWORD_FILE", "No such file"),
        (SASL | {"SASL_PASSWORD_FILE": "/dev/null"}, "SASL_PASSWORD_FILE", "one secret and no other text"),
        (OAUTH | {"SASL_OAUTHBEARER_CLIENT_ID": ""}, "SASL_OAUTHBEARER_CLIENT_ID", "needs a client"),
        (OAUTH | {"SASL_OAUTHBEARER_CLIENT_SECRET": ""}, "SASL_OAUTHBEARER_CLIENT_SECRET", "needs a secret"),
        (OAUTH | {"SASL_OAUTHBEARER_EXTENSIONS": "auth=x"}, "SASL_OAUTHBEARER_EXTENSIONS", "names of letters"),
        (OAUTH | {"SASL_OAUTHBEARER_EXTENSIONS": "a=x\x01auth=y"}, "SASL_OAUTHBEARER_EXTENSIONS", "names of letters"),
        (OAUTH | {"SASL_OAUTHBEARER_CAFILE": "/not/there"}, "SASL_OAUTHBEARER_CAFILE", "no such file"),
        *(
            (OAUTH | {"SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": url}, "SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL", "https://")
            for url in ("", "http://id.example/token", "file:///etc/passwd", "http://127.0.0.1@id.example/t", "id")
        ),
    ],
)
def test_an_invalid_setting_is_an_error_with_its_name_and_never_with_a_secret(
    said: dict[str, str], name: str, why: str
) -> None:
    with pytest.raises(LoginInvalid, match=why) as raised:
        login_of(said)

    assert raised.value.name == name
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("url", ["http://localhost:8080/t", "http://127.0.0.1/t", "http://[::1]:1/t"])
def test_a_token_endpoint_on_this_machine_needs_no_tls(url: str) -> None:
    assert login_of(OAUTH | {"SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": url}).oauth


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{CANARY}\n", "utf-8")
    by_file = login_of(SASL | {"SASL_PASSWORD_FILE": str(tmp_path / "password")})

    assert isinstance(by_file.password, SecretFile)
    assert by_file.password.text() == CANARY
    shown = f"{by_file!r} {login_of(SASL | {'SASL_PASSWORD': CANARY})!r} {login_of(OAUTH)!r} {kafka_options(by_file)!r}"
    assert CANARY not in shown
    assert login_of(OAUTH).user == "worker"


def test_a_password_file_is_read_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old", "utf-8")
    secret = SecretFile(str(file))
    assert secret.text() == "old"
    file.write_text("new\n", "utf-8")
    assert secret.text() == "new"
    file.unlink()
    assert secret.text() == "new"


def test_a_removed_file_does_not_end_a_working_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("kept", "utf-8")
    said = SASL | {"SASL_PASSWORD_FILE": str(file)}
    first = login_of(said)
    file.unlink()

    assert login_of(said) is first
    assert confluent_options(login_of(said))["sasl.password"] == "kept"


def test_programs_go_by_the_variables_of_the_worker() -> None:
    env = {f"KAFKA_{name}": value for name, value in SASL.items()} | {"KAFKA_SASL_PASSWORD": "p"}
    shown = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    assert kafka_options(env) == {"security_protocol": "SASL_PLAINTEXT", **shown}
    there = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}
    assert confluent_options(env) == {"security.protocol": "SASL_PLAINTEXT", **there}
    assert login_from_env({}).protocol == "PLAINTEXT"


def _certificate(place: Path, name: str) -> tuple[Path, Path]:
    certificate, key = place / f"{name}.pem", place / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def _subjects(context: ssl.SSLContext) -> list[Any]:
    subjects: list[Any] = [found["subject"] for found in context.get_ca_certs()]
    return [dict(part[0] for part in subject)["commonName"] for subject in subjects]


@pytest.mark.core
def test_new_connections_use_changed_certificates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (old, _), (new, _) = _certificate(tmp_path, "old"), _certificate(tmp_path, "new")
    ca = tmp_path / "ca"
    ca.write_bytes(old.read_bytes())
    login = login_of({"SECURITY_PROTOCOL": "SSL", "SSL_CAFILE": str(ca)})
    context = kafka_options(login)["ssl_context"]
    assert kafka_options(login)["ssl_context"] is context
    assert _subjects(context.current()) == ["old"]
    assert context.current() is context.current()

    ca.write_bytes(new.read_bytes())
    assert _subjects(context.current()) == ["new"]
    assert context.current().verify_mode is ssl.CERT_REQUIRED
    assert context.current().check_hostname
    ca.write_text("nonsense, while somebody is writing", "utf-8")
    assert _subjects(context.current()) == ["new"]
    assert "are not used" in caplog.text
    ca.unlink()
    assert _subjects(context.current()) == ["new"]


def test_a_key_that_wants_a_password_is_refused_instead_of_asked_for(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path, "c")
    locked = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    said = {"SECURITY_PROTOCOL": "SSL", "SSL_CERTFILE": str(certificate), "SSL_KEYFILE": str(locked)}
    with pytest.raises(LoginInvalid, match="the key is encrypted, which is not supported"):
        kafka_options(login_of(said))


async def test_connections_read_a_password_when_they_are_opened(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("old", "utf-8")
    options = kafka_options(login_of(SASL | {"SASL_PASSWORD_FILE": str(tmp_path / "password")}))
    shown = {"sasl_plain_password": options["sasl_plain_password"], "sasl_plain_username": "u"}

    seen = [vars(AIOKafkaConnection("h", 1, **shown))["_sasl_plain_password"]]
    (tmp_path / "password").write_text("new", "utf-8")
    both = (shown, shown | {"sasl_plain_password": "told"})
    seen += [vars(AIOKafkaConnection("h", 1, **each))["_sasl_plain_password"] for each in both]
    assert seen == ["old", "new", "told"]


def test_requests_that_carry_secrets_are_not_shown_by_aiokafka() -> None:
    kafka_options(login_of(SASL))
    for kind in (admin.SaslAuthenticateRequest_v0, admin.SaslAuthenticateRequest_v1):
        assert repr(kind(CANARY.encode())) == f"{kind.__name__}(not shown)"
    for kind, more in ((admin.SaslAuthenticateResponse_v0, ()), (admin.SaslAuthenticateResponse_v1, (0,))):
        assert CANARY not in f"{kind(0, None, CANARY.encode(), *more)}"
