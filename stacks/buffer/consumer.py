"""The consumer in the cloud: the function that empties the queue, its exact rights, and its event source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.catalog import layer_arn
from loadproof.profiles import protocol_of
from loadproof.profiles.schema import Buffer as BufferSettings
from loadproof.profiles.schema import HubSource, Model
from stacks.cloudwatch import Metric
from stacks.model_endpoint import ModelEndpoint
from stacks.python_function import LAMBDA_LIMIT_S, PythonFunction
from stacks.statements import Statement, allow

RUNTIME: Final = Path(__file__).parent / "runtime"
RESULTS_PREFIX: Final = "results/"

_STORE_MARGIN_S: Final = 30  # left after the last answer to write it and to report
_MEMORY_MIB: Final = 512


def consumer_timeout_s(settings: BufferSettings) -> int:
    """The function's timeout: a whole batch of longest answers and a margin, within Lambda's limit."""
    return min(LAMBDA_LIMIT_S, settings.invocation_timeout_s * settings.batch_size + _STORE_MARGIN_S)


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
        function = PythonFunction(
            self,
            "Function",
            environment=environment,
            description=f"Sends queued requests to {endpoint.name} and stores the answers",
            code=RUNTIME,
            handler="consumer.handler.handler",
            statements=self._statements(key_arn),
            variables=self._variables(settings),
            layers=[layer_arn("powertools", environment.region)],
            timeout_s=consumer_timeout_s(settings),
            memory_mib=_MEMORY_MIB,
            in_network=True,
        )
        self.role = function.role
        self.function = function.resource
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

    def metric(self, name: str) -> Metric:
        """A metric of the function: `Errors`, `Throttles`, `Invocations`, each a sum."""
        return Metric("AWS/Lambda", name, {"FunctionName": self.function.ref}, "Sum")

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

    def _statements(self, key_arn: str | None) -> list[Statement]:
        """One queue, one endpoint, one prefix."""
        statements = [
            allow(
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
                on=self._queue.queue_arn,
            ),
            self._endpoint.invoke_statement(),
            allow("s3:GetObject", "s3:PutObject", on=self._results.arn_for_objects(f"{RESULTS_PREFIX}*")),
            # A missing result is a 404 only to who may list; to anybody else it is a 403.
            allow(
                "s3:ListBucket",
                on=self._results.bucket_arn,
                when={"StringLike": {"s3:prefix": f"{RESULTS_PREFIX}*"}},
            ),
        ]
        if key_arn is not None:
            statements.append(allow("kms:Decrypt", "kms:GenerateDataKey", on=key_arn))
        return statements


def _revision(model: Model) -> str:
    """What tells two versions of the weights apart; part of a result's key."""
    source = model.source
    if isinstance(source, HubSource):
        return source.revision
    return source.s3_uri if source is not None else model.id
