"""Templates deployed to a local cloud as the CDK CLI does it, without the CLI: assets to S3, then CloudFormation."""

from __future__ import annotations

import contextlib
import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from cloud_clients import boto3_client
from stacks_support import ENVIRONMENT, FEATURE_FLAGS

from loadproof.constructs.deployment import Deployment
from loadproof.localcloud.local import LocalCloud, running
from loadproof.profiles.schema import Environment, Profile
from stacks.application import add_stacks

_ENDED = ("_COMPLETE", "_FAILED")
_MOST_BODY = 51_200  # bytes of a TemplateBody


@dataclass(frozen=True, slots=True)
class Cloud:
    """One local cloud, bootstrapped as far as our templates look."""

    local: LocalCloud
    region: str = ENVIRONMENT.region
    _clients: dict[str, Any] = field(default_factory=dict)

    def of(self, region: str) -> Cloud:
        """The same cloud's services in another region."""
        return self if region == self.region else Cloud(self.local, region)

    def client(self, service: str) -> Any:
        """A boto3 client of this cloud; making one costs more than most of what it is asked."""
        if service not in self._clients:
            self._clients[service] = boto3_client(self.local, service, self.region, s3={"addressing_style": "path"})
        return self._clients[service]

    def deploy(self, chosen: Profile, environment: Environment = ENVIRONMENT, *, scaling_paused: bool = False) -> str:
        """Create or update the profile's stack; returns its status when it has ended."""
        return self.apply(f"loadproof-test-{chosen.name}", self.template(chosen, environment, scaling_paused))

    def template(
        self, chosen: Profile, environment: Environment = ENVIRONMENT, scaling_paused: bool = False
    ) -> dict[str, Any]:
        """The profile's template, with its assets where it looks for them."""
        app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
        deployment = Deployment("test", environment, chosen, scaling_paused)
        self._make_buckets(chosen)
        add_stacks(app, [deployment])
        assembly = app.synth()
        self.upload(Path(assembly.directory), deployment.stack_name)
        template: dict[str, Any] = assembly.get_stack_by_name(deployment.stack_name).template
        return template

    def _make_buckets(self, chosen: Profile) -> None:
        """Those that an asynchronous endpoint's callers have: the proof puts a request there."""
        wanted = chosen.endpoint.async_inference if chosen.endpoint else None
        for uri in (wanted.input_s3_uri, wanted.output_s3_uri) if wanted else ():
            self._make_bucket(uri.removeprefix("s3://").partition("/")[0])

    def _make_bucket(self, name: str) -> None:
        elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        with contextlib.suppress(self.client("s3").exceptions.BucketAlreadyOwnedByYou):
            self.client("s3").create_bucket(Bucket=name, **(elsewhere if self.region != "us-east-1" else {}))

    def apply(self, name: str, template: dict[str, Any]) -> str:
        """Create or update a stack; returns its status when it has ended."""
        cfn, body = self.client("cloudformation"), json.dumps(template)
        exists = name in [stack["StackName"] for stack in cfn.describe_stacks()["Stacks"]]
        call = cfn.update_stack if exists else cfn.create_stack
        given = {"TemplateBody": body} if len(body) <= _MOST_BODY else {"TemplateURL": self._put(name, body)}
        call(StackName=name, **given, Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"])
        return self.ended(name)

    def _put(self, name: str, body: str) -> str:
        """Where CloudFormation finds a template that is too large for a request, as the CDK CLI sends them all."""
        s3 = self.client("s3")
        self._make_bucket("templates")
        s3.put_object(Bucket="templates", Key=f"{name}.json", Body=body.encode())
        return f"https://templates.s3.amazonaws.com/{name}.json"

    def destroy(self, name: str) -> str:
        """Delete a stack; returns its last status."""
        cfn = self.client("cloudformation")
        arn = cfn.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        cfn.delete_stack(StackName=name)
        return self.ended(arn)

    def ended(self, name: str) -> str:
        """The status of a stack when its operation is over."""
        cfn, patience = self.client("cloudformation"), time.monotonic() + 240
        while time.monotonic() < patience:
            status = str(cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
            if status.endswith(_ENDED) and "_IN_PROGRESS" not in status:
                return status
            time.sleep(0.15)  # each look costs both sides some milliseconds of the processor
        raise AssertionError(f"{name} goes on and on: {self.reasons(name)}")

    def reasons(self, name: str) -> list[str]:
        """What failed in a stack, newest first."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        return [
            f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in events
            if event["ResourceStatus"].endswith("_FAILED") and "ResourceStatusReason" in event
        ]

    def upload(self, assembly: Path, stack_name: str) -> None:
        """The file assets of a stack, where its template looks for them."""
        s3 = self.client("s3")
        manifest = json.loads((assembly / f"{stack_name}.assets.json").read_text(encoding="utf-8"))
        for asset in manifest["files"].values():
            source = assembly / asset["source"]["path"]
            content = source.read_bytes() if source.is_file() else _zipped(source)
            for place in asset["destinations"].values():
                self._make_bucket(place["bucketName"])
                s3.put_object(Bucket=place["bucketName"], Key=place["objectKey"], Body=content)


@contextmanager
def local_cloud(folder: Path, name: str, speed: float = 1) -> Iterator[Cloud]:
    """A local cloud of its own, its clock `speed` times the wall's, with the parameter that CDK's templates read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(folder))
        with running(name, transition_s=0.05, speed=speed) as local:
            cloud = Cloud(local)
            for region in ("us-east-1", "eu-central-1"):
                cloud.of(region).client("ssm").put_parameter(
                    Name="/cdk-bootstrap/hnb659fds/version", Value="27", Type="String"
                )
            yield cloud


def _zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return packed.getvalue()
