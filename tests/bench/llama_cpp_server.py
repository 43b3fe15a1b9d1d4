"""llama.cpp's own HTTP server from the xllamacpp wheel: `llama_cpp_server.py MODEL SLOTS [keeps]`: says its address,
runs on. One that keeps serves a prompt from what its slot holds of the last one.

One thread of its own for computing: two that spin on a loaded machine keep each other waiting.
"""

from __future__ import annotations

import signal
import sys
import threading

import xllamacpp

CONTEXT_A_SLOT = 1024


def main(model: str, slots: int, keeps: bool) -> None:
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {"tiny"}
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_parallel = slots
    settings.cont_batching = True
    settings.kv_unified = False
    settings.n_ctx = CONTEXT_A_SLOT * slots
    settings.n_batch = settings.n_ubatch = 512
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.n_threads_http = slots + 40  # an open stream holds one
    settings.cache_prompt = keeps  # else every request pays its prefill
    settings.cache_ram_mib = 0
    settings.cache_idle_slots = False
    settings.ui = False
    settings.endpoint_metrics = True
    settings.n_gpu_layers = 0
    settings.fit_params = False
    settings.verbosity = 1
    settings.sampling.seed = 0
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["keeps"])
