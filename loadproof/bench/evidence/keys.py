"""Keys that sign evidence, and the check of a signature: a file's (Ed25519, ECDSA on P-256) or one in AWS KMS.

What AWS signs needs no library beyond boto3; a file's key, and every check, needs `cryptography`: the extra `signing`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.aws_sdk import guarded, sdk
from loadproof.invocation.endpoints import Client

_KMS: Final = "awskms:///"  # as cosign and other signers name such a key
_ARN: Final = re.compile(r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:(key|alias)/\S+")
_MOST_RAW_BYTES: Final = 4096  # https://docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html; statements take 2 kB
_ATTEMPTS: Final = 4  # a run is long, and its signature one call at its end


class SigningKey(Protocol):
    """Signs bytes. Raises CouldNotRunError."""

    @property
    def keyid(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class FileKey:
    """A private key of this machine. `keyid` is the SHA-256 of its public half (DER)."""

    keyid: str
    _private: Any  # cryptography's, of either kind

    def sign(self, message: bytes) -> bytes:
        if type(self._private).__name__.startswith("Ed25519"):
            return bytes(self._private.sign(message))
        part = cryptography("hazmat.primitives.hashes"), cryptography("hazmat.primitives.asymmetric.ec")
        return bytes(self._private.sign(message, part[1].ECDSA(part[0].SHA256())))


@dataclass(frozen=True, slots=True)
class KmsKey:
    """A key in KMS (ECC_NIST_P256, SIGN_VERIFY): the private half never leaves it. `client` is boto3's for KMS."""

    keyid: str
    client: Client

    def sign(self, message: bytes) -> bytes:
        if len(message) > _MOST_RAW_BYTES:
            raise CouldNotRunError(f"{self.keyid}: KMS signs {_MOST_RAW_BYTES:,} bytes at most, not {len(message):,}")
        try:
            answer = self.client.sign(
                KeyId=self.keyid, Message=message, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256"
            )
        except (BotoCoreError, ClientError) as error:
            raise CouldNotRunError(f"{self.keyid}: KMS does not sign: {error}") from None
        return bytes(answer["Signature"])


def signing_key(text: str) -> SigningKey:
    """`awskms:///ARN` or the file of a private key in PEM. Raises InputError, CouldNotRunError."""
    if not text.startswith(_KMS):
        return _file_key(Path(text))
    arn = text.removeprefix(_KMS)
    match = _ARN.fullmatch(arn)
    if match is None:
        raise InputError(f"{text}: expected {_KMS}arn:aws:kms:REGION:ACCOUNT:key/ID, or the file of a private key")
    try:
        config = sdk("botocore.config").Config(
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"}, read_timeout=30
        )
        return KmsKey(arn, guarded(sdk("boto3").client("kms", region_name=match["region"], config=config)))
    except (BotoCoreError, ValueError) as error:
        raise CouldNotRunError(f"KMS cannot be spoken to: {error}") from error


def _file_key(file: Path) -> FileKey:
    serialization = cryptography("hazmat.primitives.serialization")
    try:
        private = serialization.load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); give a private key's file or {_KMS}ARN") from None
    except TypeError:
        raise InputError(f"{file}: is encrypted; give a key without a passphrase, or one in KMS: {_KMS}ARN") from None
    except (ValueError, cryptography("exceptions").UnsupportedAlgorithm):
        raise InputError(f"{file}: no private key in PEM; make one: openssl genpkey -algorithm ed25519") from None
    _refuse_other_kinds(private.public_key(), str(file))
    der = private.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return FileKey(hashlib.sha256(der).hexdigest(), private)


def is_signed(public_key: str, message: bytes, signature: bytes, *, named: str) -> bool:
    """Whether the owner of this public key (PEM) signed exactly this. Raises InputError for a key that is none."""
    try:
        key = cryptography("hazmat.primitives.serialization").load_pem_public_key(public_key.encode())
    except (ValueError, cryptography("exceptions").UnsupportedAlgorithm):
        raise InputError(f"{named}: its public_key is none; export it again (docs/evidence.md)") from None
    kind = _refuse_other_kinds(key, named)
    try:
        if kind == "Ed25519":
            key.verify(signature, message)
        else:
            ec, hashes = cryptography("hazmat.primitives.asymmetric.ec"), cryptography("hazmat.primitives.hashes")
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except cryptography("exceptions").InvalidSignature:
        return False
    return True


def _refuse_other_kinds(public: object, named: str) -> str:
    name = type(public).__name__
    if name.startswith("Ed25519"):
        return "Ed25519"
    if getattr(getattr(public, "curve", None), "name", "") == "secp256r1":
        return "P-256"
    raise InputError(f"{named}: expected a key of Ed25519 or ECDSA on P-256, found {name}; make another")


def cryptography(module: str) -> Any:
    """A module of the library. Raises InputError without it."""
    try:
        return import_module(f"cryptography.{module}")
    except ImportError:
        raise InputError("signatures need the `cryptography` library: pip install 'loadproof[signing]'") from None
