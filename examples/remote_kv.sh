#!/bin/sh
# Two machines of one: network namespaces with a cable between them, a runtime directory and a fabric each.
# remote_kv serves a KV cache on the first one, and uses it on the second.  Run as root:
#
#     examples/remote_kv.sh build/bin
set -eu

[ $# -eq 1 ] && [ -x "$1/remote_kv" ] || {
    echo "usage: $0 FOLDER-OF-remote_kv" >&2
    exit 2
}
bin=$(cd "$1" && pwd)
[ "$(id -u)" -eq 0 ] || {
    echo "skipped: only root makes network namespaces"
    exit 77
}
a=remote-kv-$$-a
b=remote-kv-$$-b
folder=$(mktemp -d)

leave() {
    if [ -n "${server:-}" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$folder"
}
trap leave EXIT
trap 'exit 130' HUP INT TERM # by which the line above takes effect

if ! { ip netns add "$a" && ip netns add "$b" &&
    ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"; } 2>/dev/null; then
    echo "skipped: no network namespaces here"
    exit 77
fi
ip -n "$a" addr add 10.98.0.1/24 dev eth0
ip -n "$b" addr add 10.98.0.2/24 dev eth0
ip -n "$a" link set eth0 up
ip -n "$b" link set eth0 up
for machine in "$a" "$b"; do # the kernel tells of it a second later at most
    n=0
    while [ "$n" -lt 100 ] && ! ip -n "$machine" link show eth0 | grep -q "state UP"; do
        sleep 0.1
        n=$((n + 1))
    done
done

"$bin/aclmem" fabric keygen "$folder/key" >/dev/null
export ACLMEM_PRODUCT=A3 ACLMEM_FABRIC=eth0 ACLMEM_FABRIC_KEY="$folder/key"

mkfifo "$folder/enter"
ACLMEM_RUNTIME_DIR=$folder/a ip netns exec "$a" "$bin/remote_kv" serve <"$folder/enter" >"$folder/served" &
server=$!
exec 9>"$folder/enter"
n=0
while [ ! -s "$folder/served" ] && [ "$n" -lt 600 ]; do
    sleep 0.1
    n=$((n + 1))
done
handle=$(head -1 "$folder/served")
echo "machine 10.98.0.1 exports $(echo "$handle" | cut -c1-32)..."
ACLMEM_RUNTIME_DIR=$folder/b ip netns exec "$b" "$bin/remote_kv" use "$handle"
echo >&9
wait "$server"
server=
tail -1 "$folder/served"
