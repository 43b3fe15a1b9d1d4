#!/usr/bin/env bash
# propose_workload.sh FOLDER: a pull request for each NAME.diff in FOLDER, whose words are NAME.txt and NAME.plan; the same
# one every night.
set -euo pipefail

folder=$1
start=$(git rev-parse HEAD)
base=$(git rev-parse --abbrev-ref HEAD)
shopt -s nullglob
for diff in "$folder"/*.diff; do
  name=$(basename "$diff" .diff)
  branch=loadproof/traffic-$name
  if [ "$(git apply --numstat "$diff" | cut -f3 | grep -Ecv '^deploy_profiles/[A-Za-z0-9._/-]*\.ya?ml$')" != 0 ]; then
    echo "$diff: touches more than profiles; not proposed" >&2
    exit 1
  fi
  profile=$(git apply --numstat "$diff" | cut -f3 | head -n 1)
  profile=${profile#deploy_profiles/}
  git checkout --quiet -B "$branch" "$start"
  git apply --index "$diff"
  git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
    commit --quiet --message "Workload of $name as its traffic is now"
  git push --quiet --force origin "$branch"
  {
    echo "Traffic is no more what this profile was proven with. The figures are predicted; benchmark it to settle them:"
    echo
    echo "    loadproof bench ${profile%.*}"
    echo
    sed 's/^/    /' "$folder/$name.txt"
    if [ -s "$folder/$name.plan" ]; then
      printf '\nThe plan of the profile with this workload, predicted:\n\n'
      sed 's/^/    /' "$folder/$name.plan"
    fi
  } > "$folder/$name.md"
  if [ -n "$(gh pr list --head "$branch" --state open --json number --jq '.[].number')" ]; then
    gh pr edit "$branch" --body-file "$folder/$name.md"
  else
    gh pr create --head "$branch" --base "$base" --title "Traffic of $name moved" --body-file "$folder/$name.md"
  fi
done
git checkout --quiet "$base"
