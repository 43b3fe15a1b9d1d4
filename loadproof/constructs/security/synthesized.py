"""The rules of `loadproof.templates` over the templates of one synthesis."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadproof.constructs.deployment import Deployment
from loadproof.errors import ExitCode, InputError
from loadproof.profiles.names import BENCHMARK, NETWORK, stack_name
from loadproof.templates import RULES, Finding, check_template


def judge(assembly: Path, deployments: Sequence[Deployment]) -> ExitCode:
    """Tell what the rules over templates found and nobody acknowledged; an error among it stops the CDK CLI."""
    open_ = [(name, finding) for name, finding in findings_of(assembly, deployments) if not finding.acknowledged]
    for name, finding in open_:
        print(f"loadproof: {name}: {finding}", file=sys.stderr)
    return ExitCode.MISSED if any(finding.stops for _, finding in open_) else ExitCode.OK


def findings_of(assembly: Path, deployments: Sequence[Deployment]) -> Iterator[tuple[str, Finding]]:
    """Stack name and finding, for every template that CDK wrote into the folder `assembly`.

    A profile's acknowledgements hold for its own stack, an environment's for every stack of the environment.
    Raises InputError for an acknowledgement of a rule that does not exist.
    """
    by_stack: dict[str, Mapping[str, str]] = {}
    for deployment in deployments:
        everywhere = deployment.environment.acknowledged
        for own in (BENCHMARK, NETWORK):
            by_stack[stack_name(deployment.environment_name, own)] = everywhere
        by_stack[deployment.stack_name] = everywhere | deployment.profile.acknowledged
    unknown = {code for codes in by_stack.values() for code in codes} - RULES.by_code.keys()
    if unknown:
        raise InputError(f"acknowledged: no rule {', '.join(sorted(unknown))}; take it out, or see docs/security.md")
    # By the manifest: the folder may still hold templates of an earlier synthesis.
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    for name, artifact in sorted(artifacts.items()):
        if artifact["type"] != "aws:cloudformation:stack":
            continue
        template = json.loads((assembly / artifact["properties"]["templateFile"]).read_text(encoding="utf-8"))
        for finding in check_template(template, by_stack.get(name, {})):
            yield name, finding
