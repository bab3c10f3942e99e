"""aiokafka's connections with secrets that change, and that no log has.

aiokafka keeps a password as it was when a client was made (aiokafka/conn.py, AIOKafkaConnection.__init__), and with the
level DEBUG it logs each request as a whole, those with passwords and tokens too (conn.py, send and _handle_frame).
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
    """Gives connections the token of a client."""

    def __init__(self, client: OAuthClient) -> None:
        """Ask for none yet."""
        self._client, self._tokens = client, tokens_of(client)

    async def token(self) -> str:
        """Return a token. Raises SaslAuthenticationFailed, which aiokafka knows."""
        kept = self._tokens.kept()
        if kept is not None:
            return kept
        try:
            return await asyncio.to_thread(self._tokens.get)
        except TokenError as error:
            raise SaslAuthenticationFailed(str(error)) from error

    def extensions(self) -> dict[str, str]:
        """Return what the brokers are told beside it."""
        return dict(self._client.extensions)


def install() -> None:
    """Let connections read passwords from files when they are opened, and keep what shows them out of logs."""
    AIOKafkaConnection.__init__ = _reading
    for kind in _UNSHOWN:
        kind.__repr__ = _unshown


def _reading(self: Any, *args: Any, **options: Any) -> None:
    _init(self, *args, **options)
    if isinstance(self._sasl_plain_password, SecretFile):
        self._sasl_plain_password = self._sasl_plain_password.text()


def _unshown(self: Any) -> str:
    return f"{type(self).__name__}(not shown)"
