"""Scanners that share nothing with our own rules, over what cdk-nag sees in the tests: `make scan`.

checkov; cfn-guard with AWS Control Tower's published rules; parliament over every policy of an identity. Exit 1 on a
finding without a reason in scan_known.py, and on a reason that nothing needs any more. They live in an environment of
their own (`.venv-scan`), as checkov alone brings 290 MB along.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from platform import machine
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "constructs")]

from scan_known import ACKNOWLEDGED, Finding  # noqa: E402
from scan_policies import Json, policies  # noqa: E402
from stacks_support import FEATURE_FLAGS, App  # noqa: E402
from test_stacks_nag import deployments  # noqa: E402

from stacks.application import add_stacks  # noqa: E402

HOME: Final = REPOSITORY / ".venv-scan"
GUARD: Final = HOME / "node_modules" / "@cdklabs" / "cdk-validator-cfnguard"
GUARD_BINARY: Final = GUARD / "bin" / "ubuntu" / {"arm64": "aarch64"}.get(machine(), machine()) / "cfn-guard"
_CONTROL: Final = re.compile(r"\[(CT\.[\w.]+)\]: *([^\n]*)")


def main() -> int:
    if not GUARD_BINARY.exists():
        print("the scanners are not installed; run `make scan` (cfn-guard: Linux on x86-64 or ARM)", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder) / "templates"
        templates.mkdir()
        count = _write(templates, Path(folder))
        by_scanner = {
            "checkov": _checkov(templates),
            "cfn-guard": _guard(templates),
            "parliament": _parliament(templates, Path(folder) / "policies"),
        }
    found = [one for some in by_scanner.values() for one in some]
    stale = [known[0] for known in ACKNOWLEDGED if not any(_covers(known, one) for one in found)]
    for check in stale:
        print(f"{check} is acknowledged in scripts/scan_known.py and no longer found; take it out")
    wrong = len(stale)
    for scanner, some in by_scanner.items():
        open_ = [one for one in some if not any(_covers(known, one) for known in ACKNOWLEDGED)]
        for check, template, resource, name in sorted(open_):
            print(f"{template}: {check} {resource}: {name}")
        print(f"{scanner}: {count} templates, {len(some) - len(open_)} findings acknowledged, {len(open_)} not")
        wrong += len(open_)
    return 1 if wrong else 0


def _write(templates: Path, folder: Path) -> int:
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, list(deployments(folder)))
    stacks = app.synth().stacks
    for stack in stacks:
        (templates / f"{stack.stack_name}.json").write_text(json.dumps(stack.template), encoding="utf-8")
    return len(stacks)


def _output(*command: object, codes: tuple[int, ...]) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in codes:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _checkov(templates: Path) -> list[Finding]:
    """(check, template, resource, what it says) of every failed check. A template it cannot read is an error."""
    options = ("--framework", "cloudformation", "--skip-download", "-o", "json")
    report: Json = json.loads(_output(HOME / "bin" / "checkov", "-d", templates, *options, codes=(0, 1)))
    if report["summary"]["parsing_errors"] or not report["summary"]["passed"]:
        raise RuntimeError(f"checkov could not read the templates: {report['summary']}")
    return [
        (one["check_id"], Path(one["file_path"]).stem, one["resource"], one["check_name"])
        for one in report["results"]["failed_checks"]
    ]


def _guard(templates: Path) -> list[Finding]:
    """Of each failed rule the resources that it names."""
    options = ("--structured", "-o", "json", "-S", "none")
    rules = GUARD / "rules" / "control-tower" / "cfn-guard"
    reports: Json = json.loads(_output(GUARD_BINARY, "validate", "-d", templates, "-r", rules, *options, codes=(0, 19)))
    if not any(report["compliant"] for report in reports):
        raise RuntimeError("cfn-guard found nothing that fits a rule: it did not read the templates")
    found = set[Finding]()
    for report in reports:
        resources = json.loads(Path(report["name"]).read_text(encoding="utf-8"))["Resources"]
        for failed in report["not_compliant"]:
            said = json.dumps(failed)
            control = _CONTROL.search(said.replace("\\n", "\n"))
            for logical_id in set(re.findall(r'"/Resources/(\w+)', said)):
                check, words = (control[1], control[2]) if control else (failed["Rule"]["name"], "")
                kind = resources[logical_id]["Type"]
                found.add((check, Path(report["name"]).stem, f"{kind}.{logical_id}", words))
    return sorted(found)


def _parliament(templates: Path, folder: Path) -> list[Finding]:
    """Of every policy of an identity, a file each. One that it cannot read is a finding of its own."""
    folder.mkdir()
    places = dict[str, tuple[str, str]]()
    for template in sorted(templates.glob("*.json")):
        for resource, document in policies(json.loads(template.read_text(encoding="utf-8"))):
            file = folder / f"{len(places)}.json"
            file.write_text(json.dumps(document), encoding="utf-8")
            places[str(file)] = (template.stem, resource)
    if not places:
        raise RuntimeError("no policy was found in the templates")
    options = ("--directory", folder, "--json", "--include-community-auditors")
    lines = _output(HOME / "bin" / "parliament", *options, codes=(0, 1)).splitlines()
    said: list[Json] = [json.loads(line) for line in lines if line.startswith("{")]
    return sorted({(one["issue"], *places[one["location"]["filepath"]], one["title"]) for one in said})


def _covers(known: Finding, one: Finding) -> bool:
    return known[0] == one[0] and all(re.fullmatch(known[at], one[at]) is not None for at in (1, 2))


if __name__ == "__main__":
    sys.exit(main())
