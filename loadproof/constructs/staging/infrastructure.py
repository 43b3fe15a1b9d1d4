"""Weights of the hub in S3: a bucket, a state machine that fills it, and what CloudFormation waits for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import CfnResource
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.results_bucket import private_bucket
from loadproof.constructs.cdk.statements import Statement, allow, document, trust, use_of_key
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.staging.machine import definition
from loadproof.profiles import is_staged
from loadproof.profiles.schema import Component, HubSource

RUNTIME: Final = Path(__file__).parent / "runtime"

_WAIT_S: Final = 3600  # the longest a custom resource may take
_MEMORY_MIB: Final = 1769  # one whole processor: checksums and four streams


def staged_weights(scope: Construct, deployment: Deployment) -> StagedWeights | None:
    """The weights that a profile takes from a hub; None where all are in S3 already."""
    staged = any(is_staged(component.model, deployment.profile) for component in deployment.components)
    return StagedWeights(scope, "Weights", deployment=deployment) if staged else None


class StagedWeights(Construct):
    """Every repository of the hub that the profile's components are staged from, each once.

    The functions run outside the VPC: they reach the hub, S3 and CloudFormation, and nothing of the account's network.
    """

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        staged = [component for component in deployment.components if is_staged(component.model, deployment.profile)]
        key_arn = deployment.environment.kms_key_arn
        key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None
        # Goes with the stack: each staged resource takes its files away first, and the hub still has them.
        self.bucket = private_bucket(self, "Bucket", key=key, kept=False)
        secrets = sorted({arn for component in staged if (arn := _source(component).token_secret_arn)})
        fetch = PythonFunction(
            self,
            "Fetch",
            environment=deployment.environment,
            description=f"Copies weights of {deployment.endpoint_name} from the hub into S3",
            program=Program(RUNTIME, handler="fetch.handler", memory_mib=_MEMORY_MIB),
            statements=self._fetch_statements(secrets),
        )
        name = f"{deployment.endpoint_name}-weights"
        machine_arn = deployment.arn("states", f"stateMachine:{name}")
        begin = PythonFunction(
            self,
            "Begin",
            environment=deployment.environment,
            description=f"Begins and answers for the staging of {deployment.endpoint_name}",
            # By name: the machine calls this function, so neither can wait for the other.
            program=Program(RUNTIME, handler="begin.handler", variables={"MACHINE_ARN": machine_arn}),
            statements=self._begin_statements(name, machine_arn),
        )
        self._machine = stepfunctions.CfnStateMachine(
            self,
            "Machine",
            state_machine_name=name,
            role_arn=self._machine_role(fetch, begin),
            definition_string=definition(),
            definition_substitutions={"Fetch": fetch.arn, "Begin": begin.arn},
        )
        made = {_prefix(component): self._resource(component, begin.arn) for component in staged}
        self.uris: Mapping[str, str] = {
            component.name: made[_prefix(component)].get_att("S3Uri").to_string() for component in staged
        }

    def place(self, component: Component) -> str:
        """`bucket/prefix/` of a component's weights."""
        return f"{self.bucket.bucket_name}/{_prefix(component)}"

    def _resource(self, component: Component, begin_arn: str) -> CfnResource:
        """Its logical id names the commit: another one is another resource, and the old weights go after the move."""
        prefix, source = _prefix(component), _source(component)
        digest = hashlib.sha256(prefix.encode()).hexdigest()[:12]
        properties = {
            "hub": self._deployment.environment.hub_url,
            "repository": component.model.id,
            "revision": source.revision,
            "code": str(component.model.trust_remote_code).lower(),
            "bucket": self.bucket.bucket_name,
            "prefix": prefix,
        }
        if source.token_secret_arn is not None:
            properties["secret"] = source.token_secret_arn
        resource = custom_resource(
            self, f"Staged{digest}", function_arn=begin_arn, timeout_s=_WAIT_S, properties=properties
        )
        resource.add_resource_dependency(self._machine)
        return resource

    def _fetch_statements(self, secrets: list[str]) -> list[Statement]:
        files = f"{self.bucket.bucket_arn}/models/*"
        statements = [
            allow(
                "s3:DeleteObject",
                "s3:GetObject",
                "s3:ListMultipartUploadParts",
                "s3:PutObject",
                on=files,
            ),
            allow("s3:ListBucket", "s3:ListBucketMultipartUploads", on=self.bucket.bucket_arn),
        ]
        if secrets:
            statements.append(allow("secretsmanager:GetSecretValue", on=secrets))
        statements += use_of_key(self._deployment.environment, "lambda", "s3", "secretsmanager")
        return statements

    def _begin_statements(self, name: str, machine_arn: str) -> list[Statement]:
        executions = self._deployment.arn("states", f"execution:{name}:*")
        return [
            allow("states:ListExecutions", "states:StartExecution", on=machine_arn),
            allow("states:DescribeExecution", "states:StopExecution", on=executions),
            allow("s3:AbortMultipartUpload", "s3:DeleteObject", on=f"{self.bucket.bucket_arn}/models/*"),
            allow("s3:ListBucket", "s3:ListBucketMultipartUploads", on=self.bucket.bucket_arn),
        ]

    def _machine_role(self, *functions: PythonFunction) -> str:
        rights = allow("lambda:InvokeFunction", on=[function.arn for function in functions])
        role = iam.CfnRole(
            self,
            "MachineRole",
            description=f"Stages weights of {self._deployment.endpoint_name}",
            assume_role_policy_document=trust(
                "states.amazonaws.com",
                when={"StringEquals": {"aws:SourceAccount": self._deployment.environment.account}},
            ),
            policies=[iam.CfnRole.PolicyProperty(policy_name="machine", policy_document=document(rights))],
        )
        return role.attr_arn


def _source(component: Component) -> HubSource:
    source = component.model.source
    assert isinstance(source, HubSource)  # is_staged says so
    return source


def _prefix(component: Component) -> str:
    return f"models/{component.model.id}/{_source(component).revision}/"
