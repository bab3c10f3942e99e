"""Logins to brokers: the settings `KAFKA_…` of TLS and SASL, which all programs share.

    from punctual.security import kafka_options

    async with DelayClient("kafka:9093", **kafka_options()) as client:
        ...

Secrets and certificates in files are read again when they change, and new connections use them.
"""

from punctual.security.errors import LoginInvalid, TokenError
from punctual.security.login import Login, login_from_env, login_of
from punctual.security.options import confluent_options, kafka_options

__all__ = [
    "Login",
    "LoginInvalid",
    "TokenError",
    "confluent_options",
    "kafka_options",
    "login_from_env",
    "login_of",
]
