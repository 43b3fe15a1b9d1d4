"""Where a deployed buffer is: what its stack says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loadproof.errors import CouldNotRunError
from loadproof.invocation.endpoints import Client, aws_client, described

_OUTPUTS: Final = {
    "queue_url": "QueueUrl",
    "dead_letter_url": "DeadLetterQueueUrl",
    "claims_table": "ClaimsTableName",
    "bucket": "ResultsBucketName",
    "revision": "ModelRevision",
}


@dataclass(frozen=True, slots=True)
class Places:
    """One buffer's queue, dead letters, claims and results, and the model revision that names results.

    A program that only sends and reads results may have three of them from elsewhere: queue, bucket and revision.
    """

    queue_url: str
    bucket: str
    revision: str
    dead_letter_url: str = ""
    claims_table: str = ""


def places_of(stack: str, *, region: str | None = None, endpoint_url: str | None = None) -> Places:
    """The outputs of a profile's stack (`loadproof-<environment>-<profile>`). Raises CouldNotRunError."""
    with described(f"stack {stack}", "; deploy the profile first, or name its environment"):
        found = client("cloudformation", region, endpoint_url).describe_stacks(StackName=stack)["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    missing = [name for name in _OUTPUTS.values() if name not in outputs]
    if missing:
        raise CouldNotRunError(
            f"stack {stack} has no output {', '.join(missing)}: it was deployed without a buffer, or by an older "
            "Loadproof; set `buffer` in the profile and deploy it"
        )
    return Places(**{name: outputs[output] for name, output in _OUTPUTS.items()})


def client(service: str, region: str | None = None, endpoint_url: str | None = None) -> Client:
    """A boto3 client that tries once: what follows is the one retry policy's to say. Raises CouldNotRunError."""
    return aws_client(service, region, endpoint_url, connect_timeout_s=5, connections=16)
