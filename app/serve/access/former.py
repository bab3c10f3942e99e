"""The tables of an access file, also from the three forms of earlier versions, which this version still reads."""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from app.base.watched_file import Line
from app.serve.access.caller import ROLES, Grant, combined
from app.serve.access.entries import EVERYBODY, FindLine

#: The forms, as the log names them.
USERS: Final = "lines of name:role:hash"
TOKENS: Final = "a table of tokens for each name"
PROVIDER: Final = "a provider with roles"
_TOML: Final = re.compile(r"\[(?!.*:\$scrypt).*|[\w.\"'-]+\s*=.*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Tables(NamedTuple):
    """The tables of a file, the lines of its tables and keys, and its form: "" for the present one."""

    tables: dict[str, Any]
    find_line: FindLine
    form: str


def tables_of(lines: Sequence[Line]) -> Tables:
    """Return the tables of an access file, or of a former file of users, of tokens or of a provider.

    Raises ValueError with a sentence, which never contains a hash.
    """
    if lines and not _TOML.fullmatch(lines[0][1]):
        return _of_users(lines)
    by_number = dict(lines)
    text = "\n".join(by_number.get(number, "") for number in range(1, max(by_number, default=0) + 1))
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None

    def find_line(path: tuple[str, ...], key: str) -> int | None:
        return _line(lines, path, key)

    if any(isinstance(table, dict) and isinstance(table.get("tokens"), list) for table in tables.values()):
        users = {name: _of_token_table(table) for name, table in tables.items()}
        return Tables({"users": users}, lambda path, key: find_line(path[1:], key), TOKENS)
    if not tables.keys().isdisjoint(("issuer", "client_id", "roles")):
        return Tables(_of_provider(tables), lambda _, key: _line([(0, "[]"), *lines], ("",), key) or None, PROVIDER)
    return Tables(tables, find_line, "")


def _line(lines: Iterable[Line], path: tuple[str, ...], key: str) -> int | None:
    names = r"\s*\.\s*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in path)
    header, start = re.compile(rf"\[\s*{names}\s*[\].]"), None
    for number, line in lines:
        if start is None and header.match(line):
            start = number
        elif start is not None and line.startswith("["):
            break
        elif start is not None and key and re.match(rf"{re.escape(key)}\s*=", line):
            return number
    return start


def _of_users(lines: Iterable[Line]) -> Tables:
    users: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for number, line in lines:
        name, *entry = line.split(":")
        if len(entry) not in (2, 3):
            sentence = f"line {number} is not of the form name:role:hash or name:role:hash:namespace,…"
            more = ". The lines before have that form: print them in the new form with `punctual access convert`"
            raise ValueError(sentence + (more if users and line.startswith("[") else ""))
        if name in users:
            raise ValueError(f"line {number} names {name} a second time")
        users[name], numbers[name] = {"role": entry[0], "password": entry[1]}, number
        for namespaces in entry[2:]:
            users[name]["namespaces"] = list(dict.fromkeys(map(str.strip, namespaces.split(","))))
    return Tables({"users": users}, lambda path, _: numbers.get(path[-1]), USERS)


def _of_token_table(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    rest = {key: value for key, value in table.items() if key != "namespace"}
    limits = {"namespaces": [table["namespace"]]} if table.get("namespace") else {}
    return {"role": "operator", **limits, "destinations": "", **rest}  # destinations must be there


def _of_provider(table: Mapping[str, Any]) -> dict[str, Any]:
    keys, roles = {key: value for key, value in table.items() if key != "roles"}, table.get("roles", "")
    if not roles or not isinstance(roles, str):
        raise ValueError('roles must be a text, such as roles = "groups:sre=admin,*=viewer"')
    try:
        claim, groups = _rules(roles)
    except ValueError as error:
        raise ValueError(f"roles {roles!r}: {error}") from error
    return {"provider": keys | ({"claim": claim} if claim else {}), "groups": groups}


def _rules(text: str) -> tuple[str, dict[str, Any]]:
    """Return the claim, and the groups, of rules such as `groups:sre=admin,orders=operator@team-a+team-b,*=viewer`.

    Several rules may have the same value. A claim with a colon in its name is in brackets:
    `[cognito:groups]:sre=admin`. Raises ValueError with the correct form.
    """
    claim, pairs = _split_claim(text.strip())
    grants = defaultdict[str, list[Grant]](list)
    for pair in filter(None, map(str.strip, pairs.split(","))):
        value, equals, grant = pair.rpartition("=")
        name, at, namespaces = grant.strip().partition("@")
        role = next((role for role in ROLES if role == name), None)
        if not equals or role is None:
            raise ValueError(f"{pair!r} is not of the form value=role. The roles are {', '.join(ROLES)}")
        names = tuple(map(str.strip, namespaces.split("+"))) if at else None
        grants[value.strip()].append(Grant(role, namespaces=names))
    groups = {value: _group(combined(of_value)) for value, of_value in grants.items()}
    if not groups:
        raise ValueError("without it, no user has a role. For example: 'groups:sre=admin,support=operator,*=viewer'")
    if not claim and set(groups) != {EVERYBODY}:
        raise ValueError("it has no claim, as in 'groups:sre=admin'")
    return claim, groups


def _group(grant: Grant) -> dict[str, Any]:
    return {"role": grant.role} | ({} if grant.namespaces is None else {"namespaces": list(grant.namespaces)})


def _split_claim(text: str) -> tuple[str, str]:
    """Return the claim and the rules after it. Raises ValueError if the colon after the claim is ambiguous."""
    if text.startswith("["):
        claim, bracket, pairs = text[1:].partition("]:")
        if not bracket:
            raise ValueError("']:' is missing after the claim, as in '[cognito:groups]:sre=admin'")
        return claim.strip(), pairs
    head = text.partition("=")[0]
    if head.count(":") > 1:
        raise ValueError(f"{head!r} has more than one colon. Put the claim in brackets: '[cognito:groups]:sre=admin'")
    claim, _, pairs = text.partition(":") if ":" in head else ("", "", text)
    return claim.strip(), pairs


def as_toml(tables: Mapping[str, Any]) -> str:
    """Return tables as the text of an access file."""
    sections: dict[str, Mapping[str, Any]] = {}
    for top, table in tables.items():
        sections |= {top: table} if top == "provider" else {f"{top}.{_key(name)}": table[name] for name in table}
    return "\n".join(
        f"[{path}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in section.items())
        for path, section in sections.items()
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return json.dumps(value, ensure_ascii=False)
