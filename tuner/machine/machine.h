/* What this machine is: the fields of a fingerprint that can be read without measuring. */
#ifndef MACHINE_H
#define MACHINE_H

#include "cluster.h"

/* One fact out of a file of /proc or /sys: the value in the first line that says "NAME: value",
 * with blanks wherever; without a name ("") that line itself.  False, and an empty text, if there
 * is no such line. */
bool first_line(const char *path, const char *name, char *text, size_t size);

/* The GPUs of this machine as far as the kernel tells without their vendors' libraries: "8 x NVIDIA
 * H200 (PCIe 32 GT/s x16, NVLink unknown)", kinds joined by " + "; "no GPU"; "GPUs unknown" where
 * there is no list of devices.  `root` is in front of /sys and /proc: "", save in tests. */
void gpus_describe(const char *root, char *text, size_t size);

/* What one host says of itself; of fixed size, so that ranks can gather it.  "" or 0: not known. */
struct host_facts {
    char host[64], device[96], caches[64], network[64], gpus[192], system[96];
    char comm_library[64], compute_library[64], versions[160], environment[1024];
    char build[65]; /* SHA-256 of this program's file */
    uint32_t cores, memory_gib;
    int64_t free_bytes; /* now, and within what a container or a batch job may use; INT64_MAX: not
                         * known */
    char backend[16];   /* "": host */
    char bus[24], link[48];   /* of this rank's GPU; how it reaches others of its host */
    uint32_t multiprocessors; /* of it; memory_gib and free_bytes are its own too */
};

/* device: "host" or "cuda"; then the device is the GPU that this process would use, and all that
 * concerns it stays unknown where there is none. */
void machine_facts(const char *device, struct host_facts *out);

/* The cluster that `ranks` such hosts are, one for each rank (the same host may come again).
 * ranks_per_node 0: nodes differ.  Its memory_gib is what a rank may use when nobody says more:
 * eight tenths of its share of what is free on its host, and the smallest share rules. */
struct cluster machine_compose(const struct host_facts *facts, uint32_t ranks,
                               uint32_t ranks_per_node);

/* This host alone as a cluster of ranks on such devices. */
struct cluster machine_cluster(const char *device, uint32_t ranks, uint32_t ranks_per_node);

#endif
