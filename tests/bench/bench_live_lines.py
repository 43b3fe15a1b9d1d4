"""Live lines for tests: a run of four levels, in its second one."""

from __future__ import annotations

from dataclasses import replace

from loadproof.bench.live.lines import Ahead, Bound, Client, Judged, Latency, Progress, SoFar, Start
from loadproof.bench.live.screen import State

START = Start(
    run_id="20261123-101500-chat",
    target="chat-endpoint",
    profile="chat",
    levels=tuple(Ahead(f"{slots} in flight", 64, None, False) for slots in (1, 2, 4, 8)),
    search=None,
    objectives=(Bound("ttft_p95_ms", "<=", 500.0), Bound("output_tokens_per_s_min", ">=", 40.0)),
)
PROGRESS = Progress(
    level=1,
    levels=4,
    load="2 in flight",
    phase="measured",
    done=23,
    total=64,
    errors=3,
    errors_by_kind={"throttled": 2, "timeout": 1},
    requests_per_s=2.94,
    output_tokens_per_s=188.0,
    in_flight=2,
    waiting=1,
    oldest_s=0.7,
    elapsed_s=7.8,
    left_s=13.9,
    run_left_s=200.0,
    ttft=Latency(20, 212.4, 380.1, 412.0, ((190.0, 4), (209.8, 6), (231.6, 7), (412.9, 3))),
    e2e=Latency(20, 640.0, 702.0, 702.0, ((650.0, 12), (717.7, 8))),
    client=Client(0.12, 0.41),
    ended=False,
)
SO_FAR = SoFar(
    1,
    23,
    23,
    "INCONCLUSIVE",
    ("too few",),
    (
        Judged("ttft_p95_ms", "<=", 500.0, 380.2, 301.1, None, "INCONCLUSIVE"),
        Judged("output_tokens_per_s_min", ">=", 40.0, 52.5, 41.0, 60.0, "PASS"),
    ),
)


def state(progress: Progress = PROGRESS, so_far: SoFar | None = SO_FAR) -> State:
    """After the first level, some way into the second."""
    made = State()
    made.take(START)
    made.take(replace(PROGRESS, level=0, load="1 in flight", done=64, errors=0, errors_by_kind={}, ended=True))
    made.take(progress)
    if so_far is not None:
        made.take(so_far)
    return made
