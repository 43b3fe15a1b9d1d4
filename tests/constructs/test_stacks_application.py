"""The door: `-c env=` and `-c profile=`, and what a person reads when they are wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml
from aws_cdk import Stack
from processes import run_process
from stacks_support import PROFILE, App, merged, synthesize

from loadproof.constructs.choosing import read_deployments
from loadproof.constructs.security.synthesized import findings_of, judge
from loadproof.errors import ExitCode, InputError, ProfileError
from stacks.application import add_stacks

ROOT = Path(__file__).parents[2]


@pytest.fixture
def profiles_root(tmp_path: Path) -> Path:
    """Environments dev (chat, search) and prod (chat)."""
    for environment, names in {"dev": ("chat", "search"), "prod": ("chat",)}.items():
        folder = tmp_path / "deploy_profiles" / environment
        folder.mkdir(parents=True)
        (folder / "environment.yaml").write_text('account: "123456789012"\nregion: us-east-1\n', encoding="utf-8")
        for name in names:
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(merged(PROFILE, {"name": name})), encoding="utf-8")
    return tmp_path / "deploy_profiles"


def run_app(
    *, env: str | None = None, profile: str | None = None, paused: str | None = None, out: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """app.py as the CDK CLI starts it, with an environment that knows neither credentials nor a way out."""
    given = {"env": env, "profile": profile, "pause_scaling": paused}
    context = {name: value for name, value in given.items() if value is not None}
    clean = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_OUTDIR": str(out),
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    return run_process([sys.executable, str(ROOT / "app.py")], cwd=ROOT, env=clean | variables)


def test_all_profiles_of_an_environment(profiles_root: Path) -> None:
    """Without -c profile every profile of the environment is chosen, by name."""
    chosen = read_deployments(profiles_root, "dev", None)
    assert [(one.environment_name, one.profile.name) for one in chosen] == [("dev", "chat"), ("dev", "search")]
    assert chosen[0].stack_name == "loadproof-dev-chat"


def test_several_environments_at_once(profiles_root: Path) -> None:
    """A second region is a folder; `-c env=dev,prod` takes both, and a profile asked for is taken from each."""
    chosen = read_deployments(profiles_root, "dev,prod", "chat")
    assert [one.stack_name for one in chosen] == ["loadproof-dev-chat", "loadproof-prod-chat"]
    with pytest.raises(InputError, match="-c profile=search: search is not in environment prod"):
        read_deployments(profiles_root, "dev,prod", "search")


def test_a_second_region_is_two_small_files(profiles_root: Path) -> None:
    """The profile of another region says whose it is; image, role and alarms follow the region by themselves."""
    folder = profiles_root / "prod-eu"
    folder.mkdir()
    (folder / "environment.yaml").write_text('account: "123456789012"\nregion: eu-central-1\n', encoding="utf-8")
    (folder / "chat.yaml").write_text("extends: ../prod/chat.yaml\n", encoding="utf-8")
    texts = {}
    for name in ("prod", "prod-eu"):
        (deployment,) = read_deployments(profiles_root, name, None)
        texts[name] = json.dumps(synthesize(deployment.profile, deployment.environment).template)
    # In ARNs and addresses; the dashboard also says which region's list price it shows.
    assert re.search(r"[:.]us-east-1[:.]", texts["prod"])
    assert not re.search(r"[:.]us-east-1[:.]", texts["prod-eu"])
    assert "763104351884.dkr.ecr.eu-central-1.amazonaws.com/" in texts["prod-eu"]


@pytest.mark.parametrize(("region", "meet"), [("us-east-1", True), ("eu-central-1", False)])
def test_two_profiles_that_would_be_one_stack_are_refused(profiles_root: Path, region: str, meet: bool) -> None:
    """`eu-chat` of prod and `chat` of prod-eu: in one account and region either would overwrite the other."""
    shutil.copy(profiles_root / "prod" / "chat.yaml", profiles_root / "prod" / "eu-chat.yaml")
    own = profiles_root / "prod" / "eu-chat.yaml"
    own.write_text(own.read_text(encoding="utf-8").replace("name: chat", "name: eu-chat"), encoding="utf-8")
    other = profiles_root / "prod-eu"
    other.mkdir()
    (other / "environment.yaml").write_text(f'account: "123456789012"\nregion: {region}\n', encoding="utf-8")
    (other / "chat.yaml").write_text("extends: ../prod/chat.yaml\n", encoding="utf-8")
    if meet:
        with pytest.raises(
            InputError, match=r"prod/eu-chat.yaml and prod-eu/chat.yaml are one stack, loadproof-prod-eu-chat"
        ):
            read_deployments(profiles_root, "prod", "eu-chat")
    else:
        assert len(read_deployments(profiles_root, "prod", "eu-chat")) == 1
    assert len(read_deployments(profiles_root, "prod", "chat")) == 1


_OWN_STACKS = """\
account: "123456789012"
region: REGION
benchmark: {image: "123456789012.dkr.ecr.REGION.amazonaws.com/bench:1.0"}
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0]
  security_group_ids: [sg-0123456789abcdef0]
  vpc_endpoints: true
  route_table_ids: [rtb-0123456789abcdef0]
"""


def _prod_and_prod_eu(profiles_root: Path, own_name: str, region: str) -> None:
    """`own_name` in prod; prod-eu with a profile `chat` and stacks for its benchmarks and its VPC endpoints."""
    text = (profiles_root / "prod" / "chat.yaml").read_text(encoding="utf-8").replace("name: chat", f"name: {own_name}")
    (profiles_root / "prod" / f"{own_name}.yaml").write_text(text, encoding="utf-8")
    (profiles_root / "prod-eu").mkdir()
    (profiles_root / "prod-eu" / "environment.yaml").write_text(_OWN_STACKS.replace("REGION", region), encoding="utf-8")
    (profiles_root / "prod-eu" / "chat.yaml").write_text("extends: ../prod/chat.yaml\n", encoding="utf-8")


@pytest.mark.parametrize("key", ["benchmark", "network"])
@pytest.mark.parametrize("environments", ["prod", "prod-eu", "prod,prod-eu"])
def test_a_profile_and_an_environments_own_stack_of_one_name_are_refused(
    profiles_root: Path, key: str, environments: str
) -> None:
    """`eu-benchmark` of prod would become prod-eu's gate; from both sides, and where both are synthesized."""
    _prod_and_prod_eu(profiles_root, f"eu-{key}", "us-east-1")
    with pytest.raises(InputError, match=rf"are one stack, loadproof-prod-eu-{key}, in account .*; rename the profile"):
        read_deployments(profiles_root, environments, None)


@pytest.mark.parametrize("own_name", ["eu-benchmark", "eu-network", "eu-chat"])
def test_one_name_in_two_regions_is_synthesized_apart(profiles_root: Path, own_name: str) -> None:
    """Nothing would be overwritten; still the CDK ends in a traceback where one application has a name twice."""
    _prod_and_prod_eu(profiles_root, own_name, "eu-central-1")
    assert len(read_deployments(profiles_root, "prod", own_name)) == 1
    assert len(read_deployments(profiles_root, "prod-eu", None)) == 1
    with pytest.raises(InputError, match=r"both make loadproof-prod-eu-.*; give one of the environments to -c env="):
        read_deployments(profiles_root, "prod,prod-eu", None)


def test_two_files_of_one_profiles_name_are_refused(profiles_root: Path) -> None:
    """`chat.yaml` and `chat.yml`: which of the two was deployed went by the alphabet."""
    shutil.copy(profiles_root / "prod" / "chat.yaml", profiles_root / "prod" / "chat.yml")
    with pytest.raises(InputError, match=r"prod/chat.yml and prod/chat.yaml are one stack, loadproof-prod-chat"):
        read_deployments(profiles_root, "prod", "chat")


def test_an_environments_name_leaves_room_for_the_prefix_of_its_rights(profiles_root: Path) -> None:
    """Endpoint names end in a hash past 63 characters; the benchmark's rights name their beginning."""
    (profiles_root / "prod").rename(profiles_root / ("p" * 41))
    with pytest.raises(InputError, match=r"40 of them at most; rename deploy_profiles/p{41}"):
        read_deployments(profiles_root, "p" * 41, None)


def test_an_unknown_acknowledgement_is_refused(profiles_root: Path, tmp_path: Path) -> None:
    """Accepting what no rule says would hide a misspelling."""
    file = profiles_root / "prod" / "chat.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "acknowledged: {LS999: nobody knows this}\n", encoding="utf-8")
    deployments = read_deployments(profiles_root, "prod", None)
    app = App(builtin_cloud_formation_validation=False, outdir=str(tmp_path / "out"))
    add_stacks(app, deployments)
    app.synth()
    with pytest.raises(InputError, match=r"no rule LS999; take it out, or see docs/security\.md"):
        list(findings_of(tmp_path / "out", deployments))


def test_chosen_profiles_only_are_read(profiles_root: Path) -> None:
    """A broken neighbour is not in the way of a chosen profile: it is not even opened."""
    (profiles_root / "dev" / "search.yaml").write_text("name: [", encoding="utf-8")
    assert [one.profile.name for one in read_deployments(profiles_root, "dev", "chat")] == ["chat"]


@pytest.mark.parametrize(
    ("environment", "profile", "message"),
    [
        (None, None, "no environment chosen; add -c env=NAME, one of: dev, prod"),
        ("qa", None, "-c env=qa: no deploy_profiles/qa/environment.yaml; one of: dev, prod"),
        (
            "dev",
            "chat,talk",
            "-c profile=chat,talk: talk is not in environment dev; one or more (comma-separated) of: chat, search",
        ),
        (
            "dev",
            ",",
            "-c profile=,: no name in it; one or more (comma-separated) of: chat, search",
        ),
    ],
)
def test_wrong_choices_name_the_right_ones(
    profiles_root: Path, environment: str | None, profile: str | None, message: str
) -> None:
    """Every wrong choice is answered with the allowed ones."""
    with pytest.raises(InputError) as caught:
        read_deployments(profiles_root, environment, profile)
    assert str(caught.value) == message


def test_scaling_is_paused_where_it_is_said(profiles_root: Path) -> None:
    """Only the named profiles lose their scaling; without the option nobody does."""
    paused = [one.scaling_paused for one in read_deployments(profiles_root, "dev", None, "search")]
    assert paused == [False, True]
    assert not any(one.scaling_paused for one in read_deployments(profiles_root, "dev", None))


def test_a_pause_is_said(tmp_path: Path) -> None:
    """Until when, on stderr, for every profile that has one."""
    done = run_app(env="dev", profile="llama-3-1-8b", paused="llama-3-1-8b", out=tmp_path / "out")
    said = "loadproof: loadproof-dev-llama-3-1-8b: scaling is paused until a deployment without -c pause_scaling\n"
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.parametrize(
    ("wanted", "paused", "message"),
    [
        (
            None,
            "talk",
            "-c pause_scaling=talk: talk is not in environment dev; one or more (comma-separated) of: chat, search",
        ),
        ("chat", "search", "-c pause_scaling=search: search is not deployed; add it to -c profile=chat"),
    ],
)
def test_a_pause_that_would_not_happen_is_refused(
    profiles_root: Path, wanted: str | None, paused: str, message: str
) -> None:
    """A typing mistake must not leave the scaling on that an instance type's change waits for."""
    with pytest.raises(InputError) as caught:
        read_deployments(profiles_root, "dev", wanted, paused)
    assert str(caught.value) == message


def test_a_folder_that_cannot_name_a_stack_is_refused(profiles_root: Path) -> None:
    """CloudFormation allows no underscore in a stack's name; that is told before anything is built."""
    (profiles_root / "dev").rename(profiles_root / "dev_1")
    with pytest.raises(
        InputError, match=r"a-z, 0-9 and single hyphens only, 40 of them at most; rename deploy_profiles/dev_1"
    ):
        read_deployments(profiles_root, "dev_1", None)


def test_an_environment_without_profiles_says_so(profiles_root: Path) -> None:
    """Nothing to deploy is not a success."""
    (profiles_root / "prod" / "chat.yaml").unlink()
    with pytest.raises(InputError, match="environment prod has no profile yet"):
        read_deployments(profiles_root, "prod", None)


def test_each_backend_has_its_stack(profiles_root: Path) -> None:
    """One environment may hold a profile on SageMaker beside one on Bedrock: a stack each, nothing refused."""
    file = profiles_root / "dev" / "search.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8")) | {"backend": "bedrock"}
    kept = {key: value for key, value in content.items() if key not in ("container", "endpoint", "copies")}
    kept["model"] = {"id": "amazon.nova-lite-v1:0"}
    file.write_text(yaml.safe_dump(kept), encoding="utf-8")
    app = App()
    add_stacks(app, read_deployments(profiles_root, "dev", None))
    made = {type(stack).__name__: stack.stack_name for stack in app.node.children if isinstance(stack, Stack)}
    assert made == {"EndpointStack": "loadproof-dev-chat", "BedrockStack": "loadproof-dev-search"}


def test_problems_of_all_files_come_together(profiles_root: Path) -> None:
    """Two broken profiles are told in one go, each with its file and place."""
    for name in ("chat", "search"):
        file = profiles_root / "dev" / f"{name}.yaml"
        file.write_text(file.read_text(encoding="utf-8") + "typo: 1\n", encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        read_deployments(profiles_root, "dev", None)
    assert [Path(problem.file).name for problem in caught.value.problems] == ["chat.yaml", "search.yaml"]
    assert {problem.code for problem in caught.value.problems} == {"LP101"}


def test_an_open_error_stops_synthesis(tmp_path: Path) -> None:
    """app.py itself: a finding nobody acknowledged is one line and exit 1, so that the CDK CLI deploys nothing."""
    root = tmp_path / "deploy_profiles"
    shutil.copytree(ROOT / "deploy_profiles", root)
    file = root / "dev" / "qwen3-32b.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("\nacknowledged:")] + "\n", encoding="utf-8")
    deployments = read_deployments(root, "dev", "qwen3-32b")
    app = App(builtin_cloud_formation_validation=False, outdir=str(tmp_path / "out"))
    add_stacks(app, deployments)
    app.synth()
    assert judge(tmp_path / "out", deployments) == ExitCode.MISSED


def test_app_without_environment_is_one_line_and_exit_2(tmp_path: Path) -> None:
    """No traceback, no template, exit 2."""
    done = run_app(out=tmp_path / "out")
    assert done.returncode == 2
    known = sorted(file.parent.name for file in (ROOT / "deploy_profiles").glob("*/environment.yaml"))
    assert {"dev", "staging", "prod"} <= set(known)
    assert done.stderr == f"loadproof: no environment chosen; add -c env=NAME, one of: {', '.join(known)}\n"
    assert not list((tmp_path / "out").glob("*.template.json"))


def test_synthesis_needs_neither_credentials_nor_network(tmp_path: Path) -> None:
    """With an empty environment and a dead proxy the chosen profile's stack, and only it, is written."""
    done = run_app(env="dev", profile="llama-3-1-8b", out=tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert [file.name for file in (tmp_path / "out").glob("*.template.json")] == [
        "loadproof-dev-llama-3-1-8b.template.json"
    ]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert not manifest.get("missing")
    assert "unknown-account" not in json.dumps(manifest)


def test_a_python_without_the_packages_says_what_to_do(tmp_path: Path) -> None:
    """An activated environment of somebody else's is respected, and told apart by exit 3 and one line."""
    venv.create(tmp_path / "other", with_pip=False)
    python = tmp_path / "other" / "bin" / "python"
    done = run_process([str(python), str(ROOT / "app.py")])
    assert done.returncode == 3
    assert done.stderr.startswith(f"loadproof: {python} (Python 3.")
    assert done.stderr.endswith("lacks what the stacks need; run `make setup` and leave other environments\n")


@pytest.mark.cdk
def test_the_real_cli_synthesizes(tmp_path: Path) -> None:
    """`cdk synth -c env=dev` through the pinned CLI writes both dev stacks, quickly and quietly."""
    cdk = ROOT / "node_modules" / ".bin" / "cdk"
    assert cdk.exists(), "the CDK CLI is not installed; run `make setup`"
    done = run_process(
        [str(cdk), "synth", "-q", "-c", "env=dev", "-o", str(tmp_path / "out"), "--no-notices"],
        cwd=ROOT,
        env={**os.environ, "CDK_DISABLE_CLI_TELEMETRY": "true"},
    )
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in (tmp_path / "out").glob("*.template.json")) == [
        "loadproof-dev-llama-3-1-8b.template.json",
        "loadproof-dev-qwen3-32b.template.json",
    ]
