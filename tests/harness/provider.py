"""An OpenID Connect provider, a process of its own."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, eventually


@contextmanager
def provider(*people: dict[str, object], registers: bool = False) -> Iterator[str]:
    """Run a provider that knows these people, by their claims, and return its issuer.

    It wants a nonce; with `registers` it serves only clients that have registered.
    """
    port = free_port()
    options = ["-p", str(port), "-n", "true", "-r", str(registers).lower()]
    for one in people:
        options += ["--user-claims", msgspec.json.encode(one).decode()]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: _answers(f"{url}/jwks"), what="the provider's start")
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S):  # noqa: S310 - our own provider
            return True
    except OSError:
        return False
