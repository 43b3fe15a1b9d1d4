"""Whole runs on a clock that jumps, against a server that is a rule: minutes of load in milliseconds."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from virtual_twin import made_invocation, now_ns, now_s, run_virtual

from loadproof.bench.judging import RunResult, judge_run
from loadproof.bench.load.sweep import Sweep
from loadproof.bench.measure.records import FILE_NAME, RecordWriter, read_records
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import RunPlan, planned_in_full, read_plan, write_plan
from loadproof.bench.spec import BenchmarkSpec
from loadproof.invocation import GenerationRequest, Invocation, Outcome, OutcomeKind

SESSION_NS = 10**15  # every session begins so much after the one before


@dataclass
class VirtualServer:
    """Each request has the server to itself for `alone_s`, in the order they came; its first token is there `ttft_s`
    after that. From `freezes_at_s` on it stands still for `frozen_s`: what came by then or comes in it waits."""

    ttft_s: float = 0.0
    alone_s: float = 0.0
    freezes_at_s: float = 0.0
    frozen_s: float = 0.0
    free_s: float = 0.0
    sent: int = 0

    async def warm(self, count: int) -> None:
        """Nothing to open."""

    def cancel_all(self) -> None:
        """Nothing hangs."""

    def under_way(self) -> Mapping[object, object]:
        return {}

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        self.sent += 1
        sent_ns, begins_s = now_ns(), max(now_s(), self.free_s)
        if self.freezes_at_s <= begins_s < self.freezes_at_s + self.frozen_s:
            begins_s = self.freezes_at_s + self.frozen_s
        self.free_s = begins_s + self.alone_s
        await asyncio.sleep(self.free_s + self.ttft_s - now_s())
        tokens = array("q", [now_ns()] * request.max_output_tokens)
        return made_invocation(Outcome(OutcomeKind.OK, 200), sent_ns, tokens, now_ns(), 8)


@dataclass
class VirtualRun:
    """A run's folder; `go` sends what is left of it and judges the whole."""

    folder: Path
    spec: BenchmarkSpec
    server: VirtualServer = field(default_factory=VirtualServer)

    def go(self) -> RunResult:
        if (self.folder / PLAN_FILE).exists():
            plan = read_plan(self.folder).resumed(0)
        else:
            plan = planned_in_full(
                RunPlan("run", "2026-11-21T10:00:00Z", 0, self.spec, {"loadproof": "0"}, ("2026-11-21T10:00:00Z",))
            )
        write_plan(self.folder, plan)
        records = read_records(self.folder / FILE_NAME).records
        with RecordWriter(self.folder / FILE_NAME) as writer:
            sweep = Sweep(
                plan,
                self.server,
                writer.append,
                partial(write_plan, self.folder),
                lambda progress: None,
                -plan.session * SESSION_NS,
                records,
                now_ns,
            )
            run_virtual(sweep.run())
        return judge_run(self.folder)
