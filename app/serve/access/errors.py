"""Errors of a provider and its tokens.

Exception
├── ProviderFailed  the provider does not answer, or answers wrongly
└── TokenRefused    a token is not from the provider, not for this client, or has expired
"""


class ProviderFailed(Exception):
    """The provider does not answer, or answers wrongly; the message is a sentence."""


class TokenRefused(Exception):
    """A token is not from the provider, not for this client, or has expired; the message is a sentence."""
