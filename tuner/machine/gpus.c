/* Walks the PCI devices: models come from the drivers, links from the bus.  Which GPUs are joined
 * by NVLink or xGMI only their vendors' libraries say, and this build has none of them. */
#include "gpus.h"

#include "first_line.h"
#include "text.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 512, KIND_BYTES = 128, KINDS = 8 };

struct list {
    const char *root;
    char kinds[KINDS][KIND_BYTES];
    int counts[KINDS], count;
};

static const struct vendor {
    const char *id, *name, *fabric;
} vendors[] = { { "0x10de", "NVIDIA", "NVLink" }, { "0x1002", "AMD", "xGMI" } };
enum { VENDORS = sizeof(vendors) / sizeof(vendors[0]) };

static void read_property(const char *root, const char *device, const char *name, char *text,
                          size_t size)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, device, name);
    first_line(path, "", text, size);
}

static const struct vendor *vendor_of(const char *root, const char *device)
{
    char class[16], id[16];

    read_property(root, device, "class", class, sizeof(class));
    read_property(root, device, "vendor", id, sizeof(id));
    for (int i = 0; i < VENDORS; i++)
        if (!strncmp(class, "0x03", 4) && !strcmp(id, vendors[i].id))
            return &vendors[i];
    return NULL;
}

static void read_model(const char *root, const char *device, const struct vendor *vendor,
                       char *text, size_t size)
{
    char path[PATH_BYTES], model[64];
    bool named;

    read_property(root, device, "product_name", model, sizeof(model));
    if (!*model) {
        snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", root, device);
        first_line(path, "Model", model, sizeof(model));
    }
    named = strstr(model, vendor->name) != NULL;
    if (!*model)
        snprintf(text, size, "%s GPU of unknown model", vendor->name);
    else
        snprintf(text, size, "%s%s%s", named ? "" : vendor->name, named ? "" : " ", model);
}

/* What the device and its slot can do: a link that is idle may be slower now. */
static void read_link(const char *root, const char *device, char *text, size_t size)
{
    char speed[32], width[16];

    read_property(root, device, "max_link_speed", speed, sizeof(speed));
    read_property(root, device, "max_link_width", width, sizeof(width));
    if (strtod(speed, NULL) > 0 && atoi(width) > 0 && atoi(width) < 255)
        snprintf(text, size, "PCIe %g GT/s x%d", strtod(speed, NULL), atoi(width));
    else
        snprintf(text, size, "PCIe unknown");
}

static void add(struct list *list, const char *kind)
{
    int i = 0;

    while (i < list->count && strcmp(list->kinds[i], kind) != 0)
        i++;
    if (i == KINDS)
        return;
    if (i == list->count)
        text_put(list->kinds[list->count++], KIND_BYTES, "%s", kind);
    list->counts[i]++;
}

static void look_at(struct list *list, const char *device)
{
    const struct vendor *vendor = vendor_of(list->root, device);
    char model[80], link[48], kind[KIND_BYTES];

    if (!vendor)
        return;
    read_model(list->root, device, vendor, model, sizeof(model));
    read_link(list->root, device, link, sizeof(link));
    text_put(kind, sizeof(kind), "%s (%s, %s unknown)", TEXT_SHORT(model, 60), link,
             vendor->fabric);
    add(list, kind);
}

void gpus_describe(const char *root, char *text, size_t size)
{
    struct list list = { .root = root };
    char path[PATH_BYTES];
    struct dirent **devices;
    int count;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    count = scandir(path, &devices, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        look_at(&list, devices[i]->d_name);
        free(devices[i]);
    }
    if (count >= 0)
        free(devices);
    snprintf(text, size, count < 0 ? "GPUs unknown" : "no GPU");
    if (list.count)
        *text = 0;
    for (int i = 0; i < list.count; i++)
        text_add(text, size, "%s%d x %s", i ? " + " : "", list.counts[i], list.kinds[i]);
}
