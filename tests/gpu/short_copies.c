/* A short stretch of memory for `probe`, whose copies take minutes on a GPU that is played by a
 * CPU: linked with --wrap=workbench_open. */
#include "workbench.h"

enum { BYTES = 64 << 10 };

int __real_workbench_open(struct engine *engine, size_t bytes, struct workbench *out);
int __wrap_workbench_open(struct engine *engine, size_t bytes, struct workbench *out);

int __wrap_workbench_open(struct engine *engine, size_t bytes, struct workbench *out)
{
    return __real_workbench_open(engine, bytes < BYTES ? bytes : BYTES, out);
}
