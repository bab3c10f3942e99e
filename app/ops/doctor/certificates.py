"""Checks when certificates expire: those of brokers, of this user, and of the authorities."""

import ssl
from collections.abc import Iterator, Mapping

from app.ops.doctor.facts import ClusterFacts
from app.ops.doctor.finding import Finding
from punctual.security import Login
from punctual.security.tls import ends_ms

CHECK = "certificates"
_DAY_MS = 86_400_000
#: A warning comes this long before the end, when certificates of ninety days have usually been renewed.
_SOON_MS = 14 * _DAY_MS


def of_files(login: Login) -> Mapping[str, int]:
    """Return when (epoch ms) the certificates in a login's files expire; of the authorities, the last one."""
    if not login.encrypts:
        return {}
    try:
        return ends_ms(login)
    except (OSError, ssl.SSLError, ValueError):
        return {}  # the connection has reported the problem


def check(cluster: ClusterFacts, now_ms: int, name: str = "") -> Iterator[Finding]:
    """Yield when a cluster's certificates expire; `name` is its name in DELAY_CLUSTERS, empty for our own."""
    where = f" of cluster {name}" if name else ""
    for what, end_ms in cluster.certificates.items():
        days = (end_ms - now_ms) // _DAY_MS
        subject = f"the certificate of {what}{where}"
        if end_ms <= now_ms:
            sentence = f"{subject} expired {-days} day(s) ago, so connections fail. Renew it."
            yield Finding("error", CHECK, what, sentence)
        elif end_ms - now_ms < _SOON_MS:
            sentence = f"{subject} expires in {days} day(s). Renew it; files are reloaded without a restart."
            yield Finding("warning", CHECK, what, sentence)
        else:
            yield Finding("ok", CHECK, what, f"{subject} is valid for {days} more day(s).")
