"""Who measured: signed runs, and a thousand forgeries of them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import boto3
import orjson
import pytest
from bench_evidence import profile_tree, run_of_profile
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from moto import mock_aws

from loadproof.bench.evidence.document import misfits, uncovered
from loadproof.bench.evidence.filing import file_run
from loadproof.bench.evidence.keys import KmsKey, is_signed, signing_key
from loadproof.bench.evidence.places import FolderPlace
from loadproof.bench.evidence.standing import Standing, proves, sign_run, standing_of, stored_run
from loadproof.bench.evidence.statement import Envelope, Signature, read_envelope
from loadproof.bench.evidence.status import TreeProfile, proof_of
from loadproof.bench.evidence.store import read_stored
from loadproof.bench.judging import judge_run
from loadproof.bench.measure.hash_tree import HashTree
from loadproof.bench.spec import Target
from loadproof.cli.main import run as loadproof
from loadproof.errors import CouldNotRunError, InputError, LoadproofError
from loadproof.profiles import load_profile
from loadproof.profiles.signers import Signers, signers_of

SIGNATURE = "evidence.dsse.json"
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def pem_of(private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    public = private.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def key_file(file: Path, private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> Path:
    file.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return file


def listing(*rows: tuple[str, str, str, str]) -> str:
    """signers.yaml of (name, kind, PEM, environments as YAML)."""
    text = "signers:\n"
    for name, kind, pem, environments in rows:
        block = "".join(f"      {line}\n" for line in pem.splitlines())
        text += f"  - name: {name}\n    kind: {kind}\n    environments: {environments}\n    public_key: |\n{block}"
    return text


@dataclass(frozen=True)
class World:
    """A profile with runs: two that the gate signed, one that a person did, and whom the repository lists."""

    root: Path
    profile: Path
    signers: Signers
    gate: Path  # key files
    person: Path
    elsewhere: Path
    stranger: Path

    def run(self, name: str) -> Path:
        return self.root / "runs" / name


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    profile = profile_tree(root)
    owners = {
        "gate": ec.generate_private_key(ec.SECP256R1()),
        "person": ed25519.Ed25519PrivateKey.generate(),
        "elsewhere": ec.generate_private_key(ec.SECP256R1()),
        "stranger": ed25519.Ed25519PrivateKey.generate(),
    }
    keys = {name: key_file(root / f"{name}.pem", private) for name, private in owners.items()}
    text = listing(
        ("dev gate", "gate", pem_of(owners["gate"]), "[dev]"),
        ("Ada Lovelace", "person", pem_of(owners["person"]), "[]"),
        ("prod gate", "gate", pem_of(owners["elsewhere"]), "[prod]"),
    )
    (root / "deploy_profiles" / "signers.yaml").write_text(text)
    made = World(root, profile, signers_of(text.encode(), "signers.yaml"), **keys)
    for name, seed, key, slower in (("a", 1, "gate", 1.0), ("b", 2, "gate", 1.5), ("p", 3, "person", 1.0)):
        run_of_profile(made.run(name), profile, seed=seed, slower=slower, created=NOW + timedelta(hours=seed))
        sign_run(made.run(name), signing_key(str(keys[key])))
    other = Target("sagemaker", "loadproof-dev-other", "tgi", component="other-main", region="x")
    run_of_profile(made.run("other-endpoint"), profile, seed=4, created=NOW, target=other)
    sign_run(made.run("other-endpoint"), signing_key(str(keys["gate"])))
    run_of_profile(made.run("unsigned"), profile, seed=5, created=NOW)
    return made


def standing(world: World, folder: Path) -> Standing:
    return standing_of(stored_run(folder), world.signers)


def passes(world: World, folder: Path) -> bool:
    """What `loadproof verify` takes for signed: the statement is of these files, and they are of these requests."""
    try:
        return standing(world, folder).by != "claimed" and misfits(folder) == []
    except LoadproofError:  # a file that cannot be read at all
        return False


# The tree

_RFC6962 = [  # the inputs and roots of certificate-transparency's own tests (merkle_tree_test.cc), for 1 to 8 leaves
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]


@pytest.mark.parametrize("count", range(1, 9))
def test_roots_are_those_of_certificate_transparency(count: int) -> None:
    """RFC 6962's reference vectors, which we did not make."""
    head = HashTree(bytes.fromhex(leaf) for leaf in _LEAVES[:count]).head
    assert (head.root, head.count) == (_RFC6962[count - 1], count)


def test_a_tree_without_requests_has_the_hash_of_nothing() -> None:
    """RFC 6962, 2.1: the hash of an empty list is the hash of an empty string."""
    assert HashTree().head.root == hashlib.sha256(b"").hexdigest()


def test_requests_that_something_else_wrote_are_refused(world: World, tmp_path: Path) -> None:
    """The client kept the root of what it sent; a file with one line more is not that run's."""
    folder = copied(world, "unsigned", tmp_path)
    lines = (folder / "requests.jsonl").read_bytes().splitlines(keepends=True)
    with pytest.raises(CouldNotRunError, match="holds other requests than this client wrote"):
        judge_run(folder, sent=HashTree(lines[:-1]).head)
    assert judge_run(folder, sent=HashTree(lines).head).summary.verdict.outcome == "PASS"


# Honest runs


def copied(world: World, name: str, to: Path) -> Path:
    shutil.copytree(world.run(name), to / name, dirs_exist_ok=True)
    return to / name


def test_a_run_is_signed_by_whom_the_repository_lists(world: World) -> None:
    """The gate's, a person's, and nobody's: three words."""
    assert standing(world, world.run("a")).words == "signed by the gate (dev gate)"
    assert standing(world, world.run("p")).words == "signed by a person (Ada Lovelace)"
    assert standing(world, world.run("unsigned")).words == "claimed: it has no signature"


def test_of_two_signatures_the_gates_counts(world: World, tmp_path: Path) -> None:
    """A person signs what the gate signed: both signatures are kept, over one statement."""
    folder = copied(world, "a", tmp_path)
    sign_run(folder, signing_key(str(world.person)))
    assert len(read_envelope((folder / SIGNATURE).read_bytes()).signatures) == 2
    assert standing(world, folder).by == "gate" and passes(world, folder)


def test_a_kept_run_stays_signed_packed_and_without_its_requests(world: World, tmp_path: Path) -> None:
    """`evidence add` keeps the signature; what is packed is what was signed."""
    for name, requests in (("packed", True), ("small", False)):
        place = FolderPlace(tmp_path / name)
        file_run(world.run("a"), place, requests=requests)
        [run] = read_stored([place])
        assert standing_of(run, world.signers).by == "gate"
        assert not requests or passes(world, place.folder / run.name)


def test_no_honest_run_is_refused(world: World, tmp_path: Path) -> None:
    """Thirty runs of other seeds, sizes, speeds, verdicts and keys: each signed, each held to be what it is."""
    refused, keys = [], (("gate", world.gate), ("person", world.person))
    for seed in range(30):
        by, key = keys[seed % 2]
        folder = tmp_path / str(seed)
        run_of_profile(folder, world.profile, seed=seed, slower=1 + seed / 10, requests=3 + seed, lag_ms=seed)
        sign_run(folder, signing_key(str(key)))
        if standing(world, folder).by != by or not passes(world, folder):
            refused.append(seed)
    assert refused == []


def test_a_run_judged_anew_loses_its_signature(world: World, tmp_path: Path) -> None:
    """What was signed is no more; nobody is to think that the new verdict was signed."""
    folder = copied(world, "a", tmp_path)
    judge_run(folder)
    assert not (folder / SIGNATURE).exists()


def test_the_statement_binds_what_was_measured(world: World) -> None:
    """Endpoint, profile, requests and hashes of the files, and what could not be had is said."""
    folder = world.run("a")
    said = orjson.loads(read_envelope((folder / SIGNATURE).read_bytes()).payload)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    digests = {row["name"]: row["digest"]["sha256"] for row in said["subject"]}
    assert digests == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("evidence.json", "plan.json", "requests.jsonl", "summary.json")
    }
    predicate = said["predicate"]
    assert predicate["target"]["endpoint"] == "loadproof-dev-chat" and predicate["profile"]["environment"] == "dev"
    assert predicate["requests"]["count"] == 120 and len(predicate["nonce"]) == 32
    assert "digest of the image: not observed" in predicate["absent"]


def test_kms_signs_and_its_public_key_is_checked_offline(world: World, tmp_path: Path) -> None:
    """A key that never leaves KMS (moto's are real ones): the PEM that KMS gave out once is all that a check needs."""
    folder = copied(world, "unsigned", tmp_path)
    with mock_aws():
        kms = boto3.client("kms", "eu-central-1")
        key = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["Arn"]
        der = kms.get_public_key(KeyId=key)["PublicKey"]
        sign_run(folder, signing_key(f"awskms:///{key}"))
    public = serialization.load_der_public_key(der).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    listed = signers_of(listing(("kms", "gate", public.decode(), "[dev]")).encode(), "signers.yaml")
    assert standing_of(stored_run(folder), listed).words == "signed by the gate (kms)"


def test_a_refusal_of_kms_is_no_traceback() -> None:
    """A key that is not there, or that may not be used: what KMS said, and exit code 3."""
    with mock_aws(), pytest.raises(CouldNotRunError, match="KMS does not sign"):
        client = boto3.client("kms", "eu-central-1")
        KmsKey("arn:aws:kms:eu-central-1:123456789012:key/none", client).sign(b"")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"no key", "no private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no private key in PEM"),
    ],
)
def test_a_key_that_is_none_is_refused_before_any_load(tmp_path: Path, content: bytes | None, said: str) -> None:
    """A long run is not to end in a mistyped file."""
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        signing_key(str(file))


def test_keys_of_other_kinds_and_under_a_passphrase_are_refused(tmp_path: Path) -> None:
    """P-384 is none of ours; what is encrypted would need somebody at the keyboard."""
    with pytest.raises(InputError, match="expected a key of Ed25519 or ECDSA on P-256"):
        signing_key(str(key_file(tmp_path / "p384.pem", ec.generate_private_key(ec.SECP384R1()))))
    secret = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    (tmp_path / "secret.pem").write_bytes(secret)
    with pytest.raises(InputError, match="is encrypted"):
        signing_key(str(tmp_path / "secret.pem"))


# Forgeries


def mended(folder: Path) -> None:
    """evidence.json says again what the other files are: what anybody can do."""
    document = orjson.loads((folder / "evidence.json").read_bytes())
    for name in document["sha256"]:
        document["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    lines = (folder / "requests.jsonl").read_bytes().splitlines(keepends=True)
    head = HashTree(lines).head
    document["requests"] = {"root": head.root, "count": head.count}
    (folder / "evidence.json").write_bytes(orjson.dumps(document))


def judged_again(folder: Path) -> None:
    """All files made anew from other requests or another plan, and the old signature put back."""
    signature = (folder / SIGNATURE).read_bytes()
    judge_run(folder)
    (folder / SIGNATURE).write_bytes(signature)


def with_json(folder: Path, name: str, change: Callable[[dict], None]) -> None:
    document = orjson.loads((folder / name).read_bytes())
    change(document)
    (folder / name).write_bytes(orjson.dumps(document))


def changed_leaf(document: object, chance: random.Random) -> None:
    """One value somewhere in a JSON document becomes another of its kind."""
    places: list[tuple[dict | list, object]] = []

    def walk(part: object) -> None:
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):  # type: ignore[arg-type]
            if isinstance(value, dict | list) and value:
                walk(value)
            else:
                places.append((part, key))  # type: ignore[arg-type]

    walk(document)
    part, key = chance.choice(places)
    value = part[key]  # type: ignore[index]
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        other: object = "forged"
    elif isinstance(value, int | float):
        other = value + chance.choice((1, -1, 7, 1000))
    else:
        other = f"{value}x"
    part[key] = other  # type: ignore[index]


def edited(world: World, folder: Path, chance: random.Random) -> None:
    """A figure of a file; every other time with the hashes mended."""
    name = chance.choice(("plan.json", "summary.json", "evidence.json"))
    with_json(folder, name, lambda document: changed_leaf(document, chance))
    if chance.random() < 0.5:
        mended(folder)


def edited_requests(world: World, folder: Path, chance: random.Random) -> None:
    """One request was faster, or did not fail."""
    lines = [orjson.loads(line) for line in (folder / "requests.jsonl").read_bytes().splitlines()]
    changed_leaf(chance.choice(lines), chance)
    (folder / "requests.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    if chance.random() < 0.7:
        mended(folder)


def reordered(world: World, folder: Path, chance: random.Random) -> None:
    lines = (folder / "requests.jsonl").read_bytes().splitlines(keepends=True)
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    (folder / "requests.jsonl").write_bytes(b"".join(lines))
    if chance.random() < 0.7:
        mended(folder)


def truncated(world: World, folder: Path, chance: random.Random) -> None:
    """Some requests left out at the end, or in the middle."""
    lines = (folder / "requests.jsonl").read_bytes().splitlines(keepends=True)
    start = chance.randrange(len(lines))
    del lines[start : start + chance.randrange(1, 20)]
    (folder / "requests.jsonl").write_bytes(b"".join(lines))
    if chance.random() < 0.7:
        mended(folder)


def spliced(world: World, folder: Path, chance: random.Random) -> None:
    """Requests of another signed run among these, at places of their own."""
    theirs = (world.run("b" if folder.name == "a" else "a") / "requests.jsonl").read_bytes().splitlines(keepends=True)
    lines = (folder / "requests.jsonl").read_bytes().splitlines(keepends=True)
    for index in chance.sample(range(len(lines)), chance.randrange(1, 30)):
        lines[index] = theirs[index]
    (folder / "requests.jsonl").write_bytes(b"".join(lines))
    mended(folder)


def replayed(world: World, folder: Path, chance: random.Random) -> None:
    """The signature of another run: of another endpoint, of another day, of a person."""
    source = chance.choice([one for one in ("a", "b", "p", "other-endpoint") if one != folder.name])
    shutil.copy(world.run(source) / SIGNATURE, folder / SIGNATURE)


def renamed(world: World, folder: Path, chance: random.Random) -> None:
    """A good run said to be another profile's, environment's, endpoint's, or newer than it is; hashes mended."""
    values = {"name": "chat-2", "environment": "prod", "sha256": "0" * 64, "endpoint": "loadproof-prod-chat"}
    values |= {"created_utc": f"2027-01-{chance.randrange(1, 29):02}T00:00:00Z", "run_id": f"new-{chance.random()}"}
    name, value = chance.choice([*values.items()])

    def change(document: dict) -> None:
        if name in ("created_utc", "run_id"):
            document[name] = value
        profile = document.get("profile") or document.get("spec", {}).get("profile")
        target = document.get("target") or document.get("spec", {}).get("target")
        if name in ("name", "environment", "sha256"):
            profile[name] = value
        if name == "endpoint":
            target[name] = value

    for file in ("plan.json", "summary.json", "evidence.json"):
        with_json(folder, file, change)
    mended(folder)


def root_swapped(world: World, folder: Path, chance: random.Random) -> None:
    other = orjson.loads((world.run("b" if folder.name == "a" else "a") / "evidence.json").read_bytes())["requests"]
    forged = {"root": chance.choice((other["root"], chance.randbytes(32).hex())), "count": chance.randrange(1, 500)}
    with_json(folder, "evidence.json", lambda document: document.update(requests=forged))


def with_envelope(folder: Path, change: Callable[[Envelope], Envelope]) -> None:
    envelope = read_envelope((folder / SIGNATURE).read_bytes())
    (folder / SIGNATURE).write_bytes(change(envelope).to_bytes())


def other_payload(world: World, folder: Path, chance: random.Random) -> None:
    """The signed statement says something else, and the files, too or not."""

    def change(envelope: Envelope) -> Envelope:
        said = orjson.loads(envelope.payload)
        changed_leaf(said, chance)
        return replace(envelope, payload=orjson.dumps(said))

    with_envelope(folder, change)


def other_signature(world: World, folder: Path, chance: random.Random) -> None:
    """A bit of the signature, its length, or no signature at all."""

    def change(envelope: Envelope) -> Envelope:
        [one] = envelope.signatures
        at = chance.randrange(len(one.signature))
        flipped = bytearray(one.signature)
        flipped[at] ^= 1 << chance.randrange(8)
        bytes_of = chance.choice((bytes(flipped), one.signature[:at], b"", one.signature + b"\0"))
        return replace(envelope, signatures=chance.choice(((replace(one, signature=bytes_of),), ())))

    with_envelope(folder, change)


def not_listed(world: World, folder: Path, chance: random.Random) -> None:
    """A stranger's key under the gate's name, and a list of his own lying beside the run."""
    key = signing_key(str(chance.choice((world.stranger, world.elsewhere))))
    keyids = [one.keyid for one in read_envelope((folder / SIGNATURE).read_bytes()).signatures]
    change = chance.choice((edited_and_judged, lambda folder, chance: None))
    change(folder, chance)
    (folder / SIGNATURE).unlink(missing_ok=True)
    sign_run(folder, key)
    with_envelope(
        folder, lambda envelope: replace(envelope, signatures=(replace(envelope.signatures[0], keyid=keyids[0]),))
    )
    private = serialization.load_pem_private_key(world.stranger.read_bytes(), None)
    (folder / "signers.yaml").write_text(listing(("dev gate", "gate", pem_of(private), "[]")))  # type: ignore[arg-type]


def edited_and_judged(folder: Path, chance: random.Random) -> None:
    """Requests made a tenth faster, everything judged and hashed anew."""
    rows = [orjson.loads(line) for line in (folder / "requests.jsonl").read_bytes().splitlines()]
    for row in rows:
        row["end_ns"] = row["intended_ns"] + int((row["end_ns"] - row["intended_ns"]) * chance.uniform(0.8, 0.99))
        row["token_times_ns"] = [row["intended_ns"] + 1000, row["end_ns"]]
        row["first_token_ns"], row["last_token_ns"] = row["token_times_ns"]
    (folder / "requests.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    judged_again(folder)


def other_encoding(world: World, folder: Path, chance: random.Random) -> None:
    """A signature over the bare payload, or over another type, by a listed key that signs other things, too."""
    key = signing_key(str(world.person))

    def change(envelope: Envelope) -> Envelope:
        said = orjson.loads(envelope.payload)
        said["predicate"]["nonce"] = chance.randbytes(16).hex()
        payload = orjson.dumps(said)
        bare = chance.choice((payload, hashlib.sha256(payload).digest(), base64.b64encode(payload)))
        typed = b"DSSEv1 10 text/plain %d %s" % (len(payload), payload)
        return Envelope(payload, (Signature(key.keyid, key.sign(chance.choice((bare, typed)))),))

    with_envelope(folder, change)


FORGERIES = {
    edited: 150, edited_requests: 100, reordered: 100, truncated: 100, spliced: 100, replayed: 60, renamed: 120,
    root_swapped: 70, other_payload: 80, other_signature: 60, not_listed: 20, other_encoding: 40,
}  # fmt: skip


@cache
def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix in (".json", ".jsonl")}


def forged(world: World, to: Path) -> Iterator[tuple[str, Path]]:
    """Each forgery in a folder of its own, its files as bytes: 1,000 in all."""
    chance = random.Random(20261123)
    for forge, count in FORGERIES.items():
        for number in range(count):
            source = chance.choice(("a", "b", "p"))
            folder = to / f"{forge.__name__}-{number}" / source
            folder.mkdir(parents=True)
            for name, content in files_of(world.run(source)).items():
                (folder / name).write_bytes(content)
            forge(world, folder, chance)
            if {file.name: file.read_bytes() for file in folder.iterdir()} != files_of(world.run(source)):
                yield f"{forge.__name__}-{number}", folder


def test_a_thousand_forgeries_prove_nothing(world: World, tmp_path: Path) -> None:
    """Edited, reordered, cut, spliced, replayed, renamed, re-signed: none is taken for signed."""
    made = dict(forged(world, tmp_path))
    assert len(made) >= 995  # what a forger left as it was is none
    assert [name for name, folder in made.items() if passes(world, folder)] == []


def test_forging_is_what_makes_them_fail(world: World, tmp_path: Path) -> None:
    """The same copies without the forger's hand pass: it is not the copying that is refused."""
    assert all(passes(world, copied(world, name, tmp_path)) for name in ("a", "b", "p"))


def test_verify_names_what_no_signature_covers(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page and a second file of requests lie beside a signed run: whoever opens them sees what nobody signed."""
    folder, listed = copied(world, "a", tmp_path), world.root / "deploy_profiles" / "signers.yaml"
    (folder / "report.html").write_text("PASS")
    (folder / "requests.jsonl.gz").write_bytes(b"forged")
    (folder / "notes").mkdir()
    assert loadproof(["verify", str(folder), "--signers", str(listed)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the evidence fits; signed by the gate" in said
    assert "not covered by the signature: notes/, report.html, requests.jsonl.gz" in said


def test_packed_requests_are_covered_where_they_stand_for_them(world: World, tmp_path: Path) -> None:
    """A kept run has `requests.jsonl.gz` alone."""
    folder = copied(world, "a", tmp_path)
    (folder / "requests.jsonl.gz").write_bytes(gzip.compress((folder / "requests.jsonl").read_bytes()))
    (folder / "requests.jsonl").unlink()
    assert uncovered(folder) == ["report.html"]


def test_invented_requests_that_fit_together_are_only_claimed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """200 requests made up and hashed: everything fits, `verify` says claimed, and no profile is proven by them."""
    monkeypatch.chdir(world.root)
    folder = run_of_profile(tmp_path / "runs" / "invented", world.profile, requests=200)
    assert misfits(folder) == []
    assert loadproof(["verify", str(folder)]) == 0
    assert "which proves nothing of who measured; claimed: it has no signature" in " ".join(
        capsys.readouterr().out.split()
    )
    assert loadproof(["verify", str(folder), "--signed-by", "person"]) == 1
    [run] = read_stored([FolderPlace(tmp_path / "runs")])
    tree = TreeProfile(world.profile, "dev", "chat", load_profile(world.profile))
    proof = proof_of(tree, [run], datetime.now(UTC), None, signers=world.signers)
    assert proof.problems == ("claimed: it has no signature",)


def test_a_claimed_run_does_not_unseat_a_signed_one(world: World) -> None:
    """A newer run that somebody made up decides nothing, whatever it says."""
    tree = TreeProfile(world.profile, "dev", "chat", load_profile(world.profile))
    runs = [stored_run(world.run(name)) for name in ("unsigned", "a")]
    proof = proof_of(tree, runs, NOW + timedelta(days=1), None, signers=world.signers)
    assert proof.holds and proof.run is runs[1]


def test_a_signed_run_of_another_endpoint_proves_nothing(world: World) -> None:
    """The gate signed it, and what it measured is not the profile's."""
    tree = TreeProfile(world.profile, "dev", "chat", load_profile(world.profile))
    run = stored_run(world.run("other-endpoint"))
    proof = proof_of(tree, [run], NOW + timedelta(days=1), None, signers=world.signers)
    assert standing_of(run, world.signers).by == "gate"
    assert "measured endpoint `loadproof-dev-other`, the profile's is `loadproof-dev-chat`" in proof.problems


def test_a_newer_run_whose_signature_was_taken_away_is_named(world: World, tmp_path: Path) -> None:
    """The signed PASS before it still decides, but not without a word."""
    tree = TreeProfile(world.profile, "dev", "chat", load_profile(world.profile))
    newer = copied(world, "b", tmp_path)
    (newer / SIGNATURE).unlink()
    runs = [stored_run(newer), stored_run(world.run("a"))]
    proof = proof_of(tree, runs, NOW + timedelta(days=1), None, signers=world.signers)
    assert proof.run is runs[1] and proof.notes[-1].endswith("(claimed: it has no signature)")


def test_of_a_damaged_plan_the_signature_says_whose_run_it_was(world: World, tmp_path: Path) -> None:
    """The plan names another environment now; what was signed names dev/chat."""
    tree = TreeProfile(world.profile, "dev", "chat", load_profile(world.profile))
    newer = copied(world, "b", tmp_path)
    plan = newer / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"dev"', b'"devx"'))
    runs = [stored_run(newer), stored_run(world.run("a"))]
    proof = proof_of(tree, runs, NOW + timedelta(days=1), None, signers=world.signers)
    assert proof.run is runs[1] and proof.notes[-1].startswith(f"passed over, though no older: {newer}")


def test_a_profile_may_take_the_gates_word_alone(world: World) -> None:
    """A person's run proves a profile that takes any listed key, and not one that asks for the gate's."""
    profile = load_profile(world.profile)
    strict = profile.model_copy(update={"benchmark": profile.benchmark.model_copy(update={"evidence_from": "gate"})})
    person, gate = standing(world, world.run("p")), standing(world, world.run("a"))
    assert [proves(one, profile, world.signers) for one in (person, gate)] == [True, True]
    assert [proves(one, strict, world.signers) for one in (person, gate)] == [False, True]
    assert not proves(standing_of(stored_run(world.run("a")), None), strict, None)


def test_a_signature_counts_where_its_key_is_listed_for(world: World, tmp_path: Path) -> None:
    """The gate of prod has no say about dev."""
    folder = copied(world, "unsigned", tmp_path)
    sign_run(folder, signing_key(str(world.elsewhere)))
    assert standing(world, folder).words == "claimed: prod gate is not listed for environment dev"


def test_a_run_that_does_not_fit_together_is_not_signed(world: World, tmp_path: Path) -> None:
    """Whoever signs says that it is so: the files are held to each other first."""
    folder = copied(world, "unsigned", tmp_path)
    with_json(folder, "summary.json", lambda document: document.update(run_id="other"))
    with pytest.raises(InputError, match=r"summary\.json: changed since the run was judged"):
        sign_run(folder, signing_key(str(world.gate)))


def test_broken_envelopes_are_told_and_never_raise(world: World, tmp_path: Path) -> None:
    """Whatever lies in the file: claimed, and `verify` says what is wrong."""
    folder, chance = copied(world, "a", tmp_path), random.Random(7)
    whole = (folder / SIGNATURE).read_bytes()
    for number in range(200):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        content = [bytes(broken), whole[: number * 7], b"[]", b'{"payload": 1}', b"null"][number % 5]
        (folder / SIGNATURE).write_bytes(content)
        found = standing(world, folder)
        assert found.by == "claimed" or b"keyid" in content, content
    (folder / SIGNATURE).write_bytes(b'{"payloadType": "text/plain", "payload": "", "signatures": []}')
    assert standing(world, folder).words.startswith("claimed: evidence.dsse.json: its payload is no ")


def test_a_listed_key_that_is_none_is_a_mistake_of_the_list() -> None:
    """Told with the name it stands under, rather than taken for a signature that does not hold."""
    pem = "-----BEGIN PUBLIC KEY-----\n" + "A" * 60 + "\n-----END PUBLIC KEY-----\n"
    with pytest.raises(InputError, match=r"signers\.yaml: Ada: its public_key is none"):
        is_signed(pem, b"", b"", named="signers.yaml: Ada")
