"""`loadproof local`: one process a name, nothing left behind, whatever happens to whom."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import until

from loadproof.cli.main import run
from loadproof.errors import CouldNotRunError, InputError
from loadproof.localcloud import local
from loadproof.localcloud.state import known_states, read_state, state_path


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has a state folder of its own, empty and quiet afterwards."""
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    yield
    local.stop_all()


def test_two_clouds_side_by_side_know_nothing_of_each_other() -> None:
    """Other ports, other keys, other queues; a second start of a name hands back the first."""
    import boto3

    with local.running("one") as one, local.running("two") as two:
        assert one.state.port != two.state.port
        assert one.state.access_key != two.state.access_key
        again = local.start("one")
        assert (again.fresh, again.state) == (False, one.state)

        def queues(cloud: local.LocalCloud) -> list[str]:
            sqs = boto3.client(
                "sqs", endpoint_url=cloud.endpoint_url, region_name="us-east-1",
                aws_access_key_id=cloud.state.access_key, aws_secret_access_key=cloud.state.secret_key,
            )  # fmt: skip
            if cloud is one:
                sqs.create_queue(QueueName="only-here")
            return [url.rsplit("/", 1)[1] for url in sqs.list_queues().get("QueueUrls", [])]

        assert queues(one) == ["only-here"]
        assert queues(two) == []
        pids = [one.state.pid, two.state.pid]
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert known_states() == []


def test_killed_server_is_seen_cleaned_and_started_anew(capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 leaves a state file; status does not list it, down cleans it, up starts afresh."""
    cloud = local.start("killed", stop_with_parent=True)
    psutil.Process(cloud.state.pid).kill()
    until(lambda: not cloud.state.alive())
    assert run(["local", "down", "--name", "killed"]) == 0
    assert "was not running" in capsys.readouterr().out
    assert not state_path("killed").exists()
    with local.running("killed") as anew:
        assert anew.fresh
        assert anew.state.pid != cloud.state.pid


def test_cloud_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    """A killed parent tells nobody: the cloud notices by itself and removes its state."""
    start = "local.start('orphan', stop_with_parent=True); time.sleep(60)"
    code = f"from loadproof.localcloud import local; import time\n{start}"
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(lambda: read_state(state_path("orphan")) is not None)
        state = read_state(state_path("orphan"))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert state is not None
    until(lambda: not state.alive())
    assert not state_path("orphan").exists()


def test_verbs_of_people(capsys: pytest.CaptureFixture[str]) -> None:
    """up twice, status as JSON, env lines for a shell, down twice: each exits 0 and says what happened."""
    assert run(["local", "up", "--name", "people"]) == 0
    assert "serves at http://localhost:" in capsys.readouterr().out
    assert run(["local", "up", "--name", "people"]) == 0
    assert "is running already" in capsys.readouterr().out
    assert run(["local", "up", "--name", "people", "--backend", "http://localhost:1"]) == 2
    assert "stop it first: loadproof local down --name people" in capsys.readouterr().err
    assert run(["local", "up", "--name", "people", "--speed", "30"]) == 2
    assert "running already at speed 1, not 30" in capsys.readouterr().err
    assert run(["local", "status", "--format", "json"]) == 0
    clouds = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in clouds] == ["people"]
    assert "secret_key" not in clouds[0]
    assert run(["local", "env", "--name", "people"]) == 0
    first, *exports = capsys.readouterr().out.splitlines()
    assert first == "unset AWS_PROFILE AWS_DEFAULT_PROFILE"
    lines = dict(line.removeprefix("export ").split("=", 1) for line in exports)
    assert lines["NO_PROXY"].split(",")[-2:] == ["127.0.0.1", "localhost"]
    assert lines["AWS_ENDPOINT_URL"] == lines["AWS_ENDPOINT_URL_S3"] == clouds[0]["endpoint_url"]
    assert run(["local", "down", "--name", "people"]) == 0
    assert "stopped" in capsys.readouterr().out
    assert run(["local", "down", "--all"]) == 0
    assert "none was running" in capsys.readouterr().out
    assert run(["local", "env", "--name", "people"]) == 3
    assert "start it with: loadproof local up --name people" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--name", "../x"], "allowed are letters"),
        (["up", "--account", "12"], "twelve digits"),
        (["up", "--account", "²" * 12], "twelve digits"),
        (["up", "--region", "mars"], "--region: found 'mars', allowed is an AWS region"),
        (["up", "--backend", "localhost:1"], "allowed is a URL"),
        (["up", "--speed", "200"], "found 200.0, allowed are 1 to 100"),
        (["status", "--format", "xml"], "allowed are text and json"),
    ],
)
def test_bad_usage_exits_2_with_the_mend(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["local", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_port_that_is_taken_is_told_with_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 and the reason, not a trace of ours; nothing stays behind."""
    import socket

    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["local", "up", "--name", "taken", "--port", str(port)]) == 3
    error = capsys.readouterr().err
    assert f"port {port} is taken" in error
    assert "Traceback" not in error
    assert known_states() == []


def test_state_file_is_for_its_owner_only() -> None:
    with local.running("private"):
        assert state_path("private").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError):
        state_path("")


def test_two_starts_at_once_give_one_cloud() -> None:
    """The second waits for the first and finds its cloud: no server is left without a state file."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        clouds = list(pool.map(lambda _: local.start("race", stop_with_parent=True), range(2)))
    assert sorted(cloud.fresh for cloud in clouds) == [False, True]
    assert clouds[0].state == clouds[1].state


def test_state_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path / "file"))
        assert run(["local", "status"]) == 3
    assert "set LOADPROOF_STATE_DIR to a folder you can write" in capsys.readouterr().err


def test_foreground_cloud_ends_with_ctrl_c() -> None:
    """`up --foreground` stays until interrupted, exits 130, and leaves no server."""
    command = [sys.executable, "-m", "loadproof", "local", "up", "--name", "front", "--foreground"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until(lambda: read_state(state_path("front")) is not None)
    state = read_state(state_path("front"))
    assert process.stdout is not None and "serves at" in process.stdout.readline()
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert state is not None and until(lambda: not state.alive())


def test_without_its_extra_a_noted_cloud_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil comes with the extra: nobody can tell whether the server runs, so its note stays, and the user is told."""
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    with local.running("noted") as cloud:
        monkeypatch.setitem(sys.modules, "psutil", None)
        with pytest.raises(CouldNotRunError, match=r"pip install 'loadproof\[local\]'"):
            local.stop("noted")
        monkeypatch.undo()
        monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
        assert local.find("noted") == cloud.state
