// Sums in XYZZ coordinates where latency counts, not throughput: one copy of the addition for all callers.
#pragma once

#include "curve.cuh"

namespace {

// a += b, out of line: as Xyzz::add, but operands stay in memory until they are needed, and what is done goes there at once, so that
// registers are left to the caller.
template <typename F> DEVICE_CALL void add(typename Xyzz<F>::Stored *a, const typename Xyzz<F>::Stored *b) {
    if (F::load(&b->zz).is_zero()) return;
    if (F::load(&a->zz).is_zero()) {
        Xyzz<F>::load(b).store(a);
        return;
    }
    F u1 = F::load(&a->x) * F::load(&b->zz), p = F::load(&b->x) * F::load(&a->zz) - u1;
    F s1 = F::load(&a->y) * F::load(&b->zzz), r = F::load(&b->y) * F::load(&a->zzz) - s1;
    if (p.is_zero()) {
        // In line: with a call in here, programs of nvcc 13.0 ended in an illegal instruction.
        (r.is_zero() ? Xyzz<F>::load(a).twice() : Xyzz<F>::infinity()).store(a);
        return;
    }
    F pp = p.square();
    (F::load(&a->zz) * F::load(&b->zz) * pp).store(&a->zz);
    F ppp = p * pp;
    (F::load(&a->zzz) * F::load(&b->zzz) * ppp).store(&a->zzz);
    F qq = u1 * pp, x = r.square() - ppp - qq.twice();
    x.store(&a->x);
    F::dot(r, qq - x, s1.negate(), ppp).store(&a->y);
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
