#!/usr/bin/env bash
# Runs the unit tests under further versions of Python, each in a virtual environment .venv-VERSION; those that this machine
# does not have, and the one of .venv, are left out, and so are tests marked `once`, for which the version is all one.
#
# Left out, too, is what no version of Python changes. Between versions differ what is imported and parsed, how models are
# built, asyncio, pickling, and what random, hash and sort order give. What transports and virtual time decide follows from
# these and from integers: two runs in virtual time, MRC and RoCEv2 under faults, stand for all of it, since their histories
# have to be the same to the byte under both versions. Pages, packages and scripts of this tree are the same files, and the
# kernel and other programs do not ask who calls.
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
leave_out() {
    local name
    for name in "$@"; do all_one+=("--ignore-glob=*/test_$name.py"); done
}
set -f # names are patterns for pytest, not for files here
leave_out mrc_* roce_* nic_* nscc_reference path_selections qp_schedulers loss_models libmrc* torch_*           # transports
leave_out sim_* lab_virtual workloads collectives training_graph experiments_training open_loop matrix soak     # virtual time
leave_out three_tiers fault_domains fault_busiest fault_wholepaths permutation_draws empty_queue memory_copies
leave_out host_garbage host_sampling history_none agent_completions controller_localise controller_turns bench_*
leave_out compiled links mutants docs_* site ui_tab ui_figures ui_colours wheel packaging setup_scripts p4_*    # the same files
leave_out campaign_study boundary_fuzz topo_size p4runtime_recorded
leave_out stopped wireshark topo_real_time topo_relay topo_senders topo_shells topo_waits                       # the kernel's
set +f
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
    # For processes that tests start: each would compile what it imports, where nobody may write it then.
    ".venv-$version/bin/python" -c 'import compileall, mrclab; [compileall.compile_dir(p, quiet=2) for p in ("mrclab", *mrclab.PACKAGES)]'
    ".venv-$version/bin/pytest" -q tests/unit -m 'not once' "${all_one[@]}" "$@"
    .venv/bin/pytest -q "tests/unit/test_lab_virtual.py" -k "under_every_python and $version"
done
