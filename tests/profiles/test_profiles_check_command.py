"""`loadproof check` as a person or a pipeline runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from processes import run_process
from profiles_samples import BAD, CHAT, GOOD, REPOSITORY

from loadproof.profiles.checks import RULES


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadproof", *arguments]
    return run_process(command, cwd=cwd, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment})


def test_good_profiles_exit_0_from_any_folder(tmp_path: Path) -> None:
    """Without a path, far from any deploy_profiles, the repository's own are checked."""
    done = run("check", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("files checked: all well")


def test_deploy_profiles_is_found_upward(tmp_path: Path) -> None:
    """The nearest deploy_profiles above the working folder is the default."""
    (tmp_path / "deploy_profiles" / "dev").mkdir(parents=True)
    (tmp_path / "deploy_profiles" / "dev" / "chat.yaml").write_text(CHAT + "wrong: 1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    done = run("check", cwd=tmp_path / "a" / "b")
    assert done.returncode == 2
    assert "deploy_profiles/dev/chat.yaml:20:1 LP101 wrong: unknown key `wrong`" in done.stdout


def test_a_bad_profile_exits_2_with_one_line_a_problem_and_a_summary() -> None:
    """No traceback, nothing on stderr, no colours when nobody watches."""
    done = run("check", "LP101.yaml", cwd=BAD)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == (BAD / "LP101.expected").read_text()
    assert "\x1b" not in done.stdout


def test_what_a_trace_asks_of_its_server_is_checked(tmp_path: Path) -> None:
    """Two of three requests are longer than the server's 4,096 tokens; then a file that no benchmark could read."""
    trace = tmp_path / "day.csv"
    trace.write_text("timestamp_s,input_tokens,output_tokens\n0,100,10\n2.5,4000,97\n3,5000,1\n")
    (tmp_path / "chat.yaml").write_text(f"{CHAT}  arrivals: {{process: trace, trace: day.csv}}\n")
    done = run("check", "chat.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "LP252 workload.arrivals.trace: 2 of 3 requests are longer than the server takes, the first at 2.5 s: 4,000 "
        "prompt and 97 answer tokens, over 4,096 of both; leave them out of the file, or raise the limit"
    ) in done.stdout
    trace.write_text("timestamp_s,input_tokens,output_tokens\n0,100,10\n1,0,1\n2,-3,1\n")
    done = run("check", "chat.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "day.csv:3: input_tokens '0': expected a whole number from 1, and 1 more; mend the file" in done.stdout
    trace.write_text("timestamp_s,input_tokens,output_tokens\n0,100,10\n")
    assert run("check", "chat.yaml", cwd=tmp_path).returncode == 0


def test_warnings_exit_0() -> None:
    """A warning alone stops no pipeline."""
    done = run("check", "LP273.yaml", cwd=BAD)
    assert done.returncode == 0
    assert "0 errors, 1 warning" in done.stdout


def test_a_folder_without_profiles_exits_2(tmp_path: Path) -> None:
    """So does a format nobody knows."""
    (tmp_path / "empty").mkdir()
    for arguments, said in [
        (["empty"], "empty: no .yaml or .yml file in this folder"),
        (["--format", "xml"], "xml"),
    ]:
        done = run("check", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr and "Traceback" not in done.stderr


def test_paths_that_cannot_be_read_hide_no_other(tmp_path: Path) -> None:
    """Missing, too long, below a file, a link in a circle: each is a problem, and the next path is checked too."""
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "chat.yaml").write_text(CHAT + "wrong: 1\n")
    paths = ["nope.yaml", "circle.yaml", f"{'a' * 300}.yaml", "chat.yaml/x.yaml", "chat.yaml"]
    done = run("check", "--format", "json", *paths, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    found = [(problem["file"], problem["code"]) for problem in json.loads(done.stdout)["problems"]]
    assert found == [*((path, "LP012") for path in paths[:4]), ("chat.yaml", "LP101")]


def test_a_circle_of_links_in_a_folder_is_a_problem_of_its_own(tmp_path: Path) -> None:
    """The folder's other files are checked."""
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "chat.yaml").write_text(CHAT)
    done = run("check", ".", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines() == [
        "circle.yaml:1:1 LP012 file cannot be read (its link leads nowhere); look at its name and permissions",
        "2 files checked: 1 error, 0 warnings",
    ]


def test_files_and_folders_are_checked_once_each() -> None:
    """A file named twice, or inside a named folder, counts once; .yml files count too."""
    done = run("check", str(GOOD), str(GOOD / "two-models.yaml"), "--format", "json", cwd=BAD)
    files = [entry["file"] for entry in json.loads(done.stdout)["files"]]
    assert len(files) == len(set(files)) == len(list(GOOD.glob("*.y*ml")))


def test_json_is_versioned_and_complete() -> None:
    """Every documented key, with places as numbers and a page for each code."""
    done = run("check", "LP103.yaml", str(GOOD / "environment.yaml"), "--format", "json", cwd=BAD)
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert {key: document[key] for key in ("schema_version", "ok", "errors", "warnings", "suppressed")} == {
        "schema_version": 1,
        "ok": False,
        "errors": 9,
        "warnings": 0,
        "suppressed": 0,
    }
    assert [(entry["kind"], entry["ok"]) for entry in document["files"]] == [("profile", False), ("environment", True)]
    assert document["problems"][0] == {
        "file": "LP103.yaml",
        "line": 3,
        "column": 12,
        "code": "LP103",
        "severity": "error",
        "path": "buffer.enabled",
        "message": 'expected true or false, found text "yes"',
        "mend": "write true",
        "doc": "docs/checks.md#lp103",
    }


def test_sarif_has_what_code_hosts_need() -> None:
    """Version, rules with help, results that point at a rule, a file and a line (SARIF 2.1.0 §3.27)."""
    done = run("check", "LP103.yaml", "LP273.yaml", "--format", "sarif", cwd=BAD)
    log = json.loads(done.stdout)
    assert done.returncode == 2
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] and rule["name"].isalnum() for rule in rules)
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] in ("LP103.yaml", "LP273.yaml")
        assert place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1
    assert {result["level"] for result in only["results"]} == {"error", "warning"}


def test_a_shared_parents_problem_is_told_once(tmp_path: Path) -> None:
    """Two children of one wrong parent, and the parent itself, give one line."""
    (tmp_path / "base.yaml").write_text(CHAT.replace("64", '"64"'))
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("extends: base.yaml\n")
    done = run("check", ".", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        'base.yaml:19:18 LP103 workload.output_tokens: expected a whole number at least 1, found text "64"; '
        "write 64 without quotes",
        "3 files checked: 1 error, 0 warnings",
    ]


def test_thousands_of_problems_are_summed_up(tmp_path: Path) -> None:
    """Text stops after 200 lines and says how many more there are."""
    (tmp_path / "many.yaml").write_text(CHAT + "".join(f"key{n}: yes\n" for n in range(15_000)))
    done = run("check", "many.yaml", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 2
    assert len(lines) == 202
    assert lines[-2].startswith("... and ") and lines[-2].endswith(" more; mend these first")


def test_a_strange_file_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Control characters and broken bytes in names are escaped, in a terminal that knows only ASCII too."""
    name = os.fsdecode(b"a\x1b[31m\xff.yaml")
    (tmp_path / name).write_text("x: y\n")
    for form in ("text", "json", "sarif"):
        done = run("check", name, "--format", form, cwd=tmp_path, PYTHONIOENCODING="ascii")
        assert done.returncode == 2
        assert "\x1b" not in done.stdout and "Traceback" not in done.stderr


def test_an_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    """It is a problem of its own (LP012)."""
    (tmp_path / "chat.yaml").write_text(CHAT)
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    done = run("check", ".", cwd=tmp_path)
    assert "gone.yaml:1:1 LP012 file cannot be read" in done.stdout
    assert "2 files checked: 1 error" in done.stdout


def test_a_pipe_is_refused_instead_of_read_forever(tmp_path: Path) -> None:
    """Only regular files are profiles."""
    os.mkfifo(tmp_path / "pipe.yaml")
    done = run("check", "pipe.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "pipe.yaml:1:1 LP012 file cannot be read (not a regular file)" in done.stdout


def test_check_imports_nothing_heavy() -> None:
    """Start-up stays short: no package is imported that only other verbs need."""
    heavy = ["aws_cdk", "boto3", "botocore", "moto", "numpy", "jinja2", "aiohttp"]
    probe = (
        "import sys; from loadproof.cli.main import run; code = run(['check', sys.argv[1]]); "
        "print([name for name in sys.argv[2:] if name in sys.modules]); sys.exit(code)"
    )
    done = run_process([sys.executable, "-c", probe, str(GOOD / "tgi-smallest.yaml"), *heavy], cwd=REPOSITORY)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr


def test_schema_prints_the_generated_file() -> None:
    """`loadproof schema` and `loadproof schema environment` equal what is committed beside the profiles."""
    folder = REPOSITORY / "deploy_profiles"
    assert run("schema", cwd=BAD).stdout == (folder / "schema.json").read_text()
    assert run("schema", "environment", cwd=BAD).stdout == (folder / "environment.schema.json").read_text()


def test_a_name_of_several_profiles_is_asked_which(tmp_path: Path) -> None:
    """As everywhere else, instead of looking for a file of that name."""
    for environment in ("dev", "prod"):
        (tmp_path / "deploy_profiles" / environment).mkdir(parents=True)
        (tmp_path / "deploy_profiles" / environment / "chat.yaml").write_text(CHAT)
    done = run("check", "chat", cwd=tmp_path)
    assert done.returncode == 2 and "2 profiles; say which: dev/chat, prod/chat" in done.stderr
