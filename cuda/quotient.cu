// The pointwise steps of the quotient.
#include "field.cuh"

// accumulator[i] = a x, a - x or (x - a)/2 for step 0, 1, 2, for i < len; a = accumulator[i], x = operand[i], Montgomery form.
extern "C" __global__ void __launch_bounds__(256)
quotient(u32 step, Fr *accumulator, const Fr *__restrict__ operand, u64 len) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= len) return;
    const Fr a = accumulator[i], x = operand[i];
    accumulator[i] = step == 0 ? a * x : step == 1 ? a - x : (x - a).half();
}
