"""The consumer in the cloud: the function that empties the queue, its exact rights, and its event source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.catalog import layer_arn
from loadproof.profiles import protocol_of
from loadproof.profiles.schema import Buffer as BufferSettings
from loadproof.profiles.schema import HubSource, Model
from stacks.model_endpoint import ModelEndpoint

RUNTIME: Final = Path(__file__).parent / "runtime"
RESULTS_PREFIX: Final = "results/"

_LAMBDA_LIMIT_S: Final = 900
_STORE_MARGIN_S: Final = 30  # left after the last answer to write it and to report
_MEMORY_MIB: Final = 512

_NETWORK_ACTIONS: Final = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]


def consumer_timeout_s(settings: BufferSettings) -> int:
    """The function's timeout: a whole batch of longest answers and a margin, within Lambda's limit."""
    return min(_LAMBDA_LIMIT_S, settings.invocation_timeout_s * settings.batch_size + _STORE_MARGIN_S)


class Consumer(Construct):
    """A Lambda function on an SQS event source mapping. Its policy is inline, so the function waits for it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        settings: BufferSettings,
        queue: sqs.Queue,
        results: s3.Bucket,
        key_arn: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._endpoint = endpoint
        self._queue = queue
        self._results = results
        environment = endpoint.deployment.environment
        self._log_group = logs.CfnLogGroup(
            self, "Logs", retention_in_days=environment.log_retention_days, kms_key_id=key_arn
        )
        self._log_group.apply_removal_policy(RemovalPolicy.DESTROY)
        self.role = self._role(key_arn)
        self.function = self._function(settings, self.role)
        lambda_.CfnEventSourceMapping(
            self,
            "Source",
            event_source_arn=queue.queue_arn,
            function_name=self.function.ref,
            batch_size=settings.batch_size,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(
                maximum_concurrency=settings.max_concurrency
            ),
        )

    def _function(self, settings: BufferSettings, role: iam.Role) -> lambda_.CfnFunction:
        code = assets.Asset(self, "Code", path=str(RUNTIME), exclude=["**/__pycache__", "*.pyc"])
        environment = self._endpoint.deployment.environment
        network = environment.network
        function = lambda_.CfnFunction(
            self,
            "Function",
            description=f"Sends queued requests to {self._endpoint.name} and stores the answers",
            runtime="python3.13",
            architectures=["arm64"],
            handler="consumer.handler.handler",
            code=lambda_.CfnFunction.CodeProperty(s3_bucket=code.s3_bucket_name, s3_key=code.s3_object_key),
            layers=[layer_arn("powertools", environment.region)],
            role=role.role_arn,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=self._log_group.ref, log_format="JSON"),
            timeout=consumer_timeout_s(settings),
            memory_size=_MEMORY_MIB,
            environment=lambda_.CfnFunction.EnvironmentProperty(variables=self._variables(settings)),
            kms_key_arn=environment.kms_key_arn,
            vpc_config=(
                lambda_.CfnFunction.VpcConfigProperty(
                    security_group_ids=list(network.security_group_ids), subnet_ids=list(network.subnet_ids)
                )
                if network
                else None
            ),
        )
        # Lets tools that start the function from its sources (and `cdk watch`) find them.
        code.add_resource_metadata(function, "Code")
        return function

    def _variables(self, settings: BufferSettings) -> dict[str, str]:
        deployment = self._endpoint.deployment
        variables = {
            "ENDPOINT_NAME": self._endpoint.name,
            "QUEUE_URL": self._queue.queue_url,
            "RESULTS_BUCKET": self._results.bucket_name,
            "RESULTS_PREFIX": RESULTS_PREFIX,
            "PROTOCOL": protocol_of(deployment.components[0].container),
            "MODEL_REVISION": _revision(deployment.profile.model),
            "INVOCATION_TIMEOUT_S": str(settings.invocation_timeout_s),
        }
        if self._endpoint.main_component_name is not None:
            variables["COMPONENT_NAME"] = self._endpoint.main_component_name
        return variables

    def _role(self, key_arn: str | None) -> iam.Role:
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Empties the queue of {self._endpoint.name}",
            inline_policies={"consumer": iam.PolicyDocument(statements=self._statements(key_arn))},
        )

    def _statements(self, key_arn: str | None) -> list[iam.PolicyStatement]:
        """One queue, one endpoint, one prefix, one log group."""
        statements = [
            _allow(
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
                on=self._queue.queue_arn,
            ),
            self._endpoint.invoke_statement(),
            _allow("s3:GetObject", "s3:PutObject", on=self._results.arn_for_objects(f"{RESULTS_PREFIX}*")),
            # A missing result is a 404 only to who may list; to anybody else it is a 403.
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[self._results.bucket_arn],
                conditions={"StringLike": {"s3:prefix": f"{RESULTS_PREFIX}*"}},
            ),
            _allow("logs:CreateLogStream", "logs:PutLogEvents", on=self._log_group.attr_arn),
        ]
        if key_arn is not None:
            statements.append(_allow("kms:Decrypt", "kms:GenerateDataKey", on=key_arn))
        if self._endpoint.deployment.environment.network is not None:
            # Lambda makes its interfaces before it knows their names; AWS documents no narrower resource.
            statements.append(_allow(*_NETWORK_ACTIONS, on="*"))
        return statements


def _allow(*actions: str, on: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=[on])


def _revision(model: Model) -> str:
    """What tells two versions of the weights apart; part of a result's key."""
    source = model.source
    if isinstance(source, HubSource):
        return source.revision
    return source.s3_uri if source is not None else model.id
