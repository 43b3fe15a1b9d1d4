"""What the vocabulary has and the stacks do not provision yet (LP9xx): a warning here, a refusal at synthesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Finding, Subject, rule


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


RULES: Final = (bedrock, gate)
