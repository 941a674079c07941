// The first half of a multi-scalar multiplication, the same for G1 and G2: scalars to digits, and points
// sorted by digit. src/backend/cuda/msm.rs says in which order and shapes the kernels run.
#include "shape.cuh"

namespace {

// ---- Sums of all earlier elements, for counts of buckets and of set bits.

const u32 SCAN_THREADS = 256, SCAN_ITEMS = 16, SCAN_TILE = SCAN_THREADS * SCAN_ITEMS;

// The sum of `value` over lower threads of the block; `total` is the block's.
template <u32 THREADS> DEVICE u32 block_scan(u32 value, u32 &total) {
    __shared__ u32 warps[THREADS / 32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = value;
    for (u32 step = 1; step < 32; step *= 2) {
        u32 below = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += below;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    u32 before = 0;
    total = 0;
    for (u32 i = 0; i < THREADS / 32; i++) {
        if (i < warp) before += warps[i];
        total += warps[i];
    }
    __syncthreads();
    return before + sum - value;
}

// A count rounded up to full groups of 2^levels.
struct Padded {
    const u32 *counts;
    u32 levels;
    DEVICE u32 operator()(u32 i) const { return (counts[i] + (1u << levels) - 1) >> levels << levels; }
};

struct SetBits {
    const u64 *words;
    DEVICE u32 operator()(u32 i) const { return __popcll(words[i]); }
};

template <typename Input> DEVICE void scan_tile_sums(Input input, u32 len, u32 *sums) {
    u32 sum = 0, total;
    for (u32 i = 0; i < SCAN_ITEMS; i++) {
        u32 at = blockIdx.x * SCAN_TILE + i * SCAN_THREADS + threadIdx.x;
        if (at < len) sum += input(at);
    }
    block_scan<SCAN_THREADS>(sum, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <typename Input> DEVICE void scan_apply(Input input, u32 len, const u32 *sums, u32 *out, u32 *copy) {
    u32 values[SCAN_ITEMS], sum = 0, total;
    u32 first = blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_ITEMS;
    UNROLL
    for (u32 i = 0; i < SCAN_ITEMS; i++) {
        values[i] = first + i < len ? input(first + i) : 0;
        sum += values[i];
    }
    u32 before = sums[blockIdx.x] + block_scan<SCAN_THREADS>(sum, total);
    UNROLL
    for (u32 i = 0; i < SCAN_ITEMS; i++) {
        // One place behind the last: the sum of all.
        if (first + i <= len) {
            out[first + i] = before;
            if (copy) copy[first + i] = before;
        }
        before += values[i];
    }
}

// ---- Digits, and the sort.

const u32 SORT_THREADS = 1024, SORT_ITEMS = 4, SORT_TILE = SORT_THREADS * SORT_ITEMS;
const u32 DIGIT_THREADS = 256;
// The most partitions of a group: counters in shared memory.
const u32 MAX_PARTITIONS = 4096;

// An index into the points, with its sign, and its bucket within the partition.
struct Entry {
    u32 point, fine;
};

} // namespace

extern "C" __global__ void scan_sums_padded(const u32 *counts, u32 levels, u32 len, u32 *sums) {
    scan_tile_sums(Padded{counts, levels}, len, sums);
}
extern "C" __global__ void scan_apply_padded(const u32 *counts, u32 levels, u32 len, const u32 *sums, u32 *out, u32 *copy) {
    scan_apply(Padded{counts, levels}, len, sums, out, copy);
}
extern "C" __global__ void scan_sums_set_bits(const u64 *words, u32 len, u32 *sums) {
    scan_tile_sums(SetBits{words}, len, sums);
}
extern "C" __global__ void scan_apply_set_bits(const u64 *words, u32 len, const u32 *sums, u32 *out) {
    scan_apply(SetBits{words}, len, sums, out, nullptr);
}

// One block of SORT_THREADS: each of `len` tile sums becomes the sum of those before.
extern "C" __global__ void __launch_bounds__(SORT_THREADS) scan_totals(u32 *sums, u32 len) {
    u32 before = 0;
    for (u32 first = 0; first < len; first += SORT_THREADS) {
        u32 at = first + threadIdx.x, total;
        u32 sum = block_scan<SORT_THREADS>(at < len ? sums[at] : 0, total);
        if (at < len) sums[at] = before + sum;
        before += total;
    }
}

namespace {

// The digits of each point's scalar, window by window, and how many fall into each partition (counts start at 0).
// With a density, the scalar at place p belongs to base `ranks[p / 64]` + the set bits below p in its word. Over raised bases
// all `windows` share the buckets of one.
template <bool RAISED>
DEVICE void digits_of(const Shape &shape, u32 windows, const Fr *scalars, u32 len, const u64 *density, const u32 *ranks, u32 *digits,
                      u32 *partition_counts) {
    __shared__ u32 limbs[DIGIT_THREADS][9];
    __shared__ u32 counts[MAX_PARTITIONS];
    u32 *mine = limbs[threadIdx.x];
    for (u32 i = threadIdx.x; i < shape.partitions(); i += DIGIT_THREADS) counts[i] = 0;
    __syncthreads();
    for (u32 place = blockIdx.x * DIGIT_THREADS + threadIdx.x; place < len; place += gridDim.x * DIGIT_THREADS) {
        u32 point = place;
        if (density) {
            u64 word = density[place / 64], bit = 1ull << place % 64;
            if (!(word & bit)) continue;
            point = ranks[place / 64] + __popcll(word & (bit - 1));
        }
        Fr scalar = Fr::load(scalars + place).from_montgomery();
        // s, or -(r - s) if that is smaller: below 2^254 either way
        u32 sign = scalar.limbs[7] > FR_MODULUS_TABLE[7] / 2 ? NEGATIVE : 0;
        scalar = scalar.negate_if(sign);
        UNROLL
        for (int i = 0; i < 8; i++) mine[i] = scalar.limbs[i];
        mine[8] = 0;
        u32 w = shape.window_bits;
        for (u32 window = 0; window < windows; window++) {
            // Booth's rule: the window's bits and the one below them.
            u32 low = (shape.first_window + window) * w, at = low ? low - 1 : 0;
            u32 raw = __funnelshift_r(mine[at / 32], mine[at / 32 + 1], at % 32);
            raw = (low ? raw : raw << 1) & ((2u << w) - 1);
            int digit = (int)((raw + 1) >> 1) - (int)(raw >> w << w);
            u32 magnitude = digit < 0 ? -digit : digit;
            digits[(u64)window * shape.points + point] = magnitude | (digit < 0 ? sign ^ NEGATIVE : sign);
            if (magnitude) {
                u32 coarse = (magnitude - 1) >> shape.fine_bits;
                atomicAdd(&counts[(RAISED ? 0 : window << shape.coarse_bits()) + coarse], 1);
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < shape.partitions(); i += DIGIT_THREADS) {
        if (counts[i]) atomicAdd(&partition_counts[i], counts[i]);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(DIGIT_THREADS)
    msm_digits(Shape shape, const Fr *scalars, u32 len, const u64 *density, const u32 *ranks, u32 *digits, u32 *partition_counts) {
    digits_of<false>(shape, shape.windows, scalars, len, density, ranks, digits, partition_counts);
}
extern "C" __global__ void __launch_bounds__(DIGIT_THREADS)
    msm_digits_raised(Shape shape, u32 windows, const Fr *scalars, u32 len, const u64 *density, const u32 *ranks, u32 *digits,
                      u32 *partition_counts) {
    digits_of<true>(shape, windows, scalars, len, density, ranks, digits, partition_counts);
}

// One block of SORT_THREADS: where each partition's entries start (a place more, and a copy for
// `msm_partition`), and where its tiles of SORT_TILE entries do.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    msm_place_partitions(Shape shape, const u32 *counts, u32 *starts, u32 *cursors, u32 *tile_starts) {
    u32 entries = 0, tiles = 0;
    for (u32 first = 0; first <= shape.partitions(); first += SORT_THREADS) {
        u32 at = first + threadIdx.x, total_entries, total_tiles;
        u32 count = at < shape.partitions() ? counts[at] : 0;
        u32 start = entries + block_scan<SORT_THREADS>(count, total_entries);
        u32 tile = tiles + block_scan<SORT_THREADS>((count + SORT_TILE - 1) / SORT_TILE, total_tiles);
        if (at <= shape.partitions()) {
            starts[at] = cursors[at] = start;
            tile_starts[at] = tile;
        }
        entries += total_entries;
        tiles += total_tiles;
    }
}

namespace {

// A tile of items, SORT_ITEMS a thread, to their bins, of which there are at most SORT_THREADS: through
// shared memory, so that neighbours in a bin are written together. `bins[i]` is the bin of a thread's item or
// NO_BIN, room is taken at `cursors`, and `write(place, item)` puts an item there.
const u32 NO_BIN = 0xffffffff;

template <typename Item, typename Write>
DEVICE void scatter(const u32 *bins, const Item *items, u32 len, u32 *cursors, Write write) {
    __shared__ u32 counts[SORT_THREADS];
    __shared__ Item staged[SORT_TILE];
    __shared__ unsigned short staged_bins[SORT_TILE];
    u32 me = threadIdx.x, places[SORT_ITEMS], total;
    counts[me] = 0;
    __syncthreads();
    UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        if (bins[i] != NO_BIN) places[i] = atomicAdd(&counts[bins[i]], 1);
    }
    __syncthreads();
    u32 count = counts[me], start = block_scan<SORT_THREADS>(count, total);
    counts[me] = start;
    u32 shift = me < len && count ? atomicAdd(&cursors[me], count) - start : 0;
    __syncthreads();
    UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        if (bins[i] == NO_BIN) continue;
        u32 place = counts[bins[i]] + places[i];
        staged[place] = items[i];
        staged_bins[place] = bins[i];
    }
    __syncthreads();
    counts[me] = shift;
    __syncthreads();
    for (u32 i = me; i < total; i += SORT_THREADS) write(i + counts[staged_bins[i]], staged[i]);
    __syncthreads();
}

// Grid (tiles of points, windows). Non-zero digits go to their partitions, in any order. Over raised bases each window's points are
// those of another copy, `copy_len` behind the last one's.
template <bool RAISED>
DEVICE void partition_of(const Shape &shape, u32 copy_len, const u32 *digits, u32 *cursors, Entry *entries) {
    u32 window = blockIdx.y, bins[SORT_ITEMS];
    u32 copy = RAISED ? (shape.first_window + window) * copy_len : 0;
    Entry items[SORT_ITEMS];
    u32 first = blockIdx.x * SORT_TILE + threadIdx.x, mask = (1u << shape.fine_bits) - 1;
    UNROLL
    for (u32 i = 0; i < SORT_ITEMS; i++) {
        u32 point = first + i * SORT_THREADS;
        u32 digit = point < shape.points ? digits[(u64)window * shape.points + point] : 0;
        u32 magnitude = digit & ~NEGATIVE;
        bins[i] = magnitude ? (magnitude - 1) >> shape.fine_bits : NO_BIN;
        items[i] = {(copy + point) | (digit & NEGATIVE), (magnitude - 1) & mask};
    }
    u32 len = 1u << shape.coarse_bits();
    if (!RAISED) cursors += window * len;
    scatter(bins, items, len, cursors, [=](u32 place, Entry entry) { entries[place] = entry; });
}

} // namespace

extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    msm_partition(Shape shape, const u32 *digits, u32 *cursors, Entry *entries) {
    partition_of<false>(shape, 0, digits, cursors, entries);
}
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    msm_partition_raised(Shape shape, u32 copy_len, const u32 *digits, u32 *cursors, Entry *entries) {
    partition_of<true>(shape, copy_len, digits, cursors, entries);
}

// The entries of each bucket, counted tile by tile (counts start at 0).
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    msm_count(Shape shape, const u32 *starts, const u32 *tile_starts, const Entry *entries, u32 *bucket_counts) {
    __shared__ u32 counts[SORT_THREADS];
    u32 len = 1u << shape.fine_bits;
    for (u32 tile = blockIdx.x; tile < tile_starts[shape.partitions()]; tile += gridDim.x) {
        u32 partition = find(tile_starts, shape.partitions(), tile), end = starts[partition + 1];
        u32 first = starts[partition] + (tile - tile_starts[partition]) * SORT_TILE + threadIdx.x;
        counts[threadIdx.x] = 0;
        __syncthreads();
        UNROLL
        for (u32 i = 0; i < SORT_ITEMS; i++) {
            u32 at = first + i * SORT_THREADS;
            if (at < end) atomicAdd(&counts[entries[at].fine], 1);
        }
        __syncthreads();
        u32 count = counts[threadIdx.x];
        if (count) atomicAdd(&bucket_counts[partition * len + threadIdx.x], count);
        __syncthreads();
    }
}

// Entries go to their buckets, in any order.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    msm_sort(Shape shape, const u32 *starts, const u32 *tile_starts, const Entry *entries, u32 *cursors, u32 *sorted) {
    u32 len = 1u << shape.fine_bits;
    for (u32 tile = blockIdx.x; tile < tile_starts[shape.partitions()]; tile += gridDim.x) {
        u32 partition = find(tile_starts, shape.partitions(), tile), end = starts[partition + 1];
        u32 first = starts[partition] + (tile - tile_starts[partition]) * SORT_TILE + threadIdx.x;
        u32 bins[SORT_ITEMS], points[SORT_ITEMS];
        UNROLL
        for (u32 i = 0; i < SORT_ITEMS; i++) {
            u32 at = first + i * SORT_THREADS;
            Entry entry = at < end ? entries[at] : Entry{0, NO_BIN};
            points[i] = entry.point, bins[i] = entry.fine;
        }
        scatter(bins, points, len, cursors + partition * len, [=](u32 place, u32 point) { sorted[place] = point; });
    }
}

// A thread a bucket: fills it up. `cursors` are behind the last entries.
extern "C" __global__ void msm_pad(Shape shape, const u32 *starts, const u32 *cursors, u32 *sorted) {
    u32 bucket = blockIdx.x * blockDim.x + threadIdx.x;
    if (bucket >= shape.buckets()) return;
    for (u32 at = cursors[bucket]; at < starts[bucket + 1]; at++) sorted[at] = PADDING;
}

