"""`extends`: what merges, what replaces, whose positions, and what is refused."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest
import yaml
from jsonschema import Draft202012Validator
from profiles_samples import CHAT, REPOSITORY

from loadproof.profiles import check_file, load_profile, profile_hash
from loadproof.profiles.json_schema import profile_schema


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def said(file: Path) -> list[str]:
    return [f"{Path(p.file).name}:{p.line}:{p.column} {p.code} {p.message}" for p in check_file(file).problems]


def test_maps_merge_and_lists_replace(tmp_path: Path) -> None:
    """A child's keys win one by one; a child's list stands alone; null takes a part away."""
    write(
        tmp_path,
        parent=CHAT + "benchmark: {concurrency: [1, 4, 16], requests_per_level: 50}\nbuffer: {batch_size: 2}\n",
        child="extends: parent.yaml\nbenchmark: {concurrency: [4, 8]}\nbuffer: null\n",
    )
    profile = load_profile(tmp_path / "child.yaml")
    assert profile.benchmark.concurrency == (4, 8)
    assert profile.benchmark.requests_per_level == 50
    assert profile.buffer is None


def test_a_source_of_another_type_replaces_the_parents(tmp_path: Path) -> None:
    """Keys of an S3 source do not leak into a hub source."""
    write(
        tmp_path,
        parent=CHAT,
        child=f"extends: parent.yaml\nmodel: {{id: Qwen/Qwen3-8B, source: {{type: hub, revision: {'0' * 38}1a}}}}\n"
        "endpoint: {network_isolation: false}\n",
    )
    source = load_profile(tmp_path / "child.yaml").model.source
    assert (source.type, source.revision) == ("hub", "0" * 38 + "1a")


def test_a_position_is_that_of_the_file_a_value_came_from(tmp_path: Path) -> None:
    """A parent's mistake is reported in the parent, a child's in the child."""
    write(
        tmp_path,
        parent=CHAT.replace("output_tokens: 64", 'output_tokens: "64"'),
        child='extends: parent.yaml\n\nobjectives: {at_concurrency: "4"}\n',
    )
    assert said(tmp_path / "child.yaml") == [
        'child.yaml:3:30 LP103 expected a whole number at least 1, found text "4"',
        'parent.yaml:19:18 LP103 expected a whole number at least 1, found text "64"',
    ]


def test_a_chain_of_parents(tmp_path: Path) -> None:
    """Each file's own keys win over those of the files above it."""
    write(
        tmp_path,
        a=CHAT,
        b="extends: a.yaml\ndescription: from b\nobjectives: {ttft_p95_ms: 700}\n",
        c="extends: b.yaml\nobjectives: {ttft_p95_ms: 800}\n",
    )
    profile = load_profile(tmp_path / "c.yaml")
    assert (profile.description, profile.objectives.ttft_p95_ms) == ("from b", 800)


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        ("self.yaml", "parent `self.yaml` extends this file in turn"),
        ("none.yaml", "parent `none.yaml` does not exist"),
        ("notes.txt", "parent `notes.txt` is not a .yaml or .yml file"),
        ("../outside.yaml", "parent `../outside.yaml` lies outside inside/"),
        ("/etc/passwd", "parent `/etc/passwd` is an absolute path"),
        ("link.yaml", "parent `link.yaml` lies outside inside/"),
        ("[a.yaml]", "expected one file name"),
        ('""', "expected one file name"),
        ("folder.yaml", "parent `folder.yaml` does not exist"),
        ("loop.yaml", "parent `loop.yaml` does not exist"),
    ],
)
def test_a_parent_that_cannot_be_used(parent: str, message: str, tmp_path: Path) -> None:
    """One LP011 that quotes no content, and no noise about what the parent would have had."""
    inside = tmp_path / "inside"
    (inside / "folder.yaml").mkdir(parents=True)
    (inside / "notes.txt").write_text("secret: content")
    (tmp_path / "outside.yaml").write_text("canary: content")
    (inside / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (inside / "loop.yaml").symlink_to(inside / "loop.yaml")
    (inside / "self.yaml").write_text(f"name: chat\nextends: {parent}\n")
    assert said(inside / "self.yaml") == [f"self.yaml:2:10 LP011 {message}"]


def test_a_parent_whose_name_nobody_sees_is_one_finding(tmp_path: Path) -> None:
    """NUL in a path is refused before a system call is."""
    (tmp_path / "self.yaml").write_text('name: chat\nextends: "a\\0.yaml"\n')
    assert said(tmp_path / "self.yaml") == ["self.yaml:2:10 LP002 character U+0000 is not allowed: nobody sees it"]


def test_parents_may_stand_anywhere_below_deploy_profiles(tmp_path: Path) -> None:
    """The root is the nearest folder of that name, whatever the working folder is."""
    root = tmp_path / "deploy_profiles"
    (root / "base").mkdir(parents=True)
    (root / "dev").mkdir()
    (root / "base" / "chat.yaml").write_text(CHAT)
    (root / "dev" / "chat.yaml").write_text("extends: ../base/chat.yaml\n")
    assert load_profile(root / "dev" / "chat.yaml").name == "chat"


def test_more_than_eight_parents_are_refused(tmp_path: Path) -> None:
    """A chain nobody can follow is an error, not a slow check."""
    write(tmp_path, p0=CHAT, **{f"p{n}": f"extends: p{n - 1}.yaml\n" for n in range(1, 10)})
    assert check_file(tmp_path / "p8.yaml").ok
    assert [line.split(" ")[1] for line in said(tmp_path / "p9.yaml")] == ["LP011"]


def test_an_empty_extends_is_one_mistake(tmp_path: Path) -> None:
    """`extends:` without a value is told once, by the reader."""
    (tmp_path / "chat.yaml").write_text("extends:\n")
    assert [problem.code for problem in check_file(tmp_path / "chat.yaml").problems] == ["LP009"]


SHARED = {
    "workloads/chat.yaml": (512, 256, 1),
    "workloads/summarize.yaml": (4096, 512, 1),
    "workloads/rag.yaml": (1024, 128, 1),
    "workloads/code.yaml": (1500, 13, 1),
    "workloads/agent.yaml": (886, 184, 8),
}


def sharing(tmp_path: Path, part: str, shared: str, *, own: str = "") -> Path:
    """A profile in `deploy_profiles/dev` whose `part` has a file of `benchmarks` for its parent."""
    folder = tmp_path / "deploy_profiles" / "dev"
    folder.mkdir(parents=True)
    copytree(REPOSITORY / "benchmarks", tmp_path / "benchmarks", dirs_exist_ok=True)
    long = CHAT.replace("tokens: 2048", "tokens: 9216").replace("tokens: 4096", "tokens: 10240")
    text, _, rest = long.partition("objectives:")
    others = {"objectives": "objectives:" + rest.partition("workload:")[0], "workload": CHAT[CHAT.index("workload:") :]}
    others[part] = f"{part}:\n  extends: {shared}\n{own}"
    (folder / "chat.yaml").write_text(text + others["workload"] + others["objectives"])
    return folder / "chat.yaml"


@pytest.mark.parametrize("name", SHARED)
def test_a_workload_has_a_file_of_its_own_for_a_parent(name: str, tmp_path: Path) -> None:
    """Those of `benchmarks/workloads` have the lengths that their sources publish, and may be changed by a profile."""
    profile = load_profile(sharing(tmp_path, "workload", f"../../benchmarks/{name}", own="  answer_length: at_most\n"))
    workload = profile.workload
    assert (workload.input_tokens, workload.output_tokens, workload.turns) == SHARED[name]
    assert workload.answer_length == "at_most"


@pytest.mark.parametrize(("name", "bounds"), [("interactive", (450, 40)), ("server", (2000, 200))])
def test_objectives_have_a_file_of_their_own_for_a_parent(
    name: str, bounds: tuple[float, float], tmp_path: Path
) -> None:
    """MLPerf's bounds, at the profile's own concurrency."""
    shared = f"../../benchmarks/objectives/{name}.yaml"
    objectives = load_profile(sharing(tmp_path, "objectives", shared, own="  at_concurrency: 8\n")).objectives
    assert objectives.bounds == {"ttft_p99_ms": bounds[0], "tpot_p99_ms": bounds[1]}
    assert objectives.at_concurrency == 8


def test_every_shared_file_is_tested() -> None:
    """What ships in `benchmarks/workloads` and no more."""
    folder = REPOSITORY / "benchmarks"
    assert {file.relative_to(folder).as_posix() for file in folder.glob("workloads/*")} == set(SHARED)


def test_a_profile_is_hashed_with_what_its_workloads_file_says(tmp_path: Path) -> None:
    """Another length in the shared file is another profile, and one that is written out is the same."""
    file = sharing(tmp_path, "workload", "../../benchmarks/workloads/rag.yaml")
    first = profile_hash(load_profile(file))
    shared = tmp_path / "benchmarks" / "workloads" / "rag.yaml"
    shared.write_text("input_tokens: 1024\noutput_tokens: 129\n")
    assert profile_hash(load_profile(file)) != first
    file.write_text(
        file.read_text().replace(
            "extends: ../../benchmarks/workloads/rag.yaml", "input_tokens: 1024\n  output_tokens: 128"
        )
    )
    assert profile_hash(load_profile(file)) == first


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        ("../../benchmarks/workloads/none.yaml", "parent `../../benchmarks/workloads/none.yaml` does not exist"),
        ("../../other.yaml", "parent `../../other.yaml` lies outside deploy_profiles/ and benchmarks/"),
        ("chat.yaml", "parent `chat.yaml` extends this file in turn"),
    ],
)
def test_a_workloads_file_that_cannot_be_used(shared: str, message: str, tmp_path: Path) -> None:
    """One LP011 at its line, and no noise about the keys that it would have had."""
    file = sharing(tmp_path, "workload", shared)
    (tmp_path / "other.yaml").write_text("input_tokens: 1\noutput_tokens: 1\n")
    assert said(file) == [f"chat.yaml:15:12 LP011 {message}"]


def test_a_mistake_in_a_workloads_file_is_reported_there(tmp_path: Path) -> None:
    """By its line, under the profile's key."""
    file = sharing(tmp_path, "workload", "../../benchmarks/workloads/rag.yaml")
    (tmp_path / "benchmarks" / "workloads" / "rag.yaml").write_text("input_tokens: 1024\nouput_tokens: 128\n")
    problem = check_file(file).problems[0]
    assert (Path(problem.file).name, problem.line, problem.path) == ("rag.yaml", 2, "workload.ouput_tokens")


def test_the_editors_schema_knows_a_parts_parent() -> None:
    """Objectives lack their concurrency only where a parent may have it."""
    schema = Draft202012Validator(profile_schema())
    written = yaml.safe_load(CHAT)
    written["objectives"] = {"extends": "../../benchmarks/objectives/server.yaml"}
    written["workload"] = {"extends": "../../benchmarks/workloads/rag.yaml", "turns": 2}
    assert schema.is_valid(written)
    written["objectives"] = {"ttft_p95_ms": 500}
    assert not schema.is_valid(written)
