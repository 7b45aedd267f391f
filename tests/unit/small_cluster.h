/* Describes a cluster of two nodes, for tests. */
#ifndef SMALL_CLUSTER_H
#define SMALL_CLUSTER_H

#include "check.h"
#include "heard.h"

#include "cluster.h"
#include "sim_model.h"
#include "wire_sim.h"

#include <math.h>
#include <string.h>

/* A cluster of numbers that are easy to reckon with: two nodes of four. */
static inline struct cluster small(void)
{
    struct cluster c;

    CHECK(!cluster_parse("semantics = 1\nbackend = sim\ndevice = toy\ndevice_units = 10\n"
                         "device_gib = 1\nnodes = 2\nranks = 8\nranks_per_node = 4\n"
                         "link_inside = a\nlink_between = b\ncomm_library = c 1\n"
                         "compute_library = d 1\nlatency_inside_us = 10\nlatency_between_us = 20\n"
                         "message_inside_us = 1\nmessage_between_us = 5\n"
                         "bandwidth_inside_gbs = 100\nbandwidth_between_gbs = 10\n"
                         "half_inside_kib = 0\nhalf_between_kib = 0\ngemm_gflops = 1000\n"
                         "gemm_half_rows = 100\nmemory_gbs = 500\nlaunch_us = 2\n"
                         "overlap_slowdown = 0\nnoise_percent = 0\noutlier_percent = 0\n"
                         "drift_percent = 0\nmemory_gib = 0.001\n",
                         "small", &c));
    CHECK(!cluster_check_model(&c, "small"));
    return c;
}

/* NAN in every model number whose name holds `part`. */
static inline struct cluster without(struct cluster c, const char *part)
{
    for (size_t i = 0; i < cluster_field_count; i++)
        if (cluster_fields[i].class == CLUSTER_MODEL && strstr(cluster_fields[i].name, part))
            *(double *)(void *)((char *)&c + cluster_fields[i].offset) = NAN;
    return c;
}

#endif
