# What leaves this folder: an installation, a wheel, Debian packages, the sources, compiler commands for editors.

# Where to install is a word of commands and of files that are filled in; make splits it at blanks.
define NEWLINE


endef
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
ifneq ($(shell LC_ALL=C; case $(call quoted,$(subst $(NEWLINE),|,$(DESTDIR)$(PREFIX))) in (*[!A-Za-z0-9._/+~-]*) echo odd ;; esac),)
$(error make $(MAKECMDGOALS): DESTDIR and PREFIX may have letters, digits and . _ / + - ~ alone)
endif
ifeq ($(filter /%,$(PREFIX)),)
$(error make $(MAKECMDGOALS): PREFIX=$(PREFIX) is no path from the root)
endif
endif

# What names the version and the place.
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@ABI@|$(LIB_VERSION)|g' \
    -e 's|@PRIVATE@|$(LIB_LIBS)|g' -e 's|@REQUIRES@|$(LIB_LIBS:-l%=%)|g'
DEST = $(DESTDIR)$(PREFIX)
# Manuals are Markdown, from which pages for man(1) are made.
MANUALS := $(wildcard $(addsuffix /*.[137].md,$(FOLDERS)))
PAGES := $(patsubst %.md,$(BUILD)/man/%,$(notdir $(MANUALS)))
vpath %.md $(sort $(dir $(MANUALS)))
manuals: $(PAGES)
$(PAGES): $(BUILD)/man/%: %.md tuner/cli/manual.awk $(BUILD)/prefix
	@mkdir -p $(@D)
	$(Q)$(FILL) $< | awk -v version=$(VERSION) -v file=$< -f tuner/cli/manual.awk >$@

# FOLDER NAME: header, libraries, pkg-config, CMake, manual page.
define put_library
$(Q)install -m 644 $(1)/$(2).h $(DEST)/include
$(Q)install -m 755 $(LIB)/lib$(2).so.$(LIB_VERSION) $(DEST)/lib
$(Q)ln -sfn lib$(2).so.$(LIB_VERSION) $(DEST)/lib/lib$(2).so
$(Q)install -m 644 $(LIB)/lib$(2).a $(DEST)/lib
$(Q)install -d $(DEST)/lib/cmake/$(2)
$(Q)$(FILL) $(1)/$(2).pc.in >$(DEST)/lib/pkgconfig/$(2).pc
$(Q)$(FILL) $(1)/$(2)-config.cmake.in >$(DEST)/lib/cmake/$(2)/$(2)-config.cmake
$(Q)$(FILL) $(1)/$(2)-config-version.cmake.in >$(DEST)/lib/cmake/$(2)/$(2)-config-version.cmake
$(Q)install -m 644 $(BUILD)/man/$(2).3 $(DEST)/share/man/man3
endef
install: build
	$(Q)install -d $(addprefix $(DEST)/,bin include lib/pkgconfig lib/cmake share/man/man1 share/man/man3 share/man/man7 \
	    share/doc/moetune share/bash-completion/completions)
	$(Q)install -m 755 $(BUILD)/moetune $(DEST)/bin/moetune
	$(Q)install -m 644 $(filter %.1,$(PAGES)) $(DEST)/share/man/man1
	$(Q)install -m 644 $(filter %.7,$(PAGES)) $(DEST)/share/man/man7
	$(Q)install -m 755 tuner/machine/tune.sbatch $(DEST)/share/doc/moetune
	$(Q)$(BUILD)/moetune --completion bash >$(DEST)/share/bash-completion/completions/moetune
	$(Q)install -m 644 db/lookup/moelookup_mpi.h $(DEST)/include
	$(call put_library,db/lookup,moelookup)
ifneq ($(SQLITE),0)
	$(call put_library,tuner/live,moetune)
endif
	@echo "installed in $(DEST): bin/moetune; libmoelookup and libmoetune with headers, pkg-config, CMake, manual pages;" \
	    "completion for bash"
	@[ "$(PREFIX)" = /usr ] || echo "to use it: export PATH=$(PREFIX)/bin:\$$PATH" \
	    "PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib MANPATH=$(PREFIX)/share/man:"
	@echo "Python: pip install $(CURDIR)/db/lookup/python"

# Installs elsewhere, and takes out the same files here, and what folders were its own.
uninstall:
	@[ -d "$(DEST)" ] || { echo "make uninstall: there is no $(DEST)" >&2; exit 1; }
	$(Q)set -e; there=$$(mktemp -d); trap 'rm -rf "$$there"' EXIT; \
	    MAKEFLAGS='$(filter-out -j% --jobserver%,$(MAKEFLAGS))' make --no-print-directory install DESTDIR="$$there" >/dev/null; \
	    cd "$(DEST)"; (cd "$${there}$(PREFIX)" && find . ! -type d -print0) | xargs -0 rm -f; \
	    for folder in lib/cmake/moelookup lib/cmake/moetune share/doc/moetune; do \
	        [ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder; done; \
	    echo "taken out of $(DEST); tables stay where they are"

# ---- A wheel is `make install` into an environment of Python's, with all that a bare machine lacks: SQLite, OpenBLAS.
# Of this build's objects only those are made anew that know an MPI or the CUDA unit.

WHEEL := $(BUILD)/wheel
WHEEL_ROOT := root$(PREFIX)
WHEEL_OWN := $(FORKED) $(basename $(shell grep -l MOETUNE_CUDA $(SOURCES)))
WHEEL_OBJECTS := \
    $(filter-out $(call objects_of,$(MPI_KNOWN:%=%.c) $(WHEEL_OWN:%=%.c) $(UNIT_SOURCES) $(CUDA_KERNELS)),$(LIBRARY)) \
    $(BUILD)/tuner/main.o $(WHEEL_OWN:%=$(WHEEL)/%.o)
# Two copies of SQLite in one process would lose each other's locks on a file, so both libraries share this one.
WHEEL_SQLITE := libsqlite3-moetune
WHEEL_LIBRARIES := $(patsubst %,$(WHEEL)/%.so.$(LIB_VERSION),libmoelookup libmoetune) $(WHEEL)/$(WHEEL_SQLITE).so.0

# For GPUs: the same with the CUDA unit and the runtime. cuBLAS and NCCL are Python's packages, found from bin/moetune in
# the folder of each version.
GPU_WHEEL := $(BUILD)/wheel-cuda
GPU_WHEEL_NAME := moetune-cu$(CUDA_MAJOR)
GPU_WHEEL_NEEDS := $(if $(filter 12,$(CUDA_MAJOR)),nvidia-cublas-cu12,'nvidia-cublas>=13$(COMMA)<14') \
    'nvidia-nccl-cu$(CUDA_MAJOR)>=2.22.3'
GPU_WHEEL_CUBLAS := $(if $(filter 12,$(CUDA_MAJOR)),cublas,cu$(CUDA_MAJOR))
GPU_WHEEL_PLACES := $(foreach v,8 9 10 11 12 13 14 15,$(foreach p,$(GPU_WHEEL_CUBLAS) nccl,\
    -Wl,-rpath,'$$ORIGIN/../lib/python3.$v/site-packages/nvidia/$p/lib'))

wheel: deps
	$(Q)$(MAKE) --no-print-directory wheel-built
	$(Q)rm -f build/moetune-*.whl && cp $(WHEEL)/*.whl build
	@echo "pip install $$(ls build/moetune-*.whl)"
wheel-cuda: deps
	$(if $(UNIT),,$(error make wheel-cuda: no CUDA unit: $(CUDA_STATE)))
	$(Q)$(MAKE) --no-print-directory wheel-cuda-built
	$(Q)rm -f build/moetune_cu*.whl && cp $(GPU_WHEEL)/*.whl build
	@echo "pip install $$(ls build/moetune_cu*.whl)"
wheel-built: $(WHEEL)/moetune $(WHEEL_LIBRARIES) build
	$(call put_wheel,$(WHEEL),moetune)
wheel-cuda-built: $(GPU_WHEEL)/moetune $(WHEEL_LIBRARIES) build
	$(call put_wheel,$(GPU_WHEEL),$(GPU_WHEEL_NAME) $(GPU_WHEEL_NEEDS))
# FOLDER, NAME and what it needs.
define put_wheel
$(Q)rm -rf $1/root $1/*.whl
$(Q)$(MAKE) --no-print-directory install DESTDIR=$1/root >/dev/null
$(Q)install -s $1/moetune $1/$(WHEEL_ROOT)/bin
$(Q)install -s $(WHEEL_LIBRARIES) $1/$(WHEEL_ROOT)/lib
$(Q)install -m 644 $$($(LIB_CC) -print-file-name=libsqlite3.a) $1/$(WHEEL_ROOT)/lib/$(WHEEL_SQLITE).a
$(Q)install -m 644 LICENSE .packages/LICENSE.OpenBLAS $1/$(WHEEL_ROOT)/share/doc/moetune
$(Q)strip --strip-debug $1/$(WHEEL_ROOT)/lib/*.a
# A wheel has no symbolic links, and nobody knows yet where it will lie.
$(Q)for l in moelookup moetune; do \
    rm $1/$(WHEEL_ROOT)/lib/lib$$l.so && echo "INPUT(lib$$l.so.$(LIB_VERSION))" >$1/$(WHEEL_ROOT)/lib/lib$$l.so; done
$(Q)sed -i -e 's|^prefix=.*|prefix=$${pcfiledir}/../..|' -e 's|^Libs:|& -Wl,-rpath,$${libdir}|' \
    -e '/^Libs.private:/d' -e 's|^Requires.private:.*|Libs.private: -l$(WHEEL_SQLITE:lib%=%) -lm|' \
    $1/$(WHEEL_ROOT)/lib/pkgconfig/*.pc
$(Q)sed -i 's|"$(LIB_LIBS)|"$${CMAKE_CURRENT_LIST_DIR}/../../$(WHEEL_SQLITE).a;-lm|' \
    $1/$(WHEEL_ROOT)/lib/cmake/*/*-config.cmake
$(Q)python3 db/lookup/python/build_wheel.py $1/$(WHEEL_ROOT) $1 $2
endef

$(WHEEL)/moetune: $(WHEEL_OBJECTS)
$(GPU_WHEEL)/moetune: $(BY_FORK) $(BUILD)/tuner/main.o
$(GPU_WHEEL)/moetune: WHEEL_GPU = $(GPU_WHEEL_PLACES) -L$(dir $(firstword $(wildcard $(foreach l,lib64 lib,\
    $(CUDA_HOME)/$l/libcudart_static.a)))) -lcudart_static -ldl -lrt
$(WHEEL)/moetune $(GPU_WHEEL)/moetune:
	$(if $(NO_BLAS),$(error the wheel has OpenBLAS in it, which is not here))
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -pthread -o $@ $^ $(BLAS_LIBS:-lopenblas=-l:libopenblas.a) -l:libsqlite3.a \
	    $(WHEEL_GPU) -lm
$(WHEEL)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(filter-out -DMOETUNE_CUDA,$(ALL_CFLAGS)) -Icomm/forked -c -o $@ $<
$(WHEEL)/$(WHEEL_SQLITE).so.0:
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ \
	    -Wl,--whole-archive -l:libsqlite3.a -Wl,--no-whole-archive -lm
$(filter %.$(LIB_VERSION),$(WHEEL_LIBRARIES)): LIB_LIBS = -L$(WHEEL) -l:$(WHEEL_SQLITE).so.0 -Wl,-rpath,'$$ORIGIN'
$(WHEEL)/libmoelookup.so.$(LIB_VERSION): $(LIB_OBJECTS) db/lookup/moelookup.map $(WHEEL)/$(WHEEL_SQLITE).so.0
	$(LINK_LIBRARY)
$(WHEEL)/libmoetune.so.$(LIB_VERSION): $(TUNER_OBJECTS) tuner/live/moetune.map $(WHEEL)/$(WHEEL_SQLITE).so.0
	$(LINK_LIBRARY)

# ---- Debian packages, by Debian's own tools, from a copy of the sources: they want debian/ at the top.

DEB := build/deb/moetune-$(VERSION)
LINES := sed -e 's/^/ /' -e 's/^ $$/ ./'
deb:
	@command -v dh dh_python3 >/dev/null || { echo "make deb: please install debhelper, dh-python, lintian" >&2; exit 1; }
	$(Q)rm -rf build/deb build/*.deb && mkdir -p $(DEB)
	$(Q)tar -c --exclude=./build --exclude=./.git --exclude=./moetune --exclude=__pycache__ . | tar -x -C $(DEB)
	$(Q)cp -r .packages/debian $(DEB)
	$(Q)cd $(DEB)/debian && { cat copyright.in && tail -n +5 $(CURDIR)/LICENSE | $(LINES); } >copyright && \
	    $(FILL) -e "s|@DATE@|$$(date -R)|" changelog.in >changelog && rm *.in
	$(Q)cd $(DEB) && dpkg-buildpackage --build=binary --no-sign --jobs=auto
	$(Q)if command -v lintian >/dev/null; then lintian --fail-on error build/deb/*.changes; fi
	$(Q)cp $$(ls build/deb/*.deb | grep -v dbgsym) build
	@ls build/*.deb

# ---- The sources that git knows, as they lie here; they build without git.  The same files make the same archive.

DIST := moetune-$(VERSION)
dist:
	@[ -e .git ] || { echo "make dist: this is no checkout of git's, which says what belongs to it" >&2; exit 1; }
	$(Q)mkdir -p build
	$(Q)git ls-files -z | LC_ALL=C sort -z | tar --create --null --files-from=- --transform='flags=r;s|^|$(DIST)/|' \
	    --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime=@$$(git log -1 --format=%ct) \
	    --use-compress-program='gzip -9n' --file=build/$(DIST).tar.gz.new
	$(Q)mv build/$(DIST).tar.gz.new build/$(DIST).tar.gz
	@echo "build/$(DIST).tar.gz: $$(tar -tzf build/$(DIST).tar.gz | wc -l) files"

# ---- What editors (clangd) ask for: the commands by which this configuration's C files are compiled.

# mpicc hides where mpi.h is.
MPI_FLAGS = $(if $(NO_MPI),,$(shell $(MPICC) --showme:compile 2>/dev/null))
COMPDB ?= compile_commands.json
compdb:
	$(Q)$(MAKE) --no-print-directory --always-make --dry-run V=1 DEPS=0 library $(BUILD)/moetune $(TESTS) $(BENCHES) | \
	    sed -n 's/^[^ ]* \(-std=.* -c -o [^ ]* \([^ ]*\.c\)\)$$/\2 $(LIB_CC) $(subst /,\/,$(MPI_FLAGS)) \1/p' | \
	    sort -u -k 1,1 | sed -e 's/["\]/\\&/g' \
	    -e 's|^\([^ ]*\) \(.*\)|{"directory": "$(CURDIR)", "file": "\1", "command": "\2"},|' \
	    -e '1s/^/[/' -e '$$s/,$$/]/' >$(COMPDB)
	@echo "$(COMPDB): $$(grep -c '"file"' $(COMPDB)) files"

.PHONY: manuals install uninstall wheel wheel-built wheel-cuda wheel-cuda-built deb dist compdb
