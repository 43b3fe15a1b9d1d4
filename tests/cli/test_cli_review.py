"""`loadproof review` as it is typed: formats, files, exit codes, and what it says when it cannot."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bench_evidence import TARGET, run_of_profile
from bench_summaries import whole
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from review_repository import WALLED, Project

from loadproof.bench.evidence.keys import signing_key
from loadproof.bench.evidence.standing import sign_run
from loadproof.bench.spec import ProfileRef
from loadproof.cli.main import run
from loadproof.profiles import load_profile, profile_document, profile_hash

REPOSITORY = Path(__file__).parents[2]
LOOSER = {"at_concurrency": 4, "e2e_p95_ms": 4000, "error_rate_max": 0.01}
MORE_COPIES = {"min": 1, "max": 3, "memory_mib_per_copy": 16384}
MORE_INSTANCES = {"instance_type": "ml.g6e.2xlarge", "min_instances": 1, "max_instances": 3}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One environment, two profiles; on `branch` one of them promises less, which is a warning (LR052)."""
    made = Project(tmp_path / "repository", dev=("chat", "search"))
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("CDK_RUNS_FILE", str(made.runs_file))
    made.git("checkout", "-q", "-b", "branch")
    made.profile("dev/chat", objectives=LOOSER)
    made.commit()
    return made


def test_json_names_sides_and_profiles(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The document on standard output alone; progress goes to standard error."""
    assert run(["review", "main", "branch", "--format", "json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["base"], document["head"]) == (f"main ({project.first[:10]})", _label(project, "branch"))
    assert [(one["environment"], one["profile"]) for one in document["profiles"]] == [("dev", "chat")]
    assert document["unaffected"] == 1
    assert "1 of 2 profiles affected; 2 to synthesize" in said.err


def _label(project: Project, ref: str) -> str:
    return f"{ref} ({project.git('rev-parse', ref)[:10]})"


def test_the_working_tree_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader must see that what was reviewed is in nobody else's repository."""
    project.profile("dev/search", comment="uncommitted")
    assert run(["review", "main", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    on = project.git("rev-parse", "HEAD")[:10]
    assert document["head"] == f"working tree on {on}, with uncommitted changes"
    assert [one["profile"] for one in document["profiles"]] == ["chat", "search"]


@pytest.mark.parametrize(("fail_on", "code"), [("info", 1), ("warning", 1), ("risk", 0), ("break", 0)])
def test_fail_on_decides_the_exit_code(project: Project, fail_on: str, code: int) -> None:
    """The gravest finding is a warning."""
    assert run(["review", "main", "branch", "--fail-on", fail_on]) == code


def test_a_refused_profile_fails_by_default(project: Project) -> None:
    """A change that the checks refuse must not pass a gate."""
    project.profile("dev/chat", copies={"min": 3, "max": 2, "memory_mib_per_copy": 16384})
    assert run(["review", "main"]) == 1


def test_a_profile_that_cannot_be_provisioned_fails_by_default(project: Project) -> None:
    """Nor one that synthesis refuses."""
    project.profile("dev/chat", comment="refuse")
    assert run(["review", "main"]) == 1


def test_nothing_changed_is_well(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The same ref twice: exit 0 at the strictest level, and no profile."""
    assert run(["review", "branch", "branch", "--format", "json", "--fail-on", "info"]) == 0
    assert json.loads(capsys.readouterr().out)["profiles"] == []


@pytest.mark.parametrize("format", ["markdown", "json", "sarif", "text", "html"])
def test_two_runs_write_the_same_bytes(
    project: Project, format: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """With the cache and without: neither time, nor folder, nor order shows."""
    outputs = []
    for option in ("--cache", "--cache", "--no-cache"):
        run(["review", "main", "branch", "--format", format, option])
        sys.stdout.flush()
        outputs.append(capfdbinary.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2] != b""
    assert str(project.root).encode() not in outputs[0]


def test_a_page_is_never_poured_onto_a_terminal(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--format html` alone: a file there, and its name."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["review", "main", "branch", "--format", "html"]) == 0
    assert Path("review.html").read_text().startswith("<!doctype html>")
    printed = capsys.readouterr().out
    assert "review.html" in printed
    assert "<" not in printed


def test_the_cache_is_used_unless_told_otherwise(project: Project) -> None:
    """Two processes, then none, then two again."""
    counts = []
    for option in ("--cache", "--cache", "--no-cache"):
        run(["review", "main", "branch", "--trust=unwalled", option])
        counts.append(project.runs)
    assert counts == [2, 2, 4]


def test_files_take_their_format_from_their_ending(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """One review, three files; standard output keeps the verdict."""
    assert run(["review", "main", "branch", "--trust=unwalled", *_outputs("r.md", "r.sarif", "r.json")]) == 0
    assert Path("r.md").read_text().startswith("<!-- loadproof-review -->")
    assert json.loads(Path("r.sarif").read_text())["version"] == "2.1.0"
    assert json.loads(Path("r.json").read_text())["schema_version"] == 1
    assert capsys.readouterr().out.startswith("LOOK AT dev/chat")
    assert project.runs == 2


def _outputs(*names: str) -> list[str]:
    return [word for name in names for word in ("--output", name)]


def test_findings_link_to_their_page(project: Project) -> None:
    """Where `--docs` says it is; without it a code is a code."""
    page = "https://example.com/blob/main/docs/review-findings.md"
    run(["review", "main", "branch", *_outputs("linked.md"), "--docs", page])
    run(["review", "main", "branch", *_outputs("plain.md")])
    assert f"({page}#lr" in Path("linked.md").read_text()
    assert "#lr" not in Path("plain.md").read_text()


def test_the_step_summary_is_added_to(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub gives all steps of a job one file: what others wrote stays."""
    summary = project.root / "summary"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run(["review", "main", "branch", "--output", str(summary)])
    assert summary.read_text().startswith("before\n<!-- loadproof-review -->")


USAGE: dict[str, tuple[list[str], str]] = {
    "unknown ref": (["nope"], "BASE nope: neither a folder nor a ref of this repository"),
    "both unknown": (["nope", "nada"], "HEAD nada: neither a folder nor a ref"),
    "range": (["main..branch"], "BASE main..branch: a range is two arguments"),
    "hyphen": (["--", "-main"], "BASE -main: begins with a hyphen"),
    "folder without profiles": (["main", "./stacks"], "./stacks: no deploy_profiles folder in it"),
    "context": (["main", "-c", "prod"], "-c prod: expected KEY=VALUE"),
    "paused": (["main", "-c", "pause_scaling=chat"], "-c pause_scaling=chat: a review is about what stays deployed"),
    "environment": (["main", "-c", "env=moon"], "-c env=moon: neither side has moon"),
    "ending": (["main", "--output", "review.doc"], "--output review.doc: no format by this ending"),
    "place": (["main", "--output", "no/such/r.md"], "--output no/such/r.md: is no place for a file"),
    "two formats": (["main", "--format", "json", *_outputs("a.md", "b.md")], "--format json: goes with one --output"),
    "evidence": (["main", "--evidence", "no/runs"], "no/runs: no such folder"),
    "docs": (["main", "--docs", "javascript:alert(1)"], "--docs javascript:alert(1): expected an https:// address"),
}


@pytest.mark.parametrize("case", USAGE)
def test_mistakes_are_told_in_one_message(project: Project, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, what was found and how to mend it, no traceback, nothing on standard output."""
    arguments, expected = USAGE[case]
    assert run(["review", *arguments]) == 2
    said = capsys.readouterr()
    assert expected in said.err and "Traceback" not in said.err
    assert said.out == ""


def test_outside_a_repository_refs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what would do."""
    monkeypatch.chdir(tmp_path)
    assert run(["review", "main"]) == 2
    assert "is in no git repository" in capsys.readouterr().err


def test_a_shallow_clone_says_what_to_fetch(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As CI checks out by default: one commit of one branch."""
    _shallow(project, tmp_path / "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    assert run(["review", "origin/main"]) == 2
    assert "`git fetch --depth=1 origin main` gives FETCH_HEAD" in capsys.readouterr().err


def test_a_shallow_clone_reviews_what_was_fetched(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that the message gives works, and the lack of common history is said."""
    _shallow(project, tmp_path / "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    subprocess.run(["git", "fetch", "-q", "--depth=1", "origin", "main"], check=True)
    assert run(["review", "FETCH_HEAD", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert [one["profile"] for one in json.loads(said.out)["profiles"]] == ["chat"]
    assert "this shallow clone does not hold common history" in said.err


def _shallow(project: Project, target: Path) -> None:
    project.git("clone", "-q", "--depth=1", "--branch", "branch", project.root.as_uri(), str(target))


@pytest.mark.parametrize("trust", [pytest.param("head", marks=WALLED), "unwalled"])
def test_a_cancelled_review_leaves_nothing_running(trust: str, project: Project) -> None:
    """SIGTERM, as CI sends it: exit 130, and the synthesis under way is ended with it."""
    name = str(project.root / "in-the-middle")
    project.write("app.py", f"import os\nos.execvp('sh', ['sh', '-c', 'sleep 600; true', {name!r}])\n")
    project.commit()
    command = [sys.executable, "-m", "loadproof", "review", "main", "-c", "profile=chat", f"--trust={trust}"]
    process = subprocess.Popen(command, cwd=project.root, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    while not (started := [one for one in psutil.process_iter(["cmdline"]) if name in (one.info["cmdline"] or [])]):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(120) == 130
    for one in started:
        one.wait(60)


def test_the_repository_is_left_as_it_was(project: Project) -> None:
    """No checkout, no index refreshed, no file: a review only reads."""
    files: Callable[[], dict[str, bytes]] = lambda: {  # noqa: E731
        str(file): file.read_bytes()
        for file in sorted(project.root.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    before = files()
    run(["review", "main"])
    run(["review", "main", "branch"])
    assert files() == before


def test_evidence_of_the_head_is_found(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A run in evidence/ of the reviewed commit is linked as in the repository, stale for another profile's hash."""
    folder = "evidence/dev/chat/20260101-000000-chat"
    profile = {"name": "chat", "file": "chat.yaml", "sha256": "0" * 64, "environment": "dev"}
    plan = {"schema_version": 1, "run_id": "r1", "created_utc": "2026-01-01T00:00:00Z", "spec": {"profile": profile}}
    summary = whole({"schema_version": 1, "profile": profile})
    files = {"plan.json": json.dumps(plan), "summary.json": json.dumps(summary)}
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    said = {"run_id": "r1", "created_utc": plan["created_utc"], "verdict": "PASS", "profile": profile}
    files["evidence.json"] = json.dumps({"schema_version": 1, "sha256": hashes, **said})
    for name, text in files.items():
        project.write(f"{folder}/{name}", text)
    project.commit()
    run(["review", "main", "branch", "--format", "json"])
    (profile_review,) = json.loads(capsys.readouterr().out)["profiles"]
    assert profile_review["evidence"]["state"] == "stale"
    assert folder in json.dumps(profile_review["evidence"])


KEPT = "evidence/dev/search/r1"


def kept(project: Project) -> Path:
    """A FAIL of dev/search as it is, on both sides."""
    file = project.root / "deploy_profiles" / "dev" / "search.yaml"
    at, profile = load_profile(file).objectives.at_concurrency, load_profile(file)
    ref = ProfileRef("search", str(file), profile_hash(profile), "dev", profile_document(profile))
    folder = run_of_profile(project.root / KEPT, file, slower=90.0, concurrency=(at,), profile=ref)
    project.git("checkout", "-q", "main")
    project.commit()
    return folder


def gone(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, str, str]]:
    """(profile, severity, message) of runs that are told to be taken away."""
    run(["review", "HEAD^", "HEAD", "--format", "json", *arguments])
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    found = [(one["profile"], row) for one in profiles for row in one["findings"] if row["code"] == "LR059"]
    return [(name, row["severity"], row["message"]) for name, row in found]


@pytest.mark.parametrize("file", ["", "summary.json"])
def test_evidence_that_is_taken_away_is_told(project: Project, capsys: pytest.CaptureFixture[str], file: str) -> None:
    """No profile is touched; a FAIL that is gone, or no run any more, brings the PASS before it back."""
    kept(project)
    project.git("rm", "-q", "-r", f"{KEPT}/{file}")
    project.commit()
    assert gone(capsys) == [
        ("search", "risk", "1 run of just this profile taken away, or changed: r1 (FAIL)"),
    ]
    assert gone(capsys, "-c", "profile=chat") == []


@pytest.mark.parametrize(
    ("to", "found"),
    [
        ("evidence/.old/r1", False),
        ("evidence/a/b/c/d/e/f/r1", False),
        ("evidence/dev/search/r0/r1", True),
        ("evidence/dev/search/moved", True),
    ],
)
def test_evidence_is_taken_away_where_nobody_finds_it(
    project: Project, capsys: pytest.CaptureFixture[str], to: str, *, found: bool
) -> None:
    """Neither a review nor `evidence check` looks into hidden folders or deeper than six; no run hides another."""
    kept(project)
    project.write("evidence/dev/search/r0/plan.json", "{}")
    (project.root / to).parent.mkdir(parents=True, exist_ok=True)
    project.git("mv", KEPT, to)
    project.commit()
    assert len(gone(capsys)) == (not found)


def test_a_new_plan_above_evidence_hides_none_of_it(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    kept(project)
    project.write("evidence/dev/plan.json", "{}")
    project.commit()
    assert gone(capsys) == []


def test_a_signature_of_something_else_takes_evidence_away(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is not what was signed proves nothing, nor disproves it."""
    kept(project)
    project.write(f"{KEPT}/evidence.dsse.json", "{}")
    project.commit()
    assert [severity for _, severity, _ in gone(capsys)] == ["risk"]


def test_what_is_too_much_to_read_is_said_and_what_is_newest_is_read(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 MiB are; without the newest run an older one would decide."""
    kept(project)
    project.git("mv", KEPT, "evidence/dev/search/20261126-1")
    for number in range(4):
        project.write(f"evidence/dev/a/20261120-{number}/plan.json", "x" * (3 * 2**20 - 1) + str(number))
    project.commit()
    project.profile("dev/search", comment="later")
    project.commit()
    assert gone(capsys) == []
    run(["review", "HEAD^", "HEAD", "--format", "json"])
    said = capsys.readouterr()
    [profile] = json.loads(said.out)["profiles"]
    assert profile["evidence"]["run"]["run_id"] == "r1"
    assert "1 files of evidence are not read" in said.err
    project.git("rm", "-q", "-r", "evidence")
    project.commit()
    run(["review", "HEAD^", "HEAD", "--format", "json"])
    said = capsys.readouterr()
    assert "LR059" in said.out
    assert "1 files of evidence that is taken away are not read" in said.err


def test_of_two_folders_evidence_that_is_taken_away_is_told(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project)
    project.git("clone", "-q", ".", str(tmp_path / "head"))
    shutil.rmtree(tmp_path / "head" / "evidence")
    run(["review", ".", str(tmp_path / "head"), "--format", "json"])
    [profile] = json.loads(capsys.readouterr().out)["profiles"]
    assert [one["code"] for one in profile["findings"]] == ["LR059"]


def test_no_number_of_new_runs_hides_one_that_was_there(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A review reads so many files of evidence: first those that BASE has."""
    kept(project)
    monkeypatch.setattr("loadproof.cli.review.evidence._MOST_FILES", 3)
    for at in range(3):
        project.write(f"evidence/a{at}/plan.json", "{}")
    project.profile("dev/search", comment="touched")
    project.commit()
    run(["review", "HEAD^", "HEAD", "--format", "json"])
    [profile] = json.loads(capsys.readouterr().out)["profiles"]
    assert profile["evidence"]["run"]["verdict"] == "FAIL"


def test_evidence_that_is_kept_elsewhere_or_signed_or_old_is_not_gone(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moved, then signed, then pruned when it measured another profile than either side's."""
    kept(project)
    project.git("mv", KEPT, "evidence/moved")
    project.commit()
    assert gone(capsys) == []
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (project.root.parent / "ada.pem").write_bytes(key)
    sign_run(project.root / "evidence/moved", signing_key(str(project.root.parent / "ada.pem")))
    project.commit()
    assert gone(capsys) == []
    project.profile("dev/search", objectives=LOOSER)
    project.commit()
    project.git("rm", "-q", "-r", "evidence")
    project.commit()
    assert gone(capsys) == []


def test_a_run_of_another_region_proves_nothing_of_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is of exactly the head's profile, and the review says what it measured instead."""
    made = Project(tmp_path / "repository", own_code=False, dev=("chat",))
    monkeypatch.chdir(made.root)
    made.profile("dev/chat", copies=MORE_COPIES, endpoint=MORE_INSTANCES)
    file = made.root / "deploy_profiles" / "dev" / "chat.yaml"
    at = load_profile(file).objectives.at_concurrency
    elsewhere = replace(TARGET, region="ap-south-1")
    run_of_profile(made.root / "runs" / "r1", file, target=elsewhere, concurrency=(at,))
    run(["review", "main", "--format", "json"])
    (profile,) = json.loads(capsys.readouterr().out)["profiles"]
    assert profile["evidence"]["state"] == "claimed"
    (said,) = profile["evidence"]["changed_since"]
    assert said.startswith("measured in ap-south-1, the profile's environment is in ")


def test_a_folder_of_profiles_is_synthesized_by_this_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an app.py the installed stacks do it, in their own words: the endpoint configuration is replaced."""
    made = Project(tmp_path / "repository", own_code=False, dev=("chat",))
    monkeypatch.chdir(made.root)
    made.profile("dev/chat", copies=MORE_COPIES, endpoint=MORE_INSTANCES)
    assert run(["review", "main", "--format", "json"]) == 0
    (profile,) = json.loads(capsys.readouterr().out)["profiles"]
    replaced = {one["type"] for one in profile["resources"] if one["action"] == "replace"}
    assert replaced == {"AWS::SageMaker::EndpointConfig"}
