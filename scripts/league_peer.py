"""NVIDIA aiconfigurator's estimates of published cells; run by its own Python (`pip install aiconfigurator==0.12.0`).

Cells come as a JSON list on stdin; a JSON list of `[ms a token, TTFT in ms]`, or of why there is none, goes to stdout,
with the CPU seconds that it took. Offline: what it would ask a hub for is a cell without an estimate.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"


def estimate(cell: dict[str, object]) -> list[float] | str:
    from aiconfigurator.cli.api import cli_estimate

    mixture = {"moe_tp_size": cell["degree"], "moe_ep_size": 1} if cell["mixture"] else {}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = cli_estimate(
                cell["model"],
                cell["system"],
                backend_name=cell["backend"],
                isl=cell["input_tokens"],
                osl=cell["output_tokens"],
                batch_size=cell["concurrency"],
                tp_size=cell["degree"],
                **mixture,
            )
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    answer = cell["output_tokens"]
    return [(found.ttft + found.tpot * (answer - 1)) / answer, found.ttft]


if __name__ == "__main__":
    cells = json.load(sys.stdin)
    before = time.process_time()
    answers = [estimate(cell) for cell in cells]
    json.dump({"answers": answers, "cpu_s": time.process_time() - before}, sys.stdout)
