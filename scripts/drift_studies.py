"""How often `loadproof learn --against` alarms in vain, and how soon it sees what moved: months of made-up traffic.

    .venv/bin/python scripts/drift_studies.py [--months 200]

Every month is 31 days, looked at after every hour. What is drawn is what was proven, but where a row says otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "bench"))

from bench_recorded import WORKLOAD, recorded

from loadproof.bench.learn.drift import drift_of
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Workload

CASES: dict[str, dict[str, float]] = {
    "as proven": {},
    "prompts 10% longer": {"longer": 1.1},
    "prompts 25% longer": {"longer": 1.25},
    "prompts 50% longer": {"longer": 1.5},
    "20% more requests": {"rate": 0.012},
    "50% more requests": {"rate": 0.015},
    "half of the requests": {"rate": 0.005},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=200)
    months = parser.parse_args().months
    file = Path(__file__).resolve().parents[1] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    profile = load_profile(file).model_copy(update={"workload": Workload.model_validate(WORKLOAD)})
    for name, changes in CASES.items():
        count = months if not changes else max(1, months // 10)
        alarms, days = 0, []
        for seed in range(count):
            traffic = recorded(31, 1000 + seed, **changes)
            since = [one.since.timestamp() for one in drift_of(profile, traffic)[0] if one.since]
            alarms += bool(since)
            days += [(min(since) - traffic.began_s) / 86_400] if since else []
        seen = f", seen after {statistics.median(days):.1f} days (median)" if days and changes else ""
        print(f"{name:24} {alarms:4} of {count} months alarm{seen}", flush=True)


if __name__ == "__main__":
    main()
