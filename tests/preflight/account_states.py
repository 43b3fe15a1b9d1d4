"""An account where all is well for one environment, and the ways in which it is not, each one change away."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.config import Config

from loadproof.localcloud.account.denials import PARAMETER as DENIED
from loadproof.localcloud.account.reservations import PARAMETER as RESERVATION
from loadproof.localcloud.local import LocalCloud
from loadproof.preflight.collect import Deployments
from loadproof.preflight.inspection import Preflight, preflight
from loadproof.preflight.rules import Finding
from loadproof.profiles import load_environment, load_profile, profile_files

REGION = "us-east-1"
SESSION = boto3.session.Session()  # its service models are read once for all accounts
ENDPOINT = "loadproof-prod-chat"
BEDROCK_QUOTA = "On-demand model inference tokens per minute for Meta Llama 3.1 8B Instruct"
CHAT = {
    "name": "chat",
    "model": {
        "id": "meta-llama/Llama-3.1-8B-Instruct",
        "source": {"type": "s3", "s3_uri": "s3://BUCKET/llama/", "accept_eula": True},
    },
    "container": {"family": "lmi", "settings": {"max_model_len": 8192, "enable_lora": True}},
    "adapters": [{"name": "legal", "s3_uri": "s3://BUCKET/legal.tar.gz"}],
    "endpoint": {"instance_type": "ml.g6e.2xlarge", "min_instances": 1, "max_instances": 4},
    "copies": {"min": 1, "max": 4},
    "buffer": {},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 256, "output_tokens": 64},
    "benchmark": {"gate": "alarm", "hosts": 2},
}
RESERVED = {
    "name": "reserved",
    "model": {
        "id": "meta-llama/Llama-3.1-8B-Instruct",
        "source": {"type": "hub", "revision": "a" * 40, "token_secret_arn": "SECRET"},
    },
    "container": {"family": "lmi", "settings": {"max_model_len": 8192}},
    "endpoint": {
        "instance_type": "ml.p5.48xlarge",
        "max_instances": 2,
        "capacity_reservation": {"arn": "arn:aws:sagemaker:us-east-1:ACCOUNT:training-plan/plan-1"},
    },
    "copies": {"min": 1, "max": 2},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}
BEDROCK = {
    "name": "hosted",
    "backend": "bedrock",
    "model": {"id": "meta.llama3-1-8b-instruct-v1:0"},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}


@dataclass(slots=True)
class Aws:
    """boto3 clients of one local cloud, each made once; and the VPC, which no test changes."""

    cloud: LocalCloud
    network: dict[str, Any] = field(default_factory=dict)
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str, region: str = REGION) -> Any:
        name = f"{service} {region}"
        if name not in self._clients:
            self._clients[name] = SESSION.client(
                service,
                region_name=region,
                endpoint_url=self.cloud.endpoint_url,
                aws_access_key_id=self.cloud.state.access_key,
                aws_secret_access_key=self.cloud.state.secret_key,
                config=Config(
                    retries={"total_max_attempts": 1},
                    proxies={},
                    s3={"addressing_style": "path"},
                    max_pool_connections=32,
                    read_timeout=30,
                ),
            )
        return self._clients[name]


@dataclass(slots=True)
class World:
    """The account, and the folder of the environment that is about to be deployed there."""

    aws: Aws
    folder: Path
    key_arn: str = ""
    topic_arn: str = ""
    secret_arn: str = ""

    @classmethod
    def made(cls, aws: Aws, root: Path) -> World:
        """All is well, whatever was changed before."""
        world = cls(aws, root / "prod")
        world._clear()
        world._bootstrap()
        world._network()
        world._key_and_topic()
        world._weights()
        world._images_and_quotas()
        world.reserve()
        world._environment()
        return world

    def client(self, service: str, region: str = REGION) -> Any:
        return self.aws.client(service, region)

    @property
    def account(self) -> str:
        return self.aws.cloud.account

    @property
    def network(self) -> dict[str, Any]:
        return self.aws.network

    @property
    def key_id(self) -> str:
        return self.key_arn.rpartition("/")[2]

    @property
    def held_bucket(self) -> str:
        """A stack's, when a test makes one."""
        return f"held-{self.account}"

    @property
    def bucket(self) -> str:
        return f"models-{self.account}"

    def seen(self) -> Preflight:
        """Preflight of the whole environment."""
        profiles = tuple(load_profile(file) for file in profile_files(self.folder.parent, "prod"))
        environment = load_environment(self.folder)
        return preflight(Deployments("prod", environment, profiles, "hnb659fds"), self.client, timeout_s=300)

    def only(self, code: str) -> list[Finding]:
        """The findings; every one must be of that code."""
        found = self.seen().findings
        assert {one.code for one in found} == {code}, "\n".join(map(str, found))
        return list(found)

    # What is changed

    def profile(self, content: Mapping[str, Any]) -> None:
        """A profile beside the environment, with this account's names in it."""
        text = yaml.safe_dump(dict(content), sort_keys=False)
        for word, value in (("BUCKET", self.bucket), ("ACCOUNT", self.account), ("SECRET", self.secret_arn)):
            text = text.replace(word, value)
        (self.folder / f"{content['name']}.yaml").write_text(text, encoding="utf-8")

    def environment(self, **changed: Any) -> None:
        """Keys of environment.yaml; None takes one out."""
        file = self.folder / "environment.yaml"
        content = {**yaml.safe_load(file.read_text(encoding="utf-8")), **changed}
        kept = {name: value for name, value in content.items() if value is not None}
        file.write_text(yaml.safe_dump(kept), encoding="utf-8")

    def benchmark(self, **changed: Any) -> None:
        image = f"{self.account}.dkr.ecr.{REGION}.amazonaws.com/bench:1.0"
        self.environment(benchmark={"image": image, **changed})

    def quota(self, name: str, value: float, service: str = "sagemaker") -> None:
        quotas = self.client("service-quotas")
        pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode=service)
        code = next(one["QuotaCode"] for page in pages for one in page["Quotas"] if one["QuotaName"] == name)
        quotas.request_service_quota_increase(ServiceCode=service, QuotaCode=code, DesiredValue=value)

    def parameter(self, name: str, value: str) -> None:
        self.client("ssm").put_parameter(Name=name, Value=value, Type="String", Overwrite=True)

    def reserve(self, **changed: Any) -> None:
        told = {
            "Status": "Active",
            "EndTime": (datetime.now(UTC) + timedelta(days=9)).isoformat(),
            "TotalInstanceCount": 2,
            "TargetResources": ["endpoint"],
            "ReservedCapacitySummaries": [
                {
                    "ReservedCapacityArn": f"arn:aws:sagemaker:{REGION}:{self.account}:reserved-capacity/abc",
                    "InstanceType": "ml.p5.48xlarge",
                    "TotalInstanceCount": 2,
                    "Status": "Active",
                }
            ],
        }
        self.parameter(f"{RESERVATION}plan-1", json.dumps({**told, **changed}))

    def bucket_policy(self, *statements: Mapping[str, Any]) -> None:
        policy = {"Version": "2012-10-17", "Statement": [*statements]}
        self.client("s3").put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(policy))

    def key_policy(self, *statements: Mapping[str, Any]) -> None:
        """Also one that lets nobody put the next."""
        policy = json.dumps({"Version": "2012-10-17", "Statement": [*statements]})
        self.client("kms").put_key_policy(
            KeyId=self.key_arn, PolicyName="default", Policy=policy, BypassPolicyLockoutSafetyCheck=True
        )

    def root_statement(self) -> dict[str, Any]:
        principal = {"AWS": f"arn:aws:iam::{self.account}:root"}
        return {"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*"}

    def logs_statement(self) -> dict[str, Any]:
        groups = f"arn:aws:logs:{REGION}:{self.account}:*"
        return {
            "Effect": "Allow",
            "Principal": {"Service": f"logs.{REGION}.amazonaws.com"},
            "Action": ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            "Resource": "*",
            "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        }

    def stack(self, name: str, resources: Mapping[str, Any], status: str) -> None:
        """A stack of that name, waited for until it has that status."""
        formation = self.client("cloudformation")
        formation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
        self.reaches(name, status)

    def reaches(self, stack: str, status: str) -> None:
        """Wait until a stack has that status."""
        describe = self.client("cloudformation").describe_stacks
        _until(lambda: describe(StackName=stack)["Stacks"][0]["StackStatus"] == status)

    def hosted(self, endpoint: str, instance_type: str, instances: int = 1) -> None:
        """An endpoint that somebody made by hand."""
        sagemaker, role = self.client("sagemaker"), self.role("by-hand", "sagemaker.amazonaws.com")
        variant = {
            "VariantName": "AllTraffic",
            "InstanceType": instance_type,
            "InitialInstanceCount": instances,
            "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": instances},
        }
        sagemaker.create_endpoint_config(
            EndpointConfigName=endpoint, ProductionVariants=[variant], ExecutionRoleArn=role
        )
        sagemaker.create_endpoint(EndpointName=endpoint, EndpointConfigName=endpoint)
        _until(lambda: sagemaker.describe_endpoint(EndpointName=endpoint)["EndpointStatus"] == "InService")

    def role(self, name: str, service: str) -> str:
        """A role that the service may take, made once."""
        iam = self.client("iam")
        trusted = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [trusted]})
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)
        return str(iam.get_role(RoleName=name)["Role"]["Arn"])

    def deny(self, *actions: str) -> None:
        self.parameter(DENIED, ",".join(actions))

    # What is there from the beginning

    def _clear(self) -> None:
        """What tests made beside."""
        s3 = self.client("s3")
        if self.held_bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
            s3.delete_object(Bucket=self.held_bucket, Key="a")
        formation, sagemaker = self.client("cloudformation"), self.client("sagemaker")
        for stack in formation.describe_stacks()["Stacks"]:
            formation.delete_stack(StackName=stack["StackId"])
            self.reaches(stack["StackId"], "DELETE_COMPLETE")
        for one in sagemaker.list_endpoints()["Endpoints"]:
            sagemaker.delete_endpoint(EndpointName=one["EndpointName"])
            sagemaker.delete_endpoint_config(EndpointConfigName=one["EndpointName"])
        _until(lambda: not sagemaker.list_endpoints()["Endpoints"])
        sqs, dashboards = self.client("sqs"), self.client("cloudwatch")
        for url in sqs.list_queues().get("QueueUrls", []):
            sqs.delete_queue(QueueUrl=url)
        for one in dashboards.list_dashboards()["DashboardEntries"]:
            dashboards.delete_dashboards(DashboardNames=[one["DashboardName"]])
        for one in self.client("stepfunctions").list_state_machines()["stateMachines"]:
            self.client("stepfunctions").delete_state_machine(stateMachineArn=one["stateMachineArn"])
        for one in self.client("logs").describe_log_groups()["logGroups"]:
            self.client("logs").delete_log_group(logGroupName=one["logGroupName"])
        self.client("ssm").delete_parameters(Names=[DENIED])

    def _bootstrap(self) -> None:
        self.parameter("/cdk-bootstrap/hnb659fds/version", "27")
        self.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{self.account}-{REGION}")

    def _network(self) -> None:
        if self.network:
            return
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{at}.0/28")["Subnet"]["SubnetId"] for at in range(2)]
        group = ec2.create_security_group(VpcId=vpc, GroupName="models", Description="models")["GroupId"]
        self.network.update(vpc_id=vpc, subnet_ids=subnets, security_group_ids=[group])

    def _key_and_topic(self) -> None:
        self.key_arn = self.client("kms").create_key()["KeyMetadata"]["Arn"]
        self.key_policy(self.root_statement(), self.logs_statement())
        sns = self.client("sns")
        for topic in sns.list_topics()["Topics"]:
            sns.delete_topic(TopicArn=topic["TopicArn"])
        self.topic_arn = sns.create_topic(Name="alarms")["TopicArn"]
        queue = f"arn:aws:sqs:{REGION}:{self.account}:on-call"
        sns.subscribe(TopicArn=self.topic_arn, Protocol="sqs", Endpoint=queue)

    def _weights(self) -> None:
        s3, secrets = self.client("s3"), self.client("secretsmanager")
        s3.create_bucket(Bucket=self.bucket)
        s3.delete_bucket_policy(Bucket=self.bucket)
        for one in s3.list_objects_v2(Bucket=self.bucket).get("Contents", []):
            s3.delete_object(Bucket=self.bucket, Key=one["Key"])
        encrypted = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.key_arn}
        for name in ("llama/config.json", "llama/model.safetensors", "legal.tar.gz"):
            s3.put_object(Bucket=self.bucket, Key=name, Body=b"weights", **encrypted)
        secrets.delete_secret(SecretId="hub", ForceDeleteWithoutRecovery=True)
        self.secret_arn = secrets.create_secret(Name="hub", SecretString="hf_example")["ARN"]

    def _images_and_quotas(self) -> None:
        ecr = self.client("ecr")
        if not ecr.describe_repositories()["repositories"]:
            ecr.create_repository(repositoryName="bench")
            manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}
            ecr.put_image(repositoryName="bench", imageManifest=json.dumps(manifest), imageTag="1.0")
        self.quota("ml.g6e.2xlarge for endpoint usage", 4)
        self.quota("ml.c7i.2xlarge for processing job usage", 2)
        self.quota(BEDROCK_QUOTA, 300_000, "bedrock")

    def _environment(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "environment.yaml").write_text("{}", encoding="utf-8")
        self.environment(
            account=self.account,
            region=REGION,
            network=self.network,
            kms_key_arn=self.key_arn,
            alarm_topic_arn=self.topic_arn,
            log_retention_days=30,
        )
        self.benchmark()
        for content in (CHAT, RESERVED, BEDROCK):
            self.profile(content)


def _until(done: Callable[[], bool]) -> None:
    """Ask until it is so, ten seconds at most."""
    end = datetime.now(UTC) + timedelta(seconds=10)
    while not done():
        assert datetime.now(UTC) < end, "it never came"
