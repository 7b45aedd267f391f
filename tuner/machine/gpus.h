/* The GPUs of this machine and how they hang on it, as far as the kernel tells without their
 * vendors' libraries. */
#ifndef GPUS_H
#define GPUS_H

#include <stddef.h>

/* "8 x NVIDIA H200 (PCIe 32 GT/s x16, NVLink unknown)", kinds joined by " + "; "no GPU"; "GPUs
 * unknown" where there is no list of devices.  `root` is in front of /sys and /proc: "", save in
 * tests. */
void gpus_describe(const char *root, char *text, size_t size);

#endif
