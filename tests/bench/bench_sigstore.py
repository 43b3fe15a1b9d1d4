"""A Sigstore of the tests' own: an authority, a log with its tree, and bundles, written from the specifications.

Nothing of the product is used: trees are built from all their leaves (RFC 6962, 2.1), proofs by its recursion.
"""

from __future__ import annotations

import base64
import hashlib
import json
import textwrap
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
IDENTITY = "https://github.com/acme/endpoints/.github/workflows/deploy.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
RECORDED = Path(__file__).parent / "sigstore"
_SHA256 = ec.ECDSA(hashes.SHA256())


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def recorded_bundle() -> dict[str, Any]:
    """npm's provenance of sigstore 2.2.0, as GitHub's runner and Sigstore's public log made it in January 2024.

    The log's entry has nothing that is not in the bundle but one hash: it is put together here, and only the bytes
    that were logged have a proof.
    """
    bundle: dict[str, Any] = json.loads((RECORDED / "npm-sigstore-2.2.0.json").read_text())
    envelope, material = bundle["dsseEnvelope"], bundle["verificationMaterial"]
    [entry], [signature] = material["tlogEntries"], envelope["signatures"]
    lines = "\n".join(textwrap.wrap(material["certificate"]["rawBytes"], 64))
    pem = f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----"
    row = {"publicKey": b64(pem.encode()), "sig": b64(signature["sig"].encode())}
    payload = hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest()
    logged = "09978d1b73bdf78f5f13663f45164b39af761666294dec1ce7e263d8120d55bc"
    content = {
        "envelope": {"payloadType": envelope["payloadType"], "signatures": [row]},
        "hash": {"algorithm": "sha256", "value": logged},
        "payloadHash": {"algorithm": "sha256", "value": payload},
    }
    entry["canonicalizedBody"] = _canonical({"apiVersion": "0.0.2", "kind": "intoto", "spec": {"content": content}})
    return bundle


@dataclass
class Sigstore:
    """`trusted_root` is what a repository lists; `sign` makes a bundle around a payload."""

    authority: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP384R1()))
    between: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP384R1()))
    log: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    leaves: list[bytes] = field(default_factory=lambda: [b"other %d" % at for at in range(13)])

    @property
    def trusted_root(self) -> str:
        chain = [
            _authority("between", self.between, "root", self.authority),
            _authority("root", self.authority, "root", self.authority),
        ]
        good = {"start": (AT - timedelta(days=900)).isoformat().replace("+00:00", "Z")}
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [
                {
                    "publicKey": {"rawBytes": b64(self._log_key), "validFor": good},
                    "logId": {"keyId": b64(hashlib.sha256(self._log_key).digest())},
                }
            ],
            "certificateAuthorities": [
                {"certChain": {"certificates": [{"rawBytes": b64(one)} for one in chain]}, "validFor": good}
            ],
        }
        return json.dumps(root)

    def sign(
        self,
        payload: bytes,
        identity: str = IDENTITY,
        issuer: str = ISSUER,
        at: datetime = AT,
        certified: datetime = AT,
        **certificate: Any,
    ) -> dict[str, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._leaf(key, identity, issuer, certified, **certificate)
        kind = "application/vnd.in-toto+json"
        signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload), _SHA256)
        row = {"signature": b64(signature), "verifier": b64(leaf.public_bytes(serialization.Encoding.PEM))}
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [row],
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": b64(leaf.public_bytes(serialization.Encoding.DER))},
                "tlogEntries": [self.entry({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}, at)],
            },
            "dsseEnvelope": {"payload": b64(payload), "payloadType": kind, "signatures": [{"sig": b64(signature)}]},
        }

    def entry(self, body: dict[str, Any], at: datetime) -> dict[str, Any]:
        canonical = _canonical(body)
        index = 5
        leaves = [*self.leaves[:index], base64.b64decode(canonical), *self.leaves[index:]]
        root, proof = _root(leaves), _proof(index, leaves)
        text = f"log.example - 1\n{len(leaves)}\n{b64(root)}\n"
        note = hashlib.sha256(self._log_key).digest()[:4] + self.log.sign(text.encode(), _SHA256)
        log_id = hashlib.sha256(self._log_key)
        seconds = int(at.timestamp())
        promised = f'{{"body":"{canonical}","integratedTime":{seconds},"logID":"{log_id.hexdigest()}","logIndex":77}}'
        return {
            "logIndex": "77",
            "logId": {"keyId": b64(log_id.digest())},
            "kindVersion": {"kind": body["kind"], "version": body["apiVersion"]},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": b64(self.log.sign(promised.encode(), _SHA256))},
            "inclusionProof": {
                "logIndex": str(index),
                "rootHash": b64(root),
                "treeSize": str(len(leaves)),
                "hashes": [b64(one) for one in proof],
                "checkpoint": {"envelope": f"{text}\n\u2014 log.example {b64(note)}\n"},
            },
            "canonicalizedBody": canonical,
        }

    @property
    def _log_key(self) -> bytes:
        form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return self.log.public_key().public_bytes(*form)

    def _leaf(
        self,
        key: ec.EllipticCurvePrivateKey,
        identity: str,
        issuer: str,
        certified: datetime,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        by: ec.EllipticCurvePrivateKey | None = None,
    ) -> x509.Certificate:
        name = x509.RFC822Name(identity) if "@" in identity and "/" not in identity else None
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
        builder = _builder("between", "", key, certified, certified + timedelta(minutes=10))
        builder = (
            builder.add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([name or x509.UniformResourceIdentifier(identity)]), critical=True
            )
            .add_extension(
                x509.UnrecognizedExtension(oid, b"\x0c" + bytes([len(issuer)]) + issuer.encode()), critical=False
            )
        )
        return builder.sign(by or self.between, hashes.SHA384())


def _authority(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signing: ec.EllipticCurvePrivateKey) -> bytes:
    years = timedelta(days=3650)
    builder = _builder(issuer, name, key, AT - years, AT + years)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True), critical=True)
    return builder.sign(signing, hashes.SHA384()).public_bytes(serialization.Encoding.DER)


def _builder(
    issuer: str, name: str, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else [])

    return (
        x509.CertificateBuilder()
        .issuer_name(named(issuer))
        .subject_name(named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(**given: bool) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip
    return x509.KeyUsage(**{name: given.get(name, False) for name in names})


def _canonical(body: dict[str, Any]) -> str:
    return b64(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _split(number: int) -> int:
    """The largest power of two below."""
    return 1 << ((number - 1).bit_length() - 1)


def _root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    at = _split(len(leaves))
    return hashlib.sha256(b"\1" + _root(leaves[:at]) + _root(leaves[at:])).digest()


def _proof(index: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    at = _split(len(leaves))
    if index < at:
        return [*_proof(index, leaves[:at]), _root(leaves[at:])]
    return [*_proof(index - at, leaves[at:]), _root(leaves[:at])]
