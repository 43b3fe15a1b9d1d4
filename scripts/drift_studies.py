"""How often `loadproof learn --against` alarms in vain, and how soon it sees what moved: months of made-up traffic.

    .venv/bin/python scripts/drift_studies.py [--months 200] [--only conversations]

Every month is 31 days of 860 requests a day, looked at after every hour. What is drawn is what was proven, but where a
row says otherwise; of those there is a tenth of the months.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench_recorded import DAY_SHAPE, WORKLOAD, recorded

from loadproof.bench.learn.drift import drift_of
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile, Workload

Drawn = dict[str, float | tuple[int, ...]]  # what `bench_recorded.Made` is told otherwise

LONG = {
    "name": "long",
    "share": 0.3,
    "input_tokens": {"distribution": "lognormal", "mean": 2000, "stddev": 300, "min": 16, "max": 4000},
    "output_tokens": {"distribution": "lognormal", "mean": 400, "stddev": 90, "min": 1, "max": 1000},
}
TURNS = {"turns": 6, "think_time_s": 20}
# Of each profile: what its workload has besides, and how that is drawn.
PROVEN: dict[str, tuple[dict[str, object], Drawn]] = {
    "plain": ({}, {}),
    "bursts": ({"arrivals": {"process": "gamma", "requests_per_s": 0.01, "burstiness": 0.5}}, {"burstiness": 0.5}),
    "day": (
        {"arrivals": {"process": "poisson", "requests_per_s": 0.01, "hours": DAY_SHAPE}},
        {"hours": DAY_SHAPE},
    ),
    "conversations": (TURNS, {"turns": 6}),
    "conversations that may end": (TURNS | {"continues": 0.8}, {"turns": 6, "goes_on": 0.8}),
    "classes": ({"classes": (LONG,)}, {"long_share": 0.3}),
    "classes of conversations": (
        TURNS | {"classes": (LONG | {"turns": 3},)},
        {"turns": 6, "long_share": 0.3, "long_turns": 3},
    ),
    "conversations, turns untold": (TURNS, {"turns": 6, "told": False}),
}
CHANGES: dict[str, Drawn] = {
    "as proven": {},
    "5% more requests": {"rate": 0.0105},
    "prompts 10% longer": {"longer": 1.1},
    "prompts 25% longer": {"longer": 1.25},
    "20% more requests": {"rate": 0.012},
    "50% more requests": {"rate": 0.015},
    "half of the requests": {"rate": 0.005},
    "lengths go together": {"paired": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=200)
    parser.add_argument("--only", choices=sorted(PROVEN))
    options = parser.parse_args()
    file = Path(__file__).resolve().parents[1] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    loaded = load_profile(file)
    for proven, (besides, drawn) in PROVEN.items():
        if options.only in (None, proven):
            profile = loaded.model_copy(update={"workload": Workload.model_validate(WORKLOAD | besides)})
            more_turns = {one: 2 * drawn[one] for one in ("turns", "long_turns") if one in drawn}
            changes = CHANGES | ({"twice the turns": more_turns} if more_turns else {})
            for name, changed in changes.items():
                count = options.months if name == "as proven" else max(1, options.months // 10)
                print(f"{proven:28} {name:22} {_studied(profile, drawn | changed, count)}", flush=True)


def _studied(profile: Profile, drawn: Drawn, count: int) -> str:
    """So many months against a profile, in words."""
    alarms = []
    for seed in range(count):
        found = drift_of(profile, recorded(31, 1000 + seed, **drawn))[0]
        alarms += [min(after)] if (after := [one.after_s for one in found if one.after_s is not None]) else []
    seen = f", seen after {statistics.median(alarms) / 86_400:.1f} days (median)" if alarms else ""
    return f"{len(alarms):4} of {count} months alarm{seen}"


if __name__ == "__main__":
    main()
