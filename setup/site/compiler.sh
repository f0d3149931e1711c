#!/bin/sh
# Installs what compiles transport and simulator for the lab in a browser tab: clang, lld, binaryen, the headers of C's
# library for WebAssembly, and the headers of the page's CPython, of Debian's package, unpacked into
# build/site-parts/headers.
set -eu
cd "$(dirname "$0")/../.."
parts=$PWD/build/site-parts
apt-get install -y -q --no-install-recommends clang lld wasi-libc binaryen
command -v python3.14 >/dev/null && exit 0
[ -e "$parts/headers/usr/include/python3.14/Python.h" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$parts"
chmod 755 "$work"
# The first release that has CPython 3.14; only this package of it is taken, and it is not installed.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 '/debian/*$')
echo "deb $site forky main" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list"; Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/lists"; Dir::Cache "$work"; Acquire::Languages "none";
END
export APT_CONFIG="$work/apt.conf"
apt-get update -q
(cd "$work" && apt-get download -q libpython3.14-dev)
rm -rf "$parts/headers"
dpkg-deb -x "$work"/libpython3.14-dev_*.deb "$parts/headers"
echo "headers of CPython 3.14: build/site-parts/headers"
