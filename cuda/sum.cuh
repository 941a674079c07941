// Sums in XYZZ coordinates where latency counts, not throughput: one copy of the addition for all callers.
#pragma once

#include "curve.cuh"

namespace {

// a += b, out of line.
template <typename F> DEVICE_CALL void add(typename Xyzz<F>::Stored *a, const typename Xyzz<F>::Stored *b) {
    Xyzz<F> sum = Xyzz<F>::load(a);
    sum.add(Xyzz<F>::load(b));
    sum.store(a);
}

template <typename F> DEVICE_CALL void twice(typename Xyzz<F>::Stored *a) { Xyzz<F>::load(a).twice().store(a); }

// Threads of a block that adds up, and values of them.
const u32 BLOCK_SUM_THREADS = 128;
template <typename F> constexpr u32 BLOCK_SUM_LEN = BLOCK_SUM_THREADS / F::LANES;

// The sum of a block's values in values[0].
template <typename F> DEVICE void block_sum(typename Xyzz<F>::Stored *values) {
    u32 i = threadIdx.x / F::LANES;
    for (u32 half = BLOCK_SUM_LEN<F> / 2; half > 0; half /= 2) {
        __syncthreads();
        if (i < half) add<F>(values + i, values + i + half);
    }
    __syncthreads();
}

} // namespace
