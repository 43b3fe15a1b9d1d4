"""Sigstore's bundles: a real one, our own authority's, and forgeries of both."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bench_evidence import profile_tree, run_of_profile
from bench_sigstore import AT, IDENTITY, ISSUER, RECORDED, Sigstore, b64, recorded_bundle
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from loadproof.bench.evidence.bundle import Identity, Signed, identity_of, root_of
from loadproof.bench.evidence.standing import sign_run, standing_of, stored_run
from loadproof.bench.evidence.statement import read_envelope
from loadproof.cli.main import run as loadproof
from loadproof.errors import InputError
from loadproof.profiles.signers import Signers, signers_of

REAL_ROOT = (RECORDED / "trusted_root.json").read_text()
PAYLOAD = b'{"a": "statement"}'


def identity(bundle: dict[str, Any], root: str) -> Identity:
    envelope = read_envelope(json.dumps(bundle).encode())
    assert envelope.material is not None
    signed = Signed(envelope.payload, envelope.signed_bytes, envelope.signatures[0].signature)
    return identity_of(envelope.material, signed, root)


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


def test_a_bundle_of_the_public_log_names_its_workflow() -> None:
    """npm's provenance of sigstore 2.2.0, by Sigstore's trusted root: neither the bundle nor the root is ours."""
    name = "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"
    assert identity(recorded_bundle(), REAL_ROOT) == Identity(name, ISSUER)


@pytest.mark.parametrize("name", [IDENTITY, "ada@example.com"])
def test_a_bundle_names_a_workflow_or_a_person(name: str, sigstore: Sigstore) -> None:
    """By the certificate's alternative name; whose word that is, is the issuer's extension."""
    assert identity(sigstore.sign(PAYLOAD, name), sigstore.trusted_root) == Identity(name, ISSUER)


def test_one_root_does_not_vouch_for_anothers(sigstore: Sigstore) -> None:
    """The public log's bundle by our root, and ours by the public one."""
    for bundle, root in ((recorded_bundle(), sigstore.trusted_root), (sigstore.sign(PAYLOAD), REAL_ROOT)):
        with pytest.raises(InputError, match="not in the trusted root"):
            identity(bundle, root)


def wrong_ones(good: Sigstore) -> Iterator[tuple[str, dict[str, Any], str]]:
    """What an attacker with an authority, a log or a certificate of his own can make, and what is said of it."""
    other = Sigstore()
    minutes = timedelta(minutes=11)
    yield "late", good.sign(PAYLOAD, at=AT + minutes), "was not good any more"
    yield "early", good.sign(PAYLOAD, at=AT - minutes), "or not yet"
    yield "other purpose", good.sign(PAYLOAD, purpose=ExtendedKeyUsageOID.SERVER_AUTH), "is not for signing"
    yield "own authority", good.sign(PAYLOAD, by=other.between), "no authority of the trusted root"
    yield "own log", other.sign(PAYLOAD, by=good.between), "not in the trusted root"
    old = AT - timedelta(days=1000)
    yield "before the authority", good.sign(PAYLOAD, at=old, certified=old), "not in the trusted root"
    claims = other.sign(PAYLOAD, by=good.between)
    [entry], [real] = (one["verificationMaterial"]["tlogEntries"] for one in (claims, good.sign(PAYLOAD)))
    entry["logId"] = real["logId"]
    yield "own log by its name", claims, "did not promise"
    entry["inclusionPromise"] = real["inclusionPromise"]
    yield "another's promise", claims, "did not promise"
    spliced = good.sign(PAYLOAD)
    spliced["verificationMaterial"]["tlogEntries"] = [real]
    yield "another's entry", spliced, "is another one's"
    swapped = good.sign(PAYLOAD)
    swapped["dsseEnvelope"] = good.sign(b"{}")["dsseEnvelope"]
    yield "another's envelope", swapped, "is another one's"
    certified = good.sign(PAYLOAD)
    certified["verificationMaterial"]["certificate"] = good.sign(PAYLOAD)["verificationMaterial"]["certificate"]
    yield "another's certificate", certified, "is another one's"
    kept = good.sign(PAYLOAD)
    kept["verificationMaterial"]["tlogEntries"] = []
    yield "not logged", kept, "can be checked"
    twice = good.sign(PAYLOAD)
    twice["verificationMaterial"]["tlogEntries"] *= 2
    yield "two entries", twice, "can be checked"


def test_what_others_can_make_is_refused_with_its_reason(sigstore: Sigstore) -> None:
    """Own authorities, own logs, stolen parts, other times and purposes."""
    for name, bundle, said in wrong_ones(sigstore):
        with pytest.raises(InputError, match=said):
            identity(bundle, sigstore.trusted_root)
            pytest.fail(name)


def leaves_of(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(value, dict | list):
            yield from leaves_of(value, (*path, key))
        else:
            yield (*path, key)


def changed(text: str, chance: random.Random) -> str:
    """One bit of what base64 holds, else one letter or digit, else cut, emptied or doubled."""
    way = chance.randrange(6)
    try:
        content = bytearray(base64.b64decode(text, validate=True))
    except ValueError:
        content = bytearray()
    if len(content) > 20 and way < 4:
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        return b64(bytes(content))
    at = chance.randrange(len(text) or 1)
    letter = chance.choice("0123456789AZaz+/=. ")
    return (text[:at] + letter + text[at + 1 :], text[:at], "", text + text)[way % 4]


# `keyid`, `mediaType` (of those that are read), `rootHash` (the checkpoint has it) and the kind beside the entry are
# repetitions or hints, and not what is checked.
_UNREAD = {"rootHash", "keyid", "mediaType", "kind", "version"}


def forgeries(bundle: dict[str, Any], number: int, seed: int) -> Iterator[dict[str, Any]]:
    """One value somewhere becomes another."""
    chance = random.Random(seed)
    places = [path for path in leaves_of(bundle) if path[-1] not in _UNREAD]
    while number:
        forged = copy.deepcopy(bundle)
        *path, last = chance.choice(places)
        part = forged
        for key in path:
            part = part[key]
        was, part[last] = part[last], changed(part[last], chance)
        # Lines after a checkpoint's are witnesses', whom nobody asked.
        if not part[last].startswith(was) and part[last].strip() != was.strip():
            number -= 1
            yield forged


@pytest.mark.parametrize("which", ["ours", "the public log's"])
def test_five_hundred_changed_bundles_are_refused(which: str, sigstore: Sigstore) -> None:
    """Of each kind: every one ends in a typed refusal, none in an identity."""
    bundle, root = (
        (sigstore.sign(PAYLOAD), sigstore.trusted_root) if which == "ours" else (recorded_bundle(), REAL_ROOT)
    )
    for forged in forgeries(bundle, 500, seed=16):
        with pytest.raises(InputError):
            found = identity(forged, root)
            pytest.fail(f"{found} of {json.dumps(forged)[:200]}")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 64, 100])
def test_a_proof_leads_to_the_root_of_the_whole_tree(size: int) -> None:
    """Of every leaf, by RFC 6962's recursion over all of them; and to no root with a hash too few or too many."""
    from hashlib import sha256

    from bench_sigstore import _proof, _root

    leaves = [b"%d" % at for at in range(size)]
    for at in range(size):
        leaf, proof = sha256(b"\0" + leaves[at]).digest(), _proof(at, leaves)
        assert root_of(leaf, at, size, proof) == _root(leaves)
        assert root_of(leaf, at, size, [*proof, b"x" * 32]) is None
        assert not proof or root_of(leaf, at, size, proof[:-1]) is None
        assert size == 1 or root_of(leaf, (at + 1) % size, size, proof) != _root(leaves)


# In runs


@dataclass(frozen=True)
class World:
    run: Path
    sigstore: Sigstore

    def signers(self, *rows: str, root: bool = True) -> Signers:
        return signers_of(self.listing(*rows, root=root).encode(), "signers.yaml")

    def listing(self, *rows: str, root: bool = True) -> str:
        text = "signers:\n" + "".join(f"  - {row}\n" for row in rows)
        return text + (f"trusted_root: |\n  {self.sigstore.trusted_root}\n" if root else "")


GATE = f"{{name: gate in CI, kind: gate, identity: '{IDENTITY}', issuer: '{ISSUER}'}}"


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """A run whose statement a workflow signed, as `evidence statement` prints it."""
    profile = profile_tree(tmp_path)
    made = World(tmp_path / "runs" / "a", Sigstore())
    run_of_profile(made.run, profile, seed=1, created=datetime(2026, 11, 20, tzinfo=UTC))
    assert loadproof(["evidence", "statement", str(made.run)]) == 0
    bundle = made.sigstore.sign(capsys.readouterr().out.encode())
    (made.run / "evidence.dsse.json").write_text(json.dumps(bundle))
    return made


def test_a_run_that_a_workflow_signed_is_signed_by_the_gate(world: World) -> None:
    """By identity and issuer, both."""
    assert standing_of(stored_run(world.run), world.signers(GATE)).words == "signed by the gate (gate in CI)"
    other = GATE.replace("main", "feature")
    assert "is not listed" in standing_of(stored_run(world.run), world.signers(other)).why
    elsewhere = GATE.replace("token.actions", "token.elsewhere")
    assert standing_of(stored_run(world.run), world.signers(elsewhere)).by == "claimed"


def test_verify_takes_the_bundle(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify --signed-by gate`, with the repository's list."""
    listed = world.run.parent / "signers.yaml"
    listed.write_text(world.listing(GATE))
    assert loadproof(["verify", str(world.run), "--signed-by", "gate", "--signers", str(listed)]) == 0
    assert "signed by the gate (gate in CI)" in capsys.readouterr().out


def test_a_bundle_around_another_run_proves_nothing(world: World) -> None:
    """Of the same workflow, moved to an edited run."""
    file = world.run / "summary.json"
    file.write_bytes(file.read_bytes().replace(b'"PASS"', b'"FAIL"').replace(b'"seed":1', b'"seed":2') + b"\n")
    assert standing_of(stored_run(world.run), world.signers(GATE)).by == "claimed"


def test_a_bundle_takes_no_second_signature(world: World, tmp_path: Path) -> None:
    """Nor is it written over."""
    from test_bench_signatures import key_file

    from loadproof.bench.evidence.keys import signing_key

    key = signing_key(str(key_file(tmp_path / "ada.pem", ed25519.Ed25519PrivateKey.generate())))
    before = (world.run / "evidence.dsse.json").read_bytes()
    with pytest.raises(InputError, match="has one signature"):
        sign_run(world.run, key)
    assert (world.run / "evidence.dsse.json").read_bytes() == before


@pytest.mark.parametrize(
    ("row", "root", "said"),
    [
        (GATE, False, "is checked by trusted_root"),
        ("{name: a, kind: gate, identity: abc}", True, "either public_key, or identity and issuer"),
        ("{name: a, kind: gate}", True, "either public_key, or identity and issuer"),
        ("{name: a, kind: gate, issuer: 'https://x'}", True, "either public_key, or identity and issuer"),
    ],
)
def test_a_list_that_cannot_be_checked_by_is_refused(row: str, root: bool, said: str, world: World) -> None:
    """With what to write."""
    with pytest.raises(InputError, match=said):
        world.signers(row, root=root)


def test_keys_of_other_kinds_are_told() -> None:
    """Fulcio's certificates have P-256 keys; another curve is no traceback."""
    sigstore = Sigstore(log=ec.generate_private_key(ec.SECP384R1()))
    with pytest.raises(InputError, match="Ed25519 or ECDSA on P-256"):
        identity(sigstore.sign(PAYLOAD), sigstore.trusted_root)
