"""Checks how long certificates are good: brokers' own, this user's, and those of the authorities."""

import ssl
from collections.abc import Iterator, Mapping

from app.ops.doctor.facts import ClusterFacts
from app.ops.doctor.finding import Finding
from punctual.security import Login
from punctual.security.tls import ends_ms

CHECK = "certificates"
_DAY_MS = 86_400_000
#: So long before its end a certificate is worth a warning: who renews at two thirds of ninety days is far from it.
_SOON_MS = 14 * _DAY_MS


def of_files(login: Login) -> Mapping[str, int]:
    """Return until when (epoch ms) the certificates in a login's files are good, the longest of the authorities."""
    if not login.encrypts:
        return {}
    try:
        return ends_ms(login)
    except (OSError, ssl.SSLError, ValueError):
        return {}  # the connection has said what is wrong with them


def check(cluster: ClusterFacts, now_ms: int, name: str = "") -> Iterator[Finding]:
    """Yield how long a cluster's certificates are good; `name` is what DELAY_CLUSTERS calls it, empty for our own."""
    where = f" of cluster {name}" if name else ""
    for what, end_ms in cluster.certificates.items():
        days = (end_ms - now_ms) // _DAY_MS
        said = f"the certificate of {what}{where}"
        if end_ms <= now_ms:
            sentence = f"{said} expired {-days} day(s) ago, so connections fail. Renew it."
            yield Finding("error", CHECK, what, sentence)
        elif end_ms - now_ms < _SOON_MS:
            sentence = f"{said} expires in {days} day(s). Renew it; files are reloaded without a restart."
            yield Finding("warning", CHECK, what, sentence)
        else:
            yield Finding("ok", CHECK, what, f"{said} is valid for {days} more day(s).")
