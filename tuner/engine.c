/* Opens and closes the pair of streams. */
#include "engine.h"

#include "status.h"

int engine_open(const char *name, struct wire *wire, struct engine *out)
{
    struct device *device = NULL;

    TRY(device_open(name, &device));
    return engine_open_on(device, wire, out);
}

int engine_open_on(struct device *device, struct wire *wire, struct engine *out)
{
    struct engine engine = { .device = device, .wire = wire };
    int rc;

    TRY_OUT(stream_open(engine.device, &engine.compute));
    TRY_OUT(stream_open_urgent(engine.device, &engine.comm));
    *out = engine;
    return OK;
out:
    engine_close(&engine);
    return rc;
}

void engine_close(struct engine *engine)
{
    stream_close(engine->comm);
    stream_close(engine->compute);
    device_close(engine->device);
    *engine = (struct engine){ 0 };
}

int engine_sync(struct engine *engine)
{
    int compute = stream_sync(engine->compute), comm = stream_sync(engine->comm);

    return compute ? compute : comm;
}
