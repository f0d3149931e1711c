#!/usr/bin/env bash
# Rewrites requirements.lock from pyproject.toml, for all supported Pythons at once. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "lock: uv is missing; install it with: pip install uv" >&2; exit 1; }
uv pip compile --quiet --universal --python-version 3.10 --extra dev --no-emit-index-url --no-header --no-annotate \
    pyproject.toml | grep -v "sys_platform == 'win32'" > requirements.lock.new
mv requirements.lock.new requirements.lock
