#!/usr/bin/env bash
# Rewrites requirements.lock from pyproject.toml, for Python 3.10 and 3.11 at once. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "lock: uv is missing; install it with: pip install uv" >&2; exit 1; }
# setuptools builds the editable install of the lab, without build isolation, so that its version is pinned as well.
echo 'setuptools>=64' | uv pip compile --quiet --universal --python-version 3.10 --extra dev \
    --no-emit-index-url --no-header --no-annotate pyproject.toml - |
    grep -v -e "sys_platform == 'win32'" -e "python_full_version >= '3.12'" > requirements.lock.new
sed -i "s/ ; python_full_version == '3.11.\*'/ ; python_full_version >= '3.11'/" requirements.lock.new
mv requirements.lock.new requirements.lock
