"""Logins as options of Kafka's clients."""

import time
from collections.abc import Mapping
from typing import Any

from punctual.security.login import Login, OAuthClient, login_from_env
from punctual.security.secret_file import SecretFile
from punctual.security.tls import context_of
from punctual.security.tokens import tokens_of


def kafka_options(login: Login | Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return aiokafka's options for a login, or for the variables `KAFKA_…` of an environment (default: os.environ).

    Raises LoginInvalid.
    """
    shown = login if isinstance(login, Login) else login_from_env(*([] if login is None else [login]))
    options: dict[str, Any] = {"security_protocol": shown.protocol}
    if shown.encrypts:
        options["ssl_context"] = context_of(shown)
    if shown.sasl:
        from punctual.security import connections, sessions  # noqa: PLC0415 - they load aiokafka, a tenth of a second

        connections.install()
        sessions.install()
        options["sasl_mechanism"] = shown.mechanism
        if shown.oauth is not None:
            options["sasl_oauth_token_provider"] = connections.TokenProvider(shown.oauth)
        else:
            options |= {"sasl_plain_username": shown.username, "sasl_plain_password": shown.password}
    return options


def confluent_options(login: Login | Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return confluent_kafka's options for a login, or for the variables `KAFKA_…` of an environment.

    librdkafka reads certificates and passwords once: changed files take effect only with the next client, except for
    tokens. Raises LoginInvalid.
    """
    shown = login if isinstance(login, Login) else login_from_env(*([] if login is None else [login]))
    options: dict[str, Any] = {"security.protocol": shown.protocol}
    files = {"ssl.ca.location": shown.cafile, "ssl.certificate.location": shown.certfile}
    files["ssl.key.location"] = shown.keyfile or shown.certfile
    options |= {name: file for name, file in files.items() if file}
    if shown.sasl:
        options["sasl.mechanism"] = shown.mechanism
        if shown.oauth is not None:
            options["oauth_cb"] = _told(shown.oauth)
        else:
            password = shown.password
            options["sasl.username"] = shown.username
            options["sasl.password"] = password.text() if isinstance(password, SecretFile) else password
    return options


def _told(client: OAuthClient) -> Any:
    """Return the callback with which confluent_kafka requests tokens."""
    tokens = tokens_of(client)

    def tell(_: str) -> tuple[str, float, str, dict[str, str]]:
        text = tokens.get()
        return text, time.time() + tokens.left_s, client.id, dict(client.extensions)

    return tell
