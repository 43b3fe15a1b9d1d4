#!/usr/bin/env bash
# Benchmarks every profile of an environment whose evidence is not current, and stores what was measured.
#
#   scripts/ci/benchmark_environment.sh ENVIRONMENT PLACE     PLACE: s3://BUCKET/evidence, or a folder
#
# From the repository's root. A row a profile goes to $GITHUB_STEP_SUMMARY, where there is one. Exit code: 0 everything
# passes or has passed; else that of the last benchmark that did not (1 missed, 3 could not run).
set -euo pipefail
environment=$1 place=${2%/}
loadproof=.venv/bin/loadproof
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
worst=0

row() { printf '| %s | %s | %s |\n' "$@" >> "$summary"; }

printf '### Benchmarks of %s\n\n| profile | verdict | evidence |\n|---|---|---|\n' "$environment" >> "$summary"
for profile in deploy_profiles/"$environment"/*.yaml; do
  name=$(basename "$profile" .yaml)
  if [ "$name" = environment ]; then continue; fi
  if "$loadproof" evidence check "$profile" --place "$place"; then
    row "$name" "current, nothing sent" "\`$place/$environment/$name/\`"
    continue
  fi
  run=runs/ci-$environment-$name code=0
  "$loadproof" bench "$profile" --out "$run" || code=$?
  if [ -f "$run/summary.json" ]; then
    "$loadproof" evidence add "$run" --to "$place"
    verdict=$(.venv/bin/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"]["outcome"])' "$run/summary.json")
    row "$name" "**$verdict**" "\`$place/$environment/$name/\`"
  else
    row "$name" "could not run (exit code $code)" "none"
  fi
  if [ "$code" -ne 0 ]; then worst=$code; fi
done
exit "$worst"
