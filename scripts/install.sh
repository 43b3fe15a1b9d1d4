#!/usr/bin/env bash
# scripts/install.sh FILE...: hash-locked requirements into $VENV (.venv), by uv: seconds where pip takes minutes.
# uv itself comes by pip, from the same lock. INSTALLER=pip leaves it out, for a place where uv does not run.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
pip() { .venv/bin/python -m pip --python "$python" "$1" --disable-pip-version-check "${@:2}"; }
if [ "${INSTALLER:-uv}" = pip ]; then
  for file in "$@"; do
    echo "installing $file by pip, which takes a minute or more"
    pip install --quiet --require-hashes -r "$file"
  done
  exit
fi
if [ ! .venv/bin/uv -nt requirements-uv.txt ]; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
  touch .venv/bin/uv
fi
# Where pip was told to look, uv looks too; a setting of uv's own goes before.
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
for file in "$@"; do
  echo "installing $file"
  .venv/bin/uv pip install --quiet --python "$python" --require-hashes -r "$file"
done
