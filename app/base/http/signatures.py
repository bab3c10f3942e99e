"""Standard Webhooks' signatures: HMAC-SHA256 over id, time and body (standardwebhooks.com, spec version 1)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

_PREFIX = "whsec_"
#: The specification's bounds of a secret.
_SHORTEST, _LONGEST = 24, 64


def secret(text: str) -> bytes:
    """Return the secret that `whsec_…` stands for.

    Raises ValueError, which does not repeat it.
    """
    if not text.startswith(_PREFIX):
        raise ValueError(f"a secret must begin with {_PREFIX}, followed by base64")
    try:
        raw = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the text after {_PREFIX} is not base64") from error
    if not _SHORTEST <= len(raw) <= _LONGEST:
        raise ValueError(f"a secret has {len(raw)} bytes. It must have {_SHORTEST} to {_LONGEST}")
    return raw


def signature(secrets: Iterable[bytes], id_: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature for each secret, so that they can be changed in turn."""
    signed = b"%s.%d." % (id_.encode(), timestamp_s) + body
    digests = (hmac.digest(one, signed, hashlib.sha256) for one in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def webhook_id(*parts: str, kind: str = "msg") -> str:
    """Return the id of a request by what it is about: nobody chooses it, it has no dot, and each try has the same.

    It begins with the `kind` of request, which is signed with it.
    """
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return f"{kind}_{base64.urlsafe_b64encode(digest[:24]).decode()}"
