"""Numbered rules over a synthesized template: what scanners of CloudFormation miss about language models.

Pure: a template as JSON in, findings out. `cdk synth` stops on errors; a review asks the same of two templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loadproof.templates.rule import RULES, Finding
from loadproof.templates.template import Template

__all__ = ["RULES", "Finding", "check_template"]


def check_template(template: Mapping[str, object], acknowledged: Mapping[str, str]) -> tuple[Finding, ...]:
    """Every finding in one template, acknowledged ones with their reason, by code and logical id.

    `acknowledged` is code -> reason, from a profile or its environment, and holds for the whole template. A resource
    may carry its own: `Metadata: {loadproof: {acknowledged: {LS007: reason}}}`.
    """
    read = Template.read(template)
    own = {resource.logical_id: resource.acknowledged for resource in read.resources}
    findings = [
        replace(one, acknowledged=own.get(one.place, {}).get(one.code) or acknowledged.get(one.code))
        for rule in RULES
        for one in rule.findings(read)
    ]
    return tuple(sorted(set(findings), key=lambda one: (one.code, one.place, one.message)))
