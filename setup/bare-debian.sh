#!/usr/bin/env bash
# Tries the lab on a Debian that has nothing: a fresh system in a folder, with this checkout copied in, where the commands run as root.
#
#   setup/bare-debian.sh SUITE [COMMAND...]     default commands: make setup, make demo, the unit tests
#
# FOLDER=/path keeps the system there for the next call; else it is made anew and removed. The commands run in namespaces
# of their own, so that no process, mount or lab of theirs is left: pivot_root, not chroot, because mnexec needs / to be a
# mount point. Package mirror, pip settings and trusted certificates are copies of this machine's; nothing of it can be written.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'bare-debian: %s\n' "$*" >&2; exit 1; }
say() { printf 'bare-debian: %s\n' "$*"; }

# shellcheck source=setup/debian.sh
. setup/debian.sh

copy_checkout() {
    mkdir -p "$ROOT/mrclab"
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$ROOT/mrclab"
}

# A /dev of its own with what every system has.
make_dev() {
    local name
    mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
    for name in null zero full random urandom tty; do
        touch "$ROOT/dev/$name"
        mount --bind "/dev/$name" "$ROOT/dev/$name"
    done
    mkdir "$ROOT/dev/pts" "$ROOT/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$ROOT/dev/pts"
    mount -t tmpfs tmpfs "$ROOT/dev/shm"
    ln -s pts/ptmx "$ROOT/dev/ptmx"
    ln -s /proc/self/fd "$ROOT/dev/fd"
}

# Runs as process 1 of the new namespaces.
enter() {
    local folder
    mount --bind "$ROOT" "$ROOT"
    for folder in $(shared_folders); do
        [ -d "$folder" ] || continue
        mkdir -p "$ROOT$folder"
        mount --bind "$folder" "$ROOT$folder"
        mount -o remount,bind,ro "$ROOT$folder"
    done
    make_dev
    mount -t proc proc "$ROOT/proc"
    mount -t sysfs sysfs "$ROOT/sys"
    mount -t tmpfs tmpfs "$ROOT/run"
    cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
    printf '#!/bin/sh\nexit 101\n' > "$ROOT/usr/sbin/policy-rc.d" # packages start no services
    chmod +x "$ROOT/usr/sbin/policy-rc.d"
    mkdir -p "$ROOT/mnt/old"
    cd "$ROOT"
    pivot_root . mnt/old
    cd /mrclab
    umount -l /mnt/old
    run make -v >/dev/null 2>&1 || run sh -c 'apt-get update -qq && apt-get install -qq -y make >/dev/null' # the README's line before the first
    local command
    for command in "$@"; do
        printf 'bare-debian: %s\n' "$command"
        run sh -c "$command"
    done
}

run() {
    local settings
    mapfile -t settings < <(settings_in_environment)
    env -i HOME=/root DEBIAN_FRONTEND=noninteractive TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" "$@"
}

main() {
    [ $# -ge 1 ] || die "name a suite, such as trixie (Debian 13)."
    [ "$(id -u)" = 0 ] || die "a system in a folder needs root; run the same command with sudo."
    SUITE=$1
    shift
    [ $# -gt 0 ] || set -- "make setup" "make demo" ".venv/bin/pytest -q tests/unit"
    if [ -n "${FOLDER:-}" ]; then
        ROOT=$FOLDER
    else
        ROOT=$(mktemp -d "${TMPDIR:-/var/tmp}/mrclab-$SUITE-XXXXXX")
        trap 'rm -rf --one-file-system "$ROOT"' EXIT
    fi
    [ -e "$ROOT/etc/os-release" ] || make_debian "$SUITE" "$ROOT" --variant=minbase
    copy_checkout
    copy_settings "$ROOT"
    export ROOT SUITE
    unshare --mount --pid --ipc --uts --fork --kill-child --propagation private "$PWD/setup/bare-debian.sh" enter "$@"
}

if [ "${1:-}" = enter ]; then
    shift
    enter "$@"
else
    main "$@"
fi
