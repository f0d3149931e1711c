#!/usr/bin/env bash
# Installs BMv2 and p4c from p4lang's own packages, which exist for Ubuntu, so that the lab runs on simple_switch_grpc.
# An option: where they cannot be had it says what the lab does without them, and fails nothing. Safe to repeat.
set -euo pipefail

KEYRING=/usr/share/keyrings/p4lang.gpg
LIST=/etc/apt/sources.list.d/p4lang.list
WITHOUT="switches run on the embedded target (softswitch), and p4src/ cannot be recompiled; all else is the same."

without() { printf 'p4lang: %s: %s\n' "$*" "$WITHOUT"; exit 0; }

add_source() {
    local release=$1 base=https://download.opensuse.org/repositories
    apt-get install -qq -y --no-install-recommends ca-certificates curl gnupg >/dev/null || return 1
    curl -fsSL --max-time 60 "$base/home:p4lang/$release/Release.key" 2>/dev/null | gpg --dearmor --yes -o "$KEYRING" 2>/dev/null || return 1
    echo "deb [signed-by=$KEYRING] $base/home:/p4lang/$release/ /" > "$LIST"
    apt-get update -qq -o Dir::Etc::sourcelist="$LIST" -o Dir::Etc::sourceparts=- 2>/dev/null
}

main() {
    [ "$(id -u)" = 0 ] || { echo "p4lang: installing packages needs root; run it with sudo." >&2; exit 1; }
    if command -v simple_switch_grpc >/dev/null && command -v p4c >/dev/null; then
        return
    fi
    # shellcheck disable=SC1091  # the system's own
    . /etc/os-release
    [ "${ID:-}" = ubuntu ] || without "there are packages for Ubuntu only, and this is ${PRETTY_NAME:-another system}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    if ! add_source "xUbuntu_${VERSION_ID:-}"; then
        rm -f "$LIST" # a source that does not answer would fail every later update
        without "its packages for Ubuntu ${VERSION_ID:-} cannot be reached"
    fi
    apt-get install -qq -y --no-install-recommends p4lang-bmv2 p4lang-p4c >/dev/null ||
        without "apt-get could not install its packages"
    echo "p4lang: BMv2 and p4c are installed."
}

main "$@"
