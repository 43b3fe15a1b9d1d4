"""Runs that are kept: found again, told apart from damaged ones, never written over, in folders and in S3."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import orjson
import pytest
from bench_evidence import CHAT, profile_tree, run_of_profile
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto_server import moto_server

from loadproof.bench.compare.regression import compare_runs, read_run
from loadproof.bench.evidence.document import mismatches
from loadproof.bench.evidence.filing import at_hand, file_run, name_of
from loadproof.bench.evidence.places import FolderPlace, Place, places_of
from loadproof.bench.evidence.s3_place import S3Place
from loadproof.bench.evidence.status import TreeProfile, age_of, in_days, proof_of, status_of
from loadproof.bench.evidence.store import measured_run, read_stored, stored_runs
from loadproof.bench.from_profile import objectives_of
from loadproof.bench.measure.records import read_records
from loadproof.bench.objectives import Objective
from loadproof.bench.spec import ProfileRef, Target, fixed_tokens
from loadproof.errors import CouldNotRunError, InputError
from loadproof.profiles import load_profile

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return profile_tree(tmp_path)


@pytest.fixture
def run(tmp_path: Path, chat: Path) -> Path:
    return run_of_profile(tmp_path / "runs" / "20261122-100000-chat", chat, created=NOW - timedelta(hours=2))


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def bucket(s3_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "evidence",
        "AWS_SECRET_ACCESS_KEY": "evidence",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": s3_url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[:60].strip("-")
    boto3.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return FolderPlace(tmp_path / "evidence")
    return S3Place(f"s3://{request.getfixturevalue('bucket')}/some/prefix")


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def tree(chat: Path) -> list[TreeProfile]:
    return [TreeProfile(chat, "dev", "chat", load_profile(chat))]


def test_a_run_kept_is_found_again_whole(run: Path, place: Place) -> None:
    """By environment, profile and run id; its requests packed, the same to the byte; everything fits there, too."""
    filed = file_run(run, place)
    assert filed.where == f"{place.name}/dev/chat/20261122-100000-chat" and filed.written > 0
    [found] = read_stored([place])
    assert (found.where, found.verdict, found.misfits, found.problem) == (filed.where, "PASS", (), "")
    assert set(found.files) == {"plan.json", "summary.json", "requests.jsonl.gz", "evidence.json"}
    with at_hand(found) as folder:
        assert mismatches(folder) == []
        assert gzip.decompress((folder / "requests.jsonl.gz").read_bytes()) == (run / "requests.jsonl").read_bytes()


def test_keeping_a_run_again_writes_nothing(run: Path, place: Place) -> None:
    """And a file that was lost on the way is put there."""
    file_run(run, place, requests=False)
    assert file_run(run, place, requests=False).written == 0
    assert file_run(run, place).written > 0
    assert read_stored([place])[0].has_requests


def test_another_run_of_that_name_is_never_written_over(tmp_path: Path, run: Path, chat: Path, place: Place) -> None:
    """Refused before anything of it is written."""
    file_run(run, place)
    other = run_of_profile(tmp_path / "other" / run.name, chat, seed=2, created=NOW)
    with pytest.raises(InputError, match=r"plan\.json: holds another content; nothing is written over it"):
        file_run(other, place)
    assert place.read(name_of(run), "plan.json") == (run / "plan.json").read_bytes()


def test_what_does_not_fit_is_not_kept(run: Path, tmp_path: Path) -> None:
    """A latency rewritten after the fact makes no evidence."""
    edited(run / "requests.jsonl", '"outcome":"ok"', '"outcome":"internal"')
    with pytest.raises(InputError, match=r"requests\.jsonl: changed since the run was judged"):
        file_run(run, FolderPlace(tmp_path / "evidence"))
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize(
    ("environment", "complaint"), [("../../x", "`../../x` is no name for a folder"), (None, "`` is no name")]
)
def test_names_that_lead_elsewhere_are_refused(
    tmp_path: Path, chat: Path, environment: str | None, complaint: str
) -> None:
    """An environment that the plan calls `../../x` is no folder of evidence."""
    reference = ProfileRef("chat", str(chat), "0" * 64, environment)
    folder = run_of_profile(tmp_path / "run", chat, requests=8, profile=reference)
    with pytest.raises(InputError, match=complaint.replace(".", r"\.")):
        file_run(folder, FolderPlace(tmp_path / "evidence"))


def test_a_run_of_no_profile_is_evidence_for_none(tmp_path: Path, chat: Path) -> None:
    """It is listed where it lies, and not kept as evidence."""
    folder = run_of_profile(tmp_path / "runs" / "none", chat, requests=8, profile=None)
    with pytest.raises(InputError, match="a run of no profile is evidence for none"):
        file_run(folder, FolderPlace(tmp_path / "evidence"))
    [found] = read_stored(places_of([tmp_path / "runs"]))
    assert status_of(found, tree(chat)).state == "no profile" and stored_runs(tmp_path / "runs") == ()


def test_a_large_run_belongs_into_s3(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, likely a repository, takes 20 MiB of packed requests at most; the message says what else to do."""
    monkeypatch.setattr("loadproof.bench.evidence.filing.MOST_MIB", 0.001)
    with pytest.raises(InputError, match=r"a folder takes at most .*--to s3://BUCKET/PREFIX, or --without-requests"):
        file_run(run, FolderPlace(tmp_path / "evidence"))


def test_kept_runs_compare_as_the_originals_do(tmp_path: Path, run: Path, chat: Path, place: Place) -> None:
    """Packed or not, here or in S3: the same comparison, figure by figure."""
    slow = run_of_profile(tmp_path / "runs" / "20261122-110000-chat", chat, seed=2, slower=2.0, created=NOW)
    for folder in (run, slow):
        file_run(folder, place)
    after, before = read_stored([place])
    with at_hand(before) as one, at_hand(after) as other:
        found = compare_runs(read_run(one), read_run(other))
    assert found == compare_runs(read_run(run), read_run(slow)) and found.outcome == "REGRESSION"


def test_damaged_packed_requests_are_told(run: Path, tmp_path: Path) -> None:
    """Half a file ends in one message, not in half the figures."""
    file_run(run, FolderPlace(tmp_path / "evidence"))
    [packed] = tmp_path.glob("evidence/*/*/*/requests.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:2000])
    with pytest.raises(CouldNotRunError, match=r"requests.jsonl.gz: damaged .*; restore it"):
        read_records(packed.with_name("requests.jsonl"))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("evidence.json", '"verdict": "PASS"', '"verdict": "FAIL"', "evidence.json: another verdict than in plan.json"),
        ("plan.json", '"seed": 5', '"seed": 6', "plan.json: changed since the run was judged"),
        ("plan.json", '"instance_type": "ml.g6e.2xlarge"', '"instance_type": "ml.p5.48xlarge"', "is not the one its"),
        ("summary.json", '"outcome": "PASS"', '"outcome": "FAIL"', "summary.json: changed since the run was judged"),
    ],
)
def test_small_files_that_do_not_fit_are_told(run: Path, file: str, old: str, new: str, said: str) -> None:
    """Without reading a request: by hashes, by what the files repeat of each other, by the profile's own hash."""
    edited(run / file, old, new)
    [found] = read_stored(places_of([run]))
    assert any(said in misfit for misfit in found.misfits), found.misfits


@pytest.mark.parametrize("content", ["{", "[1]", '{"schema_version": 2}', '{"schema_version": 1, "spec": [], "a": 0}'])
def test_whatever_a_file_holds_listing_goes_on(run: Path, content: str) -> None:
    """A file in a pull request may hold anything: the run is told to be unreadable, or of no profile, and is no run of
    a review's."""
    (run / "plan.json").write_text(content)
    [found] = read_stored(places_of([run.parent]))
    assert found.problem or found.misfits
    assert stored_runs(run.parent) == ()


def test_a_review_sees_figures_and_profile(run: Path, chat: Path) -> None:
    """Objective by objective, with the profile as it was measured."""
    [found] = stored_runs(run.parent)
    assert (found.profile_name, found.environment_name, found.verdict) == ("chat", "dev", "PASS")
    assert found.measured["error_rate_max"] == 0 and 100 < (found.measured["ttft_p95_ms"] or 0) < 200
    assert found.profile and found.profile["objectives"]["at_concurrency"] == 4


def test_what_a_class_did_is_not_what_all_requests_did(run: Path) -> None:
    """Two bounds of one name: the review shows each beside its own."""
    [stored] = read_stored(places_of([run.parent]))
    assert stored.summary is not None
    (first, *_) = (row for row in stored.summary.objectives if row.name == "ttft_p95_ms")
    both = (replace(first, observed=150.0), replace(first, observed=900.0, part="agent"))
    found = measured_run(replace(stored, summary=replace(stored.summary, objectives=both)))
    assert found.measured == {"ttft_p95_ms": 150.0, "ttft_p95_ms of agent": 900.0}


def test_a_changed_run_is_none_of_a_reviews(run: Path) -> None:
    """A figure was edited since the run was judged: a review shows nothing that `evidence check` refuses."""
    summary = run / "summary.json"
    summary.write_text(summary.read_text().replace("PASS", "PASS ", 1))
    assert stored_runs(run.parent) == ()


def test_a_run_judged_by_less_proves_nothing_in_a_review(tmp_path: Path, chat: Path) -> None:
    """TTFT at most 99999 ms where the profile says less: a PASS of nothing that the head promises, and it says so."""
    from loadproof.cli.review.evidence import runs_for
    from loadproof.review.model import Pair, Side
    from loadproof.sides.refs import find_trees

    profile = load_profile(chat)
    loose = tuple(replace(one, bound=99999.0) if "ttft" in one.name else one for one in objectives_of(profile))
    run_of_profile(tmp_path / "runs" / "own", chat, created=NOW)
    run_of_profile(tmp_path / "runs" / "loose", chat, created=NOW + timedelta(hours=1), objectives=loose)
    project = chat.parents[2]
    (project / "head").symlink_to(project)  # where a review lays the head out
    side = Side(chat.relative_to(project).as_posix(), None, profile, {})
    base, head, _ = find_trees(str(project), str(project), direct=True)
    found = runs_for(base, head, [Pair("dev", "chat", None, side)], [str(tmp_path / "runs")], project, print)
    said = {Path(run.link).name: (run.proves, run.elsewhere) for run in found}
    assert said == {"own": (True, ()), "loose": (False, ("ttft_p95_ms was judged by 99999, the profile says <= 500",))}


def test_a_file_of_too_many_values_is_no_runs(run: Path) -> None:
    """600 kB of empty lists, which would take 13 MB once they are read: 400,000 commas and brackets and more."""
    (run / "plan.json").write_text('{"a":[' + "[]," * 200_000 + "0]}")
    [found] = read_stored(places_of([run.parent]))
    assert "plan.json: more than 200,000 values" in found.problem


def test_a_run_from_the_future_proves_nothing(run: Path, chat: Path) -> None:
    """No limit of age would ever bite; a clock that is off by minutes does no harm."""
    runs, [profile] = read_stored(places_of([run.parent])), tree(chat)
    begun = NOW - timedelta(hours=2)
    assert proof_of(profile, runs, begun - timedelta(minutes=9), None).holds
    [said] = proof_of(profile, runs, begun - timedelta(minutes=11), None).problems
    assert "still to come" in said


def test_what_a_local_cloud_answered_is_no_measurement(tmp_path: Path, chat: Path) -> None:
    """The twin's figures are predicted, so no review shows them as measured, and no profile is proven by them."""
    target = Target("sagemaker", "loadproof-dev-chat", "tgi", component="loadproof-dev-chat-main", local_cloud="twin")
    run_of_profile(tmp_path / "runs" / "a", chat, target=target, created=NOW)
    assert stored_runs(tmp_path / "runs") == () and len(stored_runs(tmp_path / "runs", local_cloud=True)) == 1
    runs = read_stored(places_of([tmp_path / "runs"]))
    [proof] = [proof_of(one, runs, NOW, None) for one in tree(chat)]
    assert proof.problems == ("no run; 1 against a local cloud (--local-cloud counts them)",)
    assert proof_of(tree(chat)[0], runs, NOW, None, local_cloud=True).holds


def test_stale_names_the_fields_that_changed(run: Path, chat: Path) -> None:
    """Another instance type and a tighter objective: both are named, and nothing else; who accepted what counts for
    nothing."""
    [found] = read_stored(places_of([run]))
    assert status_of(found, tree(chat)).state == "current"
    edited(chat, "ml.g6e.2xlarge", "ml.g6e.4xlarge")
    edited(chat, "ttft_p95_ms: 500", "ttft_p95_ms: 400")
    status = status_of(found, tree(chat))
    assert (status.state, set(status.since)) == ("stale", {"endpoint.instance_type", "objectives.ttft_p95_ms"})


def test_a_profile_is_proven_by_its_newest_run(tmp_path: Path, run: Path, chat: Path) -> None:
    """A later FAIL of the same profile outweighs an earlier PASS; a run of an older profile counts for nothing."""
    [profile] = tree(chat)
    passed = read_stored(places_of([tmp_path / "runs"]))
    assert proof_of(profile, passed, NOW, timedelta(hours=3)).holds
    run_of_profile(tmp_path / "runs" / "later", chat, slower=5.0, created=NOW - timedelta(hours=1))
    proof = proof_of(profile, read_stored(places_of([tmp_path / "runs"])), NOW, None)
    assert (proof.problems, proof.run and proof.run.run_id) == (("the verdict is FAIL",), "later")
    edited(chat, "ml.g6e.2xlarge", "ml.g6e.4xlarge")
    [changed] = tree(chat)
    assert proof_of(changed, passed, NOW, None).problems == ("stale: changed since the run: endpoint.instance_type",)


def test_evidence_grows_too_old(run: Path, chat: Path) -> None:
    """Two hours old where one is wanted; two days where thirty are allowed is fine."""
    [profile], runs = tree(chat), read_stored(places_of([run]))
    assert proof_of(profile, runs, NOW, timedelta(hours=1)).problems == ("2 hours old, at most 60 minutes are wanted",)
    assert proof_of(profile, runs, NOW + timedelta(days=2), timedelta(days=30)).holds


def test_a_run_that_judged_less_than_the_profile_asks_proves_nothing(tmp_path: Path, chat: Path) -> None:
    """Looser bounds, another level, another workload on the command line: the hash is right, the proof none."""
    [profile] = tree(chat)
    asked = {
        "objectives": (Objective("ttft_p95_ms", 900.0),),
        "concurrency": (8,),
        "at_concurrency": 8,
    }
    folder = run_of_profile(tmp_path / "runs" / "a", chat, created=NOW, **asked)
    other = replace(read_run(folder).plan.spec.workload, input_tokens=fixed_tokens(5))
    run_of_profile(tmp_path / "less" / "b", chat, created=NOW, workload=other)
    said = proof_of(profile, read_stored(places_of([tmp_path / "runs"])), NOW, None).problems
    assert said == (
        "ttft_p95_ms was judged by 900, the profile says <= 500",
        "error_rate_max was not judged, the profile says <= 0.01",
        "judged at 8 in flight, the profile says 4 in flight",
    )
    said = proof_of(profile, read_stored(places_of([tmp_path / "less"])), NOW, None).problems
    assert said == ("sent another input_tokens than the profile's",)


def test_a_tighter_bound_proves_the_profiles(tmp_path: Path, chat: Path) -> None:
    """A PASS at 300 ms is one at 500 ms."""
    bounds = (Objective("ttft_p95_ms", 300.0), Objective("error_rate_max", 0.01))
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW, objectives=bounds)
    assert proof_of(tree(chat)[0], read_stored(places_of([tmp_path / "runs"])), NOW, None).holds


def test_ages_read_as_people_say_them(run: Path) -> None:
    """From two hours on in hours, from two days on in days; a clock that is behind makes no negative age."""
    [found] = read_stored(places_of([run]))
    assert in_days(age_of(found, NOW) or timedelta()) == "2 hours"
    said = [in_days(timedelta(seconds=seconds)) for seconds in (-5, 60, 7199, 172_799, 172_800)]
    assert said == ["0 minutes", "1 minute", "119 minutes", "47 hours", "2 days"]


def test_a_place_that_is_missing_is_refused_and_defaults_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each missing folder is named; without any named, what is not there holds nothing."""
    monkeypatch.chdir(tmp_path)
    assert places_of([]) == ()
    with pytest.raises(InputError, match=r"a: no such folder; .*\nb: no such folder"):
        places_of(["a", "b"])


def test_more_runs_than_one_page_of_s3(bucket: str, run: Path) -> None:
    """S3 lists a thousand keys at a time; 1,005 files of one run and a run after them are all seen."""
    client = boto3.client("s3")
    stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]  # of the server in this process: a thousand requests less
    for number in range(1005):
        stored.put_object(bucket, f"a/hosts/{number:04}", b"")
    client.put_object(Bucket=bucket, Key="a/plan.json", Body=(run / "plan.json").read_bytes())
    client.put_object(Bucket=bucket, Key="z/plan.json", Body=(run / "plan.json").read_bytes())
    assert sorted(S3Place(f"s3://{bucket}").runs()) == ["a", "z"]


def test_a_bucket_that_is_not_there_could_not_be_read(bucket: str) -> None:
    """What S3 said is the message."""
    with pytest.raises(CouldNotRunError, match="NoSuchBucket"):
        read_stored(places_of([f"s3://{bucket}-none"]))


def test_the_plan_alone_holds_the_profile(run: Path) -> None:
    """plan.json has the whole document, summary.json and evidence.json name it."""
    held = orjson.loads((run / "plan.json").read_bytes())["spec"]["profile"]
    assert held["document"]["name"] == "chat" and "ml.g6e.2xlarge" in CHAT
    for file in ("summary.json", "evidence.json"):
        assert orjson.loads((run / file).read_bytes())["profile"].keys() == {"name", "file", "sha256", "environment"}


@pytest.mark.parametrize("kept", ["plan.json", "summary.json", "evidence.json", "evidence.dsse.json"])
def test_a_run_is_found_by_any_of_its_files(place: Place, kept: str) -> None:
    """Else whoever takes one of them away hides what the others say; no run hides another that lies deeper."""
    for run in ("dev/chat/a", "dev/chat/a/deeper"):
        assert place.create(run, kept, b"{}")
    assert place.create("dev/chat/pages", "report.html", b"")
    assert place.runs() == {"dev/chat/a": {kept: 2}, "dev/chat/a/deeper": {kept: 2}}


@pytest.mark.parametrize("target", ["/dev/zero", "/nonexistent", "plan.json"])
def test_a_link_is_no_file_of_a_run(tmp_path: Path, target: str) -> None:
    """What it leads to may have no end."""
    run = tmp_path / "evidence" / "dev" / "chat" / "a"
    run.mkdir(parents=True)
    (run / "plan.json").symlink_to(target)
    place = FolderPlace(tmp_path / "evidence")
    assert place.runs() == {}
    assert place.read("dev/chat/a", "plan.json") is None
