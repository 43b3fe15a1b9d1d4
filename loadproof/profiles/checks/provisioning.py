"""What the vocabulary has and the stacks do not provision yet (LP9xx): a warning here, a refusal at synthesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Finding, Placed, Subject, rule
from loadproof.profiles.schema import HubSource


@rule(
    "LP901",
    "Backend bedrock is not provisioned yet",
    reason="The profile is checked, but `cdk synth` refuses it.",
    fix="Use backend sagemaker.",
    severity="warning",
)
def bedrock(subject: Subject) -> Iterator[Finding]:
    if subject.profile.backend == "bedrock":
        yield Finding(("backend",), "bedrock is not provisioned yet", "use sagemaker")


@rule(
    "LP904",
    "Hub tokens are not provisioned yet",
    reason="Gated weights will be staged in S3 by a build job that reads the token; it does not exist yet.",
    fix="Stage the weights in S3 yourself, and use an S3 source.",
    scope="component",
    severity="warning",
)
def hub_token(placed: Placed) -> Iterator[Finding]:
    source = placed.component.model.source
    if isinstance(source, HubSource) and source.token_secret_arn is not None:
        path = placed.at("model", "source", "token_secret_arn")
        yield Finding(path, "staging with a hub token is not provisioned yet", "use an S3 source")


@rule(
    "LP905",
    "Deployment gates are not provisioned yet",
    reason="The benchmark runs from `loadproof bench`; nothing in the stack starts it yet.",
    fix="Leave benchmark.gate at none.",
    severity="warning",
)
def gate(subject: Subject) -> Iterator[Finding]:
    wanted = subject.profile.benchmark.gate
    if wanted != "none":
        yield Finding(("benchmark", "gate"), f"gate {wanted} is not provisioned yet", "write none, or delete it")


RULES: Final = (bedrock, hub_token, gate)
