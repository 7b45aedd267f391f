/* Describes this machine: the fields of a cluster's fingerprint that can be read without measuring.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include "cluster.h"

/* Reads one value from a file of /proc or /sys: from the first line "NAME: value", with any blanks.
 * name "": the first line itself.  False, and an empty text, if there is no such line. */
bool read_named_value(const char *path, const char *name, char *text, size_t size);

/* Describes the GPUs that the kernel lists, without their vendors' libraries: "8 x NVIDIA H200
 * (PCIe 32 GT/s x16, NVLink unknown)", several kinds joined by " + "; "no GPU"; "GPUs unknown"
 * where there is no list of devices.  `root` is put before /sys and /proc; only tests set another
 * than "". */
void gpus_describe(const char *root, char *text, size_t size);

/* What one rank knows of its host and device.  A plain value of fixed size, so that ranks can
 * gather it.  "" or 0: not known. */
struct host_facts {
    char host[64], device[96], caches[64], network[64], gpus[192], system[96];
    char comm_library[64], compute_library[64], versions[160], environment[1024];
    char build[65]; /* SHA-256 of this program's file */
    uint32_t cores, memory_gib;
    int64_t free_bytes; /* memory free now that a container or batch job may use; INT64_MAX: not
                         * known */
    char backend[16];   /* "": host */
    /* This rank's GPU: its PCI bus id, and how it reaches others of its host.  With a GPU,
     * memory_gib and free_bytes are the GPU's. */
    char bus[24], link[48];
    uint32_t multiprocessors;
};

/* Fills *out for this process.  device: "host" or "cuda".  With "cuda" the device is the GPU that
 * this process would use; where there is no GPU its members stay unknown. */
void machine_facts(const char *device, struct host_facts *out);

/* Makes a cluster of the facts of `ranks` ranks, in their order; ranks of one host repeat its
 * facts. ranks_per_node 0: nodes differ.  The cluster's memory_gib is the default limit of a rank:
 * eight tenths of its share of the free memory of its host; the smallest share counts. */
struct cluster machine_compose(const struct host_facts *facts, uint32_t ranks,
                               uint32_t ranks_per_node);

/* Describes this host alone as a cluster of `ranks` ranks on such devices. */
struct cluster machine_cluster(const char *device, uint32_t ranks, uint32_t ranks_per_node);

#endif
