"""A token provider in this process: client credentials, and the keys by which brokers verify its signatures."""

import base64
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

import msgspec
from joserfc import jwt
from joserfc.jwk import RSAKey


class TokenEndpoint:
    """Issues JWTs, during a block, to clients whose secrets it has; `lasts_s` is their lifetime."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """Use `secrets`: each client's secret, by its name."""
        self.secrets, self.lasts_s = secrets, 3_600.0
        #: The clients that got tokens, one entry for each; `refused` counts failed requests.
        self.given: list[str] = []
        self.tokens: list[str] = []
        self.refused = 0
        self.away = False
        self._key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The URL of the token endpoint."""
        return f"{self.issuer}/token"

    @property
    def issuer(self) -> str:
        """The issuer of the tokens; its keys are at `/jwks`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def jwks(self) -> bytes:
        """Return the public keys of the signatures."""
        return msgspec.json.encode({"keys": [self._key.as_dict(private=False)]})

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the answer to a token request."""
        name, _, secret = base64.b64decode(authorization.partition(" ")[2]).decode().partition(":")
        client = unquote_plus(name)
        if self.away:
            return 503, {}
        if form.get("grant_type") != ["client_credentials"] or self.secrets.get(client) != unquote_plus(secret):
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.given.append(client)
        now = time.time()
        claims = {"iss": self.issuer, "aud": "kafka", "sub": client, "iat": int(now), "exp": int(now + self.lasts_s)}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims | {"scope": "kafka"}, self._key)
        self.tokens.append(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lasts_s)}


def _handler(endpoint: TokenEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, endpoint.jwks())

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, body = endpoint.answer(self.headers["Authorization"], form)
            self._say(status, msgspec.json.encode(body))

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
