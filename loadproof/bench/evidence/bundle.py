"""A Sigstore bundle around a statement: who signed, by the identity of a job or a person, checked offline.

A short-lived certificate names an OIDC identity, and a public log says that its signature was there while it was good.
Checked against a trusted root (the file that Sigstore publishes as `trusted_root.json`): the chain to Fulcio, the log's
promise (which has the time), its proof of inclusion up to a signed checkpoint, and that the logged entry is this one.
Not checked: that the certificate itself was logged (SCT). Not read: entries of the log's second version.

https://github.com/sigstore/protobuf-specs, https://datatracker.ietf.org/doc/html/rfc6962#section-2.1.1
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import orjson

from loadproof.bench.evidence.keys import cryptography, is_signed
from loadproof.errors import InputError
from loadproof.wire.documents import Json

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MEDIA_TYPES: Final = (
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
    "application/vnd.dev.sigstore.bundle+json;version=0.2",
)
_ROOT_TYPE: Final = "application/vnd.dev.sigstore.trustedroot+json"
_ISSUER: Final = "1.3.6.1.4.1.57264.1.8"  # https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
_OLD_ISSUER: Final = "1.3.6.1.4.1.57264.1.1"
_CODE_SIGNING: Final = "1.3.6.1.5.5.7.3.3"
_MISSHAPEN: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError, OSError, binascii.Error)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_MOST_HASHES: Final = 64  # of an inclusion proof
_MOST_CERTIFICATES: Final = 8


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the certificate names, and whose word that is: an OIDC issuer."""

    name: str
    issuer: str


@dataclass(frozen=True, slots=True)
class Signed:
    """What a bundle's signature is over: the payload, the bytes that were signed, the signature."""

    payload: bytes
    message: bytes
    signature: bytes


def identity_of(material: Mapping[str, Json], signed: Signed, trusted_root: str) -> Identity:
    """Who signed. Raises InputError with what does not hold."""
    x509 = cryptography("x509")
    unreadable = (x509.ExtensionNotFound, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)
    try:
        root = orjson.loads(trusted_root)
        if not str(root["mediaType"]).startswith(_ROOT_TYPE):
            raise InputError("the trusted root is none of Sigstore's")
        leaf = x509.load_der_x509_certificate(_leaf(material))
        [entry] = material["tlogEntries"]
        log = _log_of(entry, root)
        at = datetime.fromtimestamp(_number(entry["integratedTime"]), UTC)
        _check_promise(entry, log, at)
        _check_inclusion(entry, log)
        _check_entry(entry, leaf, signed)
        _check_chain(leaf, root, at)
        if not is_signed(_pem_of_key(leaf), signed.message, signed.signature, named="the certificate"):
            raise InputError("the certificate's key did not sign it")
        return _named(leaf)
    except (*_MISSHAPEN, *unreadable, cryptography("exceptions").UnsupportedAlgorithm) as error:
        raise InputError(f"no bundle of Sigstore's that can be checked ({type(error).__name__})") from None


def _leaf(material: Mapping[str, Json]) -> bytes:
    if "certificate" in material:
        return _bytes(material["certificate"]["rawBytes"])
    return _bytes(material["x509CertificateChain"]["certificates"][0]["rawBytes"])


def _log_of(entry: Mapping[str, Json], root: Mapping[str, Json]) -> str:
    """The key (PEM) of the log that an entry names, if the root lists it for that time."""
    serialization = cryptography("hazmat.primitives.serialization")
    wanted = _bytes(entry["logId"]["keyId"])
    at = datetime.fromtimestamp(_number(entry["integratedTime"]), UTC)
    for one in root["tlogs"]:
        der = _bytes(one["publicKey"]["rawBytes"])
        if hashlib.sha256(der).digest() == wanted and _holds(one["publicKey"].get("validFor"), at):
            return _pem(serialization.load_der_public_key(der))
    raise InputError("the log that has its entry is not in the trusted root")


def _check_promise(entry: Mapping[str, Json], log: str, at: datetime) -> None:
    promised = {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(at.timestamp()),
        "logID": _bytes(entry["logId"]["keyId"]).hex(),
        "logIndex": _number(entry["logIndex"]),
    }
    promise = _bytes(entry["inclusionPromise"]["signedEntryTimestamp"])
    if not is_signed(log, orjson.dumps(promised, option=orjson.OPT_SORT_KEYS), promise, named="the log"):
        raise InputError("the log did not promise this entry at this time")


def _check_inclusion(entry: Mapping[str, Json], log: str) -> None:
    proof = entry["inclusionProof"]
    size, hashes = _number(proof["treeSize"]), [_bytes(one) for one in proof["hashes"]]
    if len(hashes) > _MOST_HASHES:
        raise InputError("its proof of inclusion has no end")
    leaf = hashlib.sha256(b"\0" + _bytes(entry["canonicalizedBody"])).digest()
    root = root_of(leaf, _number(proof["logIndex"]), size, hashes)
    text, _, signatures = str(proof["checkpoint"]["envelope"]).partition("\n\n")
    lines = text.split("\n")
    if root is None or lines[1] != str(size) or _bytes(lines[2]) != root:
        raise InputError("the log's checkpoint does not have this entry")
    rows = [line.split(" ") for line in signatures.split("\n")]
    own = ["\u2014", lines[0].split(" ")[0]]
    signed = [_bytes(words[2]) for words in rows if len(words) == 3 and words[:2] == own]  # others may have, too
    hint = _bytes(entry["logId"]["keyId"])[:4]  # of the key, before each signature
    notes = [one[4:] for one in signed if one[:4] == hint]
    if not any(is_signed(log, f"{text}\n".encode(), note, named="the log") for note in notes):
        raise InputError("the log did not sign the checkpoint")


def root_of(leaf: bytes, index: int, size: int, hashes: list[bytes]) -> bytes | None:
    """The root that a proof of inclusion leads to (RFC 9162, 2.1.3.2); None for one that is too long or too short."""
    if not 0 <= index < size:
        return None
    at, last, root = index, size - 1, leaf
    for one in hashes:
        if last == 0:
            return None
        if at % 2 or at == last:
            root = hashlib.sha256(b"\1" + one + root).digest()
            while not at % 2 and at:
                at, last = at >> 1, last >> 1
        else:
            root = hashlib.sha256(b"\1" + root + one).digest()
        at, last = at >> 1, last >> 1
    return root if last == 0 else None


def _check_entry(entry: Mapping[str, Json], leaf: Certificate, signed: Signed) -> None:
    """That what was logged is this payload, this signature and this certificate."""
    body = orjson.loads(_bytes(entry["canonicalizedBody"]))
    kind, spec = (body["kind"], body["apiVersion"]), body["spec"]
    if kind == ("dsse", "0.0.1"):
        [row] = spec["signatures"]
        hashed, signature, verifier = spec["payloadHash"], _bytes(row["signature"]), _bytes(row["verifier"])
    elif kind == ("intoto", "0.0.2"):
        [row] = spec["content"]["envelope"]["signatures"]
        hashed, verifier = spec["content"]["payloadHash"], _bytes(row["publicKey"])
        signature = _bytes(_bytes(row["sig"]).decode())
    else:
        raise InputError(f"the log's entry is of a kind that is not read: {' '.join(map(str, kind))[:40]}")
    encoding = cryptography("hazmat.primitives.serialization").Encoding.PEM
    same = cryptography("x509").load_pem_x509_certificate(verifier).public_bytes(encoding) == leaf.public_bytes(
        encoding
    )
    digest = hashlib.sha256(signed.payload).hexdigest()
    if not same or signature != signed.signature or hashed != {"algorithm": "sha256", "value": digest}:
        raise InputError("the log's entry is another one's")


def _check_chain(leaf: Certificate, root: Mapping[str, Json], at: datetime) -> None:
    """From the certificate to an authority of the trusted root, each good when it was signed."""
    x509 = cryptography("x509")
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if not usage.digital_signature or _CODE_SIGNING not in [one.dotted_string for one in purposes]:
        raise InputError("the certificate is not for signing")
    if not leaf.not_valid_before_utc <= at <= leaf.not_valid_after_utc:
        raise InputError("the certificate was not good any more, or not yet, when the log saw the signature")
    for authority in root["certificateAuthorities"]:
        if not _holds(authority.get("validFor"), at):
            continue
        rows = authority["certChain"]["certificates"][:_MOST_CERTIFICATES]
        chain = [x509.load_der_x509_certificate(_bytes(row["rawBytes"])) for row in rows]
        if chain and _is_chain([leaf, *chain], at):
            return
    raise InputError("no authority of the trusted root issued the certificate")


def _is_chain(chain: list[Certificate], at: datetime) -> bool:
    """Each issued by the next; the last is trusted for its own sake."""
    x509, invalid = cryptography("x509"), cryptography("exceptions").InvalidSignature
    for one, issuer in pairwise(chain):
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = issuer.extensions.get_extension_for_class(x509.KeyUsage).value
        good = issuer.not_valid_before_utc <= at <= issuer.not_valid_after_utc
        if not (constraints.ca and usage.key_cert_sign and good):
            return False
        try:
            one.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, invalid):
            return False
    return True


def _named(leaf: Certificate) -> Identity:
    x509 = cryptography("x509")
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris: list[str] = names.get_values_for_type(x509.UniformResourceIdentifier)
    mails: list[str] = names.get_values_for_type(x509.RFC822Name)
    [name] = [*uris, *mails]
    found = {one.oid.dotted_string: one.value for one in leaf.extensions}
    if _ISSUER in found:
        der = found[_ISSUER].value
        if der[:1] != b"\x0c" or len(der) > 129 or der[1] != len(der) - 2:  # a UTF8String in DER, of one length byte
            raise InputError("the certificate's issuer cannot be read")
        return Identity(name, der[2:].decode())
    return Identity(name, found[_OLD_ISSUER].value.decode())


def _holds(period: Mapping[str, str] | None, at: datetime) -> bool:
    start, end = (period or {}).get("start"), (period or {}).get("end")
    return (start is None or datetime.fromisoformat(start) <= at) and (end is None or at <= datetime.fromisoformat(end))


def _pem_of_key(certificate: Certificate) -> str:
    return _pem(certificate.public_key())


def _pem(key: Json) -> str:
    serialization = cryptography("hazmat.primitives.serialization")
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return str(key.public_bytes(*form).decode())


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError("base64 is text")
    content = base64.b64decode(text, validate=True)
    if base64.b64encode(content).decode() != text:
        raise ValueError("there is one way to write it")
    return content


def _number(text: object) -> int:
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        raise ValueError("no number as protobuf writes it")
    return int(text)
