"""`loadproof doctor` on a machine that lacks things: each is found, with the command that mends it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from loadproof.cli.main import run
from loadproof.localcloud.local import running


def looked(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """(exit code, what was found by name)."""
    code = run(["doctor", "--format", "json", *options])
    return code, {look["name"]: look for look in json.loads(capsys.readouterr().out)["looks"]}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder, on a machine with no programs and no AWS configuration."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder: Path, name: str, says: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho {says}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def cdk_of(folder: Path, version: str) -> None:
    place = folder / "node_modules" / "aws-cdk"
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"version": version}), encoding="utf-8")


def test_nothing_there(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No Node and no CDK CLI are errors where there is an app; credentials and region are asked for by AWS alone."""
    (bare / "cdk.json").write_text("{}")
    code, found = looked(capsys)
    assert code == 3
    assert {name: look["state"] for name, look in found.items() if name in ("Node", "CDK CLI")} == {
        "Node": "error",
        "CDK CLI": "error",
    }
    assert found["CDK CLI"]["mend"] == "npm install aws-cdk@2"
    assert found["Credentials"]["state"] == found["Region"]["state"] == "warning"
    assert found["Region"]["mend"] == "export AWS_REGION=us-east-1"


def test_what_is_wrong_has_a_command_that_mends_it(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what is well has none."""
    _, found = looked(capsys)
    assert all(bool(look["mend"]) == (look["state"] != "ok") for look in found.values())


@pytest.mark.parametrize(
    ("version", "state"), [("v18.20.0", "error"), ("v20.20.2", "warning"), ("v22.1.0", "ok"), ("v24.0.0", "ok")]
)
def test_node_by_its_age(bare: Path, capsys: pytest.CaptureFixture[str], version: str, state: str) -> None:
    """Older than 20 cannot run the CDK CLI; 20 has ended its life."""
    program(bare, "node", version)
    assert looked(capsys)[1]["Node"]["state"] == state


@pytest.mark.parametrize(("version", "state"), [("2.1148.1", "ok"), ("3.0.0", "error")])
def test_the_cli_must_fit_the_library(bare: Path, capsys: pytest.CaptureFixture[str], version: str, state: str) -> None:
    """3.0.0 refuses the assemblies of aws-cdk-lib 2."""
    cdk_of(bare, version)
    assert looked(capsys)[1]["CDK CLI"]["state"] == state


def test_a_shell_that_points_at_a_cloud_that_is_gone(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address of this machine where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    code, found = looked(capsys)
    assert code == 3
    assert found["Credentials"]["mend"] == "unset AWS_ENDPOINT_URL"


def test_a_profile_of_the_shell_that_is_not_there(
    bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_PROFILE names nothing in ~/.aws/config: an error with the command that lists what is there, no traceback."""
    monkeypatch.setenv("AWS_PROFILE", "nope")
    _, found = looked(capsys)
    assert found["Credentials"]["state"] == "error"
    assert "nope" in found["Credentials"]["found"]
    assert found["Credentials"]["mend"] == "aws configure list-profiles"


def test_the_account_is_asked_only_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A local cloud answers who we are and what time it is, and that nobody has bootstrapped it."""
    assert not {"Account", "Clock skew", "Bootstrap"} & set(looked(capsys)[1])
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    with running("doctor") as local:
        for name, value in local.environment().items():
            monkeypatch.setenv(name, value)
        found = looked(capsys, "--online")[1]
    assert found["Account"]["state"] == found["Clock skew"]["state"] == "ok"
    assert found["Bootstrap"]["mend"] == "npx cdk bootstrap aws://123456789012/us-east-1"
    assert found["Account"]["found"].startswith("123456789012 as ")


def test_who_only_predicts_needs_no_node(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an app here, nothing would be synthesized."""
    code, found = looked(capsys)
    assert code == 0
    assert found["Node"]["state"] == found["CDK CLI"]["state"] == "warning"


def test_an_environment_names_its_region(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / "deploy_profiles" / "live").mkdir(parents=True)
    (bare / "deploy_profiles" / "live" / "environment.yaml").write_text('account: "123456789012"\nregion: eu-west-1\n')
    _, found = looked(capsys)
    assert (found["Region"]["state"], found["Region"]["found"]) == ("ok", "of the environments here: eu-west-1 (live)")
