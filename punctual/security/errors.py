"""Errors of logins.

LoginInvalid    a setting is invalid, or a file that it names cannot be used
TokenError      the token endpoint returned no valid token
"""


class LoginInvalid(ValueError):
    """A setting is invalid: its `name` without `KAFKA_`, its value as it may be `shown`, and why."""

    def __init__(self, name: str, shown: str, why: str) -> None:
        """Keep the setting's name, shown value and reason."""
        super().__init__(f"{name}={shown}: {why}")
        self.name, self.shown, self.why = name, shown, why


class TokenError(Exception):
    """The token endpoint returned no valid token; the message says why and what to do, without a secret."""
