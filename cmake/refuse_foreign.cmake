# Keeps an install from replacing somebody else's libascendcl.so.  Ours knows the name aclmem_version.
set(root $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
file(GLOB libraries ${root}/lib64/libascendcl.so ${root}/*/lib64/libascendcl.so)
foreach(library IN LISTS libraries)
  file(STRINGS ${library} ours REGEX aclmem_version LIMIT_COUNT 1)
  if(NOT ours AND NOT "$ENV{FORCE}" STREQUAL "1")
    message(FATAL_ERROR "\n  ${library} is not aclmem's; nothing was installed.\n"
      "  Choose another folder with PREFIX=, or replace it with FORCE=1.")
  endif()
endforeach()
