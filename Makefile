# moetune.  `make help` lists what can be made.
#
# DEPS=0      look for no missing packages           V=1         show commands
# SAN=1       AddressSanitizer + UBSan               SAN=thread  ThreadSanitizer
# SAN=fuzz    AddressSanitizer and libFuzzer, by clang: fuzzers alone
# GPU=0|1     without / with the CUDA unit (default: found or not)
# MPI=0|DIR   without an MPI: ranks of one host, by fork / with the one there (default: found or not)
# BLAS=0      without OpenBLAS: no ranks on cores (default: found or not)
# SQLITE=0    libmoelookup without SQLite: it reads packed tables only
VERSION := 0.9.0

SAN   ?= 0
V     ?= 0
DEPS  ?= 1
GPU   ?= auto
MPI   ?= auto
BLAS  ?= auto
SQLITE ?= 1
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
DESTDIR ?=

ifeq ($(filter 0 1 thread fuzz,$(SAN)),)
$(error SAN=$(SAN): 0, 1, thread or fuzz is wanted)
endif
Q := $(if $(filter 1,$(V)),,@)
# A line that moves, where somebody looks: what is being compiled.  WIPE ends it.
TELL = $(if $(filter 1,$(V)),,[ ! -t 1 ] || printf '\r\033[Kcompiles %s' $<; )
FIRST_BUILD = [ -e $(BUILD)/moetune ] || echo "builds $(BUILD): some minutes$(if $(UNIT),; GPU=0 leaves CUDA out)"
WIPE := [ ! -t 1 ] || printf '\r\033[K'
# All cores, unless the caller says how many jobs.  What cleans goes before what builds.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
.DEFAULT_GOAL := all

# ---- What is here

MPI_HOME := $(filter-out 0 1 auto,$(MPI))
MPICC := $(if $(MPI_HOME),$(MPI_HOME)/bin/)mpicc
NO_MPI := $(if $(filter 0,$(MPI)),1,$(if $(shell command -v $(MPICC)),,1))
# The compiler itself, where mpicc is not wanted.
LIB_CC ?= gcc
CC    := $(if $(NO_MPI),$(LIB_CC),$(MPICC))
BLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
HAS_BLAS = $(shell printf '\043include <cblas.h>\nblasint n;\n' | \
    $(LIB_CC) $(BLAS_CFLAGS) -fsyntax-only -x c - >/dev/null 2>&1 && echo 1)
NO_BLAS := $(if $(filter 0,$(BLAS)),1,$(if $(HAS_BLAS),,1))
BLAS_LIBS := $(if $(NO_BLAS),,$(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas))

SAN_SUFFIX_1 := -san
SAN_SUFFIX_thread := -tsan
SAN_SUFFIX_fuzz := -fuzz
SANITIZE_1 := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZE_thread := -fsanitize=thread
SANITIZE_fuzz := -fsanitize=fuzzer-no-link,address -DFUZZ_LIBFUZZER -Wno-unknown-warning-option
SANITIZE := $(SANITIZE_$(SAN))
ifeq ($(SAN),fuzz)
export OMPI_CC := clang
CC := $(if $(NO_MPI),clang,$(CC))
endif

include kernels/rules.mk

# ---- How a source is compiled: once for the program, its tests and the libraries

LACKS := $(if $(NO_MPI),-nompi)$(if $(NO_BLAS),-noblas)
BUILD := build/$(if $(UNIT),gpu,cpu)$(LACKS)$(SAN_SUFFIX_$(SAN))
ifeq ($(BUILD),)
$(error BUILD is empty: it is the folder for what is built)
endif
FOLDERS := $(addprefix db/,values store exchange lookup) kernels comm $(if $(NO_MPI),comm/forked) search \
    $(addprefix tuner/,cli layer machine ranks probe bucket live print campaign tune verify program study) \
    tuner tuner/verbs reports
# moelookup.h is where plans and shapes are declared.
VALUES := -Idb/values -Idb/lookup
WARN := -Wall -Wextra -Wformat-truncation=2 -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
    -Wno-missing-field-initializers
NAMED := -D_GNU_SOURCE -DMOETUNE_VERSION='"$(VERSION)"'
# Kernels are loops over rows: they must vectorise, and nothing here reads errno or traps of libm.
KERNEL_FLAGS := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast
FORMULA_FLAGS := -O3 -fno-math-errno
# Objects of the libraries, which the program takes, too.
SHARED := -fPIC -fvisibility=hidden
# Nothing of ours ends a trainer by an assertion; builds with sanitizers have them.
ASSERTIONS := $(if $(SANITIZE),,-DNDEBUG)
# OWN: what single objects need. CFLAGS is the caller's, who may say it on the command line, where += adds nothing.
ALL_CFLAGS = -std=c11 $(NAMED) $(ASSERTIONS) $(WARN) $(CFLAGS) $(OWN) $(SANITIZE) -MMD -MP -pthread \
    $(FOLDERS:%=-I%) $(BLAS_CFLAGS) $(GPU_CFLAGS)
LDLIBS = $(BLAS_LIBS) -lsqlite3 $(GPU_LIBS) -lm
LINK = $(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(SANITIZE) -pthread -o $@
# An archive is the names of objects, of which a program takes what it calls; it is made anew when the names change.
ARCHIVE = $(Q)mkdir -p $(@D) && rm -f $@ && ar rcsT $@ $(filter %.o,$^)

# By their names: what only the unit compiles.
UNIT_SOURCES := $(foreach w,cuda nccl wire_ce,$(wildcard $(FOLDERS:%=%/*$w*.c)))
OTHER_BLAS := kernels/blas_$(if $(NO_BLAS),openblas,none).c
OTHER_LAUNCHER := tuner/machine/launcher_$(if $(NO_MPI),mpirun,fork).c
LEFT_OUT := $(if $(UNIT),,$(UNIT_SOURCES)) $(OTHER_BLAS) $(OTHER_LAUNCHER)
SOURCES := $(filter-out $(LEFT_OUT),$(wildcard $(FOLDERS:%=%/*.c)))
objects_of = $(patsubst %,$(BUILD)/%.o,$(basename $1))
LIBRARY := $(filter-out $(BUILD)/tuner/main.o,$(call objects_of,$(SOURCES) $(if $(UNIT),$(CUDA_KERNELS))))

# ---- Goals

all: needed
	$(Q)$(MAKE) --no-print-directory build
build: $(BUILD)/moetune library manuals
	$(Q)ln -sfn $(BUILD)/moetune moetune
	@$(WIPE)
	@echo "moetune $(VERSION): $(BUILD)/moetune, $$($(CC) --version | head -n 1)"
	@echo "  MPI       $(if $(NO_MPI),none: ranks of one host by fork,$$(mpirun --version 2>/dev/null | head -n 1))"
	@echo "  BLAS      $(if $(NO_BLAS),none: no ranks on cores,$(BLAS_LIBS)" \
	    "$$(pkg-config --modversion openblas 2>/dev/null))"
	@echo "  SQLite    $$(sqlite3 --version 2>/dev/null | cut -d ' ' -f 1)"
	@echo "  CUDA      $(CUDA_STATE)"
	@echo "  sanitizer $(if $(SANITIZE),$(SANITIZE),none)"

$(BUILD)/moetune: $(LIBRARY) $(BUILD)/tuner/main.o
	$(LINK) $^ $(LDLIBS)

# The same without an MPI: ranks of this host by fork.  Only what knows an MPI differs.
MPI_KNOWN := comm/wire_mpi comm/world tuner/machine/launcher_$(if $(NO_MPI),fork,mpirun)
FORKED := comm/wire_mpi comm/world tuner/machine/launcher_fork $(basename $(wildcard comm/forked/*.c))
BY_FORK := $(filter-out $(call objects_of,$(MPI_KNOWN) $(FORKED)),$(LIBRARY)) $(FORKED:%=$(BUILD)/forked/%.o)
$(BUILD)/forked/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(LIB_CC) $(ALL_CFLAGS) -Icomm/forked -c -o $@ $<

# A study and the cluster of its paper go into the program: their lines, quoted.
$(BUILD)/%.inc: tests/data/clusters/%.txt
	@mkdir -p $(@D)
	$(Q)sed -e '/^ *#/d; /^ *$$/d; s/["\\]/\\&/g; s/.*/"&\\n"/' $< >$@
$(BUILD)/%.inc: tuner/study/%.study
	@mkdir -p $(@D)
	$(Q)sed -e '/^ *#/d; /^ *$$/d; s/["\\]/\\&/g; s/.*/"&",/' $< >$@
STUDY_FILES := $(basename $(notdir $(wildcard tuner/study/*.study))) ndm-a100 workstation-4x4090 p4d-16-nccl210 p100-4
$(BUILD)/tuner/study/study.o: $(STUDY_FILES:%=$(BUILD)/%.inc)
$(BUILD)/tuner/study/study.o: OWN += -I$(BUILD)

# The files of `moetune init` as well: byte by byte, for they are longer than C promises a string may be.
INIT_FILES := $(sort $(wildcard tuner/program/init/*/*.py tuner/program/init/*/*.space))
$(BUILD)/init_files.inc: $(INIT_FILES)
	@mkdir -p $(@D)
	$(Q)for f in $(INIT_FILES); do d=$${f%/*}; \
	    echo "{ \"$${d##*/}\", \"$${f##*/}\", $$(wc -c <$$f), (const char[]){"; \
	    od -An -v -td1 $$f | sed 's/[0-9]\+/&,/g'; echo "0 } },"; done >$@
$(BUILD)/tuner/verbs/init_verb.o: $(BUILD)/init_files.inc
$(BUILD)/tuner/verbs/init_verb.o: OWN += -I$(BUILD)

$(BUILD)/kernels/%.o: OWN += $(KERNEL_FLAGS)
$(BUILD)/search/%.o $(BUILD)/tuner/layer/%.o: OWN += $(FORMULA_FLAGS)
quoted = '$(subst ','\'',$1)'
# One of these files changes with the flags that its objects are compiled with, and with nothing else.
flags_file = $(Q)mkdir -p $(@D) && echo $(quoted) | cmp -s - $@ || echo $(quoted) >$@
FLAGS := $(CC) $(ALL_CFLAGS) $(KERNEL_FLAGS) $(FORMULA_FLAGS) $(SHARED)
$(BUILD)/flags: FORCE
	$(call flags_file,$(FLAGS))
$(BUILD)/prefix: FORCE
	$(call flags_file,$(PREFIX))
FORCE:
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/cuda_flags: FORCE
	$(call flags_file,$(NVCC) $(NVCC_FLAGS))
$(BUILD)/%.o: %.cu $(BUILD)/cuda_flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(NVCC) $(NVCC_FLAGS) $(VALUES) -Ikernels -c -o $@ $<

include db/lookup/rules.mk

# The main job: measure, search, remember, on this machine.
tune: deps
	@$(FIRST_BUILD)
	$(Q)$(MAKE) --no-print-directory build
	./moetune --cluster

# ---- What Debian calls the things we need

PACKAGES := gcc libc6-dev pkg-config $(if $(filter 0,$(MPI)),,libopenmpi-dev openmpi-bin) \
    $(if $(filter 0,$(BLAS)),,libopenblas-dev) libsqlite3-dev zlib1g-dev sqlite3 iproute2 procps python3 gnuplot-nox
# `needed` says what is missing, `deps` installs it.
needed:
	@$(FIRST_BUILD)
ifneq ($(DEPS),0)
	$(Q)tests/deps --check $(PACKAGES)
endif
deps:
ifneq ($(DEPS),0)
	$(Q)tests/deps $(PACKAGES)
endif
# What single tests want besides; without it they are skipped.
TEST_PACKAGES := g++ cmake groff-base locales chromium slurmctld slurmd slurm-client munge python3-venv python3-pip \
    python3-torch libsimgrid-dev strace
deps-of-tests: deps
	$(Q)tests/deps_of_tests $(TEST_PACKAGES)

include tests/rules.mk tests/gpu/rules.mk reports/rules.mk .packages/rules.mk

C_FILES := $(wildcard $(FOLDERS:%=%/*.[ch]) $(if $(NO_MPI),,comm/forked/*.[ch]) kernels/*.cu kernels/*.cuh \
    $(addprefix tests/,*/*.[ch] */*.cu */*.cc */*/*.[ch] */*/*.cc))
format:
	clang-format -i $(C_FILES)
lint:
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --error-exitcode=1 -DMOETUNE_VERSION='""' \
	    $(FOLDERS:%=-I%) $(wildcard $(FOLDERS:%=%/*.c))
clean:
	rm -rf build moetune

define HELP
Build     make, make build      the program and both libraries; the first says what is missing (DEPS=0: not)
          make install          below PREFIX=/usr/local, into DESTDIR; make uninstall takes it out
          make wheel | deb      packages: build/*.whl for pip, build/*.deb for Debian
          make wheel-cuda       the wheel with the CUDA unit, for GPUs
          make dist             the sources: build/moetune-VERSION.tar.gz, which builds without git
          make deps             installs Debian's packages that are missing
Use       make tune             installs what is missing, builds, and tunes a small layer on this machine
Test      make check            before a commit: the most of it, in three minutes
          make test | test-full installs what is missing, then all tests; every case
          make test-clients     trainers of others, in an environment of 5.6 GB that it fetches
          make SAN=1 test       with AddressSanitizer and UBSan (SAN=thread: ThreadSanitizer)
          make soak             kills, hostile inputs, many readers, for longer
          make check-gpu        on a machine with a GPU; check-gpu-pack: for one without a compiler
Measure   make bench            all benchmarks; bench-NAME: one of them (tests/bench/README.md)
Edit      make format | lint    clang-format; cppcheck
          make picture          draws reports/example.svg, which README shows, from reports/example.sql
          make compdb           compile_commands.json, for clangd and other editors
          make clean            removes what was built

endef
help:
	$(info $(HELP))
	@sed -n 's/^# \(.*=.*\)/\1/p' Makefile | head -n 7

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all build library FORCE needed deps deps-of-tests tune format lint clean help
