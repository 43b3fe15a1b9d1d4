"""`python -m stacks.ci.where ENVIRONMENT`: an environment's account, region, roles and evidence as `name=value` lines.

For `>> "$GITHUB_OUTPUT"` and GitLab's dotenv reports. environment.yaml is the only place that knows them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from loadproof.catalog import registry
from loadproof.constructs.ci.names import DEFAULT_QUALIFIER, bootstrap_role_name, evidence_bucket_name, role_name
from loadproof.errors import LoadproofError
from loadproof.profiles import load_environment
from loadproof.profiles.schema import Environment

_ROOT = Path(__file__).resolve().parents[2]
_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"


def places(environment_name: str, environment: Environment, qualifier: str) -> dict[str, str]:
    """By the names that the workflows use."""
    account, region = environment.account, environment.region
    roles = f"arn:{registry(region).partition}:iam::{account}:role"
    return {
        "account": account,
        "region": region,
        "deploy_role": f"{roles}/{role_name(environment_name, 'deploy')}",
        "benchmark_role": f"{roles}/{role_name(environment_name, 'benchmark')}",
        "read_role": f"{roles}/{role_name(environment_name, 'read')}",
        "lookup_role": f"{roles}/{bootstrap_role_name('lookup', qualifier, account, region)}",
        "evidence": f"s3://{evidence_bucket_name(environment_name, account)}/evidence",
    }


def main(arguments: list[str]) -> int:
    """2 for a name that is no environment."""
    known = sorted(path.parent.name for path in (_ROOT / "deploy_profiles").glob("*/environment.yaml"))
    if len(arguments) != 1 or arguments[0] not in known:
        print(f"usage: python -m stacks.ci.where ENVIRONMENT, one of: {', '.join(known)}", file=sys.stderr)
        return 2
    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    try:
        environment = load_environment(_ROOT / "deploy_profiles" / arguments[0])
    except LoadproofError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    for name, value in places(arguments[0], environment, context.get(_QUALIFIER, DEFAULT_QUALIFIER)).items():
        print(f"{name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
