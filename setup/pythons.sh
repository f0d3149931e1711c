#!/usr/bin/env bash
# Runs the unit tests under further versions of Python, each in a virtual environment .venv-VERSION; those that this machine
# does not have, and the one of .venv, are left out, and so are tests marked `once`, for which the version is all one.
#
#   setup/pythons.sh VERSION... [-- PYTEST_ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

# An interpreter of this version: on PATH (a shim of pyenv's may be there and refuse), else pyenv's newest.
find_python() {
    local candidate
    for candidate in "python$1" $(printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python | sort -rV); do
        if "$candidate" -c 'import venv' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

versions=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    versions+=("$1")
    shift
done
[ $# -eq 0 ] || shift
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in "${versions[@]}"; do
    [ "$version" != "$own" ] || continue
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        printf 'pythons: no Python %s on this machine\n' "$version"
        continue
    fi
    printf 'pythons: unit tests under Python %s\n' "$version"
    PYTHON=$python VENV=.venv-$version setup/install.sh
    ".venv-$version/bin/pytest" -q tests/unit -m 'not once' "$@"
done
