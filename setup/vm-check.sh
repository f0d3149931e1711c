#!/usr/bin/env bash
# Boots the Vagrantfile's machine for real, from an empty folder, and uses the lab in it: set-up, a run, the live page, results brought out.
#
#   setup/vm-check.sh [SUITE]      a Debian (default: trixie) made into a box of its own, emulated by QEMU without KVM
#
# Takes some half an hour and 5 GB. Needs root, vagrant with its libvirt provider, a running libvirtd, qemu-system-x86,
# mmdebstrap, grub-pc-bin, rsync and git. FOLDER=/path keeps box and machine for the next call; else both are removed.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'vm-check: %s\n' "$*" >&2; exit 1; }
say() { printf 'vm-check: %s %s\n' "$(date +%T)" "$*"; }

# shellcheck source=setup/debian.sh
. setup/debian.sh

readonly BOX=mrclab-check DISK_MIB=8192 PAGE_PORT=8642
readonly PACKAGES=linux-image-amd64,systemd-sysv,systemd-resolved,udev,dbus,openssh-server,sudo,rsync,ca-certificates,iproute2

# What every box has: a user vagrant who may become root, vagrant's public first key, ssh, an address by DHCP.
prepare_system() {
    local root=$1 home=$1/home/vagrant
    chroot "$root" useradd --create-home --shell /bin/bash vagrant
    printf 'vagrant ALL=(ALL) NOPASSWD: ALL\n' > "$root/etc/sudoers.d/vagrant"
    install -d -m 700 "$home/.ssh"
    install -m 600 "$(first_key)" "$FOLDER/first-key" # ssh-keygen reads no key that others can
    ssh-keygen -y -f "$FOLDER/first-key" > "$home/.ssh/authorized_keys"
    chmod 600 "$home/.ssh/authorized_keys"
    chroot "$root" chown -R vagrant:vagrant /home/vagrant
    printf 'UseDNS no\n' > "$root/etc/ssh/sshd_config.d/vagrant.conf"
    printf '[Match]\nType=ether\n[Network]\nDHCP=yes\n' > "$root/etc/systemd/network/lab.network"
    chroot "$root" systemctl enable --quiet systemd-networkd ssh
    printf '/dev/vda1 / ext4 defaults 0 1\n' > "$root/etc/fstab"
    copy_settings "$root"
    settings_in_environment >> "$root/etc/environment"
}

# The private key that every new box has and that vagrant replaces at the first start.
first_key() { find / -xdev -path '*vagrant*/keys/vagrant' -type f -print -quit 2>/dev/null; }

# A disk with one partition and GRUB, without mounting anything.
make_disk() {
    local root=$1 disk=$2 kernel initrd
    kernel=$(cd "$root/boot" && echo vmlinuz-*)
    initrd=$(cd "$root/boot" && echo initrd.img-*)
    mkdir -p "$root/boot/grub"
    cat > "$root/boot/grub/grub.cfg" <<CFG
linux /boot/$kernel root=/dev/vda1 ro console=ttyS0 net.ifnames=0 mitigations=off
initrd /boot/$initrd
boot
CFG
    truncate -s "${DISK_MIB}M" "$disk"
    printf 'start=2048, type=83, bootable\n' | sfdisk --quiet "$disk"
    mke2fs -q -t ext4 -d "$root" -E offset=1048576 "$disk" "$((DISK_MIB - 1))M"
    grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o "$disk.core" biosdisk part_msdos ext2 normal configfile linux
    dd if=/usr/lib/grub/i386-pc/boot.img of="$disk" bs=446 count=1 conv=notrunc status=none
    dd if="$disk.core" of="$disk" bs=512 seek=1 conv=notrunc status=none
}

make_box() {
    local root=$FOLDER/root
    rm -rf --one-file-system "$root"
    make_debian "$SUITE" "$root" --variant=minbase "--include=$PACKAGES"
    prepare_system "$root"
    make_disk "$root" "$FOLDER/disk.raw"
    say "packing the box"
    qemu-img convert -c -O qcow2 "$FOLDER/disk.raw" "$FOLDER/box.img"
    printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %d}\n' $((DISK_MIB / 1024)) > "$FOLDER/metadata.json"
    tar -C "$FOLDER" -cf "$FOLDER/$BOX.box" metadata.json box.img
    rm -rf --one-file-system "$root" "$FOLDER/disk.raw" "$FOLDER/disk.raw.core" "$FOLDER/box.img"
}

# The checkout as a newcomer has it: nothing but what git holds.
copy_checkout() {
    rm -rf "$FOLDER/lab"
    mkdir -p "$FOLDER/lab"
    git archive HEAD | tar -x -C "$FOLDER/lab"
}

in_machine() { vagrant ssh -c "cd /vagrant && $*" -- -q; }

# Exit status 0 (held) and 3 (the machine is too slow to judge) are both right here.
check_run() {
    local status=0
    in_machine "sudo .venv/bin/mrclab run scenarios/link-failure.yaml" || status=$?
    [ $status = 0 ] || [ $status = 3 ] || die "the run in the machine ended with status $status."
    in_machine "sudo .venv/bin/mrclab run scenarios/link-failure.yaml --world sim" || die "the run in virtual time failed in the machine."
}

# The live page's answer to a browser outside, with its token and without.
check_page() {
    local address="" at page
    in_machine "sudo .venv/bin/mrclab ui --port $PAGE_PORT \$(sudo ls -td results/*/ | head -n 1)" > "$FOLDER/page.log" &
    page=$!
    for at in $(seq 300); do
        address=$(grep -oE "http://[^ ]+" "$FOLDER/page.log" | head -n 1) && break
        sleep 1
    done
    [ -n "$address" ] || die "the live page did not say its address within $at seconds."
    curl --fail --silent --show-error --output "$FOLDER/page.html" "$address"
    [ "$(curl --silent --output /dev/null --write-out '%{http_code}' "${address%%\?*}?token=wrong")" = 403 ] || die "a wrong token was let in."
    kill "$page"
    say "the live page answers outside: $(wc -c < "$FOLDER/page.html") bytes, and 403 to a wrong token"
}

check_results() {
    vagrant fetch
    find results -name 'report.html' | grep -q . || die "no report came out of the machine."
}

main() {
    SUITE=${1:-trixie}
    [ "$(id -u)" = 0 ] || die "a machine of its own needs root; run the same command with sudo."
    local tool
    for tool in vagrant virsh qemu-img mmdebstrap grub-mkimage rsync git curl; do
        command -v "$tool" >/dev/null || die "$tool is missing; install its package."
    done
    vagrant plugin list | grep -q vagrant-libvirt || die "vagrant has no libvirt provider; install vagrant-libvirt."
    virsh --connect qemu:///system list >/dev/null 2>&1 || die "libvirtd does not answer; start it."
    if [ -z "${FOLDER:-}" ]; then
        FOLDER=$(mktemp -d "${TMPDIR:-/var/tmp}/mrclab-vm-XXXXXX")
        trap 'cd "$FOLDER/lab" 2>/dev/null && vagrant destroy -f; vagrant box remove --force $BOX; rm -rf --one-file-system "$FOLDER"' EXIT
    else
        mkdir -p "$FOLDER"
    fi
    export VAGRANT_HOME=$FOLDER/vagrant MRCLAB_QEMU=1 MRCLAB_BOX=$BOX
    [ -e "$FOLDER/$BOX.box" ] || make_box
    copy_checkout
    cd "$FOLDER/lab"
    vagrant box add --force --name $BOX "$FOLDER/$BOX.box"
    vagrant up --provider=libvirt
    say "the machine is up and has set the lab up"
    check_run
    check_page
    check_results
    say "all well"
}

main "$@"
