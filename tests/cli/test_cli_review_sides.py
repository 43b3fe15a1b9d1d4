"""What `loadproof review` finds to review: real git repositories, made on the spot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from review_repository import ENVIRONMENT, Project, names

from loadproof.errors import CouldNotRunError, InputError
from loadproof.sides.pairs import Choice, Sides


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two environments of two profiles, one commit, and the shell in its folder."""
    made = Project(tmp_path / "repository", dev=("chat", "search"), prod=("chat", "search"))
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("CDK_RUNS_FILE", str(made.runs_file))
    return made


def timeout_s(sides: Sides, at: int, side: str) -> int:
    """The queue's timeout in the template of a pair."""
    found = getattr(sides.pairs[at], side)
    (template,) = found.templates.values()
    value: int = template["Resources"]["Queue"]["Properties"]["VisibilityTimeout"]
    return value


def test_nothing_changed_is_nothing_to_review(project: Project) -> None:
    """The same ref twice: no pair, every profile unaffected, no synthesis."""
    sides = project.sides("main", "main")
    assert (sides.pairs, sides.unaffected, project.runs) == ((), 4, 0)


def test_only_the_changed_profile_is_synthesized(project: Project) -> None:
    """One of four profiles changed: both its sides have a template, the others are not looked at."""
    project.profile("dev/chat", copies={"min": 2, "max": 2, "memory_mib_per_copy": 16384})
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == ["dev/chat"]
    assert (sides.unaffected, project.runs) == (3, 2)
    before, after = sides.pairs[0].before, sides.pairs[0].after
    assert before is not None and after is not None
    assert before.profile is not None and before.profile.copies is not None and before.profile.copies.min == 1
    assert after.profile is not None and after.profile.copies is not None and after.profile.copies.min == 2
    assert list(before.templates) == list(after.templates) == ["loadproof-dev-chat"]


def test_the_working_tree_is_the_head_by_default(project: Project) -> None:
    """Uncommitted and untracked profiles are reviewed; the current folder may lie anywhere in the repository."""
    project.profile("dev/chat", comment="uncommitted")
    project.profile("prod/added")
    os.chdir(project.root / "deploy_profiles" / "dev")
    sides = project.sides("main")
    assert names(sides) == ["dev/chat", "prod/added"]
    assert sides.pairs[1].before is None


def test_a_project_in_a_folder_names_its_files_from_the_top(project: Project) -> None:
    """A code host knows files by their path in the repository, and so do its annotations."""
    (project.root / "infra").mkdir()
    project.git("mv", "app.py", "cdk.json", "stacks", "deploy_profiles", "infra")
    project.commit()
    os.chdir(project.root / "infra")
    (project.root / "infra/deploy_profiles/dev/chat.yaml").write_text("name: chat\nmodels: {}\n")
    for sides in (project.sides("HEAD"), project.sides("HEAD", ".")):
        assert names(sides) == ["dev/chat"]
    (pair,) = project.sides("HEAD").pairs
    assert pair.before is not None and pair.after is not None
    file = "infra/deploy_profiles/dev/chat.yaml"
    assert (pair.before.file, pair.after.file, pair.after.problems[0].file) == (file, file, file)
    assert pair.before.places["model.id"] == (file, 3)


def test_ignored_files_are_not_part_of_the_change(project: Project) -> None:
    """What git ignores will not be in the pull request."""
    project.write(".gitignore", "mine.yaml\n")
    project.commit()
    project.profile("dev/mine")
    assert names(project.sides("main")) == []


SETTINGS = """\
import json
from pathlib import Path

root = Path(__file__).resolve().parents[1]
settings = root / "{file}"
TIMEOUT_S = json.loads(settings.read_text()) if settings.exists() else 60
"""


def test_what_git_ignores_does_not_reach_a_template(project: Project) -> None:
    """Code reads a file that will not be in the pull request: nothing of it is seen, nor kept for the next review."""
    project.write(".gitignore", "local.json\n")
    project.write("stacks/queue.py", SETTINGS.format(file="local.json"))
    project.commit()
    project.write("local.json", "90")
    project.write("stacks/queue.py", SETTINGS.format(file="local.json") + "# a comment\n")
    project.commit()
    assert names(project.sides("main^")) == []
    assert names(project.sides("main^", "main")) == []


@pytest.mark.parametrize("file", ["config/limits.json", "limits.json", "config/notes.md"])
def test_a_changed_file_that_code_reads_is_code(project: Project, file: str) -> None:
    """In a folder without Python, committed or not: the base has its own, and the cache what belongs to each."""
    project.write("stacks/queue.py", SETTINGS.format(file=file))
    project.write(file, "70")
    project.commit()
    project.write(file, "80")
    for _ in range(2):
        sides = project.sides("main", choice=Choice(profiles=("chat",)))
        assert [timeout_s(sides, 0, side) for side in ("before", "after")] == [70, 80]
    project.commit()
    sides = project.sides("main^", "main", choice=Choice(profiles=("chat",)))
    assert [timeout_s(sides, 0, side) for side in ("before", "after")] == [70, 80]


def test_a_profile_reads_its_own_sides_files_through_code(project: Project) -> None:
    """Code that looks for the profiles from where it lies finds those of its own side, though code did not change."""
    project.write("stacks/queue.py", SETTINGS.format(file="deploy_profiles/shared/seconds.json"))
    project.write("deploy_profiles/shared/seconds.json", "70")
    project.commit()
    project.write("deploy_profiles/shared/seconds.json", "80")
    project.profile("dev/chat", comment="changed")
    project.commit()
    for head in (None, "main"):
        sides = project.sides("main^", head)
        assert [timeout_s(sides, 0, side) for side in ("before", "after")] == [70, 80]


def test_nothing_is_written_into_the_working_tree(project: Project) -> None:
    """Not even what Python compiles."""
    project.profile("dev/chat", comment="changed")
    project.sides("main")
    assert project.runs == 2 and not list(project.root.rglob("__pycache__"))


def test_what_python_compiled_is_taken_along(project: Project, tmp_path: Path) -> None:
    """For a commit's files that the working tree has just so, and only for those."""
    from loadproof.sides.refs import find_trees

    for name in ("__init__", "queue"):
        project.write(f"stacks/__pycache__/{name}.cpython-311.pyc", "compiled")
    project.write("stacks/queue.py", "TIMEOUT_S = 600\n")
    before, after, _ = find_trees("main", None, direct=False)
    before.lay_out(before.code, tmp_path / "before")
    after.lay_out(after.code, tmp_path / "after")
    brought = [
        sorted(file.name.partition(".")[0] for file in (tmp_path / side).rglob("*.pyc")) for side in ("before", "after")
    ]
    assert brought == [["__init__"], ["__init__", "queue"]]
    copied = tmp_path / "after/stacks/queue.py"
    assert copied.stat().st_mtime_ns == (project.root / "stacks/queue.py").stat().st_mtime_ns


def test_a_renamed_profile_goes_and_comes(project: Project) -> None:
    """Its stack is named after it: the old one is removed, the new one added, whatever git calls it."""
    project.git("mv", "deploy_profiles/dev/chat.yaml", "deploy_profiles/dev/talk.yaml")
    project.profile("dev/talk")
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == ["dev/chat", "dev/talk"]
    removed, added = sides.pairs
    assert removed.after is None and removed.before is not None and list(removed.before.templates)
    assert added.before is None and added.after is not None and list(added.after.templates)


def test_a_deleted_environment_removes_what_it_had(project: Project) -> None:
    """Its profiles and its own stack have a before and no after."""
    project.git("rm", "-rq", "deploy_profiles/prod")
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == ["prod/chat", "prod/environment", "prod/search"]
    assert all(pair.after is None and pair.before is not None and pair.before.templates for pair in sides.pairs)


def test_an_environments_own_stacks_go_with_its_last_profile_and_come_with_its_first(project: Project) -> None:
    """Its file stays, and so do its stacks where they run: no deployment has them any more, and none deletes them."""
    for file in (project.root / "deploy_profiles/prod").glob("*.yaml"):
        if file.name != "environment.yaml":
            file.unlink()
    project.commit()
    gone = {pair.name: pair for pair in project.sides("HEAD^", "HEAD").pairs}["environment"]
    assert gone.before is not None and list(gone.before.templates) == ["loadproof-prod-benchmark"]
    assert gone.after is None
    come = {pair.name: pair for pair in project.sides("HEAD", "HEAD^", direct=True).pairs}["environment"]
    assert come.before is None
    assert come.after is not None and list(come.after.templates) == ["loadproof-prod-benchmark"]


def test_a_profile_the_checks_refuse_ends_nothing(project: Project) -> None:
    """Its head has the problems with places as in the repository; the other profile is reviewed."""
    project.profile("dev/chat", copies={"min": 3, "max": 2, "memory_mib_per_copy": 16384})
    project.profile("dev/search", comment="fine")
    project.commit()
    sides = project.sides("main^", "main")
    chat, search = (pair.after for pair in sides.pairs)
    assert chat is not None and chat.profile is None and not chat.templates
    assert {problem.file for problem in chat.problems} == {"deploy_profiles/dev/chat.yaml"}
    assert search is not None and list(search.templates) == ["loadproof-dev-search"]


def test_a_profile_that_cannot_be_provisioned_ends_nothing(project: Project) -> None:
    """The app refuses one of two: the other has its template, the refusal names no folder of this machine."""
    project.profile("dev/chat", comment="refuse")
    project.profile("dev/search", comment="fine")
    project.commit()
    chat, search = (pair.after for pair in project.sides("main^", "main").pairs)
    assert chat is not None and chat.profile is not None and not chat.templates
    assert chat.refusal == "profile chat: no place for deploy_profiles/dev/chat.yaml"
    assert search is not None and not search.refusal and list(search.templates) == ["loadproof-dev-search"]


def test_whoever_is_named_is_left_out_of_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of thirty is refused by name: two processes for that side, and the other 29 have their templates."""
    project = Project(tmp_path / "large", dev=tuple(f"p{at:02}" for at in range(30)))
    monkeypatch.chdir(project.root)
    for at in range(30):
        project.profile(f"dev/p{at:02}", comment="refuse" if at == 17 else "changed")
    sides = project.sides("main")
    refused = [pair.name for pair in sides.pairs if pair.after is not None and pair.after.refusal]
    assert (refused, project.runs) == (["p17"], 1 + 2)
    assert sum(pair.after is not None and bool(pair.after.templates) for pair in sides.pairs) == 29


def test_whoever_is_not_named_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that names nobody: by halves, and only the one that it is about is refused."""
    project = Project(tmp_path / "large", dev=tuple(f"p{at:02}" for at in range(30)))
    monkeypatch.chdir(project.root)
    for at in range(30):
        project.profile(f"dev/p{at:02}", comment="object" if at == 17 else "changed")
    refused = [pair.name for pair in project.sides("main").pairs if pair.after is not None and pair.after.refusal]
    assert refused == ["p17"]


def test_a_crash_of_the_changed_code_is_the_changes_fault(project: Project) -> None:
    """Only the head falls over: that side says so with the last line of the traceback."""
    project.profile("dev/chat", comment="crash")
    project.commit()
    (pair,) = project.sides("main^", "main").pairs
    assert pair.before is not None and pair.before.templates
    assert pair.after is not None and pair.after.refusal == "RuntimeError: fell over"


def test_a_crash_on_both_sides_is_no_review(project: Project) -> None:
    """Where nothing could be compared, nothing may be said to be well."""
    project.profile("dev/chat", comment="crash")
    project.commit()
    project.profile("dev/chat", comment="crash more")
    project.commit()
    with pytest.raises(CouldNotRunError, match="neither side can be synthesized: RuntimeError: fell over"):
        project.sides("main^", "main")


def test_changed_code_is_reviewed_with_each_sides_own(project: Project) -> None:
    """A new constant in stacks/: every profile has the old timeout before and the new one after."""
    project.write("stacks/queue.py", "TIMEOUT_S = 90\n")
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == ["dev/chat", "dev/search", "prod/chat", "prod/search"]
    assert [(timeout_s(sides, at, "before"), timeout_s(sides, at, "after")) for at in range(4)] == [(60, 90)] * 4


def test_changed_code_that_changes_nothing_touches_nothing(project: Project) -> None:
    """A comment in stacks/: everything is synthesized, and no profile is affected."""
    project.write("stacks/queue.py", "TIMEOUT_S = 60  # a minute\n")
    project.commit()
    sides = project.sides("main^", "main")
    assert (names(sides), sides.unaffected) == ([], 4)


def test_documents_and_tests_are_no_code(project: Project) -> None:
    """They do not reach a template: nothing is synthesized."""
    for path in ("docs/page.py", "tests/test_it.py", "README.md", ".github/workflows/ci.yml"):
        project.write(path, "x = 1\n")
    project.commit()
    assert names(project.sides("main^", "main")) == []
    assert project.runs == 0


def test_the_context_of_cdk_json_counts_on_its_own_side(project: Project) -> None:
    """Feature flags are code: a changed one reaches every template of the side that has it."""
    project.write("cdk.json", '{"context": {"queue": {"FifoQueue": true}}}')
    project.commit()
    (pair, *_) = project.sides("main^", "main", choice=Choice(environments=("dev",))).pairs
    assert pair.before is not None and pair.after is not None
    (before,), (after,) = pair.before.templates.values(), pair.after.templates.values()
    assert "FifoQueue" not in before["Resources"]["Queue"]["Properties"]
    assert after["Resources"]["Queue"]["Properties"]["FifoQueue"] is True


def test_a_changed_parent_affects_its_children(project: Project) -> None:
    """`extends` reaches through a grandparent in a folder that is no environment."""
    project.write("deploy_profiles/base/root.yaml", "workload: {input_tokens: 256, output_tokens: 64}\n")
    project.write("deploy_profiles/base/middle.yaml", "extends: root.yaml\n")
    project.profile("dev/chat", extends="../base/middle.yaml")
    project.commit()
    project.write("deploy_profiles/base/root.yaml", "workload: {input_tokens: 256, output_tokens: 65}\n")
    project.commit()
    assert names(project.sides("main^", "main")) == ["dev/chat"]


def test_a_changed_file_that_a_profile_names_affects_it(project: Project) -> None:
    """A calibration, a trace or a model's config.json, in whatever field."""
    project.write("deploy_profiles/shared/trace.csv", "0\n1\n")
    project.profile("dev/chat", workload={"arrivals": {"trace": "../shared/trace.csv"}})
    project.commit()
    project.write("deploy_profiles/shared/trace.csv", "0\n2\n")
    project.commit()
    assert names(project.sides("main^", "main")) == ["dev/chat"]


def test_a_changed_environment_affects_its_profiles_and_its_own_stacks(project: Project) -> None:
    """The other environment is left alone."""
    project.write("deploy_profiles/prod/environment.yaml", ENVIRONMENT + "tags: {owner: us}\n")
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == ["prod/chat", "prod/environment", "prod/search"]
    own = sides.pairs[1].after
    assert own is not None and own.profile is None and list(own.templates) == ["loadproof-prod-benchmark"]


def test_a_refused_environment_is_told_once(project: Project) -> None:
    """The problem stands with the environment; its profiles say only that it stops them."""
    project.write("deploy_profiles/prod/environment.yaml", ENVIRONMENT + "regions: [eu-west-1]\n")
    project.commit()
    chat, own, _ = (pair.after for pair in project.sides("main^", "main").pairs)
    assert own is not None and [problem.code for problem in own.problems if problem.severity == "error"] == ["LP101"]
    assert chat is not None and "deploy_profiles/prod/environment.yaml is refused" in chat.refusal


def test_the_cache_saves_the_synthesis(project: Project) -> None:
    """A second review of the same change starts no process and finds the same."""
    project.profile("dev/chat", comment="changed")
    project.commit()
    first = project.sides("main^", "main")
    runs = project.runs
    second = project.sides("main^", "main")
    assert (runs, project.runs, second.from_cache) == (2, 2, 2)
    assert second.pairs == first.pairs


def test_a_damaged_cache_entry_is_none(project: Project) -> None:
    """Cut, emptied or exchanged entries are made again, and the review is the same."""
    project.profile("dev/chat", comment="changed")
    project.commit()
    first = project.sides("main^", "main")
    assert project.cache.folder is not None
    one, other = (file for file in project.cache.folder.rglob("*.gz") if _is_profile(file))
    other.write_bytes(one.read_bytes())
    one.write_bytes(one.read_bytes()[:-9])
    assert project.sides("main^", "main").pairs == first.pairs
    assert project.runs == 4


def _is_profile(file: Path) -> bool:
    import gzip

    return b"loadproof-dev-chat" in gzip.decompress(file.read_bytes())


def test_other_context_goes_to_the_app_and_counts(project: Project) -> None:
    """What `-c` says beside env and profile is passed on, and templates made with it are others."""
    project.profile("dev/chat", comment="changed")
    project.commit()
    project.sides("main^", "main")
    project.sides("main^", "main", choice=Choice(context={"stage": "canary"}))
    contexts = [json.loads(line)["context"] for line in project.runs_file.read_text().splitlines()]
    assert [context.get("stage") for context in contexts] == [None, None, "canary", "canary"]
    assert contexts[0] == {"flag": True, "env": "dev", "profile": "chat"}


def test_environments_with_other_profiles_share_a_process(project: Project) -> None:
    """dev wants one name and prod two: one process makes all of both environments, not one for each list."""
    for place in ("dev/chat", "prod/chat", "prod/search"):
        project.profile(place, comment="changed")
    project.commit()
    sides = project.sides("main^", "main")
    assert (names(sides), project.runs) == (["dev/chat", "prod/chat", "prod/search"], 2)
    assert all(pair.after is not None and len(pair.after.templates) == 1 for pair in sides.pairs)


def test_choosing_by_context(project: Project) -> None:
    """`-c env=` and `-c profile=` narrow the review; what neither side has is refused."""
    for place in ("dev/chat", "dev/search", "prod/chat"):
        project.profile(place, comment="changed")
    project.commit()
    assert names(project.sides("main^", "main", choice=Choice(environments=("dev",)))) == ["dev/chat", "dev/search"]
    assert names(project.sides("main^", "main", choice=Choice(profiles=("chat",)))) == ["dev/chat", "prod/chat"]
    with pytest.raises(InputError, match="-c profile=chat,nope: neither side has nope"):
        project.sides("main^", "main", choice=Choice(profiles=("chat", "nope")))
    project.profile("dev/alone")
    project.commit()
    with pytest.raises(InputError, match="-c profile=alone: neither side has alone in prod; leave it out"):
        project.sides("main^", "main", choice=Choice(environments=("prod",), profiles=("alone",)))


def test_credentials_do_not_reach_the_reviewed_code(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the environment of a job, and would be worth stealing, is taken out of the child's."""
    worth_stealing = (
        "AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "MY_PASSWORD", "ACTIONS_ID_TOKEN_REQUEST_URL", "GITHUB_ENV", "MYSQL_PWD",
        "DOCKER_AUTH_CONFIG", "MINIO_ACCESS_KEY", "DEPLOY_KEY", "KUBECONFIG", "SSH_AUTH_SOCK", "NODE_AUTH_TOKEN",
    )  # fmt: skip
    for name in worth_stealing:
        monkeypatch.setenv(name, "worth-stealing")
    project.profile("dev/chat", comment="changed")
    project.sides("main")
    seen = {name for line in project.runs_file.read_text().splitlines() for name in json.loads(line)["variables"]}
    assert "PATH" in seen
    assert {name for name in seen if name.startswith(("AWS_", "GITHUB_", "ACTIONS_"))} == {
        "AWS_CONFIG_FILE",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_SHARED_CREDENTIALS_FILE",
    }
    assert not seen.intersection(worth_stealing)


def test_the_reviewed_code_has_an_empty_home(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tools keep there (~/.aws, ~/.netrc, ~/.docker) is not handed to a stranger's code."""
    monkeypatch.setenv("HOME", str(project.root.parent / "home"))
    project.write("stacks/queue.py", "from pathlib import Path\nTIMEOUT_S = len(list(Path.home().iterdir()))\n")
    (project.root.parent / "home").mkdir()
    (project.root.parent / "home/.netrc").write_text("")
    assert timeout_s(project.sides("main"), 0, "after") == 0


def test_folders_need_no_git(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders outside any repository, one of them named by its deploy_profiles."""
    project.git("clone", "-q", str(project.root), str(tmp_path / "other"))
    project.profile("dev/chat", comment="changed")
    for folder in ("other", "repository"):
        (tmp_path / folder / ".git").rename(tmp_path / f"{folder}.git")
    monkeypatch.chdir(tmp_path)
    assert names(project.sides("other", "repository/deploy_profiles")) == ["dev/chat"]


def test_a_ref_against_a_folder(project: Project, tmp_path: Path) -> None:
    """Ids of a folder's files are git's, so that what is the same counts as the same."""
    project.git("clone", "-q", str(project.root), str(tmp_path / "other"))
    (tmp_path / "other/deploy_profiles/dev/chat.yaml").unlink()
    assert names(project.sides("main", str(tmp_path / "other"))) == ["dev/chat"]


def test_what_the_base_became_since_is_not_the_changes_doing(project: Project) -> None:
    """Main moved on after the branch left it: its own change is not shown reversed, unless asked for."""
    project.git("checkout", "-q", "-b", "branch")
    project.profile("dev/chat", comment="of the branch")
    project.commit()
    project.git("checkout", "-q", "main")
    project.profile("prod/search", comment="of main")
    project.commit()
    assert names(project.sides("main", "branch")) == ["dev/chat"]
    assert names(project.sides("main", "branch", direct=True)) == ["dev/chat", "prod/search"]


@pytest.mark.parametrize("name", ["new\nline", "-leading", "$(touch oops)", "sp ace", "ümlaut", "quo'te\"d"])
def test_hostile_file_names_are_names(project: Project, name: str) -> None:
    """Whatever a file is called, it is a pair with a refusal or problems; nothing is executed or mistaken."""
    project.profile(f"dev/{name}")
    project.commit()
    sides = project.sides("main^", "main")
    assert names(sides) == [f"dev/{name}"]
    after = sides.pairs[0].after
    assert after is not None and (after.problems or after.refusal) and not after.templates
    assert not (project.root / "oops").exists()


def test_a_name_that_is_no_text_is_spelled_out(project: Project) -> None:
    """Formats write UTF-8: a byte that is none becomes an escape."""
    (project.root / "deploy_profiles/dev" / os.fsdecode(b"ch\xffat.yaml")).write_text("name: chat\n")
    project.commit()
    assert names(project.sides("main^", "main")) == ["dev/ch\\udcffat"]


def link_to_a_file(project: Project) -> None:
    (project.root / "deploy_profiles/dev/linked.yaml").symlink_to("/etc/hostname")


def link_by_a_detour(project: Project) -> None:
    (project.root / "deploy_profiles/dev/up").symlink_to("..")
    (project.root / "deploy_profiles/dev/linked.yaml").symlink_to("up/../../../secret.yaml")


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("make", [link_to_a_file, link_by_a_detour])
def test_a_link_that_leads_out_is_not_followed(
    project: Project, make: Callable[[Project], None], committed: bool
) -> None:
    """The file outside is neither read nor quoted: the profile cannot be read."""
    (project.root.parent / "secret.yaml").write_text("name: secret-of-this-machine\n")
    make(project)
    if committed:
        project.commit()
    sides = project.sides("main^", "main") if committed else project.sides("main")
    (pair,) = (pair for pair in sides.pairs if pair.name == "linked")
    assert pair.after is not None and [problem.code for problem in pair.after.problems] == ["LP012"]
    assert "secret-of-this-machine" not in repr(pair)


def test_a_profile_may_be_a_link_to_another(project: Project) -> None:
    """What it leads to counts: changing that changes it."""
    project.write("deploy_profiles/base/chat.yaml", (project.root / "deploy_profiles/dev/chat.yaml").read_text())
    (project.root / "deploy_profiles/dev/chat.yaml").unlink()
    (project.root / "deploy_profiles/dev/chat.yaml").symlink_to("../base/chat.yaml")
    project.commit()
    file = project.root / "deploy_profiles/base/chat.yaml"
    file.write_text(file.read_text() + "# changed\n")
    project.commit()
    (pair,) = project.sides("main^", "main").pairs
    assert pair.before is not None and pair.after is not None
    assert (pair.name, pair.before.profile) == ("chat", pair.after.profile)
    assert pair.after.profile is not None


def test_git_lfs_is_said_and_not_misread(project: Project) -> None:
    """A pointer is not the profile: the side says where its content is."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
    project.write("deploy_profiles/dev/chat.yaml", pointer)
    project.commit()
    (pair,) = project.sides("main^", "main").pairs
    assert pair.after is not None and "kept in Git LFS" in pair.after.refusal
