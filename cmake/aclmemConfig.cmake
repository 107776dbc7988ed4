# find_package(aclmem) gives the target aclmem::ascendcl.
include(${CMAKE_CURRENT_LIST_DIR}/aclmemTargets.cmake)
