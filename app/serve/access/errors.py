"""What can go wrong between us and a provider.

Exception
├── ProviderFailed  the provider does not answer, or not as it should
└── TokenRefused    a token is not the provider's, not for us, or over
"""


class ProviderFailed(Exception):
    """The provider does not answer, or not as it should: a sentence."""


class TokenRefused(Exception):
    """A token that is not the provider's, not for us, or over: a sentence."""
