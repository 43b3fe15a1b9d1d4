"""Who stands behind a run: the gate, a person, or nobody whose key is listed; then it is only claimed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.bench.evidence.bundle import Signed, identity_of
from loadproof.bench.evidence.document import misfits
from loadproof.bench.evidence.keys import SigningKey, is_signed
from loadproof.bench.evidence.names import SIGNATURE
from loadproof.bench.evidence.places import FolderPlace
from loadproof.bench.evidence.statement import Envelope, Signature, differences, read_envelope, statement_of
from loadproof.bench.evidence.store import Row, StoredRun, part_of, read_run_of
from loadproof.errors import CouldNotRunError, InputError
from loadproof.profiles import Profile
from loadproof.profiles.signers import FILE_NAME, Signer, Signers
from loadproof.review.model import SignedBy


@dataclass(frozen=True, slots=True)
class Standing:
    """Who signed a run, and `why` it is only claimed. `broken`: what was signed is not this run."""

    by: SignedBy
    signer: str = ""
    why: str = ""
    broken: bool = False

    @property
    def words(self) -> str:
        """`signed by the gate (prod gate)`, `signed by a person (Ada)`, `claimed: it has no signature`."""
        if self.by == "claimed":
            return f"claimed: {self.why}"
        return f"signed by {self.short}"

    @property
    def short(self) -> str:
        """`the gate (prod gate)`, `a person (Ada)`, `claimed`."""
        if self.by == "claimed":
            return self.by
        return f"{'the gate' if self.by == 'gate' else 'a person'} ({self.signer})"


def standing_of(run: StoredRun, signers: Signers | None) -> Standing:
    """By the run's small files; that its requests are those of the statement is for `loadproof verify` to say.

    Of several signatures the gate's counts most. Raises InputError for a listed key that is none.
    """
    if run.signature is None:
        return Standing("claimed", why="it has no signature")
    try:
        envelope = read_envelope(run.signature)
        wrong = _not_of(run, envelope)
    except InputError as error:
        return Standing("claimed", why=f"{SIGNATURE}: {error}", broken=True)
    if wrong:
        shown = ", ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else "")
        return Standing("claimed", why=f"{SIGNATURE}: its statement is not about this run: {shown}", broken=True)
    found, why = _signers_of(envelope, signers)
    if not found:
        return Standing("claimed", why=why or f"no key that signed it is listed in {FILE_NAME}")
    environment = str(run.profile.get("environment"))
    here = [one for one in found if not one.environments or environment in one.environments]
    if not here:
        return Standing("claimed", why=f"{found[0].name} is not listed for environment {environment}")
    best = min(here, key=lambda one: one.kind != "gate")
    return Standing(best.kind, best.name)


def proves(standing: Standing, profile: Profile, signers: Signers | None) -> bool:
    """Whether such a run may prove this profile: claimed ones do only where nobody is listed who could sign."""
    if profile.benchmark.evidence_from == "gate":
        return standing.by == "gate"
    return standing.by != "claimed" or (signers is None and not standing.broken)


def said_of(run: StoredRun) -> Row:
    """The predicate in a run's signature as it stands there, whoever signed it; empty where there is none."""
    try:
        said = orjson.loads(read_envelope(run.signature).payload) if run.signature is not None else {}
    except (InputError, orjson.JSONDecodeError):
        return {}
    return part_of(said, "predicate") if isinstance(said, dict) else {}


def stored_run(folder: Path) -> StoredRun:
    """The run in a folder, by its small files."""
    place = FolderPlace(folder)
    return read_run_of(place, ".", place.runs().get(".", {}))


def sign_run(folder: Path, key: SigningKey) -> None:
    """Write evidence.dsse.json, or one more signature into it. Raises InputError for a run that does not fit together,
    CouldNotRunError."""
    statement = statement_to_sign(folder)
    before = _signed_before(stored_run(folder))
    if before is not None and before.material is not None:
        raise InputError(
            f"{folder / SIGNATURE}: is a bundle of Sigstore's, which has one signature; take it away first"
        )
    envelope = before or Envelope(statement, ())
    signed = envelope.with_signature(Signature(key.keyid, key.sign(envelope.signed_bytes)))
    try:
        (folder / SIGNATURE).write_bytes(signed.to_bytes())
    except OSError as error:
        raise CouldNotRunError(f"{folder / SIGNATURE}: cannot be written ({error.strerror})") from error


def statement_to_sign(folder: Path) -> bytes:
    """The statement about a judged run, for another program to sign. Raises InputError as `sign_run` does."""
    if found := misfits(folder):
        raise InputError("\n".join(f"{folder}: {one}" for one in found))
    return orjson.dumps(statement_of(stored_run(folder), secrets.token_hex(16)))


def _signed_before(run: StoredRun) -> Envelope | None:
    """What others signed of this very run."""
    try:
        envelope = None if run.signature is None else read_envelope(run.signature)
        return None if envelope is None or _not_of(run, envelope) else envelope
    except InputError:
        return None


def _not_of(run: StoredRun, envelope: Envelope) -> list[str]:
    """Where the signed statement is not the one that this run makes."""
    try:
        said = orjson.loads(envelope.payload)
    except orjson.JSONDecodeError:
        return ["it is no JSON"]
    nonce = part_of(said, "predicate").get("nonce") if isinstance(said, dict) else None
    if not isinstance(nonce, str) or not nonce:
        return ["predicate.nonce"]
    return differences(said, statement_of(run, nonce))


def _signers_of(envelope: Envelope, signers: Signers | None) -> tuple[list[Signer], str]:
    """Those listed who signed, and why there is none where more can be said than that."""
    listed = signers.signers if signers else ()
    if envelope.material is None:
        return [one for one in listed if _has_signed(one, envelope)], ""
    if signers is None or not signers.trusted_root:
        return [], f"it is a bundle of Sigstore's, and {FILE_NAME} has no trusted_root to check it by"
    signed = Signed(envelope.payload, envelope.signed_bytes, envelope.signatures[0].signature)
    try:
        identity = identity_of(envelope.material, signed, signers.trusted_root)
    except InputError as error:
        return [], f"{SIGNATURE}: {error}"
    found = [one for one in listed if (one.identity, one.issuer) == (identity.name, identity.issuer)]
    return found, f"{identity.name} (by {identity.issuer}), who signed it, is not listed in {FILE_NAME}"


def _has_signed(signer: Signer, envelope: Envelope) -> bool:
    named = f"{FILE_NAME}: {signer.name}"
    return signer.public_key is not None and any(
        is_signed(signer.public_key, envelope.signed_bytes, one.signature, named=named) for one in envelope.signatures
    )
