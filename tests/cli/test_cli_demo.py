"""The main job as a user meets it: real processes, the real CDK CLI, nothing left running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from processes import run_process

from loadproof.cli.demo.children import child, finished
from loadproof.cli.demo.steps import Steps, _as_started
from loadproof.cli.main import run
from loadproof.errors import CouldNotRunError
from loadproof.profiles import folders
from loadproof.terminal import Terminal

pytestmark = pytest.mark.cdk

ROOT = Path(__file__).parents[2]
IMPATIENT = Path(__file__).parents[1] / "localcloud" / "cdk" / "impatient.js"
DEMO = [sys.executable, "-m", "loadproof", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A state folder of its own, so that every process of this demo can be told from others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**clean, "LOADPROOF_STATE_DIR": str(tmp_path / "state"), "NODE_OPTIONS": f"--require {IMPATIENT}"}


def processes_of(environment: dict[str, str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("LOADPROOF_STATE_DIR") == environment["LOADPROOF_STATE_DIR"]:
                yield process


def assert_nothing_left(environment: dict[str, str]) -> None:
    deadline_s = time.monotonic() + 120
    while (left := list(processes_of(environment))) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert left == []
    assert list(Path(environment["LOADPROOF_STATE_DIR"]).rglob("*.json")) == []


def test_the_next_command_is_one_that_the_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make demo` in a checkout no path has loadproof; in an environment that is active, it has."""
    program = tmp_path / ".venv" / "bin" / "loadproof"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "")
    assert _as_started() == ".venv/bin/loadproof"
    monkeypatch.setenv("PATH", str(program.parent))
    assert _as_started() == "loadproof"


def test_a_repository_of_ones_own_is_begun_beside_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = tmp_path / "loadproof"
    (checkout / "docs").mkdir(parents=True)
    for here, named in ((checkout, "../my-endpoints"), (checkout / "docs", "../../my-endpoints")):
        monkeypatch.chdir(here)
        Steps(Terminal(width=500), checkout, tmp_path, None).summary([], None)
        assert capsys.readouterr().out.splitlines()[-1].endswith(f"loadproof init {named}")


def test_the_demo_deploys_benchmarks_and_judges_every_profile_of_dev(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """From any folder, `loadproof demo` gives a verdict and a report for each profile, and leaves nothing running."""
    done = run_process(
        [*DEMO, "--requests-per-level", "4", "--out", str(tmp_path / "runs")],
        cwd=tmp_path,
        env=environment,
        timeout=900,
    )

    assert done.returncode == 0, (done.stdout, done.stderr)
    for name, levels in (("llama-3-1-8b", 1), ("qwen3-32b", 4)):
        [run] = (tmp_path / "runs").glob(f"demo-*/{name}")
        summary = json.loads((run / "summary.json").read_text())
        assert [level["requests"] for level in summary["levels"]] == [4] * levels
        assert [level["errors"] for level in summary["levels"]] == [0] * levels
        assert (run / "report.html").exists()
        assert f"{run}" in done.stdout
    said = done.stdout.partition("Deployed, driven, judged and taken down")[2]
    assert 0 < len(said.splitlines()) <= 10
    assert_nothing_left(environment)


@pytest.mark.parametrize(
    ("number", "after"), [(signal.SIGINT, "cdk deploy"), (signal.SIGKILL, "cdk deploy")], ids=["ctrl-c", "kill"]
)
def test_an_interruption_takes_everything_down(
    tmp_path: Path, environment: dict[str, str], number: int, after: str
) -> None:
    """During the deployment, Ctrl-C ends the demo with 130; even after `kill -9` of it nothing is left running."""
    process = subprocess.Popen(
        [*DEMO, "--out", str(tmp_path / "runs")],
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(after):
            break
    deadline_s = time.monotonic() + 120
    while number == signal.SIGINT and not list((tmp_path / "runs").glob("demo-*/cdk.out/manifest.json")):
        # Not in the repository's own cdk.out, which the CDK CLI would lock against a second demo.
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)

    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert ("nothing is left running" in said) == (number == signal.SIGINT)
    assert_nothing_left(environment)


def test_an_interrupted_command_ends_in_its_own_time(tmp_path: Path) -> None:
    """A benchmark writes summary and report after Ctrl-C: the demo passes the signal on and waits for the end."""
    script = (
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.6); open(sys.argv[1], 'w').write('written'); sys.exit(130)\n"
        "signal.signal(signal.SIGINT, end); print('ready', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "summary")]
    with pytest.raises(KeyboardInterrupt), child(command, os.environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        raise KeyboardInterrupt
    assert (tmp_path / "summary").read_text() == "written"
    assert process.returncode == 130


@pytest.mark.parametrize(("first", "names"), [("INVALID", ["chat", "chat-again"]), ("FAIL", ["chat"])])
def test_what_the_machine_was_too_busy_for_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, names: list[str]
) -> None:
    """An answer that was none is asked for again, at the objectives' level; a missed objective is an answer."""
    asked: list[str] = []

    def bench(command: list[str], folder: Path, allowed: tuple[int, ...] = (0,)) -> int:
        out = Path(command[command.index("--out") + 1])
        asked.append(out.name)
        out.mkdir()
        verdict = {"outcome": first if len(asked) == 1 else "PASS", "reasons": ["because"]}
        (out / "summary.json").write_text(json.dumps({"verdict": verdict}), encoding="utf-8")
        return 3

    steps = Steps(Terminal(), ROOT, tmp_path, None)
    monkeypatch.setattr(steps, "quietly", bench)
    profile = tmp_path / "chat.yaml"
    profile.write_text((ROOT / "deploy_profiles/dev/llama-3-1-8b.yaml").read_text().replace("llama-3-1-8b", "chat", 1))
    found = steps.proven(profile, [])
    assert (asked, found.outcome) == (names, "PASS" if first == "INVALID" else "FAIL")


@pytest.mark.parametrize(("code", "words"), [(1, "ended with exit code 1"), (-9, "was ended by SIGKILL")])
def test_a_command_that_fails_is_named(code: int, words: str) -> None:
    """A crash or a kill from outside is no interruption of ours: the message says which command, and how it ended."""
    with pytest.raises(CouldNotRunError, match=f"`cdk deploy` {words}; log: x"):
        finished(code, ["/a/cdk", "deploy"], (0,), "; log: x")


def test_profiles_with_mistakes_end_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 as for `loadproof check`, its messages on the terminal, no run folder left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdk.json").touch()
    (tmp_path / "node_modules/.bin").mkdir(parents=True)
    (tmp_path / "node_modules/.bin/cdk").touch()
    folder = tmp_path / "deploy_profiles" / "dev"
    folder.mkdir(parents=True)
    (folder / "chat.yaml").write_text("name: chat\n")
    assert run(["demo", "--out", str(tmp_path / "runs")]) == 2
    assert "chat.yaml:1:1 LP102" in capfd.readouterr().out
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("verb", [["check"], ["schema"], ["demo", "--out", "/dev/null/runs"]])
def test_a_full_disk_is_one_line(verb: list[str]) -> None:
    """Output that cannot be written ends with 3, a folder that cannot be made with 2, each in one line."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loadproof", *verb],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == (2 if verb[0] == "demo" else 3)
    [line] = done.stderr.splitlines()
    assert line.startswith("loadproof: ")


@pytest.mark.parametrize(("verb", "code"), [(["bench", "none.yaml"], 2), (["check", "--nope"], 2), (["schema"], 3)])
def test_where_nobody_can_be_told_the_exit_code_still_says_it(verb: list[str], code: int) -> None:
    """Both streams on a full disk: never 1, which is a missed objective's."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loadproof", *verb], stdout=full, stderr=full, check=False, cwd=ROOT
        )
    assert done.returncode == code


def test_an_environment_without_profiles_is_a_usage_error(environment: dict[str, str]) -> None:
    """`--environment nowhere` ends with 2 and says what is missing, before anything is started."""
    done = run_process([*DEMO, "--environment", "nowhere"], env=environment)

    assert done.returncode == 2
    assert "no environment `nowhere`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("profiles", [True, False], ids=["no app", "no repository"])
def test_where_nothing_can_be_deployed_the_demo_says_what_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], profiles: bool
) -> None:
    """An installed package in an empty folder, or beside profiles alone: exit 2, and what writes the rest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "site-packages" / "loadproof" / "profiles" / "folders.py"))
    if profiles:
        (tmp_path / "deploy_profiles").mkdir()
    assert run(["demo"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "loadproof init endpoints --defaults && cd endpoints && make setup && .venv/bin/loadproof demo" in said
