#!/bin/sh
# Installs the packages of a build into fresh systems and uses them there as others do:
#
#     test_packages.sh BUILD [SUITE...]        BUILD has deb/ and wheel/; the default is the suite of this
#                                              Debian, and bookworm on other systems
#
# The systems are made with debootstrap (scripts/debian_system.sh), in BUILD/systems.  Where that cannot be done the
# reason is printed and the exit status is 77.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- "$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)"
systems=$build/systems
. "$here/../../scripts/debian_system.sh"

skip() {
    echo "not run: $1"
    exit 77
}

fail() {
    echo "FAILED: $1"
    [ ! -e "$system/tmp/log" ] || tail -n 30 "$system/tmp/log"
    exit 1
}

why=$(system_lacks)
[ -z "$why" ] || skip "$why"
# Mounts of ours end with this process.
[ -n "${PACKAGES_UNSHARED:-}" ] || {
    PACKAGES_UNSHARED=1 exec unshare -m "$0" "$build" "$@"
}
ls "$build"/deb/aclmem_*.deb "$build"/wheel/*.whl >/dev/null || fail "make deb wheel comes first"

# In the system, with nothing of this machine's environment.
inside() {
    chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent DEBIAN_FRONTEND=noninteractive \
        LC_ALL=C.UTF-8 "$@"
}

# claim, command...: runs it inside; its output is in /tmp/log there.
must() {
    claim=$1
    shift
    inside "$@" >"$system/tmp/log" 2>&1 || fail "$suite: $claim"
}

# name...: where a name ends with .deb, the package of this build instead.
packages() {
    for name; do
        case $name in
        *.deb) (cd "$system/packages" && echo /packages/"$(echo "${name%.deb}"_*.deb)") ;;
        *) echo "$name" ;;
        esac
    done
}

apt() {
    inside apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends install -y $(packages "$@") >"$system/tmp/log" 2>&1
}

system_make() {
    system=$systems/$suite.used
    why=$(system_bootstrap "$suite") || skip "$why"
    system_copy "$suite" "$system"
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys" # where UCX looks for networks
    mkdir "$system/packages"
    cp "$build"/deb/*.deb "$build"/wheel/*.whl "$system/packages/"
    cp "$here/client.py" "$system/tmp/"
    cp -r "$here/project" "$here/client.c" "$system/tmp/"
    cc -I"$here/../../include" "$here/client.c" -o "$system/tmp/client" -L"$build/lib64" -lascendcl -ldl
    cc -I"$here/../../include" "$here/fabric.c" -o "$system/tmp/fabric" -L"$build/lib64" -lascendcl
}

# claim, command...: with memory that other machines may have.
must_fabric() {
    claim=$1
    shift
    must "$claim" env ACLMEM_PRODUCT=A3 ACLMEM_FABRIC=127.0.0.1 ACLMEM_FABRIC_KEY=/tmp/key "$@"
}

# What the package aclmem alone gives.
try_command() {
    apt aclmem.deb || fail "$suite: aclmem installs"
    must "the command runs a program with nothing sourced" aclmem run /tmp/client
    must "the command runs where there is no /dev/shm" sh -c 'rm -rf /dev/shm; aclmem run /tmp/client; mkdir /dev/shm'
    must "there is a manual page" test -e /usr/share/man/man1/aclmem.1.gz
    must "there are completions" test -s /usr/share/bash-completion/completions/aclmem
    must "a key is made" aclmem fabric keygen /tmp/key
    must_fabric "without UCX the fabric says what to install" aclmem run /tmp/fabric "install libucx0"
    apt libucx0 libsodium23 libseccomp2 || fail "$suite: libucx0 installs"
    must_fabric "with UCX the fabric works" aclmem run /tmp/fabric
    apt python3 || fail "$suite: python3 installs"
    must "the command runs a Python program with nothing sourced" aclmem run python3 /tmp/client.py
    grep -q "^written$" "$system/tmp/log" || fail "$suite: the Python program ran"
    ! inside python3 -c 'import acl' 2>/dev/null || fail "$suite: the module is not there for all without its package"
    apt python3-aclmem.deb || fail "$suite: python3-aclmem installs"
    must "python3-aclmem makes the module everybody's" python3 /tmp/client.py
    must "aclmem.root() is the tree" sh -euc '[ "$(python3 -c "import aclmem; print(aclmem.root())")" = /opt/aclmem ]'
    apt python3-pytest || fail "$suite: pytest installs"
    echo "def test_nothing(aclmem_devices): pass" >"$system/tmp/test_plugin.py"
    must "pytest knows the plugin" python3 -m pytest -p no:cacheprovider --aclmem-check /tmp/test_plugin.py
}

try_builds() {
    apt aclmem-dev.deb g++ pkg-config cmake make || fail "$suite: aclmem-dev and a compiler install"
    must "set_env.sh is enough for a build" sh -euc '. /opt/aclmem/set_env.sh; cd /tmp
        cc -I$ASCEND_HOME_PATH/include client.c -o built -L$ASCEND_HOME_PATH/lib64 -lascendcl -ldl; ./built'
    must "pkg-config finds it" sh -euc 'cd /tmp
        cc $(pkg-config --cflags ascendcl) client.c -o built $(pkg-config --libs ascendcl) -ldl; ./built; aclmem run ./built'
    must "CMake finds it" sh -euc 'cd /tmp; cmake -S project -B made -DCLIENT_LANGUAGE=C; cmake --build made; made/client'
}

try_wheel() {
    apt python3-venv || fail "$suite: python3-venv installs"
    must "pip installs the wheel" sh -euc 'python3 -m venv /tmp/venv
        /tmp/venv/bin/pip install -q --no-index --disable-pip-version-check /packages/*.whl'
    must "the module of the wheel works" /tmp/venv/bin/python /tmp/client.py
    must "the command of the wheel works" sh -euc 'PATH=/tmp/venv/bin:$PATH; aclmem run python3 /tmp/client.py'
    must_fabric "the wheel has no fabric, and says so" sh -euc 'PATH=/tmp/venv/bin:$PATH; aclmem run /tmp/fabric libucx0'
    must "the wheel needs no package of ours" sh -euc 'apt-get purge -qq -y libjansson4 libnuma1
        PATH=/tmp/venv/bin:$PATH; aclmem run python3 /tmp/client.py; aclmem run /tmp/client'
}

# Removing leaves nothing but what dpkg and apt write of it.
try_removal() {
    inside aclmem run /tmp/client >/dev/null || fail "$suite: a program before the removal"
    [ -n "$(inside find /dev/shm -name 'aclmem-*')" ] || fail "$suite: a program leaves its records in /dev/shm"
    must "the packages can be removed" apt-get -qq -y purge aclmem aclmem-dev python3-aclmem
    left=$(inside find / -xdev -name '*aclmem*' ! -path '/var/log/*' ! -path '/tmp/*' ! -path '/packages/*' ! -path '/proc/*')
    [ -z "$left" ] || fail "$suite: removing leaves $left"
    [ -d "$system/opt" ] || fail "$suite: removing takes /opt"
}

# A tree that dpkg does not know is not mixed with the package's.
try_foreign() {
    mkdir -p "$system/opt/aclmem/lib64"
    echo theirs >"$system/opt/aclmem/lib64/libascendcl.so"
    ! apt aclmem.deb || fail "$suite: a foreign library is replaced"
    grep -q "is not aclmem's" "$system/tmp/log" || fail "$suite: the refusal says why"
    [ "$(cat "$system/opt/aclmem/lib64/libascendcl.so")" = theirs ] || fail "$suite: the foreign library is kept"
    rm -r "$system/opt/aclmem"
    inside dpkg --purge aclmem >/dev/null 2>&1 || :
}

# A build without UCX: the tests that need it say so, and so does the library.
try_without_ucx() {
    tree=$build/without_ucx
    cmake -S "$here/../.." -B "$tree" -G Ninja -DACLMEM_UCX=OFF -DACLMEM_TESTS=ON >"$tree.log" 2>&1 &&
        cmake --build "$tree" --target all test_share_fabric >>"$tree.log" 2>&1 &&
        ctest --test-dir "$tree" --output-on-failure -R '^(install.tree|share.fabric|fabric[.].*|unit.export_registry)$' >>"$tree.log" 2>&1 || {
        tail -n 30 "$tree.log"
        echo "FAILED: a build without UCX"
        exit 1
    }
    [ ! -e "$tree/lib64/aclmem-fabric" ] && grep -q "fabric.remote .*Skipped" "$tree.log" || {
        echo "FAILED: a build without UCX has no fabric, and its tests are skipped"
        exit 1
    }
    rm -rf "$tree"
    echo "a build without UCX works, and says what is missing"
}

try_without_ucx
for suite; do
    system_make
    try_foreign
    try_command
    try_builds
    try_removal
    try_wheel
    umount "$system/sys" "$system/proc"
    rm -rf "$system"
    echo "$suite: the packages install, work and go"
done
