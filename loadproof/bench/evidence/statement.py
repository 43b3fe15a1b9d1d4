"""What is signed of a run: an in-toto statement in a DSSE envelope, `evidence.dsse.json`.

The statement follows from the run's small files, but for its nonce: whoever checks one makes it again and compares.
Its subjects are the run's files by their hashes, evidence.json among them, which holds those of the requests.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from loadproof.bench.document import Summary, as_json
from loadproof.bench.evidence.bundle import MEDIA_TYPES
from loadproof.bench.evidence.names import EVIDENCE
from loadproof.bench.evidence.store import Row, StoredRun, part_of
from loadproof.errors import InputError
from loadproof.wire.documents import Document

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:loadproof:benchmark:1"  # a name, not an address
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MOST_BYTES: Final = 256 * 1024  # of an envelope
MOST_SIGNATURES: Final = 16
_COUNTED: Final = ("Invocations", "NoCapacityInvocationFailures")  # CloudWatch's, as sums
_NEVER_HAD: Final = "request ids of AWS: the client keeps none"


@dataclass(frozen=True, slots=True)
class Signature:
    """`keyid` is a hint, and not signed: any listed key is tried."""

    keyid: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A statement as it was signed, and by whom."""

    payload: bytes
    signatures: tuple[Signature, ...]
    material: Mapping[str, Any] | None = None  # of a Sigstore bundle: by what its one signature is checked

    @property
    def signed_bytes(self) -> bytes:
        """DSSE's pre-authentication encoding: what a signature is over."""
        return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(self.payload), self.payload)

    def with_signature(self, signature: Signature) -> Envelope:
        others = (one for one in self.signatures if one.keyid != signature.keyid)
        return Envelope(self.payload, (*others, signature))

    def to_bytes(self) -> bytes:
        document = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": one.keyid, "sig": base64.b64encode(one.signature).decode()} for one in self.signatures
            ],
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_envelope(content: bytes) -> Envelope:
    """Raises InputError for what is no envelope of a statement."""
    if len(content) > MOST_BYTES:
        raise InputError(f"{len(content):,} bytes are too many to be a signature")
    try:
        document, material = orjson.loads(content), None
        if document.get("mediaType") in MEDIA_TYPES:
            document, material = document["dsseEnvelope"], dict(document["verificationMaterial"])
        if document["payloadType"] != PAYLOAD_TYPE:
            raise InputError(f"its payload is no {PAYLOAD_TYPE}")
        rows = document["signatures"]
        if len(rows) > MOST_SIGNATURES:
            raise InputError(f"{len(rows):,} signatures, at most {MOST_SIGNATURES} are read")
        signatures = tuple(Signature(str(row.get("keyid", "")), _decoded(row["sig"])) for row in rows)
        if material is not None and len(signatures) != 1:
            raise InputError(f"a bundle has one signature, found {len(signatures)}")
        return Envelope(_decoded(document["payload"]), signatures, material)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
        raise InputError(f"no DSSE envelope ({type(error).__name__})") from None


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError("base64 is text")
    return base64.b64decode(text, validate=True)


def statement_of(run: StoredRun, nonce: str) -> Document:
    """The statement about a judged run whose files fit together. Raises InputError for one without a hash tree."""
    if run.summary is None or run.problem or run.misfits:
        why = run.problem or "; ".join(run.misfits) or "not judged"
        raise InputError(f"{run.where}: {why}; only a judged run that fits together can be signed")
    requests = part_of(run.evidence, "requests")
    if not requests:
        raise InputError(f"{run.where}: {EVIDENCE} has no hash tree of its requests: judged by an older Loadproof")
    hashes = {EVIDENCE: run.evidence_sha256, **part_of(run.evidence, "sha256")}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": hashes[name]}} for name in sorted(hashes)],
        "predicateType": PREDICATE_TYPE,
        "predicate": {**_facts(run, run.summary), "requests": dict(requests), "nonce": nonce},
    }


def differences(found: object, expected: Mapping[str, object], at: str = "") -> list[str]:
    """Where one JSON document is not the other, by paths."""
    if not isinstance(found, Mapping) or not isinstance(expected, Mapping):
        return [] if found == expected else [at or "all of it"]
    names = sorted({*found, *expected}, key=str)
    return [one for name in names for one in _difference(found, expected, name, f"{at}.{name}" if at else str(name))]


def _difference(found: Row, expected: Row, name: str, at: str) -> list[str]:
    if name not in found or name not in expected:
        return [at]
    mine, theirs = found[name], expected[name]
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        return differences(mine, theirs, at)
    return [] if mine == theirs and type(mine) is type(theirs) else [at]


def _facts(run: StoredRun, summary: Summary) -> Document:
    target, counts = part_of(run.plan, "spec", "target"), _counts(summary)
    deployed = as_json(summary.deployed) if summary.deployed else {}
    absent = [_NEVER_HAD]
    absent += [f"{word}: not observed" for name, word in _OF_DEPLOYED.items() if not deployed.get(name)]
    absent += [] if counts else ["counts of CloudWatch: not observed"]
    levels = run.plan.get("levels")
    ends = [part_of(one).get("ended_utc") for one in levels] if isinstance(levels, Sequence) else []
    return {
        "run_id": run.run_id,
        "verdict": summary.verdict.outcome,
        "profile": {name: run.profile.get(name) for name in _OF_PROFILE} if run.profile else None,
        "target": {name: target.get(name) for name in _OF_TARGET},
        "deployed": deployed,
        "cloudwatch": counts,
        "window": {"began_utc": run.created_utc, "ended_utc": max((str(one) for one in ends if one), default=None)},
        "absent": absent,
    }


_OF_PROFILE: Final = ("environment", "name", "sha256")
_OF_TARGET: Final = ("kind", "endpoint", "component", "endpoint_url", "region", "local_cloud")
_OF_DEPLOYED: Final = {"image_digest": "digest of the image", "endpoint_config": "configuration of the endpoint"}


def _counts(summary: Summary) -> list[Document]:
    """What CloudWatch itself counted while the run was watched."""
    metrics = summary.scaling.metrics if summary.scaling else ()
    sums = [one for one in metrics if one.statistic == "Sum" and one.name in _COUNTED]
    return [
        {"metric": name, "statistic": "Sum", "value": sum(one.value for one in sums if one.name == name)}
        for name in _COUNTED
        if any(one.name == name for one in sums)
    ]
