"""The book of preflight (LA001 ...): what rules ask an account about the needs of a deployment."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from loadproof import rules
from loadproof.preflight.needs import (
    AlarmTopic,
    BedrockQuotaNeed,
    Bootstrap,
    Image,
    Instances,
    Key,
    Named,
    Need,
    Reservation,
    Secret,
    Stack,
    Subnets,
    Weights,
)

Severity = Literal["warning", "unknown", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = ("warning", "unknown", "error")  # the worst last
Found: TypeAlias = rules.Found[str, Severity]  # at a resource, by what somebody calls it
Finding: TypeAlias = rules.Finding[str, Severity]

# Nobody makes a Need by this: what is given to a rule is looked at by it.
RULES: Final = rules.Rulebook[Need, str, Severity](
    "LA",
    "loadproof.preflight.rules",
    Need,  # type: ignore[type-abstract]
    "error",
)
alarms_rule = RULES.over(AlarmTopic).rule
bedrock_rule = RULES.over(BedrockQuotaNeed).rule
bootstrap_rule = RULES.over(Bootstrap).rule
image_rule = RULES.over(Image).rule
instances_rule = RULES.over(Instances).rule
key_rule = RULES.over(Key).rule
named_rule = RULES.over(Named).rule
reservation_rule = RULES.over(Reservation).rule
secret_rule = RULES.over(Secret).rule
stack_rule = RULES.over(Stack).rule
subnets_rule = RULES.over(Subnets).rule
weights_rule = RULES.over(Weights).rule

UNKNOWN: Final = "LA001"
RULES.reported_elsewhere(
    UNKNOWN,
    "Could not be seen",
    reason="A right is missing, a call got no answer in time, or AWS answered something unexpected. What a rule could "
    "not see is not well: it is not known.",
    mend="Give whoever runs preflight the rights that `loadproof preflight --rights` prints, and run it again.",
    severity="unknown",
)
