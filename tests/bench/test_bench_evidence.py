"""Evidence that was touched, and evidence for something else, is told."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import orjson
import pytest
from test_bench_regression import latencies, run_of

from loadproof.bench.evidence.document import misfits, mismatches
from loadproof.bench.evidence.filing import file_run
from loadproof.bench.evidence.places import FolderPlace
from loadproof.bench.imports import read_measured
from loadproof.bench.judging import judge_run
from loadproof.bench.spec import ProfileRef
from loadproof.errors import InputError, LoadproofError
from loadproof.profiles import load_profile, profile_hash

PROFILE = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = run_of(tmp_path / "run", latencies(1))
    judge_run(folder)
    return folder


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_an_untouched_run_fits(run: Path) -> None:
    """Hashes match, and judging again gives the same verdict, objectives and levels."""
    assert mismatches(run) == []
    evidence = orjson.loads((run / "evidence.json").read_bytes())
    assert evidence["verdict"] == "PASS" and evidence["seed"] == 0 and evidence["versions"]["loadproof"] == "0.1.0"
    assert set(evidence["sha256"]) == {"plan.json", "requests.jsonl", "summary.json"}


def test_a_request_taken_out_is_found(run: Path) -> None:
    """One line fewer: the file's hash differs, and the levels no longer follow from it."""
    path = run / "requests.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    found = mismatches(run)
    assert found[0].startswith("requests.jsonl: changed since the run was judged")
    assert "summary.json: `levels` does not follow from plan.json and requests.jsonl" in found


def test_a_rewritten_verdict_is_found_even_with_its_hash_mended(run: Path) -> None:
    """A bound moved in summary.json and its new hash written into evidence.json: judging again still tells."""
    edited(run / "summary.json", '"bound": 500.0', '"bound": 900.0')
    assert any(one.startswith("summary.json: changed") for one in mismatches(run))
    from loadproof.bench.evidence.document import sha256_of

    evidence = orjson.loads((run / "evidence.json").read_bytes())
    evidence["sha256"]["summary.json"] = sha256_of(run / "summary.json")
    (run / "evidence.json").write_bytes(orjson.dumps(evidence))
    assert mismatches(run) == ["summary.json: `objectives` does not follow from plan.json and requests.jsonl"]


@pytest.mark.parametrize(("old", "new"), [('"seed": 0', '"seed": 7'), ('"loadproof": "0.1.0"', '"loadproof": "9"')])
def test_what_the_evidence_itself_says_is_checked(run: Path, old: str, new: str) -> None:
    """Its seed and versions are those of the plan; nobody may give it another."""
    edited(run / "evidence.json", old, new)
    [parsed_line] = mismatches(run)
    assert parsed_line.startswith("evidence.json: ") and "but plan.json and summary.json say" in parsed_line


def test_missing_files_and_hashes_are_found(run: Path) -> None:
    """Evidence without the hash of its requests is none."""
    edited(run / "evidence.json", '"requests.jsonl"', '"request.jsonl"')
    found = mismatches(run)
    assert "request.jsonl: missing, though evidence.json holds its hash" in found
    assert "evidence.json: has no hash of requests.jsonl" in found


def test_what_was_observed_after_the_judgement_is_found(run: Path) -> None:
    """Even where no line of it says anything."""
    (run / "observed.jsonl").write_text("")
    assert misfits(run) == [
        "observed.jsonl: came after the run was judged: evidence.json has no hash of it; take it away"
    ]


def test_evidence_is_for_one_version_of_one_profile(tmp_path: Path) -> None:
    """The profile as benchmarked fits; after an edit of its model's limits it does not; a run of none fits none."""
    reference = ProfileRef("chat", str(PROFILE), profile_hash(load_profile(PROFILE)), "dev")
    folder = run_of(tmp_path / "run", latencies(1), profile=reference)
    judge_run(folder)
    assert mismatches(folder) == [] == mismatches(folder, PROFILE)
    [parsed_line] = mismatches(folder, PROFILE.with_name("qwen3-32b.yaml"))
    assert "the run is evidence for chat at" in parsed_line
    none = run_of(tmp_path / "none", latencies(1))
    judge_run(none)
    assert mismatches(none, PROFILE) == [f"plan.json: the run was of no profile: it is no evidence for {PROFILE}"]


def test_a_run_that_was_never_judged_has_no_evidence(tmp_path: Path) -> None:
    """It says what judges it; a folder of no run at all is refused."""
    [said] = mismatches(run_of(tmp_path / "run", latencies(1)))
    assert said == f"not judged: the run was cut off; loadproof report {tmp_path / 'run'} judges what there is of it"
    with pytest.raises(InputError, match="give a judged run that has its requests"):
        mismatches(tmp_path)


@pytest.mark.parametrize("file", ["plan.json", "requests.jsonl", "observed.jsonl", "summary.json", "evidence.json"])
def test_no_link_of_a_run_is_followed(run: Path, file: str) -> None:
    """Git carries links: what one leads to may have no end, and is no part of the run."""
    (run / file).unlink(missing_ok=True)
    (run / file).symlink_to("/dev/zero")
    with pytest.raises(LoadproofError, match=rf"{file}: .*is a link"):
        mismatches(run)


@pytest.mark.parametrize("file", ["plan.json", "requests.jsonl.gz", "observed.jsonl", "summary.json", "evidence.json"])
def test_no_pipe_is_waited_for(run: Path, file: str) -> None:
    """Nobody writes into it."""
    for name in (file, file.removesuffix(".gz")):
        (run / name).unlink(missing_ok=True)
    os.mkfifo(run / file)
    with pytest.raises(LoadproofError, match=rf"{file}: .*no file"):
        mismatches(run)


@pytest.mark.parametrize(
    ("file", "mib"), [("plan.json", 17), ("summary.json", 17), ("evidence.json", 17), ("observed.jsonl", 65)]
)
def test_no_small_file_is_read_without_a_bound(run: Path, file: str, mib: int) -> None:
    """A file of holes takes no room on a disk, and all of it in memory."""
    (run / file).touch()
    os.truncate(run / file, mib << 20)
    with pytest.raises(InputError, match=rf"{file}: .*is larger than \d+ MiB"):
        mismatches(run)


def _unpacks_to(run: Path, body: bytes) -> None:
    (run / "requests.jsonl").unlink()
    (run / "requests.jsonl.gz").write_bytes(gzip.compress(body))


@pytest.mark.parametrize("line", [b"x", b"x\n"])
def test_what_unpacks_to_far_more_than_requests_do_is_damaged(run: Path, line: bytes) -> None:
    """24 MiB out of 24 kB: as one line, and as many."""
    _unpacks_to(run, line * (24 * 2**20 // len(line)))
    with pytest.raises(
        LoadproofError, match=r"requests.jsonl.gz: damaged \(it unpacks to more than 100 times its size\)"
    ):
        mismatches(run)


def test_a_line_that_no_client_writes_is_damaged(run: Path) -> None:
    """Holes are zeros without a newline."""
    os.truncate(run / "requests.jsonl", 65 << 20)
    with pytest.raises(LoadproofError, match=r"requests.jsonl: damaged \(a line of more than 64 MiB\)"):
        mismatches(run)


def test_a_hash_of_another_file_is_told_and_not_made(run: Path) -> None:
    """evidence.json may name any file of the machine that reads it."""
    evidence = orjson.loads((run / "evidence.json").read_bytes())
    evidence["sha256"]["/dev/zero"] = "0" * 64
    (run / "evidence.json").write_bytes(orjson.dumps(evidence))
    assert "/dev/zero: missing, though evidence.json holds its hash" in mismatches(run)


def test_results_of_others_are_no_devices(tmp_path: Path) -> None:
    """`/dev/zero` has no size that could be held to a bound."""
    (tmp_path / "benchmarks.json").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"benchmarks.json: cannot be read: is no file"):
        read_measured(tmp_path / "benchmarks.json")


def test_a_signature_that_is_a_link_is_not_kept(tmp_path: Path) -> None:
    """What it leads to is nobody's word about the run."""
    profile = ProfileRef("chat", str(PROFILE), profile_hash(load_profile(PROFILE)), "dev")
    folder = run_of(tmp_path / "run", latencies(1), profile=profile)
    judge_run(folder)
    (folder / "evidence.dsse.json").symlink_to("/dev/zero")
    kept = file_run(folder, FolderPlace(tmp_path / "evidence"))
    assert not (Path(kept.where) / "evidence.dsse.json").exists()
