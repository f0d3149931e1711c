#!/usr/bin/env bash
# Puts Ray (requirements-ray.txt, 80 MB) into .venv, for the tests of campaigns on a cluster. Where it cannot be had, as
# without network or a wheel for this Python, one line says so, and those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

want=$(sha256sum requirements-ray.txt | cut -d' ' -f1)
[ "$(cat .venv/.ray-stamp 2>/dev/null)" != "$want" ] || exit 0
printf 'setup: Ray, for the tests of campaigns on a cluster (requirements-ray.txt, 80 MB)\n'
if said=$(.venv/bin/pip install --quiet --disable-pip-version-check --retries 1 --no-deps --no-compile --only-binary :all: -r requirements-ray.txt 2>&1); then
    printf '%s\n' "$want" > .venv/.ray-stamp
else
    printf 'setup: those tests are skipped, for pip has no Ray for %s: %s\n' "$(.venv/bin/python -V)" "$(tail -n 1 <<<"$said")"
fi
