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

if [ -n "$_aclmem_root" ]; then
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
unset -f _aclmem_prepend
unset _aclmem_file _aclmem_list
[ -n "$_aclmem_root" ] && unset _aclmem_root
