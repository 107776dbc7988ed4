# Points programs and their builds to this tree.  To be sourced: `. /opt/aclmem/set_env.sh`.
# The tree may be moved as a whole; nothing here knows where it was installed.

# Where this file lies: bash, zsh and ksh say so.  Other shells do not, but have the file open.
if [ -n "${BASH_SOURCE:-}" ]; then
    _aclmem_file=$BASH_SOURCE
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_aclmem_file=${(%):-%x}'
elif [ -n "${KSH_VERSION:-}" ]; then
    eval '_aclmem_file=${.sh.file:-}'
else
    for _aclmem_file in "/proc/$(exec sh -c 'echo "$PPID"')/fd"/*; do
        _aclmem_file=$(readlink "$_aclmem_file") || continue
        [ ! -e "${_aclmem_file%/set_env.sh}/share/aclmem/manifest" ] || break
    done
fi
_aclmem_root=$(cd "$(dirname "$_aclmem_file")" 2>/dev/null && pwd -P) || :
[ -e "$_aclmem_root/share/aclmem/manifest" ] || _aclmem_root=

# name, folder: the folder first in the list, once.
_aclmem_prepend() {
    eval "_aclmem_list=\${$1:-}"
    case ":$_aclmem_list:" in
    *":$2:"*) ;;
    *) eval "export $1=\"\$2\${_aclmem_list:+:\$_aclmem_list}\"" ;;
    esac
}

# A word where the programs of the tree cannot start here: made for another processor, or with a newer C library.
# The variables are set all the same; a cross build wants them.
_aclmem_try() {
    [ -x "$_aclmem_root/bin/aclmem" ] || return 0
    _aclmem_list=$("$_aclmem_root/bin/aclmem" --version 2>&1) && return 0
    for _aclmem_file in "$_aclmem_root"/*-linux/ascend_toolkit_install.info; do
        _aclmem_file=$(sed -n 's/^arch=//p' "$_aclmem_file" 2>/dev/null) || :
    done
    if [ "$_aclmem_file" != "$(uname -m)" ]; then
        echo "aclmem: $_aclmem_root is for ${_aclmem_file:-another machine}, and this machine is $(uname -m); build aclmem here" >&2
        return 0
    fi
    case $_aclmem_list in
    *GLIBC*) echo "aclmem: $_aclmem_root was built with a newer C library than this machine has; build aclmem here, or on the oldest system that you use" >&2 ;;
    *) echo "aclmem: the programs of $_aclmem_root do not start on this machine" >&2 ;;
    esac
    echo "aclmem: $_aclmem_list" >&2
}

if [ -n "$_aclmem_root" ]; then
    _aclmem_try
    export ASCEND_HOME_PATH="$_aclmem_root"
    export ASCEND_TOOLKIT_HOME="$_aclmem_root"
    export ASCEND_HOME="$_aclmem_root"
    export ASCEND_OPP_PATH="$_aclmem_root/opp"
    _aclmem_prepend LD_LIBRARY_PATH "$_aclmem_root/lib64"
    _aclmem_prepend PKG_CONFIG_PATH "$_aclmem_root/lib64/pkgconfig"
    _aclmem_prepend CMAKE_PREFIX_PATH "$_aclmem_root"
    [ ! -d "$_aclmem_root/bin" ] || _aclmem_prepend PATH "$_aclmem_root/bin"
    [ ! -d "$_aclmem_root/python" ] || _aclmem_prepend PYTHONPATH "$_aclmem_root/python/site-packages"
else
    echo "aclmem: set_env.sh does not lie in an installed tree, or this shell does not say where" >&2
fi
unset -f _aclmem_prepend _aclmem_try
unset _aclmem_file _aclmem_list
[ -n "$_aclmem_root" ] && unset _aclmem_root
