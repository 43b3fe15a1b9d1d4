"""The verdict so far: the judge's own, over a sample of the requests that ended, of bounded size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from loadproof.bench.judge.judgement import judge
from loadproof.bench.judge.verdict import decide
from loadproof.bench.live.lines import Judged, SoFar
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.parts import held_against

if TYPE_CHECKING:
    from loadproof.bench.measure.records import RequestRecord
    from loadproof.bench.plan import RunPlan

MOST_REQUESTS = 740  # half of them still give a p99 an upper end; judging them all takes 10 to 20 ms


def get_ready() -> None:
    """Do once what is slow the first time."""
    measure_level(1, ())


class Sample:
    """Requests of one level, spread evenly over it: of a long level every second, fourth, eighth, …"""

    def __init__(self, plan: RunPlan, level: int) -> None:
        self._plan, self._level = plan, level
        self._kept: list[RequestRecord] = []
        self._every = 1
        self._seen = 0

    def add(self, record: RequestRecord) -> None:
        """Without objectives nothing but failures is judged, and those are counted elsewhere."""
        if self._plan.spec.objectives and self._seen % self._every == 0:
            self._kept.append(record)
            if len(self._kept) > MOST_REQUESTS:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    def judged(self, done: int, errors: int) -> SoFar:
        """`done` ended, of which `errors` badly; both counted, not sampled."""
        spec, load, every = self._plan.spec, self._plan.loads[self._level], self._every
        found = measure_level(load.concurrency or 1, self._kept, load=load.words if load.is_open else None)
        metrics = replace(
            found,
            requests=done,
            errors=errors,
            requests_per_s=found.requests_per_s and found.requests_per_s * every,
            output_tokens_per_s=found.output_tokens_per_s and found.output_tokens_per_s * every,
        )
        seed, answer_length = spec.workload.seed, spec.workload.answer_length
        held = list(held_against(spec, self._kept, metrics))
        judgements = [
            replace(judge(one.objective, one.records, one.level, seed, answer_length), part=one.part) for one in held
        ]
        objectives = [one.objective for one in held]
        verdict = decide(judgements, [metrics], objectives, metrics.concurrency, spec.max_error_rate, metrics, load)
        rows = (
            Judged(one.label, one.comparison, one.bound, one.observed, one.low, one.high, one.verdict)
            for one in judgements
        )
        return SoFar(self._level, len(self._kept), self._seen, verdict.outcome, verdict.reasons, tuple(rows))
