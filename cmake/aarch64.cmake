# A cross build for aarch64 on Debian: the compiler of gcc-aarch64-linux-gnu, libraries of scripts/sysroot.sh,
# and qemu-user to run the tests with.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot ABSOLUTE)
set(ENV{PKG_CONFIG_LIBDIR} ${sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${sysroot})
set(ENV{PKG_CONFIG_PATH} "")
set(CMAKE_C_FLAGS_INIT "-isystem ${sysroot}/usr/include -isystem ${sysroot}/usr/include/aarch64-linux-gnu")
# Also the libraries that those need, which no pkg-config file names.
set(CMAKE_EXE_LINKER_FLAGS_INIT "")
foreach(folder ${sysroot}/usr/lib/aarch64-linux-gnu ${sysroot}/lib/aarch64-linux-gnu)
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -L${folder} -Wl,-rpath-link=${folder}")
endforeach()
set(CMAKE_SHARED_LINKER_FLAGS_INIT ${CMAKE_EXE_LINKER_FLAGS_INIT})
set(CMAKE_MODULE_LINKER_FLAGS_INIT ${CMAKE_EXE_LINKER_FLAGS_INIT})

# The emulator notes each page of the program's address space: a reservation of terabytes would take the memory of
# this machine, so its own is limited.
set(ACLMEM_SYSROOT ${sysroot})
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit;--data=4294967296;qemu-aarch64;-L;${sysroot})
