"""What the stack of every profile has in common, whatever its model runs on."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack, Tags
from constructs import Construct

from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.buffer.target import BufferTarget
from loadproof.constructs.deployment import Deployment
from loadproof.profiles import profile_hash


class ProfileStack(Stack):
    """One profile in one environment: account, region, tags, outputs, and the buffer in front where it has one."""

    buffer: Buffer | None = None
    _model_revision = ""

    def __init__(self, scope: Construct, *, deployment: Deployment) -> None:
        environment, profile = deployment.environment, deployment.profile
        super().__init__(
            scope,
            deployment.stack_name,
            env=Environment(account=environment.account, region=environment.region),
            description=profile.description,
            tags=dict(environment.tags),
            analytics_reporting=False,
        )
        self.deployment = deployment
        # On the stack for the bill, on the resources so that a template shows them.
        tags = Tags.of(self)
        for name, value in environment.tags.items():
            tags.add(name, value)

    @property
    def starts_benchmarks(self) -> bool:
        """After a deployment, or at times."""
        wanted = self.deployment.profile.benchmark
        return wanted.gate != "none" or wanted.schedule is not None

    def _add_buffer(self, target: BufferTarget) -> None:
        """The buffer of a profile that wants one."""
        settings = self.deployment.profile.buffer
        if settings is not None and settings.enabled:
            self.buffer = Buffer(self, "Buffer", target=target, settings=settings)
            self._model_revision = target.variables["MODEL_REVISION"]

    def _outputs(self) -> None:
        """What every profile's stack tells; the contract of names is docs/decisions/0001."""
        digest = profile_hash(self.deployment.profile)
        self._output("ProfileHash", digest, "SHA-256 of the deployed profile; ties benchmark runs to it")
        buffer = self.buffer
        if buffer is not None:
            self._output("QueueUrl", buffer.queue.queue_url, "Requests go in here")
            self._output("DeadLetterQueueUrl", buffer.dead_letter_queue.queue_url, "Requests that failed too often")
            self._output("ClaimsTableName", buffer.claims.ref, "Who works on which key, and which are done")
            self._output("ResultsBucketName", buffer.results.bucket_name, "Answers, as results/<key>.json")
            self._output("ModelRevision", self._model_revision, "Part of a result's key where its sender gave none")

    def _output(self, name: str, value: str, description: str) -> None:
        CfnOutput(self, name, value=value, description=description)
