#!/usr/bin/env bash
# Measures on the first card: prints one table, and writes every run to JSON files in the folder $1 (default: results, beside
# this script). A wrong result ends the run; a ratio above its bar does not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-$here/results}
mkdir -p "$results"
# Keys are made once a run, and used by both programs that need them.
keys=$(mktemp -d)
trap 'rm -rf "$keys"' EXIT

echo '| what | n | ours ms | peer ms | ratio | bar | ok |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
"$here/sppark" --json "$results/sppark.json"
for peer in bellperson supraseal; do
    "$here/$peer" --keys "$keys" --json "$results/$peer.json"
done
