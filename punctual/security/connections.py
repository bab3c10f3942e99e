"""Connections of aiokafka that use current secrets, and keep them out of logs.

aiokafka keeps a password from the creation of a client (aiokafka/conn.py, AIOKafkaConnection.__init__), and with the
level DEBUG it logs whole requests, including those with passwords and tokens (conn.py, send and _handle_frame).
"""

import asyncio
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import SaslAuthenticationFailed
from aiokafka.protocol import admin

from punctual.security.errors import TokenError
from punctual.security.login import OAuthClient
from punctual.security.secret_file import SecretFile
from punctual.security.tokens import tokens_of

_init = AIOKafkaConnection.__init__
_UNSHOWN = (
    admin.SaslAuthenticateRequest_v0,
    admin.SaslAuthenticateRequest_v1,
    admin.SaslAuthenticateResponse_v0,
    admin.SaslAuthenticateResponse_v1,
)


class TokenProvider(AbstractTokenProvider):
    """Provides connections with the token of a client."""

    def __init__(self, client: OAuthClient) -> None:
        """Use the tokens of `client`; the first one is requested when it is needed."""
        self._client, self._tokens = client, tokens_of(client)

    async def token(self) -> str:
        """Return a token. Raises SaslAuthenticationFailed, which aiokafka handles."""
        kept = self._tokens.kept()
        if kept is not None:
            return kept
        try:
            return await asyncio.to_thread(self._tokens.get)
        except TokenError as error:
            raise SaslAuthenticationFailed(str(error)) from error

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions that are sent with the token."""
        return dict(self._client.extensions)


def install() -> None:
    """Make new connections read passwords from files, and keep requests with secrets out of logs."""
    AIOKafkaConnection.__init__ = _reading
    for kind in _UNSHOWN:
        kind.__repr__ = _unshown


def _reading(self: Any, *args: Any, **options: Any) -> None:
    """Initialise an aiokafka connection, with the current content of the file if the password is in a file."""
    _init(self, *args, **options)
    if isinstance(self._sasl_plain_password, SecretFile):
        self._sasl_plain_password = self._sasl_plain_password.text()


def _unshown(self: Any) -> str:
    return f"{type(self).__name__}(not shown)"
