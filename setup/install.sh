#!/usr/bin/env bash
# Makes this machine ready for the lab: Debian/Ubuntu packages that are missing, .venv from requirements.lock, and
# .venv-p4sh from requirements-p4sh.txt. Safe to repeat; when nothing changed it takes a fraction of a second.
# It enables and starts no service, and touches nothing outside this folder except through apt-get.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-/usr/bin/python3}
VENV=${VENV:-} # another folder than .venv: then only that is made
PACKAGES=(mininet iproute2 nftables ethtool tcpdump iputils-ping procps python3-venv make tshark)
CHECKERS='^(mypy|ruff|ast-serialize|librt|pathspec|types-protobuf|grpc-stubs)==' # they read sources: .venv alone has them
PIP=pip==26.3 # of Python 3.11's own, most of the time goes to versions that are not asked for
NOT_OF_A_RUN='/(tests|pip|setuptools|mypyc?|scapy)/' # without bytecode: nobody starts these often
MININET=/usr/lib/python3/dist-packages/mininet

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
say() { printf 'setup: %s\n' "$*"; }

missing_packages() {
    local package
    for package in "${PACKAGES[@]}"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
    done
}

install_packages() {
    local missing
    command -v dpkg-query >/dev/null || die "this is no Debian or Ubuntu; install ${PACKAGES[*]} by hand, or use the Vagrantfile."
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || die "these packages are missing: ${missing% }. Run the same command with sudo."
    say "installing ${missing% }"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || die "apt-get update failed; check this machine's package sources."
    # shellcheck disable=SC2086  # the list is meant to be split
    apt-get install -qq -y --no-install-recommends $missing >/dev/null || die "apt-get could not install ${missing% }."
}

check_python() {
    [ -x "$PYTHON" ] || die "$PYTHON is missing; install the package python3."
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        die "$("$PYTHON" -V) is too old: the lab needs Python 3.10 or newer (Debian 12, Ubuntu 22.04); set PYTHON=/path/to/python3.11 or use the Vagrantfile."
}

# stamp FILE... : one word that changes when a file or the interpreter does.
stamp() { { "$PYTHON" -V; cat "$@"; } | sha256sum | cut -d' ' -f1; }

fresh() { [ "$(cat "$1/.stamp" 2>/dev/null)" = "$2" ]; }

wanted_packages() { if [ "$1" = .venv ]; then cat requirements.lock; else grep -Ev "$CHECKERS" requirements.lock; fi; }

# Only .venv has a pip, which serves the others.
new_venv() {
    [ "$(id -u)" = 0 ] || [ -w . ] || die "cannot write to $PWD. Run the same command with sudo."
    if [ "$1" = .venv ]; then
        "$PYTHON" -m venv .venv || die "$PYTHON -m venv failed."
        packages .venv "$PIP" || die "pip could not install $PIP."
    else
        "$PYTHON" -m venv --without-pip "$1" || die "$PYTHON -m venv failed."
    fi
}

packages() {
    local venv=$1 python=()
    shift
    [ "$venv" = .venv ] || python=(--python "$venv/bin/python")
    .venv/bin/pip "${python[@]}" install --quiet --disable-pip-version-check --no-deps --no-compile "$@"
}

# Every start does without it where nobody may write it later, or PYTHONDONTWRITEBYTECODE is set.
bytecode() { "$1/bin/python" -m compileall -q -x "$NOT_OF_A_RUN" "$1/lib" >/dev/null || true; }

install_lab() {
    local want wanted venv=$1
    want=$(stamp requirements.lock pyproject.toml setup/install.sh)
    fresh "$venv" "$want" && return 0
    say "making $venv (Python packages of requirements.lock)"
    new_venv "$venv"
    mapfile -t wanted < <(wanted_packages "$venv")
    packages "$venv" "${wanted[@]}" || die "pip could not install requirements.lock."
    PYTHONWARNINGS=ignore packages "$venv" --no-build-isolation -e . || # setuptools speaks of folders without Python
        die "pip could not install the lab itself."
    # Mininet is Debian's, not PyPI's: one package is let into the environment, not the whole of dist-packages.
    ln -sfn "$MININET" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mininet"
    "$venv/bin/python" -W ignore -c 'import mininet.net' || die "the Mininet in $MININET cannot be imported by $("$PYTHON" -V); install the package mininet anew, or set PYTHON to another version."
    bytecode "$venv"
    printf '%s\n' "$want" > "$venv/.stamp"
}

install_p4sh() {
    local want
    want=$(stamp requirements-p4sh.txt setup/install.sh)
    fresh .venv-p4sh "$want" && return 0
    say "making .venv-p4sh (p4runtime-shell, whose pins bar it from .venv)"
    new_venv .venv-p4sh
    packages .venv-p4sh -r requirements-p4sh.txt || die "pip could not install requirements-p4sh.txt."
    bytecode .venv-p4sh
    printf '%s\n' "$want" > .venv-p4sh/.stamp
}

# sudo looks for commands in /usr/local/bin, and not in a virtual environment.
link_command() {
    local link=/usr/local/bin/mrclab own=$PWD/.venv/bin/mrclab
    [ "$(id -u)" = 0 ] && [ "${MRCLAB_LINK:-1}" != 0 ] && [ "$(readlink "$link")" != "$own" ] || return 0
    if [ -e "$link" ]; then
        say "$link is another's ($(readlink -f "$link")); this one is .venv/bin/mrclab"
    else
        ln -sfn "$own" "$link" 2>/dev/null || say "$link cannot be made; the command is .venv/bin/mrclab"
    fi
}

main() {
    install_packages
    check_python
    if [ -n "$VENV" ]; then
        install_lab "$VENV"
        return
    fi
    install_lab .venv
    .venv/bin/python setup/links.py || die "the links for type checkers cannot be made in build/types."
    install_p4sh
    link_command
}

main "$@"
