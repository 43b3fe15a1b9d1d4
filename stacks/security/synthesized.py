"""The rules of `loadproof.templates` over the templates of one synthesis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadproof.errors import InputError
from loadproof.profiles.names import BENCHMARK, NETWORK, stack_name
from loadproof.templates import RULES, Finding, check_template
from stacks.context import Deployment


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
    unknown = {code for codes in by_stack.values() for code in codes} - {rule.code for rule in RULES}
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
