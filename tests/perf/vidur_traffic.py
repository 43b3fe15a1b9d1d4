"""The traffic of `twin_speed.py` on Vidur (Microsoft Research, PyPI `vidur` 0.0.26), run by an environment that has it.

VENV/bin/python tests/perf/vidur_traffic.py TRAFFIC.json

TRAFFIC.json: `arrivals_s`, `input_tokens`, `output_tokens`, `token_budget`, and the step's line in ms: `base_ms`,
`per_decode_ms`, `per_context_token_ms`, `per_prompt_token_ms`. Prints one JSON object: CPU-seconds of the event loop,
simulated seconds, mean latencies. Vidur's own predictor needs profiles from a hub that is not reached here, so the
line stands in for it: the same step times as ours, at the price of one multiplication, which favours Vidur. Its
metrics are off, and creating its requests is outside the timer.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> None:
    from vidur._native.entities import ExecutionTime
    from vidur.config import (
        CacheConfig,
        ClusterConfig,
        FixedRequestLengthGeneratorConfig,
        MetricsConfig,
        ReplicaConfig,
        SarathiSchedulerConfig,
        SimulationConfig,
        SyntheticRequestGeneratorConfig,
    )
    from vidur.entities import Request
    from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
    from vidur.request_generator.synthetic_request_generator import SyntheticRequestGenerator
    from vidur.simulator import Simulator
    from vidur.types import ExecutionTimePredictorType

    given = json.loads(Path(sys.argv[1]).read_text())
    base, decode, context, prompt = (
        given[name] for name in ("base_ms", "per_decode_ms", "per_context_token_ms", "per_prompt_token_ms")
    )

    class Line:
        """A step in ms from its decodes, the tokens they attend to, and its prompt tokens."""

        def __init__(self, **_: Any) -> None:
            pass

        def get_execution_time(self, batch: Any, stage: int) -> Any:
            decodes = attended = prompts = 0
            for new, held in zip(batch.num_q_tokens, batch.num_kv_tokens, strict=True):
                if new == 1:
                    decodes, attended = decodes + 1, attended + held
                else:
                    prompts += new
            step_ms = base + decode * decodes + context * attended + prompt * prompts
            return ExecutionTime(1, step_ms, *[0.0] * 13)

    ExecutionTimePredictorRegistry.unregister(ExecutionTimePredictorType.RANDOM_FORREST)
    ExecutionTimePredictorRegistry.register(ExecutionTimePredictorType.RANDOM_FORREST, Line)
    prompts, answers = given["input_tokens"], given["output_tokens"]
    requests = [Request(at, prompts, answers) for at in given["arrivals_s"]]
    SyntheticRequestGenerator.generate = lambda self: requests  # type: ignore[method-assign]
    config = SimulationConfig(
        cluster_config=ClusterConfig(
            replica_config=ReplicaConfig(tensor_parallel_size=1, num_pipeline_stages=1, gpu_memory_utilization=0.9),
            replica_scheduler_config=SarathiSchedulerConfig(batch_size_cap=1024, chunk_size=given["token_budget"]),
            cache_config=CacheConfig(),
        ),
        request_generator_config=SyntheticRequestGeneratorConfig(
            length_generator_config=FixedRequestLengthGeneratorConfig(prefill_tokens=prompts, decode_tokens=answers)
        ),
        metrics_config=MetricsConfig(
            write_metrics=False, enable_chrome_trace=False, store_plots=False, output_dir=tempfile.mkdtemp()
        ),
    )
    simulator = Simulator(config)
    simulator._write_output = lambda: None
    started = time.process_time()
    simulator.run()
    cpu_s = time.process_time() - started
    served = [request for request in requests if request.completed]
    print(
        json.dumps(
            {
                "cpu_s": cpu_s,
                "served": len(served),
                "simulated_s": max(request.completed_at for request in served),
                "e2e_mean_ms": 1000
                * sum(request.completed_at - request.arrived_at for request in served)
                / len(served),
            }
        )
    )


if __name__ == "__main__":
    main()
