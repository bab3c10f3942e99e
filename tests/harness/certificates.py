"""An authority, and certificates that it signs, for brokers and clients of a test."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """Signs certificates; `pem` is its own."""

    def __init__(self, name: str) -> None:
        """Make one with a new key."""
        self._name, self._key = _name(name), ec.generate_private_key(ec.SECP256R1())
        self.pem = _pem(self._signed(self._name, self._key, dt.timedelta(days=365), authority=True))

    def sign(self, common: str, lasts: dt.timedelta = 30 * _DAY) -> tuple[bytes, bytes]:
        """Return a certificate for a name, which is good for 127.0.0.1 too, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        plain = serialization.NoEncryption()
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        return _pem(self._signed(_name(common), key, lasts)), text

    def write(self, place: Path, common: str, lasts: dt.timedelta = 30 * _DAY) -> None:
        """Write cert.pem, key.pem, ca.pem and both.pem (certificate and key) to `place`."""
        place.mkdir(exist_ok=True)
        certificate, key = self.sign(common, lasts)
        for name, text in (("ca", self.pem), ("cert", certificate), ("key", key), ("both", key + certificate)):
            (place / f"{name}.pem").write_bytes(text)

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        lasts: dt.timedelta,
        *,
        authority: bool = False,
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        made = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _DAY,
            not_valid_after=now + lasts,
        )
        made = made.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if not authority:
            names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
