// The weighted sum of each window's buckets over COORDINATE, bucket b with b + 1, to a few points a window.
//
// Buckets are taken in segments of M = 2^k neighbours. Segment s has its plain sum R_s, and T_s, the sum of
// (j + 1) bucket[M s + j]; the whole is the sum of T_s + M s R_s. Windows stand one behind the other, so that
// no kernel but the last knows of them.
#include "sum.cuh"

typedef COORDINATE F;
typedef Xyzz<F>::Stored Sum;

namespace {

const u32 SUM_THREADS = 128, SUM_LEN = SUM_THREADS / F::LANES;

} // namespace

// A thread a segment of 2^log_len buckets: sums[s] = R_s, weighted[s] = T_s.
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    reduce_buckets(const Sum *buckets, u32 segments, u32 log_len, Sum *sums, Sum *weighted) {
    u32 segment = blockIdx.x * SUM_LEN + threadIdx.x / F::LANES;
    if (segment >= segments) return;
    // In memory, where one copy of the addition has its operands.
    __shared__ Sum places[2][SUM_LEN];
    Sum *sum = places[0] + threadIdx.x / F::LANES, *total = places[1] + threadIdx.x / F::LANES;
    Xyzz<F> none = Xyzz<F>::infinity();
    none.store(sum), none.store(total);
    for (u32 i = 1u << log_len; i-- > 0;) {
        add<F>(sum, buckets + (segment << log_len) + i);
        add<F>(total, sum);
    }
    Xyzz<F>::load(sum).store(sums + segment);
    Xyzz<F>::load(total).store(weighted + segment);
}

// A thread for 2^log_len segments of 2^log_unit buckets each: to one segment.
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    reduce_segments(const Sum *sums, const Sum *weighted, u32 segments, u32 log_unit, u32 log_len,
                    Sum *out_sums, Sum *out_weighted) {
    u32 segment = blockIdx.x * SUM_LEN + threadIdx.x / F::LANES;
    if (segment >= segments) return;
    // All three in memory, where one copy of the addition has its operands.
    __shared__ Sum places[SUM_LEN];
    Sum *sum = out_sums + segment, *total = out_weighted + segment, *by_place = places + threadIdx.x / F::LANES;
    Xyzz<F> none = Xyzz<F>::infinity();
    none.store(sum), none.store(total), none.store(by_place);
    for (u32 i = 1u << log_len; i-- > 0;) {
        u32 at = (segment << log_len) + i;
        add<F>(total, weighted + at);
        add<F>(sum, sums + at);
        // i times sums[i] is the sum of the suffix sums from 1 on.
        if (i) add<F>(by_place, sum);
    }
    for (u32 i = 0; i < log_unit; i++) twice<F>(by_place);
    add<F>(total, by_place);
}

// Grid (log_len + 1, windows): out[window][0] is the sum of a window's 2^log_len `weighted`, out[window][1 +
// k] that of the `sums` in places with bit k set. The host weighs the first with 1, the others with 2^k
// buckets of a segment.
extern "C" __global__ void __launch_bounds__(BLOCK_SUM_THREADS)
    reduce_bits(const Sum *sums, const Sum *weighted, u32 log_len, Sum *out) {
    __shared__ Sum values[BLOCK_SUM_LEN<F>];
    u32 window = blockIdx.y, bit = blockIdx.x, mine = threadIdx.x / F::LANES;
    Xyzz<F>::infinity().store(values + mine);
    for (u32 i = mine; i < 1u << log_len; i += BLOCK_SUM_LEN<F>) {
        const Sum *from = bit ? sums : weighted;
        if (!bit || i >> (bit - 1) & 1) add<F>(values + mine, from + (window << log_len) + i);
    }
    block_sum<F>(values);
    if (mine == 0) Xyzz<F>::load(values).store(out + window * (log_len + 1) + bit);
}
