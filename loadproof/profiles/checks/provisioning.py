"""What the vocabulary has and the stacks do not provision yet (LP9xx): a warning here, a refusal at synthesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Finding, Placed, Subject, rule
from loadproof.profiles.schema import HubSource, TargetTracking


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
    "LP902",
    "Automatic scaling targets are not provisioned yet",
    reason="`auto` will be derived from the plan's knee; until then a number has to be written.",
    fix="Write the number that `loadproof plan` shows at the knee.",
    scope="component",
    severity="warning",
)
def automatic_target(placed: Placed) -> Iterator[Finding]:
    for at, policy in enumerate(placed.component.scaling.policies if placed.component.scaling else ()):
        if isinstance(policy, TargetTracking) and policy.target == "auto":
            path = placed.at("scaling", "policies", at, "target")
            yield Finding(path, "auto is not provisioned yet", "write a number: see `loadproof plan`")


@rule(
    "LP903",
    "Scaling on the backlog is not provisioned yet",
    reason="It needs metric math over queue and copies, which the stacks do not build yet.",
    fix="Use concurrent_requests_per_copy: it counts requests queued in the container too.",
    scope="component",
    severity="warning",
)
def backlog(placed: Placed) -> Iterator[Finding]:
    for at, policy in enumerate(placed.component.scaling.policies if placed.component.scaling else ()):
        if getattr(policy, "metric", None) == "backlog_per_copy":
            path = placed.at("scaling", "policies", at, "metric")
            yield Finding(path, "backlog_per_copy is not provisioned yet", "use concurrent_requests_per_copy")


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


RULES: Final = (bedrock, automatic_target, backlog, hub_token, gate)
