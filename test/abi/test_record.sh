#!/bin/sh
# The library against the recorded ABI of the last release; and scripts/abi.sh notices when a function is gone, an
# field or a value is another one.  test_record.sh <root of the sources> <libascendcl.so>
root=$1
library=$2
"$root/scripts/abi.sh" "$library" || exit # also where abidiff is missing: 77

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
gunzip -c "$root/test/abi/recorded/libascendcl.abi.gz" >"$folder/now"
failed=0

# spoil WHAT sed-script: a record in which that was different
spoil() {
    sed "$2" "$folder/now" >"$folder/other"
    if cmp -s "$folder/now" "$folder/other"; then
        echo "$1: the record has nothing to change"
        failed=1
        return
    fi
    gzip -c "$folder/other" >"$folder/other.gz"
    if ABI_RECORD=$folder/other.gz "$root/scripts/abi.sh" "$library" >"$folder/said" 2>&1; then
        echo "$1: not noticed"
        cat "$folder/said"
        failed=1
    fi
}

spoil "a function that is gone" 's/aclrtMapMem\b/aclrtMapMemory/g'
spoil "a field at another place" "/class-decl name='aclrtPhysicalMemProp'/,/<\/class-decl>/s/layout-offset-in-bits='64'/layout-offset-in-bits='96'/"
spoil "an enum's other value" "s/\(enumerator name='ACL_MEMCPY_DEVICE_TO_HOST' value='\)[0-9]*'/\17'/"
exit "$failed"
