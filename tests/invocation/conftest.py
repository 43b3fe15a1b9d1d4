"""Both ways of reading a connection, and a certificate to read through."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest


@pytest.fixture(params=["stamped", "portable"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs twice: on our own stamped sockets, and on asyncio's transports as on other systems."""
    if request.param == "portable":
        monkeypatch.setattr("loadproof.invocation.connections.stamps_reads", lambda: False)
    return request.param


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day, number = datetime.timedelta(days=1), x509.random_serial_number()
    builder = x509.CertificateBuilder(name, name, key.public_key(), number, now - day, now + day)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    file = tmp_path_factory.mktemp("tls") / "cert.pem"
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file
