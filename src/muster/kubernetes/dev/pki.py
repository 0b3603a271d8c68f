"""The certificates of a cluster: an authority, the API server's, a key for service accounts, one for each user."""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "10.0.0.1")
MASTERS = "system:masters"
_LIVES = timedelta(days=365)


class Authority:
    """Who vouches for everyone in a cluster. Its files are in a folder: whoever can read that may issue more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.service_accounts = folder / "ca.crt", folder / "service-accounts.key"
        self.server_certificate, self.server_key = folder / "apiserver.crt", folder / "apiserver.key"

    def make(self) -> None:
        """Make the authority, the server's certificate and the key of service accounts."""
        self.folder.mkdir(mode=0o700, parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("muster-dev-cluster")
        made = _certificate(name, name, key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        _write(self.ca, _pem(made.sign(key, hashes.SHA256())))
        _write(self.folder / "ca.key", _key_pem(key))
        names = [x509.DNSName(host) for host in HOSTS]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
        certificate, server_key = self._issue(
            _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName([*names, *addresses])
        )
        _write(self.server_certificate, certificate)
        _write(self.server_key, server_key)
        _write(self.service_accounts, _key_pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)))

    def user(self, name: str, *groups: str) -> tuple[bytes, bytes]:
        """A certificate and its key for somebody."""
        return self._issue(_name(name, *groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def kubeconfig(self, server: str, user: str, *groups: str) -> str:
        """A kubeconfig with which `user` reaches `server`."""
        certificate, key = self.user(user, *groups)
        name = "muster-dev"
        return kubeconfig(
            name,
            {"server": server, "certificate-authority-data": _base64(self.ca.read_bytes())},
            {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)},
        )

    def _issue(
        self, subject: x509.Name, use: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None = None
    ) -> tuple[bytes, bytes]:
        authority = x509.load_pem_x509_certificate(self.ca.read_bytes())
        authority_key = serialization.load_pem_private_key((self.folder / "ca.key").read_bytes(), password=None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(subject, authority.subject, key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if names is not None:
            made = made.add_extension(names, critical=False)
        return _pem(made.sign(authority_key, hashes.SHA256())), _key_pem(key)


def kubeconfig(name: str, cluster: dict[str, object], user: dict[str, object]) -> str:
    """A kubeconfig with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False)


def _name(common: str, *groups: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks of a laptop that slept
        .not_valid_after(now + _LIVES)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
