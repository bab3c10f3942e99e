"""Settings of the process: where it listens, stores and logs (docs/reference/settings.md)."""

import ipaddress
import socket
from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.values import one_of, processes, whole

#: Hosts that stand for all addresses of a machine. Other machines cannot connect to them.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessSettings:
    """A worker's addresses, certificate and data directory, and how it runs."""

    host: str = setting("HOST", "127.0.0.1")
    port: int = setting("PORT", "6066", whole(1, 65_535))
    tls_cert: str = setting("DELAY_TLS_CERT", "")
    tls_key: str = setting("DELAY_TLS_KEY", "")
    worker_url: str = setting("WORKER_URL", "")
    datadir: str = setting("DATADIR", "")
    processes: int = setting("DELAY_PROCESSES", "1", processes)
    kernel: str = setting("PUNCTUAL_KERNEL", "auto", one_of("auto", "off", "require"))
    log_format: str = setting("DELAY_LOG_FORMAT", "text", one_of("text", "json"))

    @property
    def public(self) -> bool:
        """Whether other machines can reach the console."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    @property
    def scheme(self) -> str:
        """The scheme of the addresses of our servers: https with a certificate."""
        return "https" if self.tls_cert else "http"

    @property
    def url(self) -> str:
        """The address at which other workers and people reach this worker's console."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return self.worker_url or f"{self.scheme}://{host}:{self.port}"
