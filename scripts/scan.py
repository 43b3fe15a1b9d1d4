"""checkov, a scanner that shares nothing with our own rules, over what cdk-nag sees in the tests: `make scan`.

Exit 1 on a finding without a reason here, and on a reason that nothing needs any more. checkov itself lives in an
environment of its own (`.venv-scan`), as it brings 290 MB along.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "constructs")]

from stacks_support import FEATURE_FLAGS, App  # noqa: E402
from test_stacks_nag import deployments  # noqa: E402

from stacks.application import add_stacks  # noqa: E402

CHECKOV: Final = REPOSITORY / ".venv-scan" / "bin" / "checkov"
_WITHOUT_KEY: Final = r"loadproof-(dev|staging|prod|local-vllm)-.*"

# (check, template, resource, reason): patterns that match whole.
ACKNOWLEDGED: Final = (
    (
        "CKV_AWS_109",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole)\w+",
        "kms:CreateGrant, for AWS resources only (a condition)",
    ),
    (
        "CKV_AWS_111",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole|BufferConsumerFunctionRole)\w+",
        "network interfaces have no name before they are made; LS012 refuses any other action on `*`",
    ),
    (
        "CKV_AWS_115",
        r".*",
        r"AWS::Lambda::Function\..*",
        "the consumer is bound by its event source's maximum concurrency; the others run once a deployment",
    ),
    (
        "CKV_AWS_116",
        r".*",
        r"AWS::Lambda::Function\..*",
        "for asynchronous events; the queue has a dead-letter queue, and custom resources answer their failures",
    ),
    (
        "CKV_AWS_117",
        r".*",
        r"AWS::Lambda::Function\..*",
        "functions that talk to AWS and CloudFormation only stay outside; the consumer is inside where there is a VPC",
    ),
    ("CKV_AWS_158", _WITHOUT_KEY, r"AWS::Logs::LogGroup\..*", "the environment has no key and says why (LS006)"),
    ("CKV_AWS_173", _WITHOUT_KEY, r"AWS::Lambda::Function\..*", "the environment has no key and says why (LS006)"),
    (
        "CKV_AWS_119",
        _WITHOUT_KEY,
        r"AWS::DynamoDB::Table\..*",
        "encrypted with DynamoDB's own key; the environment has none",
    ),
    ("CKV_AWS_27", _WITHOUT_KEY, r"AWS::SQS::Queue\..*", "encrypted with SQS's own key; the environment has none"),
    (
        "CKV_AWS_18",
        r".*",
        r"AWS::S3::Bucket\..*",
        "CloudTrail's data events tell who read; the account decides on them",
    ),
    (
        "CKV_AWS_21",
        r".*",
        r"AWS::S3::Bucket\..*",
        "results are written once under their key, and weights are known by their commit: there is no second version",
    ),
    (
        "CKV_AWS_370",
        r"loadproof-(dev-qwen3-32b|vllm-from-the-hub-chat)",
        r"AWS::SageMaker::Model\..*",
        "the server fetches open weights itself; the profile acknowledges it (LS005)",
    ),
)


def main() -> int:
    if not CHECKOV.exists():
        print("checkov is not installed; run `make scan`", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder) / "templates"
        templates.mkdir()
        count = _write(templates, Path(folder))
        found = _scan(templates)
    open_ = [one for one in found if not any(_covers(known, one) for known in ACKNOWLEDGED)]
    stale = [known[0] for known in ACKNOWLEDGED if not any(_covers(known, one) for one in found)]
    for check, template, resource, name in sorted(open_):
        print(f"{template}: {check} {resource}: {name}")
    for check in stale:
        print(f"{check} is acknowledged in scripts/scan.py and no longer found; take it out")
    known = len(found) - len(open_)
    print(f"checkov: {count} templates, {known} findings acknowledged, {len(open_)} not, {len(stale)} stale")
    return 1 if open_ or stale else 0


def _write(templates: Path, folder: Path) -> int:
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, list(deployments(folder)))
    stacks = app.synth().stacks
    for stack in stacks:
        (templates / f"{stack.stack_name}.json").write_text(json.dumps(stack.template), encoding="utf-8")
    return len(stacks)


def _scan(templates: Path) -> list[tuple[str, str, str, str]]:
    """(check, template, resource, what it says) of every failed check. A template it cannot read is an error."""
    command = [str(CHECKOV), "-d", str(templates), "--framework", "cloudformation", "--skip-download", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    report: Any = json.loads(done.stdout)
    if report["summary"]["parsing_errors"] or not report["summary"]["passed"]:
        raise RuntimeError(f"checkov could not read the templates: {report['summary']}")
    return [
        (one["check_id"], Path(one["file_path"]).stem, one["resource"], one["check_name"])
        for one in report["results"]["failed_checks"]
    ]


def _covers(known: tuple[str, str, str, str], one: tuple[str, str, str, str]) -> bool:
    return known[0] == one[0] and all(re.fullmatch(known[at], one[at]) is not None for at in (1, 2))


if __name__ == "__main__":
    sys.exit(main())
