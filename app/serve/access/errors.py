"""The error of a provider and its tokens."""


class ProviderFailed(Exception):
    """The provider does not answer, answers wrongly, or did not issue a token; the message is a sentence."""
