"""What can be wrong with how somebody shows who they are.

LoginInvalid    the settings make no sense, or a file that they name cannot be used
TokenError      the token endpoint gives no token
"""


class LoginInvalid(ValueError):
    """A setting makes no sense: its `name` without `KAFKA_`, its value as it may be `shown`, and why."""

    def __init__(self, name: str, shown: str, why: str) -> None:
        """Tell which setting it is."""
        super().__init__(f"{name}={shown}: {why}")
        self.name, self.shown, self.why = name, shown, why


class TokenError(Exception):
    """The token endpoint gives no token; the message says why and what to do, and has no secret."""
