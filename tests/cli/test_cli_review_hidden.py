"""Nothing that changes what is deployed, or proven, may be hidden from a review: ways to hide it, each tried once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from review_repository import PROFILE, Project, names

from loadproof.cli.review.evidence import _of_head, _refused
from loadproof.errors import InputError
from loadproof.review.assemble import review
from loadproof.sides import affected, git
from loadproof.sides.pairs import Sides
from loadproof.sides.refs import find_trees, named_base

BASE = {**PROFILE, "endpoint": {**PROFILE["endpoint"], "max_instances": 4}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "repository", dev=("chat", "search"))
    monkeypatch.chdir(made.root)
    return made


def parent(project: Project, path: str, most: int = 2) -> None:
    project.write(path, f"endpoint: {{instance_type: ml.g6e.2xlarge, min_instances: 1, max_instances: {most}}}\n")


def other_repository(folder: Path) -> tuple[Project, str, str]:
    """Of two commits."""
    made = Project(folder, own_code=False)
    parent(made, "p.yaml")
    first = made.commit()
    parent(made, "p.yaml", most=4)
    return made, first, made.commit()


def at_commit(project: Project, path: str, commit: str) -> None:
    """A submodule, as the index has it: what is checked out is nobody's business."""
    project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    project.git("commit", "-q", "-m", f"{path} at {commit}")


def codes(sides: Sides) -> set[tuple[str, str, str]]:
    found = review("main", "head", sides.pairs, (), 0).profiles
    return {(one.pair.name, row.code, row.severity) for one in found for row in one.findings}


def test_a_parent_by_a_name_of_more_than_a_paths_length(project: Project) -> None:
    """Any system makes it short before it looks."""
    parent(project, "deploy_profiles/base/p.yaml")
    project.profile("dev/chat", extends="../base/" + "./" * 2200 + "p.yaml")
    project.commit()
    parent(project, "deploy_profiles/base/p.yaml", most=4)
    project.commit()
    assert names(project.sides("HEAD^", "HEAD")) == ["dev/chat"]


def test_a_parent_in_another_repository(project: Project, tmp_path: Path) -> None:
    _, first, second = other_repository(tmp_path / "other")
    project.profile("dev/chat", extends="../base/p.yaml")
    project.commit()
    at_commit(project, "deploy_profiles/base", first)
    at_commit(project, "deploy_profiles/base", second)
    assert names(project.sides("HEAD^", "HEAD")) == ["dev/chat"]


@pytest.mark.parametrize("head", ["HEAD", None])
def test_code_of_another_repository(project: Project, tmp_path: Path, head: str | None) -> None:
    """Of a commit, and as the working tree's index has it."""
    _, first, second = other_repository(tmp_path / "other")
    at_commit(project, "vendor", first)
    at_commit(project, "vendor", second)
    assert project.sides("HEAD^", head, trust="base").not_run == ("vendor",)


def test_where_several_commits_were_parted_from_nobody_chooses(project: Project) -> None:
    """Of a criss-cross of merges, one base shows no change, and what is merged takes back what main has."""
    project.git("checkout", "-q", "-b", "wide")
    project.profile("dev/chat", **BASE)
    wide = project.commit()
    project.git("checkout", "-q", "main")
    project.write("README.md", "x")
    plain = project.commit()
    project.git("merge", "-q", "--no-ff", "-m", "both", "wide")
    tree = project.git("rev-parse", f"{plain}^{{tree}}")
    for parents in ((plain, wide), (wide, plain)):
        evil = project.git("commit-tree", tree, *(word for one in parents for word in ("-p", one)), "-m", "evil")
        assert names(project.sides("main", evil)) == ["dev/chat"]


def test_a_second_file_of_an_environment_stops_its_deployments(project: Project) -> None:
    """An app takes environment.yml for a profile."""
    project.write("deploy_profiles/dev/environment.yml", "region: eu-west-1\n")
    project.commit()
    assert ("environment", "LR064", "break") in codes(project.sides("HEAD^", "HEAD"))


def test_the_project_is_where_the_base_has_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands in a folder below reviews the project above, whatever HEAD puts into the folder."""
    project.write("ci/job.sh", "")
    project.commit()
    project.profile("dev/chat", **BASE)
    project.write("ci/deploy_profiles/dev/environment.yaml", 'account: "123456789012"\nregion: us-east-1\n')
    project.commit()
    monkeypatch.chdir(project.root / "ci")
    assert names(project.sides("HEAD^", "HEAD")) == ["dev/chat"]


@pytest.mark.parametrize("base", ["main", "1" * 40])
def test_a_repository_among_a_strangers_files_is_not_asked(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    """Git takes a folder with a HEAD and refs for one without a working tree; what it lacks, it would fetch as that
    one's configuration says, by any program."""
    infra = project.root / "infra"
    infra.mkdir()
    project.git("mv", "app.py", "cdk.json", "stacks", "deploy_profiles", "infra")
    commit = project.commit()
    project.write("infra/HEAD", "ref: refs/heads/main\n")
    project.write("infra/refs/heads/main", f"{commit}\n")
    project.write("infra/objects/info/alternates", "../../.git/objects\n")
    (infra / "config").write_text(
        "[core]\nrepositoryformatversion = 1\nworktree = ..\n[extensions]\npartialClone = origin\n"
        f'[remote "origin"]\npromisor = true\nurl = ext::sh -c touch% {tmp_path}/ran\n'
        '[protocol "ext"]\nallow = always\n'
    )
    monkeypatch.chdir(infra / "stacks")
    with pytest.raises(InputError, match="without a working tree, among the files of"):
        project.sides(base, "HEAD", trust="base")
    assert not (tmp_path / "ran").exists()


def test_a_workload_beside_the_profiles_that_the_base_has_too_is_read(project: Project) -> None:
    """With --trust base, too: not one line of it is the stranger's."""
    project.write("benchmarks/rag.yaml", "input_tokens: 256\noutput_tokens: 64\n")
    workload = {"extends": "../../benchmarks/rag.yaml"}
    project.profile("dev/chat", workload=workload)
    project.commit()
    project.profile("dev/chat", **{**BASE, "workload": workload})
    project.commit()
    [pair] = project.sides("HEAD^", "HEAD", trust="base").pairs
    assert pair.after is not None and pair.after.profile is not None and pair.after.templates


@pytest.mark.parametrize("name", ["prompts.jsonl", "trace"])
def test_what_a_benchmark_sends_is_told(project: Project, name: str) -> None:
    """A file, or a folder of them."""
    arrivals = {"arrivals": {"process": "trace", "trace": name}} if name == "trace" else {"dataset": name}
    file = f"deploy_profiles/dev/{name}/a.json" if name == "trace" else f"deploy_profiles/dev/{name}"
    project.profile("dev/chat", workload={**PROFILE["workload"], **arrivals})
    project.write(file, '{"prompt": "a"}\n')
    project.commit()
    project.write(file, '{"prompt": "b"}\n')
    project.commit()
    assert ("chat", "LR067", "warning") in codes(project.sides("HEAD^", "HEAD"))


def test_whose_signatures_count_is_told(project: Project) -> None:
    project.write("deploy_profiles/signers.yaml", "people: []\n")
    project.commit()
    assert ("environment", "LR067", "risk") in codes(project.sides("HEAD^", "HEAD"))


@pytest.mark.parametrize("name", ["/etc/passwd.json", "../../../elsewhere/secret.json"])
def test_a_stranger_names_no_file_of_this_machine(project: Project, name: str) -> None:
    """Whether it is there, and what it holds, would be told by what is found or not."""
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": name})
    project.commit()
    [pair] = project.sides("HEAD^", "HEAD", trust="base").pairs
    assert pair.after is not None and "outside of the project" in pair.after.refusal
    assert pair.after.problems == () and pair.after.profile is not None


def test_a_link_out_of_the_project_is_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leads to is in the repository, and no part of the project."""
    project = Project(tmp_path / "repository", own_code=False)
    for path in ("infra/deploy_profiles/dev/environment.yaml", "shared/chat.yaml"):
        project.write(path, "region: us-east-1\n")
    (project.root / "infra/deploy_profiles/dev/chat.yaml").symlink_to("../../../shared/chat.yaml")
    project.commit()
    project.write("shared/chat.yaml", "name: chat\n")
    project.commit()
    monkeypatch.chdir(project.root / "infra")
    assert "dev/chat" in names(project.sides("HEAD^", "HEAD"))


def test_what_stands_in_for_a_commit_here_is_not_what_was_pushed(project: Project) -> None:
    """`git replace` says one thing to whoever has it, and nothing to a deployment."""
    project.profile("dev/chat", **BASE)
    project.commit()
    project.git("replace", project.git("rev-parse", "HEAD^{tree}"), project.git("rev-parse", "HEAD^^{tree}"))
    assert names(project.sides("HEAD^", "HEAD")) == ["dev/chat"]


def test_data_that_a_parent_names_lies_beside_the_profile(project: Project) -> None:
    project.write("deploy_profiles/base/p.yaml", "workload: {input_tokens: 256, output_tokens: 64, dataset: d.jsonl}\n")
    file = project.profile("dev/chat", extends="../base/p.yaml")
    file.write_text(file.read_text().replace("workload:\n  input_tokens: 256\n  output_tokens: 64\n", ""))
    project.write("deploy_profiles/dev/d.jsonl", '{"prompt": "a"}\n')
    project.commit()
    project.write("deploy_profiles/dev/d.jsonl", '{"prompt": "b"}\n')
    project.commit()
    assert ("chat", "LR067", "warning") in codes(project.sides("HEAD^", "HEAD"))


def test_data_behind_a_link_is_told(project: Project) -> None:
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": "link/d.jsonl"})
    (project.root / "deploy_profiles/dev/link").symlink_to("../data")
    project.write("deploy_profiles/data/d.jsonl", '{"prompt": "a"}\n')
    project.commit()
    project.write("deploy_profiles/data/d.jsonl", '{"prompt": "b"}\n')
    project.commit()
    assert ("chat", "LR067", "warning") in codes(project.sides("HEAD^", "HEAD"))


def test_data_in_another_repository_is_told(project: Project, tmp_path: Path) -> None:
    _, first, second = other_repository(tmp_path / "other")
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": "../data/d.jsonl"})
    project.commit()
    at_commit(project, "deploy_profiles/data", first)
    at_commit(project, "deploy_profiles/data", second)
    assert ("chat", "LR067", "warning") in codes(project.sides("HEAD^", "HEAD"))


def test_a_part_behind_a_link_beside_the_profiles(project: Project) -> None:
    (project.root / "benchmarks").symlink_to("tests/bench")
    project.profile("dev/chat", workload={"extends": "../../benchmarks/rag.yaml"})
    project.write("tests/bench/rag.yaml", "input_tokens: 256\noutput_tokens: 64\n")
    project.commit()
    project.write("tests/bench/rag.yaml", "input_tokens: 256\noutput_tokens: 640\n")
    project.commit()
    assert names(project.sides("HEAD^", "HEAD")) == ["dev/chat"]


@pytest.mark.parametrize("path", ["aws_cdk.pyc", "stacks/__pycache__/queue.cpython-311.pyc"])
def test_what_was_compiled_and_pushed_is_code(project: Project, path: str) -> None:
    """Python runs it in the place of a library's or of a file's own."""
    project.write(path, "evil")
    project.commit()
    assert project.sides("HEAD^", "HEAD", trust="base").not_run == (path,)


def test_who_left_the_base_before_its_signers_is_held_to_them(project: Project) -> None:
    """The list is that of BASE as it is named, not of the commit that a stranger chose to begin from."""
    project.git("checkout", "-q", "-b", "old")
    project.profile("dev/chat", **BASE)
    project.commit()
    project.git("checkout", "-q", "main")
    project.write("deploy_profiles/signers.yaml", "people: []\n")
    project.commit()
    before, _, _ = find_trees("main", "old", direct=False)
    assert "deploy_profiles/signers.yaml" not in before.ids
    assert "deploy_profiles/signers.yaml" in named_base("main", before).ids


def test_texts_that_are_held_against_names_are_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One content under many names is read once, and held against the names from each folder anew."""
    monkeypatch.setattr(affected, "MOST_TEXTS", 200)
    (project.root / "deploy_profiles/dev/here").symlink_to("../dev")  # whatever a text says may be a way
    for at in range(40):
        project.write(f"deploy_profiles/dev/a{at}.yaml", "x: [" + ", ".join(f"{k}/" for k in range(50)) + "]\n")
    project.profile("dev/chat", **BASE)
    project.commit()
    before, after, _ = find_trees("HEAD^", "HEAD", direct=False)
    reader = affected.Reader()
    reader.places(before)
    found = reader.places(after)
    assert not found[affected.Place("dev", "chat")].unfollowed
    assert found[affected.Place("dev", "a39")].unfollowed


def test_names_without_an_end_are_given_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of trees of nothing: git lists no name, and is at it for hours."""
    tree = project.git("mktree")
    for _ in range(12):
        rows = "".join(f"040000 tree {tree}\t{at}\n" for at in range(10))
        made = subprocess.run(
            ["git", "mktree"], cwd=project.root, input=rows, capture_output=True, text=True, check=True
        )
        tree = made.stdout.strip()
    commit = project.git("commit-tree", tree, "-p", "HEAD", "-m", "endless")
    monkeypatch.setitem(git.PATIENCE_FOR_S, "ls-tree", 0.5)
    with pytest.raises(InputError, match=r"git ls-tree: no end within 0\.5 s"):
        project.sides("main", commit)


def test_of_a_refused_profiles_files_nothing_is_asked(project: Project) -> None:
    """Whether a guessed digest of one is right would be told by what its evidence is."""
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": "/etc/passwd.json"})
    project.commit()
    sides = project.sides("HEAD^", "HEAD", trust="base")
    _, after, _ = find_trees("HEAD^", "HEAD", direct=False)
    assert _of_head(after, sides.pairs, project.root) == {}
    assert {name for _, name, _ in _refused(sides.pairs)} == {"chat"}


def test_a_stranger_leads_through_no_link_to_a_file_of_this_machine(project: Project) -> None:
    """By its letters `a/b/c/top/../../x` stays inside; `top` leads to the project's own folder."""
    (project.root / "deploy_profiles/dev/a/b/c").mkdir(parents=True)
    (project.root / "deploy_profiles/dev/a/b/c/top").symlink_to("../../../../..")
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": "a/b/c/top/../../x.json"})
    project.commit()
    [pair] = [one for one in project.sides("HEAD^", "HEAD", trust="base").pairs if one.name == "chat"]
    assert pair.after is not None and "outside of the project" in pair.after.refusal


@pytest.mark.parametrize("name", ["there.json", "nowhere.json"])
def test_a_review_looks_at_no_file_of_this_machine(project: Project, tmp_path: Path, name: str) -> None:
    """Whoever's code may run: one that is there and one that is not look the same, and a guessed digest is no proof
    or disproof."""
    (tmp_path / "there.json").write_text("{}")
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": str(tmp_path / name)})
    project.commit()
    [pair] = project.sides("HEAD^", "HEAD").pairs
    assert pair.after is not None and not pair.after.refusal
    assert "LP289" not in {problem.code for problem in pair.after.problems}


@pytest.mark.parametrize("file", ["tests/d.jsonl", ".data/d.jsonl", "evidence/d.jsonl"])
@pytest.mark.parametrize("sides", [("before", "after"), ("after", "before")])
def test_of_two_folders_data_anywhere_is_told(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, sides: tuple[str, str]
) -> None:
    """Where no code is looked for, too."""
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": f"../../{file}"})
    project.write(file, '{"prompt": "a"}\n')
    for name in ("before", "after"):
        shutil.copytree(project.root, tmp_path / name, ignore=shutil.ignore_patterns(".git"))
    (tmp_path / "after" / file).write_text('{"prompt": "b"}\n')
    monkeypatch.chdir(tmp_path)
    assert ("chat", "LR067", "warning") in codes(project.sides(*(f"./{name}" for name in sides)))


def test_data_among_the_tests_of_a_working_tree_is_told(project: Project) -> None:
    """As it is in a commit: changed, and not gone."""
    project.profile("dev/chat", workload={**PROFILE["workload"], "dataset": "../../tests/d.jsonl"})
    project.write("tests/d.jsonl", '{"prompt": "a"}\n')
    project.commit()
    assert names(project.sides("HEAD")) == []
    project.write("tests/d.jsonl", '{"prompt": "b"}\n')
    [pair] = project.sides("HEAD").pairs
    assert pair.after is not None and "tests/d.jsonl" in pair.after.data


@pytest.mark.parametrize("name", ["pyvenv.cfg", "node_modules/p.yaml", "cdk.out/p.yaml"])
def test_no_folder_of_profiles_is_taken_for_what_a_tool_leaves(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nor is one for a virtual environment that has no Python."""
    parent(project, f"deploy_profiles/dev/{name}")
    project.profile("dev/chat", extends=name if name.endswith(".yaml") else "../dev/search.yaml")
    for folder in ("before", "after"):
        shutil.copytree(project.root, tmp_path / folder, ignore=shutil.ignore_patterns(".git"))
    changed = tmp_path / "after/deploy_profiles/dev" / (name if name.endswith(".yaml") else "chat.yaml")
    changed.write_text(changed.read_text().replace("max_instances: 2", "max_instances: 4"))
    monkeypatch.chdir(tmp_path)
    assert names(project.sides("./before", "./after")) == ["dev/chat"]


@pytest.mark.parametrize(("python", "changed"), [("venv/bin/python", ()), ("venv/README", ("venv/lib/a.py",))])
def test_a_virtual_environment_is_one_that_has_its_python(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, changed: tuple[str, ...]
) -> None:
    for file in ("venv/pyvenv.cfg", "venv/lib/a.py", python):
        project.write(file, "")
    for folder in ("before", "after"):
        shutil.copytree(project.root, tmp_path / folder, ignore=shutil.ignore_patterns(".git"))
    (tmp_path / "after/venv/lib/a.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    assert project.sides("./before", "./after", trust="base").not_run == changed


def found_by_attributes(project: Project, text: str, at: str = ".gitattributes", head: str | None = "HEAD") -> set[str]:
    """What a review says of HEAD's attributes: `environment risk`."""
    project.write(at, text)
    if head is not None:
        project.commit()
    sides = project.sides("main~1" if head else "main", head)
    return {f"{name} {severity}" for name, code, severity in codes(sides) if code == "LR068"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("chat.yaml text eol=crlf\n", {"chat warning"}),
        ("chat.yaml eol=crlf\n", {"chat warning"}),
        ("chat.yaml ident\n", {"chat risk"}),
        ("chat.yaml working-tree-encoding=ISO-8859-1\n", {"chat risk"}),
        ("chat.yaml filter=evil\n", {"chat risk"}),
        ("chat.yaml export-subst\n", {"chat risk"}),
        ("chat.yaml filter=set\n", {"chat risk"}),
        ("[attr]odd filter=unset\nchat.yaml odd\n", {"chat risk"}),
        ("chat.yaml text=unset eol=crlf\n", {"chat warning"}),
        ("chat.yaml crlf=unset eol=crlf\n", {"chat warning"}),
        ("chat.yaml filter -working-tree-encoding\nsearch.yaml -filter\n", set()),
        ("[attr]innocent ident\nchat.yaml innocent\n", {"chat risk"}),
        ("app.py ident\n", {"environment risk"}),
        ("*.jsonl filter=lfs\n", {"search risk"}),
        ("* text=auto\n*.png binary\n*.yaml text\n*.md eol=crlf\n", set()),
        ("*.yaml working-tree-encoding=UTF-8\n*.py -text eol=crlf\n", set()),
    ],
)
@pytest.mark.parametrize("head", ["HEAD", None])
def test_what_a_checkout_would_hold_otherwise_is_told(
    project: Project, text: str, found: set[str], head: str | None
) -> None:
    """A review reads blobs, and who deploys has files."""
    project.profile("dev/search", workload={**PROFILE["workload"], "dataset": "d.jsonl"})
    project.write("deploy_profiles/dev/d.jsonl", '{"prompt": "a"}\n')
    project.commit()
    assert found_by_attributes(project, text, head=head) == found


def test_attributes_in_a_folder_and_above_the_project_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_by_attributes(project, "chat.yaml ident\n", "deploy_profiles/dev/.gitattributes") == {"chat risk"}
    (project.root / "infra").mkdir()
    project.git("mv", "app.py", "cdk.json", "stacks", "deploy_profiles", "infra")
    project.commit()
    monkeypatch.chdir(project.root / "infra")
    for head in (None, "HEAD"):
        assert found_by_attributes(project, "infra/app.py ident\n", head=head) == {"environment risk"}


@pytest.mark.parametrize("head", ["HEAD", None])
@pytest.mark.parametrize("at", ["deploy_profiles/dev/.gitattributes", ".gitattributes"])
def test_attributes_that_are_a_link_count_by_what_it_says(project: Project, at: str, head: str | None) -> None:
    """At checkout git reads the index, where a link is a text."""
    (project.root / at).symlink_to("chat.yaml filter=evil")
    project.commit()
    assert ("chat", "LR068", "risk") in codes(project.sides("HEAD^", head))


def test_what_is_converted_behind_a_link_to_a_folder_is_told(project: Project) -> None:
    parent(project, "deploy_profiles/base/real/p.yaml")
    (project.root / "deploy_profiles/base/link").symlink_to("real")
    project.profile("dev/chat", extends="../base/link/p.yaml")
    project.commit()
    project.write(".gitattributes", "p.yaml filter=evil\n")
    project.commit()
    assert ("chat", "LR068", "risk") in codes(project.sides("HEAD^", "HEAD"))


def test_attributes_that_were_there_are_told_of_a_new_file(project: Project) -> None:
    """Nothing was converted by them before."""
    assert found_by_attributes(project, "*-new.yaml ident\n") == set()
    project.profile("dev/chat-new")
    project.commit()
    assert ("chat-new", "LR068", "risk") in codes(project.sides("HEAD^", "HEAD"))
    project.profile("dev/chat-new", comment="as it was")
    project.commit()
    assert "LR068" not in {code for _, code, _ in codes(project.sides("HEAD^", "HEAD"))}
