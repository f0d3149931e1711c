#!/usr/bin/env bash
# Installs BMv2 and p4c from p4lang's own packages for Ubuntu 22.04, so that the lab runs on simple_switch_grpc.
# For the virtual machine of the Vagrantfile; the lab itself does not need it. Safe to repeat.
set -euo pipefail

KEYRING=/usr/share/keyrings/p4lang.gpg
SOURCE=http://download.opensuse.org/repositories/home:/p4lang/xUbuntu_22.04

[ "$(id -u)" = 0 ] || { echo "p4lang: installing packages needs root; run it with sudo." >&2; exit 1; }
grep -q 'VERSION_ID="22.04"' /etc/os-release ||
    { echo "p4lang: these packages are for Ubuntu 22.04; on other systems the embedded target is used." >&2; exit 1; }
if command -v simple_switch_grpc p4c >/dev/null; then
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends ca-certificates curl gnupg make
curl -fsSL "https://download.opensuse.org/repositories/home:p4lang/xUbuntu_22.04/Release.key" | gpg --dearmor --yes -o "$KEYRING"
echo "deb [signed-by=$KEYRING] $SOURCE/ /" > /etc/apt/sources.list.d/p4lang.list
apt-get update -qq
apt-get install -qq -y --no-install-recommends p4lang-bmv2 p4lang-p4c
