# The commands people type.  CMakeLists.txt says what is built, CMakePresets.json in which ways.
PREFIX ?= /opt/aclmem
SETUP ?= scripts/setup.sh

.PHONY: all setup configure run check bench fuzz wheel sdist deb check-packages check-aarch64 check-debian check-torch check-torch-here torch wheel-torch bench-torch docs install uninstall format coverage clean help

all: configure
	@scripts/quietly.sh build/make.log cmake --build build

setup:
	@$(SETUP) build

# Each time: a compiler or a library that was missing may have been installed since.
configure: setup
	@[ -e build/build.ninja ] || echo "Building aclmem in build/; what the tools say goes to build/make.log"
	@cmake --preset release >/dev/null

run: all
	@build/bin/seven_steps

check:
	@$(SETUP) check
	@scripts/check.sh release clang dev asan tsan aarch64-part

bench: configure
	@$(SETUP) bench
	@cmake --build build --target bench

fuzz:
	@$(SETUP) check
	@cmake --preset asan >/dev/null
	@cmake --build build/asan --target fuzz

wheel: all
	@$(SETUP) wheel
	@scripts/quietly.sh build/make.log cmake --build build --target wheel
	@ls build/wheel/*.whl
	@scripts/pip_word.sh

sdist:
	@$(SETUP) sdist
	@python3 -B python/backend.py build/sdist

deb:
	@$(SETUP) deb
	@scripts/deb.sh build/deb

check-packages: deb wheel sdist
	@$(SETUP) packages
	@test/install/test_packages.sh build

check-aarch64:
	@$(SETUP) aarch64
	@scripts/check.sh aarch64

# make check-debian [DEBIAN="12 13"] [COMMAND="make run && make check"]
check-debian:
	@$(SETUP) debian
	@scripts/check_debian.sh $(DEBIAN) $(if $(COMMAND),-- '$(COMMAND)')

# The device npu in a Debian system with PyTorch; skipped with the reason where no system can be made.
check-torch:
	@$(SETUP) debian
	@scripts/check_torch.sh

check-torch-here: torch
	@scripts/check_torch.sh --here

torch: configure
	@$(SETUP) torch
	@scripts/quietly.sh build/make.log cmake --build build
	@scripts/quietly.sh build/torch.log scripts/build_torch.sh
	@echo "aclmem.npu is in build/python; to use it: export PYTHONPATH=$(CURDIR)/build/python"

wheel-torch: torch
	@scripts/build_torch.sh build build/wheel

bench-torch: torch
	@PYTHONPATH=build/python python3 bench/torch_npu.py

docs: all
	@$(SETUP) docs
	@scripts/docs.py build/docs build/share/man/man1/aclmem.1
	@echo "The documents are in build/docs/site/index.html"

# The folder that PREFIX names, or a word about why not.
prefix = $(if $(word 2,x$(PREFIX)),$(error PREFIX is "$(PREFIX)"; it must not have blanks))$(if $(PREFIX),$(abspath $(PREFIX)),$(error PREFIX is empty; it names the folder to install into))

install: all
	@mkdir -p "$(DESTDIR)$(prefix)" && test -w "$(DESTDIR)$(prefix)" || { echo "$(DESTDIR)$(prefix) cannot be written; choose another PREFIX= or use sudo" >&2; exit 1; }
	@DESTDIR="$(DESTDIR)" FORCE="$(FORCE)" cmake --install build --prefix "$(prefix)" >build/install.log
	@echo "aclmem is in $(DESTDIR)$(prefix); to use it: . $(prefix)/set_env.sh"

uninstall:
	@scripts/uninstall.sh "$(DESTDIR)$(prefix)"

format:
	@scripts/format.sh

coverage:
	@$(SETUP) coverage
	@mkdir -p build/coverage && find build/coverage -name '*.gcda' -delete
	@scripts/check.sh coverage
	@gcovr --root . --filter src/ --exclude-unreachable-branches --print-summary build/coverage

clean:
	@rm -rf build

help:
	@echo "make             build the library, the command and the examples: build/lib64/libascendcl.so, build/bin/,"
	@echo "                 and the Python module acl: build/python/"
	@echo "make run         run the first example, the seven steps of virtual memory"
	@echo "make check       build with gcc, clang, the sanitizers and for aarch64, and run every test in at least one"
	@echo "make bench       measure, beside the limits of this machine"
	@echo "make fuzz        run the fuzz targets for a long time, with the address sanitizer"
	@echo "make wheel       pack the Python module, with the library, for pip: build/wheel/"
	@echo "make sdist       pack the sources, for pip: build/sdist/"
	@echo "make deb         make Debian packages: build/deb/"
	@echo "make check-packages   install these packages into a fresh system, and use them there"
	@echo "make check-aarch64    build for aarch64, and run the tests of the interface in qemu-user"
	@echo "make check-debian     make run and make check on bare Debian 12 and 13, in build/systems (DEBIAN=13: one of them;"
	@echo "                 COMMAND=: another command)"
	@echo "make torch       build the PyTorch device npu for the PyTorch of this machine: build/python/"
	@echo "make wheel-torch pack it for pip: build/wheel/; bench-torch: measure what an operator costs"
	@echo "make check-torch      build it in systems of Debian 13 and sid with PyTorch, and run its tests; check-torch-here: on this machine"
	@echo "make docs        make a site of the documents, with a search: build/docs/site/"
	@echo "make install     install into PREFIX (now $(PREFIX)); DESTDIR= stages it elsewhere"
	@echo "                 FORCE=1 replaces a libascendcl.so that is not aclmem's"
	@echo "make uninstall   remove what was installed into PREFIX"
	@echo "make format      format the sources with clang-format"
	@echo "make coverage    run the tests once more and report which lines they reach"
	@echo "make clean       remove build/"
	@echo
	@echo "What is missing on this machine is installed with apt-get where that is possible, and named"
	@echo "where it is not (scripts/setup.sh).  make SETUP=: ... leaves the machine alone."
