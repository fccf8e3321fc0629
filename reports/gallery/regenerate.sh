#!/usr/bin/env bash
# Makes a folder of the gallery anew, on a machine with an NVIDIA GPU: reports/gallery/regenerate.sh reports/gallery/NAME
# Needs refkit with numba-cuda's compilers, torch for the peers and ncu for the memory model; every part may also be run alone.
set -uo pipefail
folder="$(mkdir -p "$1" && cd "$1" && pwd)"
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
refkit() { python -m refkit.verify "$@"; }

for backend in cuda cpu; do
  refkit all --backend "$backend" --profile standard --no-progress --json "$work/$backend.json" --report "$work/$backend"
  gzip -9 --stdout "$work/$backend.json" > "$folder/$backend.json.gz"
  cp "$work/$backend/index.html" "$folder/$backend.html"
done
refkit probe --backend cuda --json "$folder/probe.json"
refkit bench ladder --no-progress --json "$folder/ladder.json"
refkit bench matmul_wgmma --no-progress --json "$folder/wgmma.json"
python -m refkit.verify.agreement --cases 12 --json "$folder/agreement.json"
python -m refkit.verify.analysis.validate --out "$folder"
python -m tests.catalogue.on_hardware --json "$folder/planted_faults.json" async_proxy async_copies
