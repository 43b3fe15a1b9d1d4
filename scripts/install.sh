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
# Where pip was told to look, uv looks too, and trusts whom pip was told to trust; settings of uv's own go before.
told() { .venv/bin/python -m pip config list | sed -n "s/^global\.$1='\(.*\)'\$/\1/p"; }
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(told index-url)}}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
cert=${SSL_CERT_FILE:-${PIP_CERT:-$(told cert)}}
[ -z "$cert" ] || export SSL_CERT_FILE="$cert"
for file in "$@"; do
  echo "installing $file"
  .venv/bin/uv pip install --quiet --python "$python" --require-hashes -r "$file"
done
