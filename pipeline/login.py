"""Authentication and encryption of Java's and Python's Kafka clients, from the worker's settings `KAFKA_…`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pipeline.errors import LoginUnusable
from punctual.security import Login, LoginInvalid, kafka_options, login_from_env
from punctual.security.login import OAuthClient
from punctual.security.secret_file import SecretFile

_SECURITY: Final = "org.apache.kafka.common.security"


def java_options(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the options of a Java client, with the current content of secret and certificate files.

    Raises LoginUnusable.
    """
    login = _login(env)
    options = {} if login.protocol == "PLAINTEXT" else {"security.protocol": login.protocol}
    if login.oauth is not None:
        options |= _oauth(login.oauth)
    elif login.sasl:
        kind = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
        options["sasl.mechanism"] = login.mechanism
        options["sasl.jaas.config"] = _jaas(kind, username=login.username, password=_text(login.password))
    if login.cafile:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = Path(login.cafile).read_text("utf-8")
    if login.certfile:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = Path(login.certfile).read_text("utf-8")
        options["ssl.keystore.key"] = Path(login.keyfile or login.certfile).read_text("utf-8")
    return options


def python_options(env: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return aiokafka's options. Raises LoginUnusable."""
    try:
        return kafka_options(_login(env))
    except LoginInvalid as error:
        raise _unusable(error) from error


def _login(env: Mapping[str, str]) -> Login:
    try:
        return login_from_env(env)
    except LoginInvalid as error:
        raise _unusable(error) from error


def _unusable(error: LoginInvalid) -> LoginUnusable:
    names = ", ".join(f"KAFKA_{name}" for name in error.name.split(", "))
    return LoginUnusable(f"{names}={error.shown}: {error.why}. docs/reference/settings.md lists its values.")


def _oauth(client: OAuthClient) -> dict[str, str]:
    """Return the options with which Java's client requests tokens from the token endpoint (KIP-768)."""
    options = {"clientId": client.id, "clientSecret": _text(client.secret)}
    if client.scope:
        options["scope"] = client.scope
    options |= {f"extension_{name}": value for name, value in client.extensions}
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": _jaas("oauthbearer.OAuthBearerLoginModule", **options),
        "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": client.token_endpoint,
    }


def _jaas(module: str, **options: str) -> str:
    return f"{_SECURITY}.{module} required {' '.join(f'{name}={_quoted(text)}' for name, text in options.items())};"


def _text(secret: str | SecretFile) -> str:
    return secret.text() if isinstance(secret, SecretFile) else secret


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
