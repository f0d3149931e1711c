#!/usr/bin/env bash
# Installs what lib_mrc.so is compiled with, where it is missing: a C compiler and the headers of libibverbs.
set -euo pipefail

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

missing=()
command -v "${CC:-cc}" >/dev/null || missing+=(gcc libc6-dev)
echo '#include <infiniband/verbs.h>' | "${CC:-cc}" -E -x c - >/dev/null 2>&1 || missing+=(libibverbs-dev)
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || die "this is no Debian or Ubuntu; install what has ${missing[*]} there."
[ "$(id -u)" = 0 ] || die "these packages are missing: ${missing[*]}. Run the same command with sudo."
printf 'setup: installing %s\n' "${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || die "apt-get update failed; check this machine's package sources."
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}."
