"""The commands for the access file: `punctual password`, `punctual token`, `punctual access check` and `convert`."""

import argparse
import getpass
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from app.base.clock import Clock
from app.base.watched_file import lines_of
from app.serve.access import former
from app.serve.access.caller import ROLES, Caller, Grant
from app.serve.access.entries import NAME, Access, User, access_of
from app.serve.access.password import Hash
from app.serve.access.token import digest_of, new_token
from punctual.contract.namespaces import namespace_name, parse_namespaces

_LEAST: Final = 8
#: The names of programs, which labels of metrics and files have too.
_PROGRAM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAY: Final = {
    "viewer": "read messages, dead letters and jobs",
    "operator": "read; act on one message or dead letter at a time",
    "admin": "read; act on one or all messages; control destinations; read the audit",
}
_HEAD: Final = ("NAME", "LOGIN", "ROLE", "NAMESPACES", "DESTINATIONS", "REQUESTS")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in the arguments."""
    match list(sys.argv[1:] if arguments is None else arguments):
        case ["password", *rest]:
            _password(rest)
        case ["token", *rest]:
            _token(rest)
        case rest:
            _access(rest[1:] if rest[:1] == ["access"] else rest)


def _password(arguments: list[str]) -> None:
    """Print the lines of a user, to be added to the access file."""
    parser = argparse.ArgumentParser(
        prog="punctual password",
        description="Print a user's lines for the access file (DELAY_WEB_USERS_FILE). Asks for the password, or reads "
        "it from stdin.",
    )
    parser.add_argument("name")
    parser.add_argument("role", choices=ROLES)
    help_text = "restrict the user to these namespaces of DELAY_NAMESPACES (default: the whole installation)"
    parser.add_argument("--namespaces", metavar="NAME[,NAME…]", default="", help=help_text)
    options = parser.parse_args(arguments)
    if not NAME.fullmatch(options.name) or not options.name.isprintable():
        parser.error("a name must have 1 to 64 characters without space, ':' or '#'")
    try:
        names = list(map(namespace_name, options.namespaces.split(","))) if options.namespaces else []
        hash_ = str(Hash.of(_asked()))
    except ValueError as error:
        parser.error(str(error))
    user = {"role": options.role} | ({"namespaces": names} if names else {}) | {"password": hash_}
    sys.stdout.write(former.as_toml({"users": {options.name: user}}))


def _asked() -> str:
    """Return the password that is typed twice on the terminal, or read from stdin.

    Raises ValueError with a sentence if it is invalid.
    """
    typed = sys.stdin.isatty()
    password = getpass.getpass("Password: ") if typed else sys.stdin.readline().rstrip("\n")
    if typed and getpass.getpass("Once more: ") != password:
        raise ValueError("the two passwords differ; nothing was written")
    if len(password) < _LEAST:
        raise ValueError(f"a password needs at least {_LEAST} characters")
    return password


def _token(arguments: list[str]) -> None:
    """Write a new token to stdout, and lines for the access file to stderr."""
    parser = argparse.ArgumentParser(
        prog="punctual token",
        description="Make a token for a program. The token is printed to stdout and not stored; the lines for the "
        "access file (DELAY_WEB_USERS_FILE) are printed to stderr.",
    )
    parser.add_argument("name", help="name of the program: letters, digits, - and _")
    options = parser.parse_args(arguments)
    if not _PROGRAM.fullmatch(options.name):
        parser.error("use 1 to 64 letters, digits, hyphens or underscores, the first a letter or a digit")
    token = new_token()
    sys.stderr.write(
        f'[users.{options.name}]\nrole = "operator"\n'
        'destinations = ["*"]  # better: the topics that it may deliver to\n'
        f'tokens = [{{ sha256 = "{digest_of(token).hex()}" }}]\n'
    )
    sys.stdout.write(token + "\n")


def _access(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="punctual access", description="Check or convert an access file.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="print who may do what in an access file, and its mistakes",
        description="Print who may do what in an access file. Exits with 1 and each mistake on stderr if it has any. "
        "Namespaces are compared with DELAY_NAMESPACES if that is set.",
    )
    check.add_argument("file")
    convert = commands.add_parser(
        "convert",
        help="print an access file for files of an earlier version",
        description="Print one access file for files of an earlier version: users, tokens, and a provider. Hashes "
        "stay as they are.",
    )
    convert.add_argument("files", metavar="FILE", nargs="+")
    options = parser.parse_args(arguments)
    try:
        if options.command == "convert":
            sys.stdout.write(former.as_toml(_converted(options.files)))
        else:
            _check(options.file)
    except (OSError, ValueError) as error:
        sys.exit(f"punctual access: {error}")


def _converted(paths: Sequence[str]) -> dict[str, Any]:
    """Return the tables of some files of an earlier version. Raises ValueError or OSError."""
    tables: dict[str, Any] = {}
    for path in paths:
        for top, table in former.tables_of(lines_of(_text(path))).tables.items():
            twice = tables.get(top, {}).keys() & table.keys()
            if twice:
                raise ValueError(f"{path}: [{top}.{min(twice)}] is in another of the files too. Rename one of the two")
            tables[top] = tables.get(top, {}) | table
    return tables


def _check(path: str) -> None:
    """Print a table of an access file, or its mistakes and exit. Raises ValueError or OSError."""
    tables, find_line, form = former.tables_of(lines_of(_text(path)))
    named = os.environ.get("DELAY_NAMESPACES")
    mistakes, access = access_of(tables, find_line, None if named is None else parse_namespaces(named).names)
    if mistakes:
        sys.exit("\n".join(f"{path}: {one}" for one in mistakes))
    rows = [_HEAD, *_rows(access)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())  # noqa: T201 - the output
    for role in (role for role in ROLES if any(row[2] == role for row in rows)):
        print(f"{role}: {_MAY[role]}")  # noqa: T201
    if form:
        print(f"{path} has the form of an earlier version ({form}). Convert it: punctual access convert {path}")  # noqa: T201


def _rows(access: Access) -> Iterator[tuple[str, ...]]:
    for name, user in access.users.items():
        yield _row(name, _login(user), user.caller)
    for name, grant in access.groups.items():
        yield _row(f"group {name}", "provider", grant)


def _row(name: str, login: str, one: Caller | Grant) -> tuple[str, ...]:
    rate = f"{one.rate:g}/s, burst {one.burst}" if one.rate else "no limit"
    return (name, login, one.role, _list(one.namespaces), _list(one.destinations), rate)


def _login(user: User) -> str:
    ways = ["password"] if user.hash is not None else []
    now_ms = Clock.wall_ms()
    for token in user.tokens:
        if token.expires_ms <= now_ms:
            ways.append("expired token")
        elif token.expires:
            ways.append(f"token until {datetime.fromtimestamp(token.expires_ms / 1_000, UTC):%Y-%m-%d}")
        else:
            ways.append("token")
    return ", ".join(ways)


def _list(names: Collection[str] | None) -> str:
    return "all" if names is None else ", ".join(names) or "none"


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None


if __name__ == "__main__":
    main()
