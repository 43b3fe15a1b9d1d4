#!/usr/bin/env bash
# The main job against a real vLLM: a tiny random model made on the spot, served by this machine's CPU behind the
# local cloud. Nothing is left running, also after Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
server=
stop() {
  [ -z "$server" ] || kill -TERM -- "-$server" 2>/dev/null || true
  [ -z "$server" ] || { sleep 2; kill -KILL -- "-$server" 2>/dev/null || true; }
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

.venv-vllm/bin/python scripts/real_server/tiny_model.py "$work/model"
port=$(.venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
setsid scripts/real_server/serve_vllm.sh "$work/model" "$port" >"$work/vllm.log" 2>&1 &
server=$!
printf 'vLLM starts on port %s (about half a minute) ' "$port"
for _ in $(seq 120); do
  .venv/bin/python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/ping', timeout=2)" 2>/dev/null && ready=1 && break
  kill -0 "$server" 2>/dev/null || break
  printf .
  sleep 1
done
echo
[ "${ready:-}" ] || { echo "vLLM did not start; the end of its log:"; tail -n 20 "$work/vllm.log"; exit 3; }
.venv/bin/loadproof demo --environment local-vllm --backend "http://127.0.0.1:$port" "$@"
