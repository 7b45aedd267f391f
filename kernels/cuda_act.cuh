/* Activations and their slopes, of one element in f32. */
#ifndef CUDA_ACT_CUH
#define CUDA_ACT_CUH

#include "cuda_rows.cuh"

/* By the two instructions that approximate, each to about the last bit of f32: expf() and a
 * division take so many that they, and not the memory, set the time.  (tanh's own instruction is
 * right to 11 bits only, of 1 and not of the result: nothing where the sigmoid is small.) */
DEVICE float sigmoid(float x)
{
    return reciprocal_approx(1.0f + exp2_approx(-1.4426950409f * x));
}

/* And 1 - sigmoid, which a difference would leave with no right digit where the sigmoid is
 * nearly 1. Below 2^126 the exponential has a reciprocal. */
DEVICE float sigmoid(float x, float &rest)
{
    float e = exp2_approx(min(-1.4426950409f * x, 126.0f)), s = reciprocal_approx(1.0f + e);

    rest = e * s;
    return s;
}

/* GELU in its tanh form, written as x * sigmoid(2u): tanh(u) = 2 sigmoid(2u) - 1. */
DEVICE float gelu_argument(float x)
{
    return x * (1.5957691216f + 1.5957691216f * 0.044715f * (x * x));
}

template <int KIND> DEVICE float act(float x, float up)
{
    if (KIND == MOE_RELU)
        return x > 0 ? x : 0;
    if (KIND == MOE_GELU)
        return x * sigmoid(gelu_argument(x));
    return x * sigmoid(x) * up;
}

/* grad * act'(x); grad_up is set for SwiGLU. */
template <int KIND> DEVICE float slope(float x, float up, float grad, float &grad_up)
{
    if (KIND == MOE_RELU)
        return x > 0 ? grad : 0;
    float rest, s = sigmoid(KIND == MOE_GELU ? gelu_argument(x) : x, rest);

    if (KIND == MOE_GELU)
        return grad * (s + x * s * rest * 1.5957691216f * (1.0f + 3 * 0.044715f * x * x));
    grad_up = grad * x * s;
    return grad * up * s * (1.0f + x * rest);
}

#endif
