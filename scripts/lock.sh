#!/usr/bin/env bash
# Writes the hash-locked requirement files. No registry address ends up in them.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
compile() {
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-emit-index-url --no-emit-find-links "$@"
}
compile pyproject.toml --extra cdk --extra local -o requirements.txt
compile pyproject.toml -c requirements.txt -o requirements-core.txt
compile pyproject.toml --extra cdk --extra local --group dev -c requirements.txt -o requirements-dev.txt
printf 'hatchling==1.33.0\neditables\n' | compile - -c requirements-dev.txt -o requirements-build.txt
printf 'uv==0.13.9\n' | compile - -o requirements-uv.txt
printf 'checkov==3.3.30\nparliament==1.6.4\nsetuptools<81\n' | compile - -o requirements-scan.txt
printf 'hatchling==1.33.0\ncyclonedx-bom==7.5.0\n' | compile - -c requirements-dev.txt -o requirements-release.txt
