"""Numbered rules over a synthesized template: what scanners of CloudFormation miss about language models.

Pure: a template as JSON in, findings out. `cdk synth` stops on errors; a review asks the same of two templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loadproof.templates import consistency, security
from loadproof.templates.rule import Finding, Rule
from loadproof.templates.template import Template

RULES: Final[tuple[Rule, ...]] = (*security.RULES, *consistency.RULES)

__all__ = ["RULES", "Finding", "Rule", "check_template"]


def check_template(template: Mapping[str, Any], acknowledged: Mapping[str, str]) -> tuple[Finding, ...]:
    """Every finding in one template, acknowledged ones with their reason, by code and logical id.

    `acknowledged` is code -> reason, from a profile or its environment, and holds for the whole template. A resource
    may carry its own: `Metadata: {loadproof: {acknowledged: {LS007: reason}}}`.
    """
    read = Template.read(template)
    findings = []
    for rule in RULES:
        for found in rule.function(read):
            own = found.resource.acknowledged if found.resource else {}
            findings.append(
                Finding(
                    code=rule.code,
                    severity=found.severity or rule.severity,
                    resource=found.resource.logical_id if found.resource else "",
                    message=found.message,
                    mend=found.mend,
                    acknowledged=own.get(rule.code) or acknowledged.get(rule.code),
                )
            )
    return tuple(sorted(findings, key=lambda finding: (finding.code, finding.resource, finding.message)))
