# moetune.  `make help` lists what can be made.
#
# DEPS=0      do not install missing packages        V=1         show commands
# SAN=1       AddressSanitizer + UBSan               SAN=thread  ThreadSanitizer
# SAN=fuzz    AddressSanitizer and libFuzzer, by clang: fuzzers alone
# GPU=0|1     without / with the CUDA unit (default: found or not)
# MPI=0|DIR   without an MPI: ranks of one host, by fork / with the one there (default: found or not)
# BLAS=0      without OpenBLAS: no ranks on cores (default: found or not)
# SQLITE=0    libmoelookup without SQLite: it reads packed tables only
VERSION := 0.1.0

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

Q := $(if $(filter 1,$(V)),,@)

MPI_HOME := $(filter-out 0 1 auto,$(MPI))
MPICC := $(if $(MPI_HOME),$(MPI_HOME)/bin/)mpicc
NO_MPI := $(if $(filter 0,$(MPI)),1,$(if $(shell command -v $(MPICC)),,1))
# The compiler itself, where mpicc is not wanted.
LIB_CC ?= gcc
CC    := $(if $(NO_MPI),$(LIB_CC),$(MPICC))
BLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
NO_BLAS := $(if $(filter 0,$(BLAS)),1,$(shell printf '\043include <cblas.h>\nblasint n;\n' | $(LIB_CC) $(BLAS_CFLAGS) -fsyntax-only -x c - >/dev/null 2>&1 || echo 1))
BLAS_LIBS := $(if $(NO_BLAS),,$(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas))

# The CUDA unit (runtime, cuBLAS, NCCL and our kernels) is whole or absent.  It needs a toolkit, never a driver.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null)))
NCCL_HOME ?= $(CUDA_HOME)
CUDA_HEADERS := $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/include/cuda_bf16.h))
# cuBLAS and NCCL may also be Python's (nvidia-cublas, nvidia-nccl).
WHEELS := $(if $(filter 0,$(GPU)),,$(if $(CUDA_HOME),$(if $(and $(wildcard $(CUDA_HOME)/include/cublas_v2.h),$(wildcard $(NCCL_HOME)/include/nccl.h /usr/include/nccl.h)),,\
    $(shell python3 -c 'import glob, sys; print(*(d for p in sys.path for d in glob.glob(p + "/nvidia/*")))' 2>/dev/null))))
CUBLAS_HEADER := $(firstword $(wildcard $(CUDA_HOME)/include/cublas_v2.h $(WHEELS:%=%/include/cublas_v2.h)))
NCCL_HEADER := $(firstword $(wildcard $(NCCL_HOME)/include/nccl.h /usr/include/nccl.h $(WHEELS:%=%/include/nccl.h)))
defined = $(if $1,$(shell sed -n 's/^.define $2 *\([0-9][0-9]*\).*/\1/p' $1))
at_least = $(shell [ "0$1" -ge $2 ] && echo 1)
CUDA_LACKS := $(strip $(if $(CUDA_HOME),\
    $(if $(wildcard $(CUDA_HOME)/bin/nvcc),,nvcc) $(if $(CUDA_HEADERS),,cuda_bf16.h) $(if $(CUBLAS_HEADER),,cublas_v2.h)\
    $(if $(call at_least,$(call defined,$(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),CUDART_VERSION),12000),,CUDA 12 or newer)\
    $(if $(NCCL_HEADER),$(if $(call at_least,$(call defined,$(NCCL_HEADER),NCCL_MINOR),22),,NCCL 2.22.3 or newer),nccl.h (NCCL_HOME=DIR)),a toolkit (CUDA_HOME=DIR)))
UNIT := $(if $(filter 0,$(GPU)),,$(if $(filter 1,$(GPU)),1,$(if $(CUDA_LACKS),,$(if $(filter 0,$(SAN)),1))))
ifeq ($(GPU),1)
ifneq ($(CUDA_LACKS),)
$(error GPU=1: missing $(CUDA_LACKS))
endif
ifneq ($(SAN),0)
$(error GPU=1: the CUDA unit is not built with sanitizers (compute-sanitizer: make check-gpu))
endif
endif
NVCC = $(CUDA_HOME)/bin/nvcc
CUDA_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90
# Without exceptions, RTTI and guarded statics the kernels need no C++ library.
NVCC_FLAGS = -std=c++17 -O3 -g $(CUDA_ARCH) -Xcompiler -Wall,-Wextra,-fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics -MMD -MP
# Debian's own place is searched anyway, and must not be searched early.
CUDA_INCLUDES := $(patsubst %,-isystem %,$(filter-out /usr/include,$(sort $(CUDA_HOME)/include $(patsubst %/,%,$(dir $(NCCL_HEADER) $(CUBLAS_HEADER))))))
library_path = $(foreach d,$(sort $(dir $(wildcard $(foreach l,lib64 lib,$(foreach h,$1,$h/$l/$2))))),-L$(d:%/=%) -Wl,-rpath,$(d:%/=%))
# A wheel has no libnccl.so.
NCCL_LIBS := $(call library_path,$(NCCL_HOME) $(WHEELS),libnccl.so.2) $(call library_path,$(WHEELS),libcublas.so.*) -l:libnccl.so.2
GPU_CFLAGS := $(if $(UNIT),-DMOETUNE_CUDA $(CUDA_INCLUDES))
# cuBLAS is loaded when a GPU is opened: kernels/cuda_gemm.c.
GPU_LIBS := $(if $(UNIT),$(call library_path,$(CUDA_HOME),libcudart.so) $(NCCL_LIBS) -lcudart -ldl)

SAN_SUFFIX_1 := -san
SAN_SUFFIX_thread := -tsan
SAN_SUFFIX_fuzz := -fuzz
LACKS := $(if $(NO_MPI),-nompi)$(if $(NO_BLAS),-noblas)
BUILD := build/$(if $(UNIT),gpu,cpu)$(LACKS)$(SAN_SUFFIX_$(SAN))
SANITIZE_1 := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZE_thread := -fsanitize=thread
SANITIZE_fuzz := -fsanitize=fuzzer-no-link,address -DFUZZ_LIBFUZZER -Wno-unknown-warning-option
SANITIZE := $(SANITIZE_$(SAN))
ifeq ($(SAN),fuzz)
export OMPI_CC := clang
CC := $(if $(NO_MPI),clang,$(CC))
$(BUILD)/tests/fuzz_%: SANITIZE += -fsanitize=fuzzer
endif

FOLDERS := $(addprefix db/,values store exchange lookup) kernels comm $(if $(NO_MPI),comm/forked) search \
    $(addprefix tuner/,cli layer machine ranks probe bucket live print campaign tune verify program study) tuner tuner/verbs reports
# moelookup.h is where plans and shapes are declared.
VALUES := -Idb/values -Idb/lookup
WARN := -Wall -Wextra -Wformat-truncation=2 -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wno-missing-field-initializers
# Kernels are loops over rows: they must vectorise, and nothing here reads errno or traps of libm.
KERNEL_FLAGS := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -DMOETUNE_VERSION='"$(VERSION)"' -DMOETUNE_PREFIX='"$(PREFIX)"' $(WARN) $(CFLAGS) $(SANITIZE) \
             -pthread -MMD -MP $(FOLDERS:%=-I%) $(BLAS_CFLAGS) $(GPU_CFLAGS)
LDLIBS = $(BLAS_LIBS) -lsqlite3 $(GPU_LIBS) -lm

# By their names: what only the unit compiles.
UNIT_SOURCES := $(foreach w,cuda nccl wire_ce,$(wildcard $(FOLDERS:%=%/*$w*.c)))
OTHER_BLAS := kernels/blas_$(if $(NO_BLAS),openblas,none).c
OTHER_LAUNCHER := tuner/machine/launcher_$(if $(NO_MPI),mpirun,fork).c
SOURCES := $(filter-out $(if $(UNIT),,$(UNIT_SOURCES)) $(OTHER_BLAS) $(OTHER_LAUNCHER),$(wildcard $(FOLDERS:%=%/*.c)))
CUDA_KERNELS := $(wildcard kernels/*.cu)
# Programs and their parts lie in one folder of the build, whatever room their source is in.
TEST_ROOMS := $(addprefix tests/,unit bench fuzz program)
vpath %.c $(TEST_ROOMS)
tests_of = $(patsubst %.c,$(BUILD)/tests/%$2,$(notdir $1))
# What is written for an MPI or for OpenBLAS itself.
WANTING := $(if $(NO_MPI),$(shell grep -lE 'include [<"](moelookup_)?mpi.h' $(wildcard tests/*/*.c))) \
           $(if $(NO_BLAS),$(shell grep -l '<cblas.h>' $(wildcard tests/*/*.c)))
TEST_PROGRAMS := $(wildcard tests/unit/test_*.c tests/program/example_*.c tests/fuzz/fuzz_*.c) tests/unit/factor_one.c
TEST_PARTS := $(call tests_of,$(filter-out tests/bench/bench_% $(TEST_PROGRAMS),$(wildcard $(TEST_ROOMS:%=%/*.c))),.o)
LIBRARY := $(filter-out $(BUILD)/tuner/main.o,$(SOURCES:%.c=$(BUILD)/%.o)) $(if $(UNIT),$(CUDA_KERNELS:%.cu=$(BUILD)/%.o))
TESTS   := $(call tests_of,$(filter-out $(WANTING),$(TEST_PROGRAMS)))
BENCHES := $(call tests_of,$(filter-out $(WANTING),$(wildcard tests/bench/bench_*.c)))

all: deps
	$(Q)$(MAKE) --no-print-directory build
build: $(BUILD)/moetune library
	$(Q)ln -sfn $(BUILD)/moetune moetune
	@echo "moetune $(VERSION): $(BUILD)/moetune, $$($(CC) --version | head -n 1)"
	@echo "  MPI       $(if $(NO_MPI),none: ranks of one host by fork,$$(mpirun --version 2>/dev/null | head -n 1))"
	@echo "  BLAS      $(if $(NO_BLAS),none: no ranks on cores,$(BLAS_LIBS) $$(pkg-config --modversion openblas 2>/dev/null))"
	@echo "  SQLite    $$(sqlite3 --version 2>/dev/null | cut -d ' ' -f 1)"
	@echo "  CUDA      $(if $(UNIT),$(CUDA_HOME): $$($(NVCC) --version | sed -n 's/^.*release //p'),left out: $(or $(if $(filter 0,$(GPU)),GPU=0),$(if $(CUDA_LACKS),missing $(CUDA_LACKS)),sanitizers))"
	@echo "  sanitizer $(if $(SANITIZE),$(SANITIZE),none)"

$(BUILD)/moetune: $(LIBRARY) $(BUILD)/tuner/main.o
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -pthread -o $@ $^ $(LDLIBS)

# A study's own cluster goes into the program: its lines, quoted.
$(BUILD)/%.inc: tests/data/clusters/%.txt
	@mkdir -p $(@D)
	$(Q)sed -e '/^ *#/d; /^ *$$/d; s/["\\]/\\&/g; s/.*/"&\\n"/' $< >$@
$(BUILD)/tuner/study/tutel_machine.o: $(BUILD)/ndm-a100.inc
$(BUILD)/tuner/study/hexa_machine.o: $(BUILD)/workstation-4x4090.inc
$(BUILD)/tuner/study/smile_machine.o: $(BUILD)/p4d-16-nccl210.inc
$(BUILD)/tuner/study/dynamoe_machine.o: $(BUILD)/p100-4.inc
$(BUILD)/tuner/study/%_machine.o: CFLAGS += -I$(BUILD)

# The files of `moetune init` as well: byte by byte, for they are longer than C promises a string may be.
INIT_FILES := $(sort $(wildcard tuner/program/init/*/*.py tuner/program/init/*/*.space))
$(BUILD)/init_files.inc: $(INIT_FILES) Makefile
	@mkdir -p $(@D)
	$(Q)for f in $(INIT_FILES); do d=$${f%/*}; \
	    echo "{ \"$${d##*/}\", \"$${f##*/}\", $$(wc -c <$$f), (const char[]){"; od -An -v -td1 $$f | sed 's/[0-9]\+/&,/g'; echo "0 } },"; done >$@
$(BUILD)/tuner/verbs/init_verb.o: $(BUILD)/init_files.inc
$(BUILD)/tuner/verbs/init_verb.o: CFLAGS += -I$(BUILD)

$(BUILD)/kernels/%.o: CFLAGS += $(KERNEL_FLAGS)
$(BUILD)/search/%.o $(BUILD)/tuner/layer/%.o: CFLAGS += -O3 -fno-math-errno
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/tests/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_ROOMS:%=-I%) -c -o $@ $<
$(BUILD)/%.o: %.cu Makefile
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCC_FLAGS) $(VALUES) -Ikernels -c -o $@ $<

$(TESTS) $(BENCHES): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_PARTS) $(LIBRARY)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -pthread $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/test_broken_models: WRAPPED := costs_log_ns costs_gradient posterior_renew likeness_table_set
# It tunes by ranks whose times are made up: tests/bench/made_ranks.h.
$(BUILD)/tests/bench_claims: WRAPPED := crew_open crew_close crew_do crew_relaunch crew_launch_ns

# The program without an MPI, for tests: the same objects, but for those that know one.
MPI_KNOWN := comm/wire_mpi comm/world tuner/machine/launcher_$(if $(NO_MPI),fork,mpirun)
FORKED := comm/wire_mpi comm/world tuner/machine/launcher_fork $(basename $(wildcard comm/forked/*.c))
$(BUILD)/tests/moetune_forked: $(filter-out $(patsubst %,$(BUILD)/%.o,$(MPI_KNOWN) $(FORKED)),$(LIBRARY)) $(BUILD)/tuner/main.o $(FORKED:%=$(BUILD)/forked/%.o)
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -pthread -o $@ $^ $(LDLIBS)
$(BUILD)/forked/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(ALL_CFLAGS) -Icomm/forked -c -o $@ $<

# ---- The CUDA kernels alone, compared with the host's: run on a CPU wherever the toolkit's headers are, and on a
# GPU (make check-gpu) without MPI and SQLite.

KERNELS_ALONE := $(filter-out $(UNIT_SOURCES) $(OTHER_BLAS) kernels/sim%,$(wildcard kernels/*.c)) $(wildcard db/values/declaration*.c) $(addprefix db/values/,fault.c sha256.c shape.c stats.c status.c text.c utf8.c)
ALONE_CC ?= gcc
ALONE_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARN) $(CFLAGS) $(KERNEL_FLAGS) $(SANITIZE) -pthread -MMD -MP $(VALUES) -Ikernels -Itests/unit -Itests/bench -Itests/gpu \
               $(CUDA_INCLUDES) $(BLAS_CFLAGS)
ALONE_LIBS = $(BLAS_LIBS) -lm
ON_CPU := $(if $(CUDA_HEADERS),$(if $(shell command -v g++),$(addprefix $(BUILD)/tests/,test_cuda_kernels test_cuda_sparse test_cuda_large test_cuda_on_cpu)))
ON_CPU_KERNELS = $(CUDA_KERNELS:%.cu=$(BUILD)/on_cpu/%.o)
# A CPU would forgive an access of 16 bytes that is not aligned.
ON_CPU_ALIGNED = -fsanitize=alignment -fno-sanitize-recover=alignment
ON_CPU_FLAGS = -std=c++17 -O1 -g -fPIC -Wall -Wextra -Wno-unknown-pragmas $(ON_CPU_ALIGNED) $(SANITIZE) -MMD -MP \
               $(CUDA_INCLUDES) $(VALUES) -Ikernels -Itests/unit -Itests/gpu

$(addprefix $(BUILD)/tests/,test_cuda_kernels test_cuda_sparse test_cuda_large): $(BUILD)/tests/%: $(BUILD)/on_cpu/tests/gpu/%.o $(filter-out %/cuda_copy.o %/cuda_paced.o %/cuda_virtual.o,$(ON_CPU_KERNELS)) $(addprefix $(BUILD)/on_cpu/,$(KERNELS_ALONE:.c=.o) \
    $(addprefix tests/gpu/,cuda_on_cpu.o cuda_subject_cpu.o))
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -o $@ $^ $(ALONE_LIBS)
$(BUILD)/tests/test_cuda_on_cpu: $(BUILD)/on_cpu/tests/gpu/cuda_on_cpu.o $(BUILD)/on_cpu/tests/gpu/cuda_broken.o $(BUILD)/on_cpu/tests/gpu/test_cuda_on_cpu.o
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -o $@ $^
$(BUILD)/on_cpu/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(ALONE_CFLAGS) -c -o $@ $<
$(BUILD)/on_cpu/%.o: %.cc Makefile
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_FLAGS) -c -o $@ $<
$(BUILD)/on_cpu/%.o: %.cu Makefile
	@mkdir -p $(@D)
	$(Q)g++ -x c++ $(ON_CPU_FLAGS) -DCUDA_ON_CPU -include tests/gpu/cuda_on_cpu.h -c -o $@ $<

# The CUDA runtime, cuBLAS and NCCL on a CPU, by the names under which they are linked and loaded.
TWIN := $(BUILD)/gpu_on_cpu
TWIN_CUBLAS := $(TWIN)/libcublas.so.$(call defined,$(wildcard $(dir $(CUBLAS_HEADER))cublas_api.h),CUBLAS_VER_MAJOR)
TWIN_LIBRARIES = $(TWIN)/libcudart.so $(TWIN)/libcuda.so.1 $(TWIN_CUBLAS) $(TWIN)/libnvidia-ml.so.1
TWIN_LINK = g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -shared -Wl,-soname,$(@F) -o $@
# The driver's library is loaded with the runtime, though nothing is linked to it.  An RPATH, unlike a RUNPATH, is also
# heeded when a sanitizer calls dlopen() for the program.
TWIN_LIBS = -L$(TWIN) -Wl,--disable-new-dtags,-rpath,$(abspath $(TWIN)) -lcudart -Wl,--no-as-needed -l:libcuda.so.1 -Wl,--as-needed -ldl
$(TWIN)/libcudart.so: $(patsubst %,$(BUILD)/on_cpu/tests/gpu/%.o,$(addprefix gpu_on_cpu/,chance events graphs memory runtime streams) cuda_on_cpu)
	@mkdir -p $(@D)
	$(Q)$(TWIN_LINK) $^
$(TWIN)/libcuda.so.1: $(BUILD)/on_cpu/tests/gpu/gpu_on_cpu/driver.o $(TWIN)/libcudart.so
	$(Q)$(TWIN_LINK) $< -L$(TWIN) -lcudart
$(TWIN_CUBLAS): $(BUILD)/on_cpu/tests/gpu/gpu_on_cpu/cublas.o $(TWIN)/libcudart.so
	$(Q)$(TWIN_LINK) $< -L$(TWIN) -lcudart
$(TWIN)/libnvidia-ml.so.1: tests/gpu/gpu_on_cpu/nvml.c
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(CFLAGS) $(SANITIZE) -shared -fPIC -Wl,-soname,$(@F) -o $@ $<
$(TWIN)/libnccl.so: $(patsubst %,$(BUILD)/on_cpu/tests/gpu/gpu_on_cpu/%.o,nccl_comm nccl_calls nccl_exchange) $(TWIN)/libcudart.so
	$(Q)$(TWIN_LINK) $(filter %.o,$^) -L$(TWIN) -lcudart

# The same test on a GPU, its benchmark, and what the Python benchmark loads.
GPU_DRIVING := $(addprefix $(BUILD)/on_gpu/,$(KERNELS_ALONE:.c=.o) $(patsubst %.c,%.o,$(wildcard kernels/cuda*.c)))
GPU_ALONE := $(GPU_DRIVING) $(CUDA_KERNELS:%.cu=$(BUILD)/%.o)
GPU_CHECKS := $(addprefix $(BUILD)/tests/,check_cuda_kernels check_cuda_sparse check_cuda_large check_cuda_device bench_cuda libcuda_kernels.so)
GPU_ALONE_LIBS = $(call library_path,$(CUDA_HOME),libcudart.so) -lcudart -ldl $(ALONE_LIBS)

gpu-checks: $(GPU_CHECKS)
$(addprefix $(BUILD)/tests/check_,cuda_kernels cuda_sparse cuda_large): $(BUILD)/tests/check_%: $(GPU_ALONE) $(BUILD)/on_gpu/tests/gpu/cuda_subject_gpu.o $(BUILD)/on_gpu/tests/gpu/test_%.o
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) -pthread -o $@ $^ $(GPU_ALONE_LIBS)
$(BUILD)/tests/check_cuda_device: $(GPU_ALONE) $(BUILD)/on_gpu/tests/gpu/check_cuda_device.o
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) -pthread -o $@ $^ $(GPU_ALONE_LIBS)
$(BUILD)/tests/bench_cuda: $(GPU_ALONE) $(addprefix $(BUILD)/on_gpu/tests/gpu/,bench_cuda.o duels.o)
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) -pthread -o $@ $^ $(GPU_ALONE_LIBS)
$(BUILD)/tests/libcuda_kernels.so: $(GPU_ALONE)
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) -shared -pthread -o $@ $^ $(GPU_ALONE_LIBS)
$(BUILD)/on_gpu/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(ALONE_CFLAGS) -fPIC -DMOETUNE_CUDA -c -o $@ $<

# Plans on a GPU, with ranks by fork, where there is no SQLite.
PLANS_ALONE := $(filter-out $(KERNELS_ALONE),$(wildcard comm/*.c comm/forked/*.c kernels/sim*.c db/values/declar*.c)) $(addprefix db/values/,$(addsuffix .c,cluster input_file json node_rows phase plan rank_speeds shares)) db/exchange/counts_file.c \
    $(wildcard tuner/layer/*.c) $(addprefix tuner/cli/,layer_options.c option_values.c options.c suggest.c verb.c) \
    $(addprefix tuner/machine/,$(addsuffix .c,cuda_gpus discover first_line gpu_list gpu_ready gpus hosts keeper launch launcher_fork machine model_engine nvml place slurm speeds virtual_ranks)) \
    $(wildcard tuner/verbs/run*.c) tests/unit/library_wire.c tests/gpu/known_none.c
PLANS_LIBS = $(NCCL_LIBS) $(GPU_ALONE_LIBS)

# And all of it on a CPU.
ifneq ($(and $(ON_CPU),$(CUBLAS_HEADER)),)
ON_CPU += $(addprefix $(BUILD)/tests/,test_gpu_on_cpu test_cuda_device) $(if $(NCCL_HEADER),$(addprefix $(BUILD)/tests/,test_cuda_nccl test_cuda_wire test_cuda_plans test_cuda_hidden test_cuda_uneven test_cuda_relay test_cuda_routers test_cuda_spot test_cuda_run test_cuda_moetune))
endif
$(BUILD)/tests/test_gpu_on_cpu: $(BUILD)/on_gpu/tests/gpu/test_gpu_on_cpu.o $(TWIN_LIBRARIES)
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(SANITIZE) -pthread -o $@ $< $(TWIN_LIBS) -l:$(notdir $(TWIN_CUBLAS))
$(BUILD)/tests/test_cuda_nccl: $(BUILD)/on_gpu/tests/gpu/test_cuda_nccl.o $(TWIN_LIBRARIES) $(TWIN)/libnccl.so
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(SANITIZE) -pthread -o $@ $< $(TWIN_LIBS) -lnccl
$(BUILD)/tests/test_cuda_device: $(GPU_DRIVING) $(ON_CPU_KERNELS) $(BUILD)/on_gpu/tests/gpu/check_cuda_device.o $(TWIN_LIBRARIES)
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -o $@ $(filter %.o,$^) $(TWIN_LIBS) $(ALONE_LIBS)
$(addprefix $(BUILD)/tests/,test_cuda_wire test_cuda_plans test_cuda_hidden test_cuda_uneven test_cuda_relay test_cuda_routers test_cuda_spot test_cuda_run test_cuda_moetune): $(PLANS_ALONE:%.c=$(BUILD)/plans/%.o) $(BUILD)/plans/tests/gpu/patience.o $(GPU_DRIVING) $(ON_CPU_KERNELS) \
    $(TWIN_LIBRARIES) $(TWIN)/libnccl.so
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -Wl,--wrap=watch_of -o $@ $(filter %.o,$^) $(TWIN_LIBS) -lnccl $(ALONE_LIBS)
$(BUILD)/tests/test_cuda_wire: $(BUILD)/plans/tests/gpu/test_cuda_wire.o
$(BUILD)/tests/test_cuda_plans: $(BUILD)/plans/tests/unit/test_exec.o
$(BUILD)/tests/test_cuda_hidden: $(BUILD)/plans/tests/unit/test_hidden.o
$(BUILD)/tests/test_cuda_uneven: $(BUILD)/plans/tests/unit/test_uneven.o
$(BUILD)/tests/test_cuda_relay: $(BUILD)/plans/tests/unit/test_relay.o
$(BUILD)/tests/test_cuda_routers: $(BUILD)/plans/tests/unit/test_routers.o
$(BUILD)/tests/test_cuda_spot: $(BUILD)/plans/tests/gpu/test_cuda_spot.o
$(BUILD)/tests/test_cuda_run: $(BUILD)/plans/tests/gpu/check_run.o
# All of moetune, with what above knows no GPU.
$(BUILD)/tests/test_cuda_moetune: $(filter-out $(patsubst %.c,$(BUILD)/%.o,$(PLANS_ALONE) $(KERNELS_ALONE) $(UNIT_SOURCES)) \
    $(patsubst %,$(BUILD)/%.o,$(MPI_KNOWN) $(basename $(CUDA_KERNELS))),$(LIBRARY)) $(BUILD)/tuner/main.o $(BUILD)/plans/tests/gpu/short_copies.o
$(BUILD)/tests/test_cuda_moetune: ALONE_LIBS += -lsqlite3 -Wl,--wrap=workbench_open
$(BUILD)/tests/check_plans: $(PLANS_ALONE:%.c=$(BUILD)/plans/%.o) $(BUILD)/plans/tests/unit/test_exec.o $(GPU_ALONE)
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) -pthread -o $@ $^ $(PLANS_LIBS)
$(BUILD)/plans/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(ALONE_CFLAGS) -Wno-maybe-uninitialized -Icomm/forked $(FOLDERS:%=-I%) -DMOETUNE_VERSION='"$(VERSION)"' -DMOETUNE_CUDA -c -o $@ $<

# ---- libmoelookup: a part of db/ alone, for other people's programs, so without mpicc

LIB := $(BUILD)$(if $(filter 0,$(SQLITE)),/packed)
LIB_PARTS := $(basename $(wildcard db/lookup/*.c db/values/declar*.c)) $(addprefix db/values/,json_text plan seal shape shares sha256 status text utf8 width)
LIB_OBJECTS := $(LIB_PARTS:%=$(LIB)/lib/%.o)
LIB_CFLAGS = -std=c11 -D_GNU_SOURCE -DMOETUNE_VERSION='"$(VERSION)"' -DMOETUNE_PREFIX='"$(PREFIX)"' \
             -DSTATUS_SPEAKER='"moelookup"' $(WARN) -O2 -g $(CFLAGS) $(SANITIZE) -fPIC -fvisibility=hidden -MMD -MP $(VALUES) -Idb/store
LIB_LIBS = -lsqlite3
ifeq ($(SQLITE),0)
LIB_CFLAGS += -DMOELOOKUP_NO_SQLITE
LIB_LIBS =
endif
LIB_VERSION := 1

library: $(LIB)/libmoelookup.so $(LIB)/libmoelookup.a
$(LIB)/lib/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(LIB_CFLAGS) -c -o $@ $<
link_library = $(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(filter %.map,$^) \
    $(if $(SANITIZE),,-Wl,-z,defs) -Wl,--as-needed -o $@ $(filter %.o,$^) $(LIB_LIBS) -lm
$(LIB)/libmoelookup.so.$(LIB_VERSION): $(LIB_OBJECTS) db/lookup/moelookup.map
	$(link_library)
$(LIB)/libmoelookup.so: $(LIB)/libmoelookup.so.$(LIB_VERSION)
	$(Q)ln -sfn $(<F) $@
# One object in which everything hidden is local, so that no name of ours meets one of the program's.
$(LIB)/libmoelookup.a: $(LIB_OBJECTS)
	$(Q)ld -r -o $(LIB)/lib/all.o $^
	$(Q)objcopy --localize-hidden $(LIB)/lib/all.o
	$(Q)rm -f $@ && ar rcs $@ $(LIB)/lib/all.o

# ---- libmoetune: the store, the search and what asks them, for trainers that tune themselves

TUNER_PARTS := $(sort $(LIB_PARTS) $(addprefix db/values/,array cluster input_file json node_rows output_file phase stats)) \
               $(basename $(filter-out db/store/standings.c,$(wildcard db/store/*.c)) $(wildcard search/*.c tuner/bucket/*.c tuner/live/*.c))
TUNER_OBJECTS := $(TUNER_PARTS:%=$(LIB)/tunelib/%.o)
TUNER_CFLAGS = -std=c11 -D_GNU_SOURCE -DNDEBUG -DMOETUNE_VERSION='"$(VERSION)"' -DMOETUNE_PREFIX='"$(PREFIX)"' $(WARN) \
               -O2 -g $(CFLAGS) $(SANITIZE) -fPIC -fvisibility=hidden -MMD -MP \
               $(VALUES) -Idb/store -Isearch -Ituner/bucket -Ituner/live
ifneq ($(SQLITE),0)
library: $(LIB)/libmoetune.so $(LIB)/libmoetune.a
endif
$(LIB)/tunelib/search/%.o: CFLAGS += -O3 -fno-math-errno
$(LIB)/tunelib/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(TUNER_CFLAGS) -c -o $@ $<
$(LIB)/libmoetune.so.$(LIB_VERSION): $(TUNER_OBJECTS) tuner/live/moetune.map
	$(link_library)
$(LIB)/libmoetune.so: $(LIB)/libmoetune.so.$(LIB_VERSION)
	$(Q)ln -sfn $(<F) $@
# Also the names of libmoelookup: a program may link both archives.
$(LIB)/libmoetune.a: $(TUNER_OBJECTS)
	$(Q)ld -r -o $(LIB)/tunelib/all.o $^
	$(Q)objcopy --wildcard --keep-global-symbol='moetune_*' $(LIB)/tunelib/all.o
	$(Q)rm -f $@ && ar rcs $@ $(LIB)/tunelib/all.o

# Another PREFIX is another search path.
$(BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' >$@
$(addsuffix /db/lookup/lookup.o,$(LIB)/lib $(LIB)/tunelib $(BUILD)): $(BUILD)/prefix
FORCE:

# What Debian calls the things we need.
PACKAGES := gcc libc6-dev pkg-config $(if $(filter 0,$(MPI)),,libopenmpi-dev openmpi-bin) $(if $(filter 0,$(BLAS)),,libopenblas-dev) libsqlite3-dev zlib1g-dev sqlite3 iproute2 procps python3 gnuplot-nox
deps:
ifneq ($(DEPS),0)
	$(Q)tests/deps $(PACKAGES)
endif
# What single tests want besides; without it they are skipped.
TEST_PACKAGES := g++ cmake groff-base locales chromium slurmctld slurmd slurm-client munge python3-venv python3-pip python3-torch libsimgrid-dev
deps-of-tests: deps
	$(Q)tests/deps_of_tests $(TEST_PACKAGES)

# The main job: measure, search, remember, on this machine.
tune: say-building all
	./moetune --cluster
say-building:
	@[ -e moetune ] || echo "builds first, which takes one to three minutes"

# In a make of its own, which sees what was installed.
test test-full: all
	$(Q)$(MAKE) --no-print-directory run-$@
run-test: tests-built
	$(Q)tests/run $(BUILD)
run-test-full: tests-built
	$(Q)tests/run --full $(BUILD)
THREADED := stream lookup lookup_record push loans policy_thread declared_plans
tests-built: $(TESTS) $(BUILD)/tests/moetune_forked $(ON_CPU) $(if $(UNIT),$(GPU_CHECKS))
# What threads share is also run under ThreadSanitizer, whatever this build is.
ifneq ($(SAN),thread)
	$(Q)$(MAKE) --no-print-directory GPU=0 SAN=thread $(THREADED:%=build/cpu$(LACKS)-tsan/tests/test_%)
endif

bench: all
	$(Q)$(MAKE) --no-print-directory benches-built
	$(Q)tests/bench/run $(BUILD)
bench-%: all
	$(Q)$(MAKE) --no-print-directory benches-built
	$(Q)tests/bench/run $(BUILD) $*
benches-built: $(BENCHES)

# All that needs a GPU, in ten minutes (PARTS="kernels tune": some of it); says why where there is none.
check-gpu:
	$(Q)CUDA_HOME='$(CUDA_HOME)' tests/gpu/check_gpu $(PARTS)
check-gpu-built: $(BUILD)/moetune $(GPU_CHECKS) $(BUILD)/tests/check_plans
# The same for a machine without a compiler: an archive of what is built here.
check-gpu-pack:
	$(Q)$(MAKE) --no-print-directory MPI=0 BLAS=0 GPU=1 check-gpu-built build/moetune-check-gpu.tar.gz
build/moetune-check-gpu.tar.gz: FORCE
	$(Q)tests/gpu/pack $(BUILD) $@

# What names the version and the place.
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@ABI@|$(LIB_VERSION)|g' \
       -e '/^\.TH/s|"moetune"|"moetune $(VERSION)"|' -e 's|@PRIVATE@|$(LIB_LIBS)|g' -e 's|@REQUIRES@|$(LIB_LIBS:-l%=%)|g'
DEST = $(DESTDIR)$(PREFIX)
PAGES := $(wildcard tuner/*/*.7)
# Kills, damaged tables, files and texts (libFuzzer, which needs clang), many readers, for longer than the tests do.
SOAK_KILLS ?= 1000
SOAK_SECONDS ?= 60
FUZZERS := lookup import texts following
soak: all
	$(Q)$(MAKE) --no-print-directory tests-built
	$(Q)$(MAKE) --no-print-directory SAN=fuzz $(FUZZERS:%=build/cpu-fuzz/tests/fuzz_%)
	$(Q)tests/program/soak $(BUILD) $(SOAK_KILLS) $(SOAK_SECONDS)

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
$(Q)$(FILL) $(1)/$(2).3 >$(DEST)/share/man/man3/$(2).3
endef
install: build
	$(Q)install -d $(DEST)/bin $(DEST)/include $(DEST)/lib/pkgconfig $(DEST)/lib/cmake $(DEST)/share/man/man1 $(DEST)/share/man/man3 \
	    $(DEST)/share/man/man7 $(DEST)/share/doc/moetune $(DEST)/share/bash-completion/completions
	$(Q)install -m 755 $(BUILD)/moetune $(DEST)/bin/moetune
	$(Q)$(BUILD)/moetune --man >$(DEST)/share/man/man1/moetune.1
	$(Q)for page in $(PAGES); do $(FILL) $$page >$(DEST)/share/man/man7/$${page##*/}; done
	$(Q)install -m 755 tuner/machine/tune.sbatch $(DEST)/share/doc/moetune
	$(Q)$(BUILD)/moetune --completion bash >$(DEST)/share/bash-completion/completions/moetune
	$(Q)install -m 644 db/lookup/moelookup_mpi.h $(DEST)/include
	$(call put_library,db/lookup,moelookup)
ifneq ($(SQLITE),0)
	$(call put_library,tuner/live,moetune)
endif
	@echo "installed in $(DEST): bin/moetune; libmoelookup and libmoetune with headers, pkg-config, CMake, manual pages; completion for bash"
	@[ "$(PREFIX)" = /usr ] || echo "to use it: export PATH=$(PREFIX)/bin:\$$PATH PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib MANPATH=$(PREFIX)/share/man:"
	@echo "Python: pip install $(CURDIR)/db/lookup/python"

include .packages/rules.mk reports/rules.mk

C_FILES := $(wildcard $(FOLDERS:%=%/*.[ch]) $(if $(NO_MPI),,comm/forked/*.[ch]) kernels/*.cu kernels/*.cuh $(addprefix tests/,*/*.[ch] */*.cu */*.cc */*/*.[ch] */*/*.cc))
format:
	clang-format -i $(C_FILES)
lint:
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --error-exitcode=1 -DMOETUNE_VERSION='""' \
	    $(FOLDERS:%=-I%) $(wildcard $(FOLDERS:%=%/*.c))

.SECONDARY: $(TESTS:%=%.o) $(BENCHES:%=%.o) $(TEST_PARTS)
clean:
	rm -rf build moetune
define HELP
Build     make, make build      the program and both libraries; the first installs what is missing, too (DEPS=0: not)
          make install          below PREFIX=/usr/local, into DESTDIR
          make wheel | deb      packages: build/*.whl for pip, build/*.deb for Debian
          make deps             installs Debian's packages that are missing
Use       make tune             builds, and tunes a small layer on this machine
Test      make test | test-full all tests; every case
          make SAN=1 test       with AddressSanitizer and UBSan (SAN=thread: ThreadSanitizer)
          make soak             kills, hostile inputs, many readers, for longer
          make check-gpu        on a machine with a GPU; check-gpu-pack: for one without a compiler
Measure   make bench            all benchmarks; bench-NAME: one of them (tests/bench/README.md)
Edit      make format | lint    clang-format; cppcheck
          make picture          draws reports/example.svg, which README shows, from reports/example.jsonl
          make compdb           compile_commands.json, for clangd and other editors
          make clean            removes what was built

endef
help:
	$(info $(HELP))
	@sed -n 's/^# \(.*=.*\)/\1/p' Makefile | head -n 7

-include $(shell find $(BUILD) $(LIB) -name '*.d' 2>/dev/null)
.PHONY: gpu-checks check-gpu check-gpu-built check-gpu-pack all build library FORCE deps deps-of-tests tune say-building test test-full run-test run-test-full soak tests-built bench benches-built install format lint clean help
