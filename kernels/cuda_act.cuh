/* Activations, forward and backward, for one element in f32, used by all kernels of experts on a
 * GPU. */
#ifndef CUDA_ACT_CUH
#define CUDA_ACT_CUH

#include "cuda_rows.cuh"

/* Uses the two approximate instructions, each right to about the last bit of f32.  expf() and a
 * division take so many instructions that they, and not the memory, would limit the speed.  (The
 * instruction for tanh has an error of 2^-11 relative to 1, not to the result: it is useless where
 * the sigmoid is small.) */
DEVICE float sigmoid(float x)
{
    return reciprocal_approx(1.0f + exp2_approx(-1.4426950409f * x));
}

/* Also computes rest = 1 - sigmoid; a subtraction would lose all digits where the sigmoid is nearly
 * 1.  The exponential is limited to 2^126, where it still has a reciprocal. */
DEVICE float sigmoid(float x, float &rest)
{
    float e = exp2_approx(min(-1.4426950409f * x, 126.0f)), s = reciprocal_approx(1.0f + e);

    rest = e * s;
    return s;
}

/* GELU in its tanh form is x * sigmoid(2u), because tanh(u) = 2 sigmoid(2u) - 1; this is 2u. */
DEVICE float gelu_argument(float x)
{
    return x * (1.5957691216f + 1.5957691216f * 0.044715f * (x * x));
}

/* Computes the activation KIND of x.  Only SwiGLU uses `up`, the factor of its second branch. */
template <int KIND> DEVICE float act(float x, float up)
{
    if (KIND == MOE_RELU)
        return x > 0 ? x : 0;
    if (KIND == MOE_GELU)
        return x * sigmoid(gelu_argument(x));
    return x * sigmoid(x) * up;
}

/* Takes the gradient of act()'s result.  Returns that of x, grad * act'(x); for SwiGLU it also sets
 * grad_up, the gradient of `up`. */
template <int KIND> DEVICE float act_backward(float x, float up, float grad, float &grad_up)
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
