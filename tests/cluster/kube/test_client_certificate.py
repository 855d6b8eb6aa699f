"""A kubeconfig with a client certificate, on a real API server that trusts its issuer."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.retry import TokenBucket
from tests.controlplane.plane import ControlPlane

pytestmark = pytest.mark.controlplane


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _issue(
    subject: list[x509.NameAttribute], issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: object, ca: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateBuilder(issuer, x509.Name(subject), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=2))
    return builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True).sign(
        signer, hashes.SHA256()
    )


class Issuer:
    """A certificate authority for clients."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])
        certificate = _issue(list(self._name), self._name, self._key, self._key, ca=True)
        self.file = folder / "client-ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def client(self, user: str, group: str) -> tuple[bytes, bytes]:
        """PEM certificate and key of a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [
            x509.NameAttribute(NameOID.COMMON_NAME, user),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
        ]
        certificate = _issue(subject, self._name, key, self._key, ca=False)
        return certificate.public_bytes(serialization.Encoding.PEM), _pem_key(key)


def kubeconfig(plane: ControlPlane, folder: Path, certificate: bytes, key: bytes) -> Path:
    """A kubeconfig that carries the certificate and key themselves."""
    config = yaml.safe_load(plane.admin_kubeconfig.read_text())
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    path = folder / "certificate.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_client_certificate(make_control_plane: Callable[..., ControlPlane], tmp_path: Path) -> None:
    """The user of the certificate is let in, one of another issuer is not."""
    issuer = Issuer(tmp_path)
    plane = make_control_plane(controller_manager=False, kwok=False, apiserver_args=[f"--client-ca-file={issuer.file}"])
    own = issuer.client("operator", "system:masters")
    (tmp_path / "other").mkdir()
    foreign = Issuer(tmp_path / "other").client("operator", "system:masters")
    for (certificate, key), allowed in ((own, True), (foreign, False)):
        connection = await load_connection(str(kubeconfig(plane, tmp_path, certificate, key)), None)
        client = Client(connection, TokenBucket(100.0, 100))
        client.open()
        try:
            if allowed:
                assert b"kube-system" in await client.get("/api/v1/namespaces")
            else:
                with pytest.raises(ApiError) as refused:
                    await client.get("/api/v1/namespaces")
                assert refused.value.status == 401
        finally:
            await client.close()
    plane.stop()
