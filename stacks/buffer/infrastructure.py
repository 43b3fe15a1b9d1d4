"""The buffer in the cloud: queue, dead-letter queue, results bucket, and the consumer between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.catalog import layer_arn
from loadproof.profiles.names import dead_letter_queue_name, queue_name
from loadproof.profiles.schema import Buffer as BufferSettings
from loadproof.profiles.schema import HubSource, Model
from stacks.cloudwatch import Metric
from stacks.images import protocol_of
from stacks.model_endpoint import ModelEndpoint

RUNTIME: Final = Path(__file__).parent / "runtime"
RESULTS_PREFIX: Final = "results/"

_LAMBDA_LIMIT_S: Final = 900
_STORE_MARGIN_S: Final = 30  # left after the last answer to write it and to report
_DEAD_LETTER_RETENTION_S: Final = 1209600  # 14 days, SQS's longest: evidence should outlive a holiday
_RESULTS_EXPIRE_DAYS: Final = 30
_ONE_MESSAGE_MEMORY_MIB: Final = 512


class Buffer(Construct):
    """Messages in, `results/<key>.json` out; at least once, and what fails too often ends in the dead-letter queue."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint: ModelEndpoint, settings: BufferSettings
    ) -> None:
        super().__init__(scope, construct_id)
        self._endpoint = endpoint
        self._settings = settings
        key_arn = endpoint.deployment.environment.kms_key_arn
        self._key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None
        self.consumer_timeout_s = min(
            _LAMBDA_LIMIT_S, settings.invocation_timeout_s * settings.batch_size + _STORE_MARGIN_S
        )
        self.visibility_timeout_s = settings.visibility_timeout_s or 6 * self.consumer_timeout_s
        self.dead_letter_queue = self._queue(
            "DeadLetters", dead_letter_queue_name(endpoint.name), retention_s=_DEAD_LETTER_RETENTION_S
        )
        self.queue = self._queue(
            "Queue",
            queue_name(endpoint.name),
            retention_s=settings.retention_s,
            visibility_timeout=Duration.seconds(self.visibility_timeout_s),
            max_message_size_bytes=settings.max_message_bytes,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=settings.max_receive_count, queue=self.dead_letter_queue
            ),
        )
        self.results = self._results_bucket()
        self.consumer = self._consumer()

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow sending requests to the queue."""
        return self.queue.grant_send_messages(grantee)

    def metric_waiting_messages(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", self.queue)

    def metric_oldest_message_age_s(self) -> Metric:
        return self._queue_metric("ApproximateAgeOfOldestMessage", "Maximum", self.queue)

    def metric_dead_letters(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", self.dead_letter_queue)

    def _queue_metric(self, name: str, statistic: str, queue: sqs.Queue) -> Metric:
        return Metric("AWS/SQS", name, {"QueueName": queue.queue_name}, statistic)

    def _queue(self, construct_id: str, name: str, *, retention_s: int, **more: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            queue_name=name,
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=self._key,
            retention_period=Duration.seconds(retention_s),
            **more,
        )

    def _results_bucket(self) -> s3.Bucket:
        return s3.Bucket(
            self,
            "Results",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            encryption=s3.BucketEncryption.KMS if self._key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=self._key,
            bucket_key_enabled=True if self._key else None,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(_RESULTS_EXPIRE_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            # An empty bucket goes with its stack. One that holds answers makes the deletion fail, and says so:
            # nobody's results vanish because a profile was renamed.
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _consumer(self) -> lambda_.Function:
        role = iam.Role(
            self,
            "ConsumerRole",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Empties the queue of {self._endpoint.name}",
        )
        log_group = logs.LogGroup(
            self,
            "ConsumerLogs",
            retention=_RETENTION[self._endpoint.deployment.environment.log_retention_days],
            encryption_key=self._key,
            removal_policy=RemovalPolicy.DESTROY,
        )
        region = self._endpoint.deployment.environment.region
        function = lambda_.Function(
            self,
            "Consumer",
            description=f"Sends queued requests to {self._endpoint.name} and stores the answers",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            handler="consumer.handler.handler",
            code=lambda_.Code.from_asset(str(RUNTIME), exclude=["**/__pycache__", "*.pyc"]),
            layers=[lambda_.LayerVersion.from_layer_version_arn(self, "Powertools", layer_arn("powertools", region))],
            role=role,
            log_group=log_group,
            timeout=Duration.seconds(self.consumer_timeout_s),
            memory_size=_ONE_MESSAGE_MEMORY_MIB,
            environment=self._variables(),
        )
        self._in_network(function, role)
        self._grant_to(role, log_group)
        lambda_.CfnEventSourceMapping(
            self,
            "Source",
            event_source_arn=self.queue.queue_arn,
            function_name=function.function_name,
            batch_size=self._settings.batch_size,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(
                maximum_concurrency=self._settings.max_concurrency
            ),
        ).node.add_dependency(role)
        return function

    def _grant_to(self, role: iam.Role, log_group: logs.LogGroup) -> None:
        """One queue, one endpoint, one prefix, one log group."""
        self.queue.grant_consume_messages(role)
        self._endpoint.grant_invoke(role)
        log_group.grant_write(role)
        # Spelled out, because the bucket's own grants also allow tagging, legal holds and every listing.
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:PutObject"],
                resources=[self.results.arn_for_objects(f"{RESULTS_PREFIX}*")],
            )
        )
        # A missing result is a 404 only to who may list; to anybody else it is a 403.
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[self.results.bucket_arn],
                conditions={"StringLike": {"s3:prefix": f"{RESULTS_PREFIX}*"}},
            )
        )
        if self._key is not None:
            self._key.grant_encrypt_decrypt(role)

    def _variables(self) -> dict[str, str]:
        profile = self._endpoint.deployment.profile
        component = self._endpoint.deployment.components[0]
        variables = {
            "ENDPOINT_NAME": self._endpoint.name,
            "QUEUE_URL": self.queue.queue_url,
            "RESULTS_BUCKET": self.results.bucket_name,
            "RESULTS_PREFIX": RESULTS_PREFIX,
            "PROTOCOL": protocol_of(component.container),
            "MODEL_REVISION": _revision(profile.model),
            "INVOCATION_TIMEOUT_S": str(self._settings.invocation_timeout_s),
        }
        if self._endpoint.main_component_name is not None:
            variables["COMPONENT_NAME"] = self._endpoint.main_component_name
        return variables

    def _in_network(self, function: lambda_.Function, role: iam.Role) -> None:
        network = self._endpoint.deployment.environment.network
        if network is None:
            return
        resource = function.node.default_child
        assert isinstance(resource, lambda_.CfnFunction)
        # Set on the resource itself: the typed VPC wants availability zones, which only a lookup could tell.
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            security_group_ids=list(network.security_group_ids), subnet_ids=list(network.subnet_ids)
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:CreateNetworkInterface",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSubnets",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                resources=["*"],
            )
        )


def _revision(model: Model) -> str:
    """What tells two versions of the weights apart; part of a result's key."""
    source = model.source
    if isinstance(source, HubSource):
        return source.revision
    return source.s3_uri if source is not None else model.id


_RETENTION: Final = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}
