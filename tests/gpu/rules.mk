# What a GPU runs, compared with the host: on a CPU that plays the GPU wherever the toolkit's headers are, and on a GPU
# (make check-gpu) without MPI and SQLite.  Included by ../../Makefile.

ALONE_CC ?= gcc
ALONE_LIBS = $(BLAS_LIBS) -lm
GPU_TEST_CFLAGS = $(ALL_CFLAGS) $(CUDA_INCLUDES) -fPIC -Icomm/forked $(addprefix -Itests/,unit bench gpu)

# ---- On a CPU.  It would forgive an access of 16 bytes that is not aligned.

ON_CPU_ALIGNED = -fsanitize=alignment -fno-sanitize-recover=alignment
ON_CPU_FLAGS = -std=c++17 -O1 -g -fPIC -Wall -Wextra -Wno-unknown-pragmas $(ON_CPU_ALIGNED) $(SANITIZE) -MMD -MP \
    $(CUDA_INCLUDES) $(VALUES) -Ikernels -Itests/unit -Itests/gpu
ON_CPU_LINK = $(Q)mkdir -p $(@D) && g++ $(ON_CPU_ALIGNED) $(SANITIZE) -pthread -o $@
ON_CPU_KERNELS = $(CUDA_KERNELS:%.cu=$(BUILD)/on_cpu/%.o)
ON_CPU_STATE := $(GPU_TEST_CFLAGS) $(ON_CPU_FLAGS) $(KERNEL_FLAGS)
$(BUILD)/on_cpu/flags: FORCE
	$(call flags_file,$(ON_CPU_STATE))
$(BUILD)/on_cpu/%.o: %.cc $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(Q)g++ $(ON_CPU_FLAGS) -c -o $@ $<
$(BUILD)/on_cpu/%.o: %.cu $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(Q)g++ -x c++ $(ON_CPU_FLAGS) -DCUDA_ON_CPU -include tests/gpu/cuda_on_cpu.h -c -o $@ $<
# C that knows CUDA, and C that knows none: few files differ, all others are the program's objects.
CUDA_KNOWN := $(filter-out $(FORKED),$(basename $(UNIT_SOURCES) $(shell grep -l MOETUNE_CUDA $(SOURCES))))
$(BUILD)/on_gpu/%.o: %.c $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(GPU_TEST_CFLAGS) -DMOETUNE_CUDA -c -o $@ $<
$(BUILD)/on_cpu/%.o: %.c $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(GPU_TEST_CFLAGS) -UMOETUNE_CUDA -c -o $@ $<
$(BUILD)/on_cpu/kernels/%.o $(BUILD)/on_gpu/kernels/%.o: OWN += $(KERNEL_FLAGS)

# Kernels alone: of the program's objects none that knows CUDA.
NO_CUDA := $(filter-out $(call objects_of,$(CUDA_KNOWN) $(CUDA_KERNELS)),$(LIBRARY)) $(BUILD)/on_cpu/kernels/device.o
$(BUILD)/on_cpu/no_cuda.a: $(NO_CUDA)
	$(ARCHIVE)
ON_CPU := $(if $(CUDA_HEADERS),$(if $(shell command -v g++),\
    $(addprefix $(BUILD)/tests/test_cuda_,kernels sparse large on_cpu)))
ALONE_KERNELS = $(filter-out %/cuda_copy.o %/cuda_paced.o,$(ON_CPU_KERNELS))
$(addprefix $(BUILD)/tests/test_cuda_,kernels sparse large): $(BUILD)/tests/%: $(BUILD)/on_cpu/tests/gpu/%.o \
    $(ALONE_KERNELS) $(addprefix $(BUILD)/on_cpu/tests/gpu/,cuda_on_cpu.o cuda_subject_cpu.o) $(BUILD)/on_cpu/no_cuda.a
	$(ON_CPU_LINK) $^ $(ALONE_LIBS)
$(BUILD)/tests/test_cuda_on_cpu: $(addprefix $(BUILD)/on_cpu/tests/gpu/,cuda_on_cpu.o cuda_broken.o test_cuda_on_cpu.o)
	$(ON_CPU_LINK) $^

# The CUDA runtime, cuBLAS and NCCL on a CPU, by the names under which they are linked and loaded.
TWIN := $(BUILD)/gpu_on_cpu
TWIN_CUBLAS := $(TWIN)/libcublas.so.$(call defined,$(wildcard $(dir $(CUBLAS_HEADER))cublas_api.h),CUBLAS_VER_MAJOR)
TWIN_LIBRARIES = $(TWIN)/libcudart.so $(TWIN)/libcuda.so.1 $(TWIN_CUBLAS) $(TWIN)/libnvidia-ml.so.1
TWIN_LINK = $(ON_CPU_LINK) -shared -Wl,-soname,$(@F)
twin_objects = $(patsubst %,$(BUILD)/on_cpu/tests/gpu/gpu_on_cpu/%.o,$1)
# The driver's library is loaded with the runtime, though nothing is linked to it.  An RPATH, unlike a RUNPATH, is also
# heeded when a sanitizer calls dlopen() for the program.
TWIN_LIBS = -L$(TWIN) -Wl,--disable-new-dtags,-rpath,$(abspath $(TWIN)) -lcudart \
    -Wl,--no-as-needed -l:libcuda.so.1 -Wl,--as-needed -ldl
$(TWIN)/libcudart.so: $(call twin_objects,chance events graphs memory runtime streams) \
    $(BUILD)/on_cpu/tests/gpu/cuda_on_cpu.o
	$(TWIN_LINK) $^
$(TWIN)/libcuda.so.1: $(call twin_objects,driver) $(TWIN)/libcudart.so
	$(TWIN_LINK) $< -L$(TWIN) -lcudart
$(TWIN_CUBLAS): $(call twin_objects,cublas) $(TWIN)/libcudart.so
	$(TWIN_LINK) $< -L$(TWIN) -lcudart
$(TWIN)/libnvidia-ml.so.1: tests/gpu/gpu_on_cpu/nvml.c
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(CFLAGS) $(SANITIZE) -shared -fPIC -Wl,-soname,$(@F) -o $@ $<
$(TWIN)/libnccl.so.2: $(call twin_objects,nccl_comm nccl_calls nccl_exchange) $(TWIN)/libcudart.so
	$(TWIN_LINK) $(filter %.o,$^) -L$(TWIN) -lcudart

# Put before a program, with GPU_ON_CPU_ABSENT=NAME, it finds no library of that name.
$(TWIN)/absent.so: tests/gpu/gpu_on_cpu/absent.c
	@mkdir -p $(@D)
	$(Q)$(ALONE_CC) $(CFLAGS) -shared -fPIC -o $@ $< -ldl

# And all of moetune on it, with ranks by fork.
ON_TWIN := $(filter-out $(call objects_of,$(CUDA_KNOWN) $(CUDA_KERNELS)) \
    $(FORKED:%=$(BUILD)/forked/%.o),$(BY_FORK)) $(sort $(patsubst %,$(BUILD)/on_gpu/%.o,$(CUDA_KNOWN) $(FORKED))) \
    $(ON_CPU_KERNELS)
$(BUILD)/on_cpu/twin.a: $(ON_TWIN)
	$(ARCHIVE)
# Under names of their own: what runs by an MPI elsewhere, and what only a GPU has.
TWIN_TESTS := plans:test_exec $(foreach t,hidden uneven relay routers,$t:test_$t)
TWIN_OWN := wire:test_cuda_wire spot:test_cuda_spot run:check_run
sources_of = $(foreach t,$2,$1/$(lastword $(subst :, ,$t)).o)
twin_tests := $(foreach t,$(TWIN_TESTS) $(TWIN_OWN),cuda_$(firstword $(subst :, ,$t)))
$(eval $(call unit_table,$(BUILD)/on_cpu/unit,$(TWIN_TESTS:%=cuda_%) $(TWIN_OWN:%=cuda_%)))
$(BUILD)/on_cpu/unit: $(BUILD)/on_cpu/unit.o $(call sources_of,$(BUILD)/tests,$(TWIN_TESTS)) \
    $(call sources_of,$(BUILD)/on_gpu/tests/gpu,$(TWIN_OWN)) \
    $(addprefix $(BUILD)/on_gpu/tests/gpu/,patience.o known_none.o) $(BUILD)/tests/parts.a $(BUILD)/on_cpu/twin.a \
    $(TWIN_LIBRARIES) $(TWIN)/libnccl.so.2
	$(ON_CPU_LINK) -Wl,--wrap=watch_of $(filter %.o %.a,$^) $(TWIN_LIBS) $(ALONE_LIBS)
$(twin_tests:%=$(BUILD)/tests/test_%): $(BUILD)/on_cpu/unit
	$(Q)ln -f $< $@
$(call sources_of,$(BUILD)/on_gpu/tests/gpu,$(TWIN_OWN)): OWN += -Dmain=main_of_$(*F)
$(BUILD)/tests/test_gpu_on_cpu: $(BUILD)/on_gpu/tests/gpu/test_gpu_on_cpu.o $(TWIN_LIBRARIES)
	$(Q)$(ALONE_CC) $(SANITIZE) -pthread -o $@ $< $(TWIN_LIBS) -l:$(notdir $(TWIN_CUBLAS))
$(BUILD)/tests/test_cuda_nccl: $(BUILD)/on_gpu/tests/gpu/test_cuda_nccl.o $(TWIN_LIBRARIES) $(TWIN)/libnccl.so.2
	$(Q)$(ALONE_CC) $(SANITIZE) -pthread -o $@ $< $(TWIN_LIBS) -l:libnccl.so.2
$(BUILD)/tests/test_cuda_device: $(BUILD)/on_gpu/tests/gpu/check_cuda_device.o $(BUILD)/on_cpu/twin.a $(TWIN_LIBRARIES)
	$(ON_CPU_LINK) $(filter %.o %.a,$^) $(TWIN_LIBS) $(ALONE_LIBS)
$(BUILD)/tests/test_cuda_moetune: $(ON_TWIN) $(BUILD)/tuner/main.o \
    $(addprefix $(BUILD)/on_gpu/tests/gpu/,short_copies.o patience.o) $(TWIN_LIBRARIES) $(TWIN)/libnccl.so.2 \
    $(TWIN)/absent.so
	$(ON_CPU_LINK) -Wl,--wrap=watch_of -Wl,--wrap=workbench_open $(filter %.o,$^) $(TWIN_LIBS) $(ALONE_LIBS) -lsqlite3
ifneq ($(and $(ON_CPU),$(CUBLAS_HEADER)),)
ON_CPU += $(addprefix $(BUILD)/tests/test_,gpu_on_cpu cuda_device \
    $(if $(NCCL_HEADER),cuda_nccl $(twin_tests) cuda_moetune))
endif
tests-built: $(ON_CPU)

# The unit as far as a compiler for hosts sees it, by the headers of another CUDA: test_cuda12, which has not cuBLAS'.
cuda-compiled: $(patsubst %,$(BUILD)/on_gpu/%.o,$(if $(CUBLAS_HEADER),$(CUDA_KNOWN),$(filter-out kernels/cuda_gemm,\
    $(CUDA_KNOWN)))) $(ON_CPU_KERNELS)

# ---- PTX: what nvcc makes of the kernels for its oldest architecture and for sm_90, for tests/gpu/ptx to run.  And a
# library of the tests with the kernels' own host code, to which that gives memory and for which it launches.

COMMA := ,
PTX_ARCHS := $(sort 90 $(firstword $(patsubst code=sm_%,%,$(filter code=sm_%,$(subst $(COMMA), ,$(CUDA_ARCH))))))
PTX_KERNELS := $(filter-out %/cuda_copy.cu %/cuda_paced.cu,$(CUDA_KERNELS))
define ptx_rule
$(BUILD)/ptx/%.sm_$1.ptx: kernels/%.cu $(BUILD)/cuda_flags
	@mkdir -p $$(@D)
	$$(Q)$$(NVCC) $$(filter-out $$(CUDA_ARCH),$$(NVCC_FLAGS)) $$(VALUES) -Ikernels -arch=sm_$1 -ptx -o $$@ $$<
endef
$(foreach a,$(PTX_ARCHS),$(eval $(call ptx_rule,$a)))
PTX_CC = $(Q)$(ALONE_CC) -Itests/gpu/ptx $(GPU_TEST_CFLAGS) -UMOETUNE_CUDA -c -o $@ $<
$(BUILD)/ptx/%.o: tests/gpu/%.c $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(PTX_CC)
$(BUILD)/ptx/%.o: tests/gpu/ptx/%.c $(BUILD)/on_cpu/flags
	@mkdir -p $(@D)
	$(PTX_CC)
PTX_TESTS := $(patsubst %,$(BUILD)/ptx/test_cuda_%.o,kernels sparse relayed)
$(PTX_TESTS): OWN += -DRUN_ONCE -Dmain=main_of_$(*F)
$(BUILD)/ptx/cuda_subject_cpu.o: OWN += -Dmalloc=runner_malloc -Dfree=runner_free -Dposix_memalign=runner_memalign
$(BUILD)/ptx/libtests.so: $(PTX_TESTS) $(addprefix $(BUILD)/ptx/,launches.o cuda_subject_cpu.o) \
    $(call objects_of,$(PTX_KERNELS)) \
    $(patsubst %.c,$(BUILD)/on_cpu/%.o,$(filter kernels/%.c db/values/%.c,$(filter-out $(UNIT_SOURCES),$(SOURCES))))
	$(Q)$(ALONE_CC) -shared -Wl,-z,defs -o $@ $^ $(ALONE_LIBS)
ptx-built: $(BUILD)/ptx/libtests.so \
    $(foreach a,$(PTX_ARCHS),$(PTX_KERNELS:kernels/%.cu=$(BUILD)/ptx/%.sm_$a.ptx))
ifneq ($(UNIT),)
tests-built: ptx-built
endif

# ---- On a GPU: the same tests, a benchmark, and what the Python benchmark loads

GPU_CHECKS := $(addprefix $(BUILD)/tests/,check_cuda_kernels check_cuda_sparse check_cuda_large check_cuda_device \
    bench_cuda libcuda_kernels.so)
GPU_ALONE_LIBS = $(call library_path,$(CUDA_HOME),libcudart.so) -lcudart -ldl $(ALONE_LIBS)
GPU_LINK = $(Q)mkdir -p $(@D) && $(ALONE_CC) -pthread -o $@
gpu-checks: $(GPU_CHECKS)
ifneq ($(UNIT),)
tests-built: gpu-checks
endif
$(addprefix $(BUILD)/tests/check_,cuda_kernels cuda_sparse cuda_large): $(BUILD)/tests/check_%: \
    $(BUILD)/on_gpu/tests/gpu/cuda_subject_gpu.o $(BUILD)/on_gpu/tests/gpu/test_%.o $(BUILD)/forked/moetune.a
	$(GPU_LINK) $^ $(GPU_ALONE_LIBS)
$(BUILD)/tests/check_cuda_device: $(BUILD)/on_gpu/tests/gpu/check_cuda_device.o $(BUILD)/forked/moetune.a
	$(GPU_LINK) $^ $(GPU_ALONE_LIBS)
$(BUILD)/tests/bench_cuda: $(addprefix $(BUILD)/on_gpu/tests/gpu/,bench_cuda.o duels.o) $(BUILD)/forked/moetune.a
	$(GPU_LINK) $^ $(GPU_ALONE_LIBS)
# A shared object wants all that is in it to be compiled for one.
SHARED_KERNELS := $(filter kernels/%.c db/values/fault.c,$(SOURCES))
$(BUILD)/tests/libcuda_kernels.so: $(SHARED_KERNELS:%.c=$(BUILD)/on_gpu/%.o) $(call objects_of,$(CUDA_KERNELS)) \
    $(BUILD)/on_gpu/tests/gpu/kernel_layouts.o $(BUILD)/forked/moetune.a
	$(GPU_LINK) -shared $^ $(GPU_ALONE_LIBS)
$(eval $(call unit_table,$(BUILD)/on_gpu/plans,check_plans:test_exec))
$(BUILD)/tests/check_plans: $(BUILD)/on_gpu/plans.o $(BUILD)/tests/test_exec.o $(BUILD)/on_gpu/tests/gpu/known_none.o \
    $(BUILD)/tests/parts.a $(BUILD)/forked/moetune.a
	$(GPU_LINK) $^ $(LOADED_PLACES) $(GPU_ALONE_LIBS)

# All that needs a GPU (PARTS="1", "kernels tune": some of it); says why where there is none.
check-gpu:
	$(Q)CUDA_HOME='$(CUDA_HOME)' tests/gpu/check_gpu $(PARTS)
check-gpu-built: $(BUILD)/moetune $(GPU_CHECKS) $(BUILD)/tests/check_plans
# The same for a machine without a compiler: an archive of what is built here.
check-gpu-pack:
	$(Q)$(MAKE) --no-print-directory MPI=0 BLAS=0 GPU=1 build/moetune-check-gpu.tar.gz
build/moetune-check-gpu.tar.gz: check-gpu-built FORCE
	$(Q)tests/gpu/pack $(BUILD) $@

.PHONY: cuda-compiled ptx-built gpu-checks check-gpu check-gpu-built check-gpu-pack
