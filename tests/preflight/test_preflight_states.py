"""States of an account in which a deployment fails or is not heard: each is found, and all is well without them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from account_states import BEDROCK_QUOTA, CHAT, ENDPOINT, REGION, World

from loadproof.preflight.rules import RULES, UNKNOWN

Change = Callable[[World], Any]
GROUP = f"/aws/sagemaker/Endpoints/{ENDPOINT}"


def nothing(world: World) -> None:
    """No change."""


def empty_bucket(world: World) -> None:
    for name in ("config.json", "model.safetensors"):
        world.client("s3").delete_object(Bucket=world.bucket, Key=f"llama/{name}")


def no_config(world: World) -> None:
    world.client("s3").delete_object(Bucket=world.bucket, Key="llama/config.json")


def denying_shards(world: World) -> None:
    shards = f"arn:aws:s3:::{world.bucket}/llama/*.safetensors"
    world.bucket_policy({"Effect": "Deny", "Principal": "*", "Action": "s3:Get*", "Resource": shards})


def only_config(world: World) -> None:
    """An upload that broke off, or git without its large files."""
    empty_bucket(world)
    for name in ("config.json", "tokenizer.model", "model.safetensors.index.json"):
        world.client("s3").put_object(Bucket=world.bucket, Key=f"llama/{name}", Body=b"{}")


def archived(world: World) -> None:
    """A lifecycle rule that meant old runs."""
    world.client("s3").put_object(
        Bucket=world.bucket, Key="llama/model.safetensors", Body=b"weights", StorageClass="GLACIER"
    )


def weights_elsewhere(world: World) -> None:
    """LMI's own file may name a model anywhere."""
    only_config(world)
    world.client("s3").put_object(Bucket=world.bucket, Key="llama/serving.properties", Body=b"option.model_id=a/b")


def no_bucket(world: World) -> None:
    world.profile(
        {
            **CHAT,
            "adapters": [],
            "model": {**CHAT["model"], "source": {"type": "s3", "s3_uri": "s3://nobodys-models/a/"}},
        }
    )


def bucket_elsewhere(world: World) -> None:
    name = f"far-{world.account}"
    s3 = world.client("s3", "eu-west-1")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for key in ("a/config.json", "a/model.safetensors"):
        s3.put_object(Bucket=name, Key=key, Body=b"weights")
    source = {"type": "s3", "s3_uri": f"s3://{name}/a/"}
    world.profile({**CHAT, "adapters": [], "model": {**CHAT["model"], "source": source}})


def denying_bucket(world: World) -> None:
    world.bucket_policy(
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{world.bucket}/llama/*",
        }
    )


def exempting_root(world: World) -> None:
    """Its roles are other principals."""
    root = world.root_statement()["Principal"]
    everything = [f"arn:aws:s3:::{world.bucket}", f"arn:aws:s3:::{world.bucket}/*"]
    world.bucket_policy({"Effect": "Deny", "NotPrincipal": root, "Action": "s3:*", "Resource": everything})


def key_for(world: World, role: str) -> None:
    world.key_policy(
        world.logs_statement(),
        {**world.root_statement(), "Principal": {"AWS": world.role(role, "sagemaker.amazonaws.com")}},
    )


def other_key(world: World) -> None:
    key = world.client("kms").create_key()["KeyMetadata"]["Arn"]
    world.client("s3").put_object(
        Bucket=world.bucket, Key="legal.tar.gz", Body=b"w", ServerSideEncryption="aws:kms", SSEKMSKeyId=key
    )


def other_key_of_a_shard(world: World) -> None:
    """The first object, config.json, has no key at all."""
    s3, key = world.client("s3"), world.client("kms").create_key()["KeyMetadata"]["Arn"]
    s3.put_object(Bucket=world.bucket, Key="llama/config.json", Body=b"{}")
    s3.put_object(
        Bucket=world.bucket, Key="llama/shard.safetensors", Body=b"w", ServerSideEncryption="aws:kms", SSEKMSKeyId=key
    )


def deaf_topic(world: World, key: str) -> None:
    world.client("sns").set_topic_attributes(
        TopicArn=world.topic_arn, AttributeName="KmsMasterKeyId", AttributeValue=key
    )


def no_subscription(world: World) -> None:
    sns = world.client("sns")
    for one in sns.list_subscriptions_by_topic(TopicArn=world.topic_arn)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])


def unconfirmed(world: World) -> None:
    no_subscription(world)
    world.client("sns").subscribe(TopicArn=world.topic_arn, Protocol="email", Endpoint="on-call@example.com")


def closed_topic(world: World) -> None:
    world.client("sns").set_topic_attributes(
        TopicArn=world.topic_arn, AttributeName="Policy", AttributeValue='{"Statement": []}'
    )


def small_subnets(world: World) -> None:
    """Each of /28 has 11 addresses: 22 are enough for 8 instances and no more for 12."""
    world.environment(network={**world.network, "subnet_ids": world.network["subnet_ids"][:1]})


def other_vpc(world: World) -> None:
    ec2 = world.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    world.environment(network={**world.network, "vpc_id": vpc})


def left_log_group(world: World) -> None:
    world.client("logs").create_log_group(logGroupName=GROUP)


def log_group_kept_for_ever(world: World) -> None:
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": GROUP}}
    world.stack(ENDPOINT, {"Logs": group}, "CREATE_COMPLETE")


def deletion_failed(world: World) -> None:
    """CloudFormation deletes no bucket that holds something."""
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": world.held_bucket}}
    world.stack(ENDPOINT, {"Bucket": bucket}, "CREATE_COMPLETE")
    world.client("s3").put_object(Bucket=world.held_bucket, Key="a", Body=b"a")
    world.client("cloudformation").delete_stack(StackName=ENDPOINT)
    world.reaches(ENDPOINT, "DELETE_FAILED")


def rolled_back(world: World) -> None:
    """A parameter of that name is there."""
    bad = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": "/cdk-bootstrap/hnb659fds/version", "Type": "String", "Value": "1"},
    }
    world.stack(ENDPOINT, {"Taken": bad}, "ROLLBACK_COMPLETE")


def machine(world: World) -> None:
    role = world.role("states", "states.amazonaws.com")
    world.client("stepfunctions").create_state_machine(
        name="loadproof-prod-reserved-weights",
        definition='{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}',
        roleArn=role,
    )


# state -> what is changed, the code, and what is said of it
STATES: dict[str, tuple[Change, str, str]] = {
    "endpoint quota of 0": (
        lambda w: w.quota("ml.g6e.2xlarge for endpoint usage", 0), "LA101", "the quota is 0; needed: 4 for",
    ),
    "endpoint quota below the most": (
        lambda w: w.quota("ml.g6e.2xlarge for endpoint usage", 3), "LA101", "the quota is 3; needed: 4 for",
    ),
    "another endpoint uses the quota": (
        lambda w: w.hosted("somebodys", "ml.g6e.2xlarge"), "LA101", "and 1 in use by somebodys",
    ),
    "no quota for the gate's job": (
        lambda w: w.quota("ml.c7i.2xlarge for processing job usage", 0), "LA101",
        "the quota is 0; needed: 2 for benchmark of chat",
    ),
    "a type that the region does not offer": (
        lambda w: w.benchmark(instance_type="ml.inf2.xlarge"), "LA102", "has no such quota; needed: 2 for",
    ),
    "no Bedrock quota": (
        lambda w: w.quota(BEDROCK_QUOTA, 0, "bedrock"),
        "LA103", "the quota is 0; needed: some tokens a minute",
    ),
    "reservation is missing": (
        lambda w: w.client("ssm").delete_parameter(Name="/loadproof/local-cloud/reservation/plan-1"), "LA111",
        "there is no such reservation",
    ),
    "reservation has expired": (lambda w: w.reserve(Status="Expired"), "LA111", "its status is Expired"),
    "reservation is over": (
        lambda w: w.reserve(EndTime=datetime(2026, 1, 1, tzinfo=UTC).isoformat()), "LA111", "it ended at 2026-01-01",
    ),
    "reservation is for training": (
        lambda w: w.reserve(TargetResources=["training-job"]), "LA111", "it is for training-job",
    ),
    "reservation is too small": (
        lambda w: w.reserve(TotalInstanceCount=1), "LA111", "it holds 1 instances; needed: 2 for",
    ),
    "reservation of another type": (
        lambda w: w.reserve(ReservedCapacitySummaries=[
            {"ReservedCapacityArn": f"arn:aws:sagemaker:{REGION}:{w.account}:reserved-capacity/abc",
             "InstanceType": "ml.p4d.24xlarge", "TotalInstanceCount": 2, "Status": "Active"}]),
        "LA111", "it holds ml.p4d.24xlarge; needed: ml.p5.48xlarge",
    ),
    "bucket is missing": (no_bucket, "LA121", "there is no bucket nobodys-models"),
    "bucket lies in another region": (bucket_elsewhere, "LA121", "the bucket lies in eu-west-1"),
    "weights are missing": (empty_bucket, "LA122", "nothing lies there; needed: weights of chat"),
    "config.json without weights": (
        only_config, "LA122", "without weights: config.json, model.safetensors.index.json, tokenizer.model; needed:",
    ),
    "weights without config.json": (no_config, "LA122", "without config.json: model.safetensors; needed: weights of"),
    "bucket's policy denies a kind of file": (denying_shards, "LA123", "denies s3:GetObject to roles of"),
    "adapter is missing": (
        lambda w: w.client("s3").delete_object(Bucket=w.bucket, Key="legal.tar.gz"), "LA122", "adapter legal of chat",
    ),
    "weights are archived": (archived, "LA126", "llama/model.safetensors lies in GLACIER"),
    "bucket's policy denies": (denying_bucket, "LA123", "denies s3:GetObject to roles of"),
    "bucket's policy exempts the root alone": (exempting_root, "LA123", "denies s3:GetObject and s3:ListBucket"),
    "weights under another key": (other_key, "LA124", "legal.tar.gz is encrypted with arn:aws:kms"),
    "a shard under another key": (other_key_of_a_shard, "LA124", "llama/shard.safetensors is encrypted with"),
    "token is missing": (
        lambda w: w.client("secretsmanager").delete_secret(SecretId="hub", ForceDeleteWithoutRecovery=True), "LA125",
        "there is no such secret",
    ),
    "token is being deleted": (
        lambda w: w.client("secretsmanager").delete_secret(SecretId="hub"), "LA125", "its deletion was asked for",
    ),
    "key is disabled": (lambda w: w.client("kms").disable_key(KeyId=w.key_id), "LA131", "its state is Disabled"),
    "key is being deleted": (
        lambda w: w.client("kms").schedule_key_deletion(KeyId=w.key_id), "LA131", "its state is PendingDeletion",
    ),
    "key's policy leaves roles out": (
        lambda w: w.key_policy(w.logs_statement()), "LA132", "its policy does not name the account",
    ),
    "key's policy leaves logs out": (
        lambda w: w.key_policy(w.root_statement()), "LA133", "its policy does not name logs.us-east-1.amazonaws.com",
    ),
    "a deletion failed": (deletion_failed, "LA141", "it is DELETE_FAILED"),
    "key's policy names other roles": (
        lambda w: key_for(w, "some"), "LA132", "its policy does not name the account",
    ),
    "key's policy names a role like ours": (
        lambda w: key_for(w, "loadproof-prod-chat-Role"), UNKNOWN, "has conditions or names roles",
    ),
    "a creation was rolled back": (rolled_back, "LA142", "it is ROLLBACK_COMPLETE"),
    "endpoint's name is taken": (
        lambda w: w.hosted(ENDPOINT, "ml.g5.2xlarge"), "LA143", f"endpoint {ENDPOINT} is there",
    ),
    "queue's name is taken": (
        lambda w: w.client("sqs").create_queue(QueueName=f"{ENDPOINT}-requests"), "LA143",
        f"queue {ENDPOINT}-requests is there",
    ),
    "dashboard's name is taken": (
        lambda w: w.client("cloudwatch").put_dashboard(DashboardName=ENDPOINT, DashboardBody='{"widgets": []}'),
        "LA143", f"dashboard {ENDPOINT} is there",
    ),
    "state machine's name is taken": (machine, "LA143", "state machine loadproof-prod-reserved-weights is there"),
    "log group was left behind": (left_log_group, "LA144", "log group is there (kept for ever)"),
    "log group is kept for ever": (log_group_kept_for_ever, "LA145", "kept for ever; needed: 30 days"),
    "subnet is missing": (
        lambda w: w.environment(network={**w.network, "subnet_ids": [*w.network["subnet_ids"], "subnet-00000000"]}),
        "LA151", "there is no such subnet",
    ),
    "parts of another VPC": (other_vpc, "LA151", "it belongs to vpc-"),
    "too few addresses": (small_subnets, "LA152", "11 addresses are free"),
    "image's tag is missing": (
        lambda w: w.benchmark(image=f"{w.account}.dkr.ecr.{REGION}.amazonaws.com/bench:2.0"),
        "LA161", "has no such image; needed: image of benchmark job",
    ),
    "image's repository is missing": (
        lambda w: w.benchmark(image=f"{w.account}.dkr.ecr.{REGION}.amazonaws.com/none:2.0"),
        "LA161", "has no repository none",
    ),
    "account is not bootstrapped": (
        lambda w: w.client("ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version"), "LA171",
        "there is no such parameter",
    ),
    "bootstrap is too old": (
        lambda w: w.parameter("/cdk-bootstrap/hnb659fds/version", "5"), "LA171", "its version is 5",
    ),
    "assets' bucket is gone": (
        lambda w: w.client("s3").delete_bucket(Bucket=f"cdk-hnb659fds-assets-{w.account}-{REGION}"), "LA172",
        "there is no such bucket",
    ),
    "alarms tell nobody": (
        lambda w: w.environment(alarm_topic_arn=None), "LA181", "has neither alarm_topic_arn nor alarm_emails",
    ),
    "topic is missing": (
        lambda w: w.client("sns").delete_topic(TopicArn=w.topic_arn), "LA182", "there is no such topic",
    ),
    "topic without subscription": (no_subscription, "LA183", "it has no subscription"),
    "subscription is not confirmed": (unconfirmed, "LA183", "none is confirmed; on-call@example.com did not answer"),
    "topic under AWS's own key": (
        lambda w: deaf_topic(w, "alias/aws/sns"), "LA185", "AWS's own key, whose policy names no CloudWatch",
    ),
    "topic's key leaves CloudWatch out": (
        lambda w: deaf_topic(w, w.client("kms").create_key()["KeyMetadata"]["Arn"]), "LA185",
        "does not let cloudwatch.amazonaws.com use it",
    ),
    "topic takes no alarms": (closed_topic, "LA184", "its policy lets no alarm publish"),
    "a right is missing": (
        lambda w: w.deny("servicequotas:ListServiceQuotas"), UNKNOWN,
        "the right servicequotas:ListServiceQuotas is missing",
    ),
    "an image of an account that lets nobody in": (
        lambda w: w.benchmark(image=f"999999999999.dkr.ecr.{REGION}.amazonaws.com/bench:1.0"),
        UNKNOWN, "the right ecr:BatchGetImage is missing",
    ),
}  # fmt: skip


def test_where_all_is_well_nothing_is_found(world: World) -> None:
    """Everything the environment needs is there."""
    seen = world.seen()
    assert [str(one) for one in seen.findings] == []
    assert seen.looked_at > 40


def test_a_file_that_may_name_weights_elsewhere_is_well(world: World) -> None:
    """LMI's serving.properties names a model; so may code."""
    weights_elsewhere(world)
    assert [str(one) for one in world.seen().findings] == []


def test_a_bucket_for_tls_alone_is_well(world: World) -> None:
    """The two statements that AWS's own guides give: nothing without TLS, and nothing below TLS 1.2."""
    everything = [f"arn:aws:s3:::{world.bucket}", f"arn:aws:s3:::{world.bucket}/*"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": everything}
    world.bucket_policy(
        {**deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {**deny, "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}},
    )
    assert [str(one) for one in world.seen().findings] == []


def test_weights_of_jumpstart_need_no_policy_to_be_read(world: World) -> None:
    """Nobody outside of AWS may read it, and it is open."""
    source = {"type": "jumpstart", "s3_uri": f"s3://{world.bucket}/llama/", "accept_eula": True}
    world.profile({**CHAT, "model": {**CHAT["model"], "source": source}, "adapters": []})
    denying_bucket(world)
    assert [str(one) for one in world.seen().findings] == []


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_found_and_nothing_else(world: World, state: str) -> None:
    """One change away from where all is well."""
    change, code, said = STATES[state]
    change(world)
    found = world.only(code)
    assert said in " ".join(map(str, found))
    assert all(one.mend for one in found)


def test_every_rule_has_a_state() -> None:
    """A rule that nothing shows may as well not be there."""
    assert {rule.code for rule in RULES} == {code for _, code, _ in STATES.values()}
