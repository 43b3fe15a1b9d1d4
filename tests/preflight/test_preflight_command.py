"""`loadproof preflight` as a person and a pipeline run it: text, JSON, rights, exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import pytest
from account_states import ENDPOINT, World

from loadproof.cli.main import run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the verb where the environment means the local cloud; gives exit code, stdout and stderr.

    With time enough for a machine that does other things, too.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in world.aws.cloud.environment().items():
        monkeypatch.setenv(name, value)

    def ran(*arguments: str) -> tuple[int, str, str]:
        code = run(["preflight", *arguments, "--timeout-s", "300"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ran


def actions(document: str) -> Sequence[str]:
    return [action for one in json.loads(document)["Statement"] for action in one["Action"]]


def test_all_well_is_one_line_and_exit_0(world: World, command: Command) -> None:
    """Where, how many questions, how long."""
    code, out, _ = command(str(world.folder))
    assert code == 0
    assert out.startswith(f"prod (account {world.account}, us-east-1): all well; ")
    assert out.count("\n") == 1


def test_a_finding_has_found_needed_and_mend(world: World, command: Command) -> None:
    """Four lines, then the sum; exit 1."""
    world.parameter("/cdk-bootstrap/hnb659fds/version", "5")
    code, out, _ = command(str(world.folder / "environment.yaml"))
    assert code == 1
    assert out.splitlines()[:4] == [
        "error    LA171 /cdk-bootstrap/hnb659fds/version",
        "  found  its version is 5",
        "  needed version 6 or later",
        f"  mend   npx cdk bootstrap aws://{world.account}/us-east-1",
    ]
    assert ": 1 error; " in out.splitlines()[-1]


def test_json_is_one_document(world: World, command: Command) -> None:
    """For programs, with the same exit code."""
    world.parameter("/cdk-bootstrap/hnb659fds/version", "5")
    code, out, _ = command(str(world.folder), "--format", "json")
    document = json.loads(out)
    assert (code, document["ok"], document["counts"]) == (1, False, {"error": 1, "unknown": 0, "warning": 0})
    assert document["profiles"] == ["chat", "hosted", "reserved"]
    assert document["findings"] == [
        {
            "code": "LA171",
            "severity": "error",
            "place": "/cdk-bootstrap/hnb659fds/version",
            "found": "its version is 5",
            "needed": "version 6 or later",
            "mend": f"npx cdk bootstrap aws://{world.account}/us-east-1",
            "doc": "docs/preflight-findings.md#la171",
        }
    ]


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("unknown", 1), ("warning", 1)])
def test_unknown_is_not_well_unless_somebody_says_so(fail_on: str, code: int, world: World, command: Command) -> None:
    """A right that is missing hides what it would have shown."""
    world.deny("kms:GetKeyPolicy")
    ended, out, _ = command(str(world.folder), "--fail-on", fail_on)
    assert ended == code
    assert "unknown  LA001 arn:aws:kms:" in out
    assert "the right kms:GetKeyPolicy is missing" in out
    assert "needed an answer, to judge LA132, LA133" in out


def test_a_profile_alone_needs_what_its_own_stack_needs(world: World, command: Command) -> None:
    """Of two profiles, the other one's reservation does not matter."""
    world.reserve(Status="Expired")
    code, out, _ = command(str(world.folder / "chat.yaml"))
    assert code == 0, out
    code, out, _ = command(str(world.folder / "reserved.yaml"))
    assert (code, "LA111" in out) == (1, True)


def test_credentials_of_another_account_are_refused(world: World, command: Command) -> None:
    """Exit 3: nothing of what it would say were about the account that is deployed to."""
    world.environment(account="999999999999", alarm_topic_arn=None, kms_key_arn=None, benchmark=None)
    (world.folder / "chat.yaml").unlink()
    (world.folder / "reserved.yaml").unlink()
    code, _, err = command(str(world.folder))
    assert code == 3
    assert f"the credentials are of account {world.account}" in " ".join(err.split())


def test_an_address_that_nobody_answers_is_no_matter_of_credentials(world: World, command: Command) -> None:
    """Exit 3: the network's, or the address itself."""
    code, _, err = command(str(world.folder), "--endpoint-url", "http://localhost:1")
    assert code == 3
    assert "look at the network, or at --endpoint-url" in " ".join(err.split())


@pytest.mark.parametrize("place", ["no-such-environment", "README.md"])
def test_a_place_that_is_no_profile_is_bad_input(place: str, command: Command) -> None:
    """Exit 2, with what is known."""
    assert command(place)[0] == 2


def test_rights_are_for_what_this_environment_needs(world: World, command: Command) -> None:
    """A policy that can be attached as it is; nothing is asked for it."""
    world.deny("sts:GetCallerIdentity")
    code, out, _ = command(str(world.folder), "--rights")
    by_sid = {one["Sid"]: one for one in json.loads(out)["Statement"]}
    assert code == 0
    assert {"ecr:BatchGetImage", "servicequotas:ListServiceQuotas", "kms:GetKeyPolicy"} <= set(actions(out))
    assert f"arn:aws:s3:::{world.bucket}/llama/*" in by_sid["PreflightObjects"]["Resource"]
    assert by_sid["PreflightStacks"]["Resource"][0] == (
        f"arn:aws:cloudformation:us-east-1:{world.account}:stack/loadproof-prod-benchmark/*"
    )
    assert (
        f"arn:aws:cloudformation:us-east-1:{world.account}:stack/{ENDPOINT}/*" in by_sid["PreflightStacks"]["Resource"]
    )
    assert by_sid["PreflightTopics"]["Resource"] == [world.topic_arn]
