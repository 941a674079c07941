// The points of each bucket to their sum over COORDINATE, in XYZZ coordinates: an even share of points a
// thread, whatever the buckets are. After the affine levels bucket b has the points from starts[b] >> levels
// on.
#include "points.cuh"
#include "sum.cuh"

typedef COORDINATE F;
typedef F::Stored Element;
typedef Xyzz<F>::Stored Sum;

namespace {

// Threads of a block, and blocks of a multiprocessor.
const u32 SUM_THREADS = 128, SUM_BLOCKS = 2;
// Sums that a block works on.
const u32 SUM_LEN = SUM_THREADS / F::LANES;
// Points a thread takes at once.
const u32 MIN_RUN = 16, MAX_RUN = 64;
// Parts of a bucket that one thread adds up; a bucket of more goes to a block, which takes each STRIDE-th.
const u32 MAX_PARTS = 8, STRIDE = 32;

// The points of each run, so that all `threads` have as many runs.
DEVICE u32 run_length(u32 points, u32 threads) {
    u32 most = threads * MAX_RUN, runs = threads * ((points + most - 1) / most);
    return points <= threads * MIN_RUN ? MIN_RUN : (points + runs - 1) / runs;
}

} // namespace

// Each thread adds up runs of points. A bucket within a run is done (buckets without points stay as they
// are); of one that crosses runs, the first part goes to tails[run] and the others to heads[run].
extern "C" __global__ void __launch_bounds__(SUM_THREADS, SUM_BLOCKS)
    accumulate(Shape shape, const Element *xs, const Element *ys, const u32 *entries, const u32 *starts, Sum *buckets,
               Sum *heads, Sum *tails) {
    Points<F> from{xs, ys, entries};
    u32 len = shape.buckets(), all = starts[len] >> shape.levels, run = run_length(all, gridDim.x * SUM_LEN);
    for (u32 i = blockIdx.x * SUM_LEN + threadIdx.x / F::LANES; i * run < all; i += gridDim.x * SUM_LEN) {
        u32 first = i * run, last = first + run < all ? first + run : all;
        u32 bucket = find(starts, len, first << shape.levels);
        u32 begin = starts[bucket] >> shape.levels, end = starts[bucket + 1] >> shape.levels;
        Xyzz<F> sum = Xyzz<F>::infinity();
        for (u32 at = first; at < last; at++) {
            sum.add(from.fetch(from.source(at)));
            if (at + 1 != end && at + 1 != last) continue;
            Sum *target = begin < first ? heads + i : end > last ? tails + i : buckets + bucket;
            sum.store(target);
            if (at + 1 == last) break;
            sum = Xyzz<F>::infinity();
            bucket++;
            begin = end;
            end = starts[bucket + 1] >> shape.levels;
            if (begin == end) {
                // The next bucket is empty, and so may be very many behind it.
                bucket = find(starts, len, begin << shape.levels);
                end = starts[bucket + 1] >> shape.levels;
            }
        }
    }
}

// A thread a boundary between two runs: adds up the parts of the bucket that crosses it, unless the bucket
// crosses an earlier one too. If they are many, the bucket is put on the list `large` (its length starts at
// 0), and each STRIDE-th thread adds up as many parts. `threads` are those of the accumulation.
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    settle(Shape shape, u32 threads, const u32 *starts, Sum *buckets, Sum *heads, const Sum *tails, u32 *large,
           u32 *large_len) {
    u32 len = shape.buckets(), points = starts[len] >> shape.levels, run = run_length(points, threads);
    for (u32 i = blockIdx.x * SUM_LEN + threadIdx.x / F::LANES + 1; i * run < points; i += gridDim.x * SUM_LEN) {
        u32 bucket = find(starts, len, i * run << shape.levels);
        u32 begin = starts[bucket] >> shape.levels, end = starts[bucket + 1] >> shape.levels;
        u32 first = begin / run, last = (end - 1) / run;
        if (begin == i * run) continue;
        if (last - first > MAX_PARTS) {
            if (i == first + 1 && threadIdx.x % F::LANES == 0) large[atomicAdd(large_len, 1)] = bucket;
            if ((i - first - 1) % STRIDE != 0) continue;
            for (u32 part = i + 1; part <= last && part < i + STRIDE; part++) add<F>(heads + i, heads + part);
        } else if (i == first + 1) {
            Xyzz<F>::load(tails + first).store(buckets + bucket);
            for (u32 part = i; part <= last; part++) add<F>(buckets + bucket, heads + part);
        }
    }
}

// A block a large bucket, in turn.
extern "C" __global__ void __launch_bounds__(BLOCK_SUM_THREADS)
    settle_large(Shape shape, u32 threads, const u32 *starts, Sum *buckets, const Sum *heads, const Sum *tails,
                 const u32 *large, const u32 *large_len) {
    __shared__ Sum values[BLOCK_SUM_LEN<F>];
    u32 i = threadIdx.x / F::LANES, run = run_length(starts[shape.buckets()] >> shape.levels, threads);
    for (u32 at = blockIdx.x; at < *large_len; at += gridDim.x) {
        u32 bucket = large[at];
        u32 first = (starts[bucket] >> shape.levels) / run, last = ((starts[bucket + 1] >> shape.levels) - 1) / run;
        Xyzz<F>::infinity().store(values + i);
        if (i == 0) add<F>(values, tails + first);
        for (u32 part = first + 1 + i * STRIDE; part <= last; part += BLOCK_SUM_LEN<F> * STRIDE) {
            add<F>(values + i, heads + part);
        }
        block_sum<F>(values);
        if (i == 0) Xyzz<F>::load(values).store(buckets + bucket);
        __syncthreads();
    }
}
