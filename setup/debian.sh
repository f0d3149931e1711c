#!/usr/bin/env bash
# A bare Debian in a folder, made from this machine's mirror and settings. Sourced; whoever sources it has `die` and `say`.

# Archive of this machine, where it is a Debian; else mmdebstrap's default.
# shellcheck disable=SC2016  # apt's variable
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | sort -u | head -n 1; }

# What apt was told about proxies and the like.
apt_options() { apt-config dump | grep -E '^Acquire::(http|https|Retries|ftp)' || true; }

# make_debian SUITE FOLDER [OPTION of mmdebstrap...]
make_debian() {
    local suite=$1 folder=$2 options=() line
    shift 2
    command -v mmdebstrap >/dev/null || die "mmdebstrap is missing; install the package mmdebstrap."
    while IFS= read -r line; do
        [ -z "$line" ] || options+=("--aptopt=$line")
    done < <(apt_options)
    say "making a bare Debian $suite in $folder"
    # shellcheck disable=SC2046  # without a mirror there is no argument at all
    DEBIAN_FRONTEND=noninteractive mmdebstrap --quiet "${options[@]}" "$@" "$suite" "$folder" $(mirror) || die "mmdebstrap could not make $suite."
}

# copy_settings FOLDER: pip's settings and the certificates that this machine trusts, as files.
copy_settings() {
    local file
    for file in /etc/pip.conf /etc/xdg/pip ~/.config/pip ~/.pip /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || { mkdir -p "$1$(dirname "$file")"; cp -rT "$file" "$1$file"; }
    done
}

# Settings in the environment, one NAME=VALUE a line.
settings_in_environment() { env | grep -E '^(PIP_|[a-z]+_proxy=|SSL_CERT_)' || true; }

# Local folders that pip's settings name (an index has its files beside it).
shared_folders() {
    { python3 -m pip config list 2>/dev/null || true; } | grep -oE "(file://)?/[^' ]+" | sed -E 's|^file://||; s|/simple/?$||' | sort -u
}
