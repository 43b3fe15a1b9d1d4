"""The buffer in the cloud: queue, dead-letter queue, claims, results bucket, and the consumer between them."""

from __future__ import annotations

from typing import Any, Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.constructs.buffer.consumer import METRICS_NAMESPACE, Consumer, Stores
from loadproof.constructs.buffer.target import BufferTarget, sagemaker_target
from loadproof.constructs.cdk.cloudwatch import Metric
from loadproof.constructs.cdk.emptied_bucket.infrastructure import EmptiedBucket
from loadproof.constructs.cdk.results_bucket import goes_with_stack, results_bucket
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.profiles.checks.buffering import RETENTION_MARGIN_S, consumer_timeout_s, kept_s
from loadproof.profiles.names import dead_letter_queue_name, queue_name
from loadproof.profiles.schema import Buffer as BufferSettings
from loadproof.profiles.schema import Profile
from loadproof.simulation.targets import buffer_concurrency

_DEAD_LETTER_RETENTION_S: Final = 1209600  # 14 days, SQS's longest: evidence should outlive a holiday
RESULTS_EXPIRE_DAYS: Final = 30


class Buffer(Construct):
    """Messages in, `results/<key>.json` out: delivered at least once, stored once (docs/buffer.md).

    `settings`: the profile's, without any given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        target: BufferTarget | ModelEndpoint,
        settings: BufferSettings | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if isinstance(target, ModelEndpoint):
            target = sagemaker_target(target)
        settings = settings or target.deployment.profile.buffer or BufferSettings()
        self._name = target.name
        environment = target.deployment.environment
        key_arn = environment.kms_key_arn
        self._key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None
        self.visibility_timeout_s = settings.visibility_timeout_s or 6 * consumer_timeout_s(settings)
        self.dead_letter_queue = self._queue(
            "DeadLetters", dead_letter_queue_name(target.name), retention_s=_DEAD_LETTER_RETENTION_S
        )
        self.queue = self._queue(
            "Queue",
            queue_name(target.name),
            retention_s=kept_s(settings) + RETENTION_MARGIN_S,
            visibility_timeout=Duration.seconds(self.visibility_timeout_s),
            max_message_size_bytes=settings.max_message_bytes,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=settings.max_receive_count, queue=self.dead_letter_queue
            ),
        )
        self.claims = self._claims(key_arn)
        self.results = results_bucket(
            self, "Results", environment=environment, key=self._key, expire_days=RESULTS_EXPIRE_DAYS
        )
        self.consumer = Consumer(
            self,
            "Consumer",
            target=target,
            settings=settings,
            concurrency=_consumers(target.deployment.profile, settings),
            stores=Stores(self.queue, self.dead_letter_queue, self.claims, self.results),
        )
        if goes_with_stack(environment):
            emptied = EmptiedBucket(self, "Emptied", bucket=self.results, environment=environment)
            # The consumer loses its rights before the bucket is emptied: nothing is written behind the broom.
            self.consumer.role.node.add_dependency(emptied)

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow sending requests to the queue."""
        return self.queue.grant_send_messages(grantee)

    def metric(self, name: str, statistic: str) -> Metric:
        """What the consumer tells of messages: the names of runtime/consumer/emf.py."""
        return Metric(METRICS_NAMESPACE, name, {"Buffer": self._name}, statistic)

    def metric_waiting_messages(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", queue_name(self._name))

    def metric_oldest_message_age_s(self) -> Metric:
        return self._queue_metric("ApproximateAgeOfOldestMessage", "Maximum", queue_name(self._name))

    def metric_dead_letters(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", dead_letter_queue_name(self._name))

    def _queue_metric(self, name: str, statistic: str, queue: str) -> Metric:
        return Metric("AWS/SQS", name, {"QueueName": queue}, statistic)

    def _claims(self, key_arn: str | None) -> dynamodb.CfnTable:
        """One record a key, and the shared pace. It goes with the stack: without the queue it says nothing."""
        table = dynamodb.CfnTable(
            self,
            "Claims",
            billing_mode="PAY_PER_REQUEST",
            key_schema=[dynamodb.CfnTable.KeySchemaProperty(attribute_name="id", key_type="HASH")],
            attribute_definitions=[
                dynamodb.CfnTable.AttributeDefinitionProperty(attribute_name="id", attribute_type="S")
            ],
            time_to_live_specification=dynamodb.CfnTable.TimeToLiveSpecificationProperty(
                attribute_name="expires_s", enabled=True
            ),
            point_in_time_recovery_specification=dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
                point_in_time_recovery_enabled=True
            ),
            sse_specification=dynamodb.CfnTable.SSESpecificationProperty(
                sse_enabled=True, sse_type="KMS", kms_master_key_id=key_arn
            )
            if key_arn
            else None,
        )
        table.apply_removal_policy(RemovalPolicy.DESTROY)
        return table

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


def _consumers(profile: Profile, settings: BufferSettings) -> int:
    if settings.max_concurrency != "auto":
        return settings.max_concurrency
    derived = buffer_concurrency(profile).value
    assert derived is not None
    return int(derived)
