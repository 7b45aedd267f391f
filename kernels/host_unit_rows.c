/* The kernels unit_rows, its gradient, and keep_losses on the host: they scale rows to a length,
 * and pass on losses of single choices. */
#include "host.h"

#include <math.h>

static double factor_of(const float *exponent)
{
    return exponent ? exp((double)fminf(*exponent, UNIT_ROWS_MOST)) : 1;
}

static double dot(const float *a, const float *b, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

void host_unit_rows(const struct unit_rows *u)
{
    double factor = factor_of(u->exponent);

    for (uint64_t r = 0; r < u->rows; r++) {
        const float *from = u->from + r * u->width;
        float length = fmaxf((float)sqrt(dot(from, from, u->width)), UNIT_ROWS_LEAST);
        float scale = (float)(factor / (double)length);

        for (uint64_t i = 0; i < u->width; i++)
            u->to[r * u->width + i] = scale * from[i];
        u->length[r] = length;
    }
}

/* With to = factor * from / length, the gradient has no part along `to`, except where the length is
 * the constant UNIT_ROWS_LEAST. */
void host_unit_rows_backward(const struct unit_rows_backward *u)
{
    double factor = factor_of(u->exponent);
    bool trained = u->grad_exponent && !(*u->exponent > UNIT_ROWS_MOST);

    for (uint64_t r = 0; r < u->rows; r++) {
        const float *to = u->to + r * u->width, *grad = u->grad_to + r * u->width;
        double length = (double)u->length[r], along = dot(to, grad, u->width);
        float scale = (float)(factor / length);
        float back = u->length[r] > UNIT_ROWS_LEAST ? (float)(along / (factor * length)) : 0;

        for (uint64_t i = 0; i < u->width; i++)
            u->grad_from[r * u->width + i] = scale * grad[i] - back * to[i];
        if (u->grad_exponent)
            u->grad_exponent[r] = trained ? (float)along : 0;
    }
}

void host_keep_losses(const struct keep_losses *l)
{
    for (uint64_t i = 0; i < l->choices; i++)
        l->grad_gate[i] = l->slot[i] < 0 ? 0 : l->loss[i];
}
