"""Makes lines for a shell or Python that schedule a message, to copy."""

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from punctual.contract.times import moment_of


def recipes(body: Mapping[str, Any], app_id: str, url: str) -> dict[str, str]:
    """Return the kcat, curl and Python line for a body of `POST /api/v1/messages`."""
    return {"kcat": _kcat(body, app_id), "curl": _curl(body, url), "Python": _python(body, app_id)}


def _due_header(body: Mapping[str, Any]) -> str:
    if "after" in body:
        return f"delay-after={body['after']}"
    return f"delay-at={_stamp(body['at'])}"


def _stamp(at_ms: int) -> str:
    try:
        return moment_of(at_ms).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


def _kcat(body: Mapping[str, Any], app_id: str) -> str:
    headers = [f"delay-to={body['to']}", _due_header(body)]
    if body.get("id"):
        headers.append(f"delay-id={body['id']}")
    headers += [f"{name}={value}" for name, value in body.get("headers", {}).items()]
    key = ["-k", body["key"]] if body.get("key") else []
    options = [part for header in headers for part in ("-H", header)]
    words = ["kcat", "-P", "-b", "127.0.0.1:9092", "-t", f"{app_id}-requests", *key, *options]
    return f"printf '%s\\n' {shlex.quote(body.get('value') or '')} | {shlex.join(words)}"


def _curl(body: Mapping[str, Any], url: str) -> str:
    content = msgspec.json.encode(body).decode()
    return f"curl {shlex.quote(f'{url}/api/v1/messages')} --json {shlex.quote(content)}"


def _python(body: Mapping[str, Any], app_id: str) -> str:
    arguments = [repr(body["to"]), repr(body.get("value") or "")]
    arguments += [f"{name}={body[name]!r}" for name in ("id", "key") if body.get(name)]
    if "after" in body:
        arguments.append(f"after=timedelta(milliseconds={body['after']})")
    else:
        arguments.append(f"at=datetime.fromisoformat({_stamp(body['at'])!r})")
    if body.get("headers"):
        arguments.append(f"headers={dict(body['headers'])!r}")
    client = (
        "DelayClient('127.0.0.1:9092')" if app_id == "delay" else f"DelayClient('127.0.0.1:9092', app_id={app_id!r})"
    )
    return f"async with {client} as client:\n    await client.delay({', '.join(arguments)})"
