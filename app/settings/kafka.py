"""Settings of Kafka and of the clusters to deliver to (docs/reference/settings.md)."""

from dataclasses import dataclass
from typing import Any

from app.settings.clusters import Clusters, clusters
from app.settings.declared import setting
from app.settings.values import one_of, servers
from punctual.security.login import DEFAULT_MECHANISM, MECHANISMS, NAMES, PROTOCOLS, Login, login_of
from punctual.security.options import kafka_options
from punctual.security.secret_file import SecretFile


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaSettings:
    """The addresses of brokers, and the logins to them."""

    bootstrap: str = setting("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092", servers)
    security_protocol: str = setting("KAFKA_SECURITY_PROTOCOL", "PLAINTEXT", one_of(*PROTOCOLS))
    sasl_mechanism: str = setting("KAFKA_SASL_MECHANISM", DEFAULT_MECHANISM, one_of(*MECHANISMS))
    sasl_username: str = setting("KAFKA_SASL_USERNAME", "")
    sasl_password: str | SecretFile = setting("KAFKA_SASL_PASSWORD", "", rotates=True)
    sasl_oauthbearer_token_endpoint_url: str = setting("KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL", "")
    sasl_oauthbearer_client_id: str = setting("KAFKA_SASL_OAUTHBEARER_CLIENT_ID", "")
    sasl_oauthbearer_client_secret: str | SecretFile = setting("KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET", "", rotates=True)
    sasl_oauthbearer_scope: str = setting("KAFKA_SASL_OAUTHBEARER_SCOPE", "")
    sasl_oauthbearer_extensions: str = setting("KAFKA_SASL_OAUTHBEARER_EXTENSIONS", "")
    ssl_cafile: str = setting("KAFKA_SSL_CAFILE", "")
    ssl_certfile: str = setting("KAFKA_SSL_CERTFILE", "")
    ssl_keyfile: str = setting("KAFKA_SSL_KEYFILE", "")
    clusters: Clusters = setting("DELAY_CLUSTERS", "", clusters, shared=True)

    @property
    def login(self) -> Login:
        """The login to our own cluster. Raises LoginInvalid."""
        values = {name: getattr(self, name.lower()) for name in NAMES if hasattr(self, name.lower())}
        in_files = {f"{name}_FILE": value.path for name, value in values.items() if isinstance(value, SecretFile)}
        return login_of({name: value for name, value in values.items() if isinstance(value, str)} | in_files)

    def login_to(self, cluster: str) -> Login:
        """Return the login to one of DELAY_CLUSTERS: its own, or else our cluster's."""
        return self.clusters.logins.get(cluster) or self.login

    def options(self, cluster: str | None = None) -> dict[str, Any]:
        """Return the security options that aiokafka's clients take, for our own cluster or one of DELAY_CLUSTERS."""
        return kafka_options(self.login if cluster is None else self.login_to(cluster))
