#!/usr/bin/env bash
# Runs the unit tests under further versions of Python, each in a virtual environment .venv-VERSION; those that this machine
# does not have, and the one of .venv, are left out, and so are tests marked `once`, for which the version is all one.
#
# Left out, too, are the tests of transports and NICs, and of what is made of them alone or compiled (two minutes of CPU).
# Between versions differ what is imported and parsed, how models are built, asyncio, pickling, and what random, hash and
# sort order give; what a transport decides follows from these and from integers. Two runs in virtual time, MRC and RoCEv2
# under faults, therefore stand for all of it: their histories have to be the same to the byte under both versions.
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

all_one=()
for name in mrc_\* roce_\* nic_\* nscc_reference path_selections loss_models collectives training_graph experiments_training \
    fault_domains soak three_tiers open_loop links compiled libmrc\* campaign_study; do
    all_one+=("--ignore-glob=*/test_$name.py")
done
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
    ".venv-$version/bin/pytest" -q tests/unit -m 'not once' "${all_one[@]}" "$@"
    .venv/bin/pytest -q "tests/unit/test_lab_virtual.py" -k "under_every_python and $version"
done
