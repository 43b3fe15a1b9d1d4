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

pytestmark = [pytest.mark.cdk, pytest.mark.xdist_group("cdk")]

DEMO = [sys.executable, "-m", "loadproof", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A state folder of its own, so that every process of this demo can be told from others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**clean, "LOADPROOF_STATE_DIR": str(tmp_path / "state")}


def processes_of(environment: dict[str, str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("LOADPROOF_STATE_DIR") == environment["LOADPROOF_STATE_DIR"]:
                yield process


def assert_nothing_left(environment: dict[str, str]) -> None:
    deadline_s = time.monotonic() + 10
    while (left := list(processes_of(environment))) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert left == []
    assert list(Path(environment["LOADPROOF_STATE_DIR"]).rglob("*.json")) == []


def test_the_demo_deploys_benchmarks_and_judges_every_profile_of_dev(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """From any folder, `loadproof demo` gives a verdict and a report for each profile, and leaves nothing running."""
    done = subprocess.run(
        [*DEMO, "--requests-per-level", "8", "--out", str(tmp_path / "runs")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    outcomes = {}
    for name in ("llama-3-1-8b", "qwen3-32b"):
        [run] = (tmp_path / "runs").glob(f"demo-*/{name}")
        summary = json.loads((run / "summary.json").read_text())
        assert [level["requests"] for level in summary["levels"]] == [8, 8, 8, 8]
        assert [level["errors"] for level in summary["levels"]] == [0, 0, 0, 0]
        assert (run / "report.html").exists()
        assert f"{run}/report.html" in done.stdout
        outcomes[name] = summary["verdict"]["outcome"]
    assert (done.returncode == 0) == (set(outcomes.values()) == {"PASS"}), (outcomes, done.stdout, done.stderr)
    assert_nothing_left(environment)


def test_ctrl_c_takes_everything_down(tmp_path: Path, environment: dict[str, str]) -> None:
    """Ctrl-C during the deployment ends the demo with 130 and nothing is left running."""
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
        if line.startswith("cdk deploy"):
            break
    time.sleep(4)  # the CDK CLI and its children run by now
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)

    assert process.returncode == 130
    assert_nothing_left(environment)


def test_an_environment_without_profiles_is_a_usage_error(environment: dict[str, str]) -> None:
    """`--environment nowhere` ends with 2 and says what is missing, before anything is started."""
    done = subprocess.run(
        [*DEMO, "--environment", "nowhere"], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "no environment `nowhere`" in done.stderr
    assert "Traceback" not in done.stderr
