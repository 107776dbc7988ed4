# Leaves the list of what was installed in the tree itself, relative to its root.
set(manifest share/aclmem/manifest)
set(lines ${manifest})
foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
  file(RELATIVE_PATH line ${CMAKE_INSTALL_PREFIX} ${file})
  list(APPEND lines ${line})
endforeach()
list(JOIN lines "\n" text)
file(WRITE $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${manifest} "${text}\n")
