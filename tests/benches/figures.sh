#!/usr/bin/env bash
# Takes the figures of docs/performance.md and tests/benches/README.md, and says of which machine, when and beside what load.
#
#   tests/benches/figures.sh                     all benchmarks, about half an hour beside the build
#   tests/benches/figures.sh tool_call agent     these alone
set -euo pipefail
cd "$(dirname "$0")/../.."

benches=("$@")
if [ $# -eq 0 ]; then
    benches=(tool_call agent effects journal kv everyday providers provider_plugin teams mcp fair chat batch)
fi
selection=()
for bench in "${benches[@]}"; do selection+=(--bench "$bench"); done
cargo bench --quiet --no-run "${selection[@]}"

about() { sed -n "s/^$1[^:]*: *//p" "$2" 2>/dev/null | head -n 1; }
load() { cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || uptime | sed 's/.*average[s]*: *//'; }

echo "date       $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "commit     $(git describe --always --dirty)"
echo "compiler   $(rustc --version)"
echo "processor  $(nproc) of $(about 'model name' /proc/cpuinfo)"
echo "memory     $(about MemTotal /proc/meminfo)"
echo "system     $(uname -sr)"
for bench in "${benches[@]}"; do
    printf '\n== %s (load over 1, 5 and 15 minutes before it: %s)\n' "$bench" "$(load)"
    cargo bench --quiet --bench "$bench"
done
printf '\nload after the last one: %s\n' "$(load)"
