# The CUDA unit (runtime, cuBLAS, NCCL and our kernels) is whole or absent.  It needs a toolkit, never a driver.

CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard /usr/local/cuda/bin/nvcc) \
    $(shell command -v nvcc 2>/dev/null)))
NCCL_HOME ?= $(CUDA_HOME)
CUDA_HEADERS := $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/include/cuda_bf16.h))
# cuBLAS and NCCL may also be Python's (nvidia-cublas, nvidia-nccl).
NCCL_HEADERS := $(wildcard $(NCCL_HOME)/include/nccl.h /usr/include/nccl.h)
HAS_BOTH := $(and $(wildcard $(CUDA_HOME)/include/cublas_v2.h),$(NCCL_HEADERS))
PYTHONS = $(shell python3 -c 'import glob, sys; print(*(d for p in sys.path for d in glob.glob(p + "/nvidia/*")))' \
    2>/dev/null)
WHEELS := $(if $(filter 0,$(GPU)),,$(if $(CUDA_HOME),$(if $(HAS_BOTH),,$(PYTHONS))))
CUBLAS_HEADER := $(firstword $(wildcard $(CUDA_HOME)/include/cublas_v2.h $(WHEELS:%=%/include/cublas_v2.h)))
NCCL_HEADER := $(firstword $(NCCL_HEADERS) $(wildcard $(WHEELS:%=%/include/nccl.h)))
defined = $(if $1,$(shell sed -n 's/^.define $2 *\([0-9][0-9]*\).*/\1/p' $1))
at_least = $(shell [ "0$1" -ge $2 ] && echo 1)
CUDART := $(call defined,$(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),CUDART_VERSION)
CUDA_MAJOR := $(if $(CUDART),$(shell expr $(CUDART) / 1000))
NCCL_IS_NEW := $(call at_least,$(call defined,$(NCCL_HEADER),NCCL_MINOR),22)
NCCL_LACKS := $(if $(NCCL_HEADER),$(if $(NCCL_IS_NEW),,NCCL 2.22.3 or newer),nccl.h (NCCL_HOME=DIR))
CUDA_LACKS := $(strip $(if $(CUDA_HOME),$(if $(wildcard $(CUDA_HOME)/bin/nvcc),,nvcc) \
    $(if $(CUDA_HEADERS),,cuda_bf16.h) $(if $(CUBLAS_HEADER),,cublas_v2.h) \
    $(if $(call at_least,$(CUDART),12000),,CUDA 12 or newer) $(NCCL_LACKS),\
    a toolkit (CUDA_HOME=DIR)))
UNIT := $(if $(filter 0,$(GPU)),,$(if $(filter 1,$(GPU)),1,$(if $(CUDA_LACKS),,$(if $(filter 0,$(SAN)),1))))
ifeq ($(GPU),1)
ifneq ($(CUDA_LACKS),)
$(error GPU=1: missing $(CUDA_LACKS))
endif
ifneq ($(SAN),0)
$(error GPU=1: the CUDA unit is not built with sanitizers (compute-sanitizer: make check-gpu))
endif
endif
CUDA_STATE = $(if $(UNIT),$(CUDA_HOME): $$($(NVCC) --version | sed -n 's/^.*release //p'),left out: $(strip \
    $(or $(if $(filter 0,$(GPU)),GPU=0),$(if $(CUDA_LACKS),missing $(CUDA_LACKS)),sanitizers)))

NVCC = $(CUDA_HOME)/bin/nvcc
CUDA_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_90,code=compute_90
# Without exceptions, RTTI and guarded statics the kernels need no C++ library.
NVCC_FLAGS = -std=c++17 -O3 -g $(CUDA_ARCH) -MMD -MP \
    -Xcompiler -Wall,-Wextra,-fPIC,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
# Debian's own place is searched anyway, and must not be searched early.
CUDA_PLACES := $(sort $(CUDA_HOME)/include $(patsubst %/,%,$(dir $(NCCL_HEADER) $(CUBLAS_HEADER))))
CUDA_INCLUDES := $(patsubst %,-isystem %,$(filter-out /usr/include,$(CUDA_PLACES)))
# DIRS FILE: where this library lies, as the linker and the loader want it said.
library_path = $(foreach d,$(sort $(dir $(wildcard $(foreach l,lib64 lib,$(foreach h,$1,$h/$l/$2))))),\
    -L$(d:%/=%) -Wl,-rpath,$(d:%/=%))
# Loaded while the program runs: NCCL at its first call (comm/nccl_loaded.c), cuBLAS when a GPU is opened
# (kernels/cuda_gemm.c).
LOADED_PLACES := $(call library_path,$(NCCL_HOME) $(WHEELS),libnccl.so.2) $(call library_path,$(WHEELS),libcublas.so.*)
GPU_CFLAGS := $(if $(UNIT),-DMOETUNE_CUDA $(CUDA_INCLUDES))
GPU_LIBS := $(if $(UNIT),$(call library_path,$(CUDA_HOME),libcudart.so) $(LOADED_PLACES) -lcudart -ldl)

CUDA_KERNELS := $(wildcard kernels/*.cu)
