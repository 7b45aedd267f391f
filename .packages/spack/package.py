# From a checkout: spack repo create mine; copy this file to mine's packages/moetune/package.py;
# then: spack dev-build moetune@0.9.0
# Not run with Spack.  Its dependencies and base class are in the builtin repository of 2026-07
# (1e8cf059e3), whose rules for style it keeps; of NCCL's versions there only 2.22.3 on are taken.
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Moetune(MakefilePackage):
    """Autotuner for Mixture-of-Experts layers: measures the ways of running a step, writes
    the fastest one for each expert capacity into a table, and gives trainers a library that reads
    it."""

    license("MIT")

    version("0.9.0")

    variant("mpi", default=True, description="Ranks on several hosts; else those of one, by fork")
    variant("cuda", default=False, description="Ranks on GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("sqlite@3.37:")
    depends_on("openblas")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.22.3:", when="+cuda")
    depends_on("gnuplot", type="run")

    def moetune_flags(self):
        spec = self.spec
        flags = ["DEPS=0", f"PREFIX={self.prefix}", f"LIB_CC={spack_cc}"]
        flags.append(f"MPI={spec['mpi'].prefix}" if spec.satisfies("+mpi") else "MPI=0")
        if spec.satisfies("+cuda"):
            flags.append("GPU=1")
            flags.append(f"CUDA_HOME={spec['cuda'].prefix}")
            flags.append(f"NCCL_HOME={spec['nccl'].prefix}")
        else:
            flags.append("GPU=0")
        return flags

    def build(self, spec, prefix):
        make("build", *self.moetune_flags())

    def install(self, spec, prefix):
        make("install", *self.moetune_flags())
