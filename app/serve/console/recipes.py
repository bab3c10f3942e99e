"""Makes lines for a shell or Python that schedule a message, to copy."""

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from punctual.contract.times import moment_of


def recipes(bodied: Mapping[str, Any], app_id: str, url: str) -> dict[str, str]:
    """Return the kcat, curl and Python line for a body of `POST /api/v1/messages`."""
    return {"kcat": _kcat(bodied, app_id), "curl": _curl(bodied, url), "Python": _python(bodied, app_id)}


def _when(bodied: Mapping[str, Any]) -> str:
    if "after" in bodied:
        return f"delay-after={bodied['after']}"
    return f"delay-at={_stamp(bodied['at'])}"


def _stamp(at_ms: int) -> str:
    try:
        return moment_of(at_ms).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


def _kcat(bodied: Mapping[str, Any], app_id: str) -> str:
    headers = [f"delay-to={bodied['to']}", _when(bodied)]
    if bodied.get("id"):
        headers.append(f"delay-id={bodied['id']}")
    headers += [f"{name}={value}" for name, value in bodied.get("headers", {}).items()]
    key = ["-k", bodied["key"]] if bodied.get("key") else []
    told = [part for header in headers for part in ("-H", header)]
    words = ["kcat", "-P", "-b", "127.0.0.1:9092", "-t", f"{app_id}-requests", *key, *told]
    return f"printf '%s\\n' {shlex.quote(bodied.get('value') or '')} | {shlex.join(words)}"


def _curl(bodied: Mapping[str, Any], url: str) -> str:
    content = msgspec.json.encode(bodied).decode()
    return f"curl {shlex.quote(f'{url}/api/v1/messages')} --json {shlex.quote(content)}"


def _python(bodied: Mapping[str, Any], app_id: str) -> str:
    given = [repr(bodied["to"]), repr(bodied.get("value") or "")]
    given += [f"{name}={bodied[name]!r}" for name in ("id", "key") if bodied.get(name)]
    if "after" in bodied:
        given.append(f"after=timedelta(milliseconds={bodied['after']})")
    else:
        given.append(f"at=datetime.fromisoformat({_stamp(bodied['at'])!r})")
    if bodied.get("headers"):
        given.append(f"headers={dict(bodied['headers'])!r}")
    client = (
        "DelayClient('127.0.0.1:9092')" if app_id == "delay" else f"DelayClient('127.0.0.1:9092', app_id={app_id!r})"
    )
    return f"async with {client} as client:\n    await client.delay({', '.join(given)})"
