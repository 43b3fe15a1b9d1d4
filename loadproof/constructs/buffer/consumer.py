"""The consumer in the cloud: the function that empties the queue, its exact rights, and its event source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.catalog import layer_arn
from loadproof.constructs.buffer.target import BufferTarget
from loadproof.constructs.cdk.cloudwatch import Metric
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.cdk.statements import Statement, allow, use_of_key
from loadproof.profiles.checks.buffering import consumer_timeout_s, kept_s
from loadproof.profiles.schema import Buffer as BufferSettings
from loadproof.wire.message import REQUESTS_PREFIX, RESULTS_PREFIX

RUNTIME: Final = Path(__file__).parent / "runtime"
METRICS_NAMESPACE: Final = "Loadproof/Buffer"

_MEMORY_MIB: Final = 512


@dataclass(frozen=True, slots=True)
class Stores:
    """What a consumer reads and writes beside its model."""

    queue: sqs.Queue
    dead_letters: sqs.Queue
    claims: dynamodb.CfnTable
    results: s3.Bucket


class Consumer(Construct):
    """A Lambda function on an SQS event source mapping. Its policy is inline, so the function waits for it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        target: BufferTarget,
        settings: BufferSettings,
        concurrency: int,
        stores: Stores,
    ) -> None:
        """`concurrency`: consumers at work at once."""
        super().__init__(scope, construct_id)
        self._concurrency = concurrency
        self._target = target
        self._settings = settings
        self._stores = stores
        environment = target.deployment.environment
        function = PythonFunction(
            self,
            "Function",
            environment=environment,
            description=f"Sends queued requests to {target.name} and stores the answers",
            program=Program(
                RUNTIME,
                handler="consumer.handler.handler",
                variables=self._variables(),
                layers=[layer_arn("powertools", environment.region)],
                timeout_s=consumer_timeout_s(settings),
                memory_mib=_MEMORY_MIB,
            ),
            statements=self._statements(),
            in_network=True,
        )
        self.role = function.role
        self.function = function.resource
        self._name = function.resource.ref
        source = {
            "EventSourceArn": stores.queue.queue_arn,
            "FunctionName": self._name,
            "BatchSize": settings.batch_size,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": {"MaximumConcurrency": concurrency},
        }
        resource(self, "Source", "Lambda::EventSourceMapping", source, tags=environment.tags)

    def metric(self, name: str) -> Metric:
        """A metric of the function: `Errors`, `Throttles`, `Invocations`, each a sum."""
        return Metric("AWS/Lambda", name, {"FunctionName": self._name}, "Sum")

    def _variables(self) -> dict[str, str]:
        """Read by runtime/consumer/settings.py."""
        settings, stores = self._settings, self._stores
        variables = {
            **self._target.variables,
            "BUFFER_NAME": self._target.name,
            "QUEUE_URL": stores.queue.queue_url,
            "DEAD_LETTER_URL": stores.dead_letters.queue_url,
            "CLAIMS_TABLE": stores.claims.ref,
            "RESULTS_BUCKET": stores.results.bucket_name,
            "RESULTS_PREFIX": RESULTS_PREFIX,
            "INVOCATION_TIMEOUT_S": str(settings.invocation_timeout_s),
            "IDLE_TIMEOUT_S": str(min(settings.idle_timeout_s, settings.invocation_timeout_s)),
            "LEASE_S": str(settings.lease_s),
            "MAX_ATTEMPTS": str(settings.max_attempts),
            "MAX_IN_FLIGHT": str(self._concurrency * settings.batch_size),
            "RETENTION_S": str(kept_s(settings)),
            "MAX_MESSAGE_BYTES": str(settings.max_message_bytes),
        }
        return variables | ({"CALLBACKS": " ".join(settings.callbacks)} if settings.callbacks else {})

    def _statements(self) -> list[Statement]:
        """One queue and its dead letters, one table, one model, two prefixes, and the callbacks by name."""
        stores = self._stores
        statements = [
            allow(
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
                "sqs:SendMessage",
                on=stores.queue.queue_arn,
            ),
            allow("sqs:SendMessage", on=stores.dead_letters.queue_arn),
            allow("dynamodb:GetItem", "dynamodb:UpdateItem", on=stores.claims.attr_arn),
            *self._target.statements,
            allow(
                "s3:GetObject",
                "s3:PutObject",
                on=[stores.results.arn_for_objects(f"{prefix}*") for prefix in (RESULTS_PREFIX, REQUESTS_PREFIX)],
            ),
            # What is missing is a 404 only to who may list; to anybody else it is a 403.
            allow(
                "s3:ListBucket",
                on=stores.results.bucket_arn,
                when={"StringLike": {"s3:prefix": [f"{RESULTS_PREFIX}*", f"{REQUESTS_PREFIX}*"]}},
            ),
        ]
        for service, action in (("sqs", "sqs:SendMessage"), ("sns", "sns:Publish")):
            arns = [arn for arn in self._settings.callbacks if arn.split(":")[2] == service]
            if arns:
                statements.append(allow(action, on=arns))
        statements += use_of_key(self._target.deployment.environment, "dynamodb", "lambda", "s3", "sns", "sqs")
        return statements
