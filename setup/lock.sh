#!/usr/bin/env bash
# Rewrites requirements.lock and requirements-ray.txt from pyproject.toml, for all supported Pythons at once. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "lock: uv is missing; install it with: pip install uv" >&2; exit 1; }

locked() {
    uv pip compile --quiet --universal --python-version 3.10 --no-emit-index-url --no-header --no-annotate "$@" pyproject.toml |
        grep -v "sys_platform == 'win32'"
}

locked --extra dev > requirements.lock.new
mv requirements.lock.new requirements.lock
{
    head -n 1 requirements-ray.txt
    locked --extra ray --constraint requirements.lock | grep -vxFf requirements.lock
} > requirements-ray.txt.new
mv requirements-ray.txt.new requirements-ray.txt
