"""Other clusters to deliver to: `name=servers` pairs, or a TOML file with the login of each cluster."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from app.settings.values import pairs, servers, topic_name
from punctual.contract.rate import Rate, parse_rate
from punctual.security.errors import LoginInvalid
from punctual.security.login import NAMES, SECRETS, Login, login_of

_SERVERS: Final = "bootstrap_servers"
_RATE: Final = "rate"
_LOGIN: Final = frozenset(name.lower() for name in NAMES)
_SECRETS: Final = frozenset(name.lower() for name in SECRETS)
#: Secrets are not allowed as keys; these keys name the environment variables that have them.
_FROM_ENV: Final = {f"{secret}_env": secret for secret in sorted(_SECRETS)}
_KEYS: Final = (_SERVERS, _RATE, *sorted((_LOGIN - _SECRETS) | _FROM_ENV.keys()))


class Clusters(dict[str, str]):
    """Bootstrap servers by the clusters' names.

    Attributes:
        logins: the logins of clusters that the file gives one; the others use our own cluster's.
        rates: the maximum rates of clusters, each of all its topics together, where the file has one.
        file: the path of the file, empty if there is none.
    """

    def __init__(self, bootstrap: Mapping[str, str] = {}, file: str = "") -> None:
        """Begin without logins and rates."""
        super().__init__(bootstrap)
        self.logins: dict[str, Login] = {}
        self.rates: dict[str, Rate] = {}
        self.file = file


def clusters(text: str, env: Mapping[str, str] = os.environ) -> Clusters:
    """Parse DELAY_CLUSTERS: `name=servers,…`, or the path of a file that ends in `.toml`.

    Raises ValueError, which names the problem and its place, without values that may be secret.
    """
    if not text.endswith(".toml") or "=" in text:
        return Clusters({name: servers(value) for name, value in pairs(text).items()})
    result = Clusters(file=text)
    for name, table in _tables(text).items():
        where = f"[clusters.{name}]"
        topic_name(name)
        if not isinstance(table, dict):
            raise ValueError(f"{where} must be a table with {_SERVERS}")  # noqa: TRY004 - settings: ValueError
        _only_known(where, table)
        result[name] = _bootstrap(where, table)
        if _RATE in table:
            result.rates[name] = _rate(where, table[_RATE])
        if _LOGIN & table.keys() or _FROM_ENV.keys() & table.keys():
            result.logins[name] = _login(where, table, env)
    return result


def _tables(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            document = tomllib.load(file)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"the file cannot be read: {why}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the file is not valid TOML: {error}") from None
    stranger = next((key for key in document if key != "clusters"), None)
    tables = document.get("clusters")
    if stranger is not None or not isinstance(tables, dict):
        raise ValueError(f"the file may only have tables [clusters.NAME], not {stranger or 'none'!r}")
    return tables


def _only_known(where: str, table: Mapping[str, Any]) -> None:
    for key in table:
        if key in _SECRETS:
            raise ValueError(
                f"{where} has {key}: secrets are not allowed in this file. Put it into a separate file and name the "
                f"file in {key}_file, or into an environment variable and name the variable in {key}_env"
            )
        if key not in _KEYS:
            raise ValueError(f"{where} has {key!r}, which is not a known key. The keys are {', '.join(_KEYS)}")


def _bootstrap(where: str, table: Mapping[str, Any]) -> str:
    given = table.get(_SERVERS)
    listed = given if isinstance(given, list) else [given]
    text = servers(",".join(each for each in listed if isinstance(each, str)))
    if not text:
        raise ValueError(f'{where} needs {_SERVERS}, such as "kafka-1:9093,kafka-2:9093"')
    return text


def _rate(where: str, value: Any) -> Rate:
    try:
        return parse_rate(str(value))
    except ValueError as error:
        raise ValueError(f"{where} {_RATE}: {error}") from None


def _login(where: str, table: Mapping[str, Any], env: Mapping[str, str]) -> Login:
    """Return the login of a cluster from its own keys alone, without those of our own cluster."""
    if "security_protocol" not in table:
        raise ValueError(f"{where} has security keys, but no security_protocol. Add it")
    texts = {}
    for key in table.keys() & (_LOGIN | _FROM_ENV.keys()):
        texts[key.upper()] = table[key]
        if not isinstance(table[key], str):
            raise ValueError(f"{where} {key} must be text")  # noqa: TRY004 - settings: ValueError
    for key, secret in _FROM_ENV.items():
        name = table.get(key)
        if name is None:
            continue
        if f"{secret}_file" in table or not env.get(name):
            why = (
                f"cannot be combined with {secret}_file"
                if f"{secret}_file" in table
                else "names an environment variable that is not set"
            )
            raise ValueError(f"{where} {key} {why}")
        texts[secret.upper()] = env[name]
    if "BEGIN" in texts.get("SSL_KEYFILE", ""):
        raise ValueError(f"{where} ssl_keyfile must be the path of a file, not the key itself")
    try:
        return login_of(texts)
    except LoginInvalid as error:
        raise ValueError(f"{where} {error.name.lower()}: {error.why}") from None
