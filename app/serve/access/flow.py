"""One sign-in that is under way: what the browser keeps of it until it comes back from the provider."""

import re
import secrets
from typing import Final, Self

import msgspec

#: So long somebody may take to sign in.
PATIENCE_S: Final = 600
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1023}")


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """What proves that an answer of the provider belongs to the browser that had asked, and where it goes on."""

    state: str
    nonce: str
    verifier: str
    back: str
    began_s: int

    @classmethod
    def begin(cls, back: str, now_s: int) -> Self:
        """Begin one, with secrets that nobody can guess."""
        state, nonce, verifier = (secrets.token_urlsafe(length) for length in (24, 24, 48))
        return cls(state=state, nonce=nonce, verifier=verifier, back=local(back), began_s=now_s)


def local(address: str) -> str:
    """Return an address of ours, its path and query; the first page for what leads, or might lead, anywhere else."""
    return address if _LOCAL.fullmatch(address) else "/"
