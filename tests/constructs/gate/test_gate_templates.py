"""Templates of benchmarks, gates and proofs: transitions, rights, what triggers a gate, what a job is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN, NETWORK, Synthesized, profile

from loadproof.constructs.benchmark.bundle import write_bundle
from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError
from loadproof.profiles import load_environment, load_profile, profile_hash
from loadproof.profiles.schema import BenchmarkJob, Environment
from loadproof.templates import check_template
from stacks.application import add_stacks

ROOT = Path(__file__).parents[3]
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/tools/bench:1.0"
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
WITH_BENCHMARKS = ENVIRONMENT.model_copy(update={"benchmark": BenchmarkJob(image=IMAGE)})
FULL = WITH_BENCHMARKS.model_copy(update={"kms_key_arn": KEY_ARN, "network": NETWORK, "alarm_topic_arn": TOPIC})
GATED = {"benchmark": {"gate": "rollback", "concurrency": [4], "hosts": 2}}


def stacks_of(
    folder: Path, changes: dict[str, Any], environment: Environment = WITH_BENCHMARKS
) -> tuple[Synthesized, Synthesized]:
    """(the benchmark's, the profile's)."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, [Deployment("test", environment, profile(folder, changes), file=folder / "chat.yaml")])
    assembly = app.synth()
    benchmark, chat = (Synthesized(stack.template) for stack in assembly.stacks)  # dependencies first
    return benchmark, chat


def machine(benchmark: Synthesized) -> dict[str, Any]:
    """The definition as CloudFormation gets it: text with places for names."""
    definition: dict[str, Any] = json.loads(benchmark.only("AWS::StepFunctions::StateMachine")["DefinitionString"])
    return definition


def targets(state: dict[str, Any]) -> set[str]:
    ways = [*state.get("Choices", []), *state.get("Catch", [])]
    return {way["Next"] for way in ways} | {state[name] for name in ("Next", "Default") if name in state}


@pytest.mark.parametrize("environment", [WITH_BENCHMARKS, FULL], ids=["smallest", "full"])
def test_every_transition_leads_somewhere_and_every_state_can_be_reached(
    tmp_path: Path, environment: Environment
) -> None:
    """No Next names a state that is not there, none is left over, and every place has its value."""
    benchmark, _ = stacks_of(tmp_path, GATED, environment)
    definition = machine(benchmark)
    states, reached, new = definition["States"], set[str](), {definition["StartAt"]}
    while new:
        reached |= new
        new = set().union(*(targets(states[name]) for name in new)) - reached
    assert reached == set(states)
    places = benchmark.only("AWS::StepFunctions::StateMachine")["DefinitionSubstitutions"]
    text = json.dumps(definition)
    assert all(f"${{{name}}}" in text for name in places)
    assert text.count("${") == sum(text.count(f"${{{name}}}") for name in places)


def test_every_failure_before_the_verdict_is_caught_and_no_result_replaces_the_input(tmp_path: Path) -> None:
    """A deployment that waits is answered whatever fails; ResultPath null survives synthesis (CDK drops nulls)."""
    benchmark, _ = stacks_of(tmp_path, GATED, FULL)
    states = machine(benchmark)["States"]
    for name in ("Prepare", "Run", "Judge", "Tell", "Notify"):
        assert [way["ErrorEquals"] for way in states[name]["Catch"]] == [["States.ALL"]]
    for name in ("Prepare", "Run", "Tell", "Notify", "Answer"):
        assert states[name]["ResultPath"] is None


def test_the_job_is_the_one_a_laptop_asks_for(tmp_path: Path) -> None:
    """The same request as `bench --remote` sends, with N instances, the environment's network and its key."""
    from loadproof.bench.remote.launchers import JobSettings, processing_job_request

    benchmark, _ = stacks_of(tmp_path, GATED, FULL)
    asked = machine(benchmark)["States"]["Run"]["Parameters"]
    settings = JobSettings(
        "name", "${JobRole}", IMAGE, "ml.c7i.2xlarge", NETWORK.subnet_ids, NETWORK.security_group_ids
    )
    wanted = processing_job_request(settings, 2, "s3://...", "us-east-1")
    cluster, wanted_cluster = (one["ProcessingResources"]["ClusterConfig"] for one in (asked, wanted))
    assert cluster.pop("InstanceCount.$") == "$.hosts"
    assert cluster.pop("VolumeKmsKeyId") == KEY_ARN
    assert cluster == {key: value for key, value in wanted_cluster.items() if key != "InstanceCount"}
    assert asked["AppSpecification"]["ContainerEntrypoint"] == wanted["AppSpecification"]["ContainerEntrypoint"]
    for name in ("NetworkConfig", "Environment", "RoleArn"):
        assert asked[name] == wanted[name]


def test_gate_is_asked_when_profile_configuration_or_model_changes(tmp_path: Path) -> None:
    """Its properties name all three, and nothing that changes otherwise; it waits an hour at most, after the proof."""
    _, chat = stacks_of(tmp_path, GATED)
    gate = chat.template["Resources"][next(n for n in chat.all("AWS::CloudFormation::CustomResource") if "Gate" in n)]
    properties = gate["Properties"]
    asked = json.loads(properties["Input"])
    assert asked["profile_sha256"] == profile_hash(profile(tmp_path, GATED))
    assert (asked["hosts"], asked["most_s"], asked["wait_s"]) == (2, 2880, 3480)
    assert properties["ServiceTimeout"] == 3600
    assert [next(iter(one)) for one in properties["ChangesWith"]] == ["Fn::GetAtt", "Fn::GetAtt"]
    assert set(properties) == {"ServiceToken", "ServiceTimeout", "Name", "Gate", "Accepts", "Input", "ChangesWith"}
    (proof,) = chat.all("AWS::CloudFormation::CustomResource", proof=True)
    assert proof in gate["DependsOn"]
    assert stacks_of(tmp_path, GATED)[1].template == chat.template  # the same again asks nobody


def test_gate_comes_after_scaling(tmp_path: Path) -> None:
    """A policy that is made while the load runs would change the copies under it."""
    scaling = {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0}]}
    _, chat = stacks_of(tmp_path, GATED | {"scaling": scaling})
    gate = next(
        body for name, body in chat.all("AWS::CloudFormation::CustomResource").items() if name.startswith("Gate")
    )
    assert chat.logical_id("AWS::ApplicationAutoScaling::ScalingPolicy") in gate["DependsOn"]


def policy(stack: Synthesized, prefix: str, *, proof: bool = False) -> list[dict[str, Any]]:
    (role,) = [body for name, body in stack.all("AWS::IAM::Role", proof=proof).items() if name.startswith(prefix)]
    (found,) = role["Properties"]["Policies"]
    statements: list[dict[str, Any]] = found["PolicyDocument"]["Statement"]
    return statements


def test_the_jobs_rights_whole(tmp_path: Path) -> None:
    """The environment's endpoints by prefix and tag, its own results, its logs, its image: nothing else."""
    benchmark, _ = stacks_of(tmp_path, GATED)
    bucket = {"Fn::GetAtt": [benchmark.logical_id("AWS::S3::Bucket"), "Arn"]}
    here = "us-east-1:123456789012"
    endpoints = [f"arn:aws:sagemaker:{here}:{kind}/loadproof-test-*" for kind in ("endpoint", "inference-component")]
    group = f"arn:aws:logs:{here}:log-group:/aws/sagemaker/ProcessingJobs"
    logs = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams"]
    asks = [
        "application-autoscaling:DescribeScalingActivities",
        "cloudwatch:GetMetricData",
        "sagemaker:ListInferenceComponents",
    ]
    ours = {"StringEquals": {"aws:ResourceTag/loadproof:environment": "test"}}
    pulls = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    rows: list[tuple[Any, Any, Any]] = [
        (["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"], endpoints, ours),
        (["sagemaker:DescribeEndpoint", "sagemaker:DescribeInferenceComponent"], endpoints, ours),
        ("sagemaker:DescribeEndpointConfig", f"arn:aws:sagemaker:{here}:endpoint-config/*", ours),
        (asks, "*", None),
        (["s3:GetObject", "s3:PutObject"], {"Fn::Join": ["", [bucket, "/runs/*"]]}, None),
        ("s3:ListBucket", bucket, {"StringLike": {"s3:prefix": "runs/*"}}),
        (logs, f"{group}:*", None),
        ("logs:PutLogEvents", f"{group}:log-stream:loadproof-9f86d081-*", None),
        ("ecr:GetAuthorizationToken", "*", None),
        (pulls, f"arn:aws:ecr:{here}:repository/tools/bench", None),
    ]
    assert policy(benchmark, "JobRole") == [
        {"Effect": "Allow", "Action": action, "Resource": on} | ({"Condition": when} if when else {})
        for action, on, when in rows
    ]


def test_gate_and_proof_may_start_one_machine_and_look_at_their_own(tmp_path: Path) -> None:
    """Whole policies, but for their functions' own logs."""
    _, chat = stacks_of(tmp_path, GATED)
    here = "us-east-1:123456789012"
    stack = {
        "Effect": "Allow",
        "Action": "cloudformation:DescribeStacks",
        "Resource": f"arn:aws:cloudformation:{here}:stack/loadproof-test-chat/*",
    }
    start = {
        "Effect": "Allow",
        "Action": "states:StartExecution",
        "Resource": f"arn:aws:states:{here}:stateMachine:loadproof-test-benchmark",
    }
    looks = [
        {"Effect": "Allow", "Action": f"sagemaker:Describe{action}", "Resource": f"arn:aws:sagemaker:{here}:{name}"}
        for action, name in (
            ("Endpoint", "endpoint/loadproof-test-chat"),
            ("InferenceComponent", "inference-component/loadproof-test-chat-main"),
        )
    ]
    assert policy(chat, "Gate")[:-1] == [start, stack]
    asks = {
        "Effect": "Allow",
        "Action": "sagemaker:InvokeEndpoint",
        "Resource": [look["Resource"] for look in looks],
    }
    assert policy(chat, "Proof", proof=True)[:-1] == [*looks, stack, asks]


@pytest.mark.parametrize("environment", [WITH_BENCHMARKS, FULL], ids=["smallest", "full"])
def test_our_own_rules_find_nothing_that_is_not_acknowledged(tmp_path: Path, environment: Environment) -> None:
    """Of errors; an environment without a key is warned of as everywhere."""
    for stack in stacks_of(tmp_path, GATED, environment):
        found = check_template(stack.template, {})
        assert [str(one) for one in found if one.stops and one.code not in ("LS005", "LS006")] == []


def test_a_schedule_keeps_its_time_zone_and_starts_the_same_machine(tmp_path: Path) -> None:
    """EventBridge Scheduler, by a role of its own."""
    changes = {"benchmark": {"schedule": "cron(0 3 ? * SUN *)", "timezone": "Europe/Berlin", "concurrency": [4]}}
    _, chat = stacks_of(tmp_path, changes)
    schedule = chat.only("AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "cron(0 3 ? * SUN *)"
    assert schedule["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert schedule["Target"]["Arn"].endswith(":stateMachine:loadproof-test-benchmark")
    assert json.loads(schedule["Target"]["Input"])["most_s"] == 86400
    assert not [name for name in chat.template["Resources"] if name.startswith("Gate")]


@pytest.mark.parametrize("environment", [WITH_BENCHMARKS, FULL], ids=["smallest", "full"])
def test_an_encrypted_schedule_can_be_read_by_its_role(tmp_path: Path, environment: Environment) -> None:
    """Scheduler decrypts the input with the schedule's own role; without a key the role only starts the machine."""
    changes = {"benchmark": {"schedule": "cron(0 3 ? * SUN *)", "concurrency": [4]}}
    _, chat = stacks_of(tmp_path, changes, environment)
    schedule = chat.only("AWS::Scheduler::Schedule")
    role = chat.template["Resources"][schedule["Target"]["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    rights = {statement["Action"]: statement["Resource"] for statement in statements}
    key = {"kms:Decrypt": schedule["KmsKeyArn"]} if environment.kms_key_arn else {}
    assert rights == {"states:StartExecution": schedule["Target"]["Arn"], **key}


def test_a_gate_without_a_benchmark_in_the_cloud_is_refused(tmp_path: Path) -> None:
    """Also where the profile was not checked beside its environment."""
    with pytest.raises(InputError, match="gate and schedule need `benchmark:`"):
        stacks_of(tmp_path, GATED, ENVIRONMENT)


def test_a_gate_that_no_deployment_can_wait_for_is_refused(tmp_path: Path) -> None:
    """LP269, as `loadproof check` says it."""
    with pytest.raises(InputError, match=r"LP269 benchmark\.gate: the benchmark is predicted to take"):
        stacks_of(tmp_path, {"benchmark": GATED["benchmark"] | {"duration_s": 3000}})


EXAMPLES = sorted(
    file
    for file in [*(ROOT / "deploy_profiles").glob("*/*.yaml"), *(ROOT / "tests" / "profiles" / "good").glob("*.yaml")]
    if file.name != "environment.yaml" and (file.parent / "environment.yaml").exists()
)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_bundle_holds_the_very_profile(file: Path, tmp_path: Path) -> None:
    """Read again from its bundle, every example is the profile that was deployed: the same hash."""
    from loadproof.profiles import check_file

    known = check_file(file).profile
    assert known is not None
    write_bundle(Deployment("test", load_environment(file.parent), known, file=file), tmp_path)
    manifest = json.loads((tmp_path / "bundle.json").read_text())
    again = load_profile(tmp_path / manifest["profile"])
    assert profile_hash(again) == manifest["profile_sha256"] == profile_hash(known)


def test_the_bundle_holds_every_part_of_a_trace(tmp_path: Path) -> None:
    """A folder; one of whose files leads outside is refused."""
    home = tmp_path / "deploy_profiles" / "test"
    (home / "monday").mkdir(parents=True)
    for part in "ab":
        (home / "monday" / f"{part}.csv").write_text(part)
    arrivals = {"arrivals": {"process": "trace", "trace": "monday"}}
    made = Deployment("test", WITH_BENCHMARKS, profile(home, {"workload": arrivals}), file=home / "chat.yaml")
    write_bundle(made, tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "bundle.json").read_text())
    copied = (tmp_path / "bundle" / manifest["profile"]).parent / "monday"
    assert {one.name: one.read_text() for one in copied.iterdir()} == {"a.csv": "a", "b.csv": "b"}
    (tmp_path / "secrets.csv").write_text("c")
    (home / "monday" / "c.csv").symlink_to(tmp_path / "secrets.csv")
    with pytest.raises(InputError, match="lies outside deploy_profiles/"):
        write_bundle(made, tmp_path / "again")


def test_the_bundle_holds_the_files_that_the_profile_names(tmp_path: Path) -> None:
    """At their places, seen from the profile; one that lies outside is refused."""
    home = tmp_path / "deploy_profiles" / "test"
    home.mkdir(parents=True)
    (home.parent / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    workload = {"dataset": "../prompts.jsonl"}
    made = Deployment("test", WITH_BENCHMARKS, profile(home, {"workload": workload}), file=home / "chat.yaml")
    write_bundle(made, tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "bundle.json").read_text())
    copied = (tmp_path / "bundle" / manifest["profile"]).parent / "../prompts.jsonl"
    assert copied.read_text() == '{"prompt": "hello"}\n'
    (tmp_path / "secrets.jsonl").write_text("{}\n")
    outside = profile(home, {"workload": {"dataset": "../../secrets.jsonl"}})
    with pytest.raises(InputError, match="lies outside deploy_profiles/"):
        write_bundle(Deployment("test", WITH_BENCHMARKS, outside, file=home / "chat.yaml"), tmp_path / "other")
