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
    found = Clusters(file=text)
    for name, said in _tables(text).items():
        where = f"[clusters.{name}]"
        topic_name(name)
        if not isinstance(said, dict):
            raise ValueError(f"{where} must be a table with {_SERVERS}")  # noqa: TRY004 - settings: ValueError
        _only_known(where, said)
        found[name] = _bootstrap(where, said)
        if _RATE in said:
            found.rates[name] = _rate(where, said[_RATE])
        if _LOGIN & said.keys() or _FROM_ENV.keys() & said.keys():
            found.logins[name] = _login(where, said, env)
    return found


def _tables(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            said = tomllib.load(file)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"the file cannot be read: {why}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the file is not valid TOML: {error}") from None
    stranger = next((key for key in said if key != "clusters"), None)
    tables = said.get("clusters")
    if stranger is not None or not isinstance(tables, dict):
        raise ValueError(f"the file may only have tables [clusters.NAME], not {stranger or 'none'!r}")
    return tables


def _only_known(where: str, said: Mapping[str, Any]) -> None:
    for key in said:
        if key in _SECRETS:
            raise ValueError(
                f"{where} has {key}: secrets are not allowed in this file. Put it into a separate file and name the "
                f"file in {key}_file, or into an environment variable and name the variable in {key}_env"
            )
        if key not in _KEYS:
            raise ValueError(f"{where} has {key!r}, which is not a known key. The keys are {', '.join(_KEYS)}")


def _bootstrap(where: str, said: Mapping[str, Any]) -> str:
    given = said.get(_SERVERS)
    listed = given if isinstance(given, list) else [given]
    text = servers(",".join(each for each in listed if isinstance(each, str)))
    if not text:
        raise ValueError(f'{where} needs {_SERVERS}, such as "kafka-1:9093,kafka-2:9093"')
    return text


def _rate(where: str, said: Any) -> Rate:
    try:
        return parse_rate(str(said))
    except ValueError as error:
        raise ValueError(f"{where} {_RATE}: {error}") from None


def _login(where: str, said: Mapping[str, Any], env: Mapping[str, str]) -> Login:
    """Return the login of a cluster from its own keys alone, without those of our own cluster."""
    if "security_protocol" not in said:
        raise ValueError(f"{where} has security keys, but no security_protocol. Add it")
    texts = {}
    for key in said.keys() & (_LOGIN | _FROM_ENV.keys()):
        texts[key.upper()] = said[key]
        if not isinstance(said[key], str):
            raise ValueError(f"{where} {key} must be text")  # noqa: TRY004 - settings: ValueError
    for key, secret in _FROM_ENV.items():
        name = said.get(key)
        if name is None:
            continue
        if f"{secret}_file" in said or not env.get(name):
            why = (
                f"cannot be combined with {secret}_file"
                if f"{secret}_file" in said
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
