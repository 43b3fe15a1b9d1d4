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


RULES: Final = (bedrock,)
