"""Keys and certificates for one control plane: small, short-lived, and strict enough for Python's verification."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Certificates:
    """Where they are."""

    ca: Path
    server: Path
    server_key: Path
    accounts_key: Path
    """Signs ServiceAccount tokens."""
    accounts_public_key: Path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def create(folder: Path, *, rsa_key: bool = False) -> Certificates:
    """Write a CA, a server certificate for loopback and a key pair for ServiceAccounts into a folder. The server's key
    is RSA if so asked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    # A day of slack: the clocks of a container and its host need not agree.
    start, end = now - datetime.timedelta(days=1), now + datetime.timedelta(days=30)

    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier)
    ca = (
        x509.CertificateBuilder(_name("test-ca"), _name("test-ca"), ca_key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(ca_identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )

    key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        *(x509.DNSName(name) for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")),
    ]
    server = (
        x509.CertificateBuilder(
            _name("test-ca"), _name("kube-apiserver"), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )

    accounts = ec.generate_private_key(ec.SECP256R1())
    result = Certificates(
        ca=folder / "ca.crt",
        server=folder / "server.crt",
        server_key=folder / "server.key",
        accounts_key=folder / "accounts.key",
        accounts_public_key=folder / "accounts.pub",
    )
    result.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    result.server.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    result.server_key.write_bytes(_private_pem(key))
    result.accounts_key.write_bytes(_private_pem(accounts))
    result.accounts_public_key.write_bytes(
        accounts.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return result
