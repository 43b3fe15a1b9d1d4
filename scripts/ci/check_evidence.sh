#!/usr/bin/env bash
# Does every profile of an environment have current, passing evidence?
#
#   scripts/ci/check_evidence.sh ENVIRONMENT PLACE     PLACE: s3://BUCKET/evidence, or a folder
#
# From the repository's root. Exit code: 0 yes; 1 some is missing, stale, old or did not pass.
set -euo pipefail
environment=$1 place=${2%/}
profiles=()
for profile in deploy_profiles/"$environment"/*.yaml; do
  if [ "$(basename "$profile")" != environment.yaml ]; then profiles+=("$profile"); fi
done
exec .venv/bin/loadproof evidence check "${profiles[@]}" --place "$place" --max-age "${MAX_AGE:-30d}"
