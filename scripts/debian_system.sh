# Fresh Debian systems in folders, for scripts that try aclmem there as root.  To be sourced, with `systems` set to the
# folder that holds them:
#
#     $systems/SUITE        what debootstrap made; kept for the next run
#     $systems/SUITE.debs   the packages that apt-get fetched; kept for the next run
#
# Mounts are made in the caller's mount namespace.  The caller runs under `unshare -m`, so that they end with it.

# Why this machine cannot make a system; nothing where it can.
system_lacks() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "only root can make a system with debootstrap"
    elif ! command -v debootstrap >/dev/null; then
        echo "debootstrap is missing (Debian's package: debootstrap)"
    elif ! unshare -m true 2>/dev/null; then
        echo "this machine does not allow mounts"
    fi
}

# The mirror that this machine's apt uses; Debian's own on other distributions.
system_mirror() {
    [ -z "${MIRROR:-}" ] || { echo "$MIRROR"; return; }
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n 's/^\(deb\|URIs:\) .*\(https\?:[^ ]*\/debian\)\/\?\( .*\)\?$/\2/p' | head -n 1)
    echo "${mirror:-http://deb.debian.org/debian}"
}

# system_bootstrap SUITE: makes $systems/SUITE unless an earlier run did.
system_bootstrap() {
    [ ! -e "$systems/$1/made" ] || return 0
    rm -rf "$systems/$1"
    mkdir -p "$systems/$1"
    debootstrap --variant=minbase "$1" "$systems/$1" "$(system_mirror)" >"$systems/$1.log" 2>&1 || {
        echo "debootstrap of $1: $(tail -n 1 "$systems/$1.log")"
        return 1
    }
    touch "$systems/$1/made"
}

# system_copy SUITE FOLDER: a copy of the system to be used, with the network and apt's proxies of this machine.
system_copy() {
    rm -rf --one-file-system "$2"
    cp -a --reflink=auto "$systems/$1" "$2" || return 1
    rm "$2/made"
    cp -L /etc/resolv.conf "$2/etc/" 2>/dev/null || :
    apt-config dump 2>/dev/null | grep -i '^Acquire::\(https\?::Proxy\|Check-Valid-Until\)' >"$2/etc/apt/apt.conf.d/90machine" || :
    mkdir -p "$systems/$1.debs/partial"
}

# system_mount SUITE FOLDER: what a booted system has.
system_mount() {
    mount --bind "$2" "$2" # ip netns takes a root that is a mount
    mount -t proc proc "$2/proc"
    mount -t sysfs sysfs "$2/sys"
    mount -t tmpfs -o mode=755 tmpfs "$2/dev"
    mkdir "$2/dev/net"
    for node in null zero full random urandom tty net/tun; do
        [ -e "/dev/$node" ] || continue
        touch "$2/dev/$node"
        mount --bind "/dev/$node" "$2/dev/$node"
    done
    ln -s /proc/self/fd "$2/dev/fd"
    ln -s fd/0 "$2/dev/stdin"
    ln -s fd/1 "$2/dev/stdout"
    ln -s fd/2 "$2/dev/stderr"
    mkdir "$2/dev/shm" "$2/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$2/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$2/dev/pts"
    ln -s pts/ptmx "$2/dev/ptmx"
    mount --bind "$systems/$1.debs" "$2/var/cache/apt/archives"
}

# system_run FOLDER COMMAND...: in the system, with none of this machine's environment but its proxies.
system_run() {
    system=$1
    shift
    chroot "$system" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} "$@"
}
