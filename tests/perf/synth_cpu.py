"""CPU and wall seconds of synthesis over the number of profiles: writes docs/performance-synthesis.md.

.venv/bin/python tests/perf/synth_cpu.py [--profiles 1,10,100,300] [--output FILE]

Each number is synthesized in a fresh process as `cdk synth` starts it (app.py with an output folder), Node included.
Beside it, in the same run, an app with the same resources a profile made of CDK's own constructs with literal values.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PLAIN = Path(__file__).with_name("plain_stacks.py")
CONTEXT = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"]
GOALS_CPU_S = {100: 8.0, 300: 18.0}
ENVIRONMENT = """
account: "123456789012"
region: us-east-1
kms_key_arn: arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555
alarm_topic_arn: arn:aws:sns:us-east-1:123456789012:alarms
tags: {environment: perf, owner: ml-platform, cost-center: "42"}
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
  security_group_ids: [sg-0123456789abcdef0]
"""
PROFILE = """
name: {name}
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source: {{type: s3, s3_uri: "s3://example-models/llama-3.1-8b/", accept_eula: true}}
container:
  family: tgi
  version: 3.3.6
  settings: {{max_input_tokens: 4096, max_total_tokens: 5120, max_concurrent_requests: 64}}
endpoint: {{instance_type: ml.g6e.2xlarge, min_instances: 0, max_instances: 4}}
copies: {{min: 0, max: 4, memory_mib_per_copy: 16384}}
scaling:
  policies:
    - {{type: target_tracking, metric: concurrent_requests_per_copy, target: 8}}
    - {{type: step, metric: invocations_per_copy, threshold: 600, steps: [{{at: 0, add_copies: 1}}]}}
    - {{type: scheduled, name: morning, schedule: cron(30 7 ? * MON-FRI *), timezone: Europe/Berlin, min_copies: 1}}
  to_zero: {{wake_on_backlog: true}}
buffer: {{max_concurrency: 16}}
objectives: {{at_concurrency: 8, e2e_p50_ms: 6000, e2e_p95_ms: 9000, error_rate_max: 0.01}}
workload: {{input_tokens: 512, output_tokens: 200}}
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one fresh process and its children took."""

    cpu_s: float
    wall_s: float


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", default="1,10,100,300", help="numbers of profiles, comma-separated")
    parser.add_argument("--output", type=Path, help="write the page there; without it only the table is printed")
    options = parser.parse_args()
    counts = [int(count) for count in options.profiles.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _write_profiles(Path(folder), max(counts))
        types = _resource_types(Path(folder))
        for count in counts:
            chosen = ",".join(_name(at) for at in range(count))
            ours = _synthesized(Path(folder), [sys.executable, "-c", _APP], {"env": "perf", "profile": chosen})
            plain = _synthesized(
                Path(folder), [sys.executable, str(PLAIN)], {"stacks": count, "types": dict(types), "tags": 3}
            )
            rows.append((count, ours, plain))
            print(f"{count:4} profiles: {ours.cpu_s:6.2f} CPU-s {ours.wall_s:6.2f} s; plain {plain.cpu_s:6.2f} CPU-s")
    if options.output:
        options.output.write_text(_page(rows, types), encoding="utf-8")


_APP = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(REPOSITORY)!r})
from stacks.application import main
sys.exit(main(Path("deploy_profiles")))
"""


def _name(at: int) -> str:
    return f"chat-{at:03}"


def _write_profiles(folder: Path, count: int) -> None:
    environment = folder / "deploy_profiles" / "perf"
    environment.mkdir(parents=True)
    (environment / "environment.yaml").write_text(ENVIRONMENT, encoding="utf-8")
    for at in range(count):
        name = _name(at)
        (environment / f"{name}.yaml").write_text(PROFILE.format(name=name), encoding="utf-8")


def _synthesized(folder: Path, command: list[str], context: dict[str, Any]) -> Cost:
    variables = {
        **os.environ,
        "CDK_OUTDIR": str(folder / "out"),
        "CDK_CONTEXT_JSON": json.dumps({**CONTEXT, **context}),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=variables, check=True)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s)


def _resource_types(folder: Path) -> Counter[str]:
    """How many resources of each type a profile's stack holds; also fills the caches that a second run finds."""
    _synthesized(folder, [sys.executable, "-c", _APP], {"env": "perf", "profile": _name(0)})
    (template,) = (folder / "out").glob("*.template.json")
    resources = json.loads(template.read_text(encoding="utf-8"))["Resources"]
    return Counter(body["Type"] for body in resources.values())


_DOMINANT = """\
What dominates is jsii: each construct, each attribute that is read and each dependency is a request from Python to
Node and its answer, some 150 for a profile. What a request carries costs too: a structure of CDK's own classes is
checked and sent field by field, so most resources go as plain maps (`cdk/resource.py`). The rest is CDK's own
synthesis in Node, which resolves every resource twice, once for its references and once for its template."""


def _page(rows: list[tuple[int, Cost, Cost]], types: Counter[str]) -> str:
    lines = [
        "# How long synthesis takes",
        "",
        "Written by `.venv/bin/python tests/perf/synth_cpu.py --output docs/performance-synthesis.md`; every",
        "figure is of that one run, each number of profiles in a fresh process, Node included.",
        "",
        f"**Machine:** {os.cpu_count()} cores, shared; {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        "",
        f"A full profile is a stack of {sum(types.values())} resources: "
        + ", ".join(f"{count} {name.removeprefix('AWS::')}" for name, count in sorted(types.items()))
        + ". *Plain* is an app with",
        "the same resources of CDK's own constructs (L2 where CDK has one), values written out, nothing checked.",
        "",
        "| profiles | CPU-s | wall s | plain: CPU-s | plain: wall s | goal CPU-s | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for count, ours, plain in rows:
        goal = GOALS_CPU_S.get(count)
        met = "–" if goal is None else "yes" if ours.cpu_s <= goal else "**no**"
        lines.append(
            f"| {count} | {ours.cpu_s:.1f} | {ours.wall_s:.1f} | {plain.cpu_s:.1f} | {plain.wall_s:.1f} "
            f"| {'–' if goal is None else f'≤ {goal:g}'} | {met} |"
        )
    if len(rows) > 1:
        (few, less, _), (many, more, _) = rows[0], rows[-1]
        each_ms = (more.cpu_s - less.cpu_s) / (many - few) * 1000
        lines += ["", f"Each further profile: {each_ms:.0f} ms of CPU.", "", _DOMINANT]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
