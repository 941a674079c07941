// Transforms in place, one pass for each digit of the index; src/backend/cuda/ntt.rs says what a pass is and how the
// tables are cut.
//
// A block holds a tile in shared memory: some transforms over the digit, of elements that lie 2^low apart. A thread takes eight
// elements at a time through up to three levels, in registers. Elements stay where they are: natural order becomes
// bit-reversed in interpolation (decimation in frequency), and the reverse in evaluation (decimation in time).
//
// Products per element over 3 levels: 5/8 inside the eight, 7/8 between them and the levels below.
#include "loose.cuh"

// As fast as one at a time or four; with one, ptxas leaves evaluation some bytes of local memory (sm_90).
#define UNROLL_TWICE _Pragma("unroll 2")

static const u32 LOG_TILE = 10, TILE = 1 << LOG_TILE;
static const u32 LOG_EACH = 3, EACH = 1 << LOG_EACH, THREADS = TILE / EACH;

// The table of roots. First the powers of the eighth root. Then, for each number of bits from 1 on that may be below three levels, what
// elements turn by between these and the levels below: for q from 1 to 7 and l below 2^bits, the power l reverse(q) of the
// 2^(bits + 3)-th root, in this order, so that neighbouring threads read neighbouring entries. Then the same with the inverses.
static const u32 MAX_BELOW = LOG_TILE - LOG_EACH;
static DEVICE u32 turns_before(u32 bits) { return (EACH - 1) * ((1u << bits) - 2); }
static const u32 TURNS = (EACH - 1) * ((2u << MAX_BELOW) - 2), ROOTS = EACH + 2 * TURNS;

// Roots of unity, the 2^k-th at place k, and 1/n. `Roots` in src/backend/cuda/launch.rs.
struct Roots {
    Fr unity[33];
    Fr inverse_n;
};
static_assert(sizeof(Roots) == 34 * 32, "as in src/backend/cuda/launch.rs");

static DEVICE u32 reverse(u32 x, u32 bits) { return __brev(x) >> (32 - bits); }

// The power `exponent` of the 2^order-th root of unity.
static DEVICE Fr power_of_root(const Roots &roots, u32 order, u64 exponent) {
    Fr value = Fr::one();
    for (u32 bit = 0; exponent >> bit; bit++) {
        if (exponent >> bit & 1) value = value * roots.unity[order - bit];
    }
    return value;
}

// Fills the tables of src/backend/cuda/ntt.rs: the first threads an entry of `roots` or `coarse` each, then 2^log_threads threads
// the entries of both fine tables, so many apart.
extern "C" __global__ void __launch_bounds__(256)
table(u32 log_n, u32 split, u32 log_threads, Fr *roots_out, Fr *coarse, Fr *fine, Fr *fine_inverse,
      const __grid_constant__ Roots roots) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, coarse_len = 1ull << (log_n - split);
    if (thread < EACH) {
        roots_out[thread] = power_of_root(roots, LOG_EACH, thread);
    } else if (thread < ROOTS) {
        const u32 entry = (thread - EACH) % TURNS, bits = 31 - __clz(entry / (EACH - 1) + 2);
        const u32 in_bits = entry - turns_before(bits), q = (in_bits >> bits) + 1, l = in_bits & ((1u << bits) - 1);
        const u32 order = bits + LOG_EACH, exponent = l * reverse(q, LOG_EACH);
        const bool inverse = thread - EACH >= TURNS;
        roots_out[thread] = power_of_root(roots, order, inverse ? (1u << order) - exponent : exponent);
    } else if (thread < ROOTS + coarse_len) {
        coarse[thread - ROOTS] = power_of_root(roots, log_n + 1, (thread - ROOTS) << split);
    } else if (thread < ROOTS + coarse_len + (1ull << log_threads)) {
        u64 e = thread - ROOTS - coarse_len;
        const Fr step = roots.unity[log_n + 1 - log_threads];
        for (Fr value = power_of_root(roots, log_n + 1, e); e >> split == 0; e += 1ull << log_threads) {
            fine[e] = value;
            fine_inverse[e] = value * roots.inverse_n;
            value = value * step;
        }
    }
}

// Where the tile's elements are. An index in the tile has the digit's bits at digit_shift and the transform's, those of the
// group, around them: groups first if they are neighbours in memory, else the digit.
struct Tile {
    Fr *data;
    u32 log_n, low, bits, digit_shift, group_shift;
    u32 first_group;

    DEVICE Tile(Fr *data, u32 log_n, u32 low, u32 bits) : data(data), log_n(log_n), low(low), bits(bits) {
        digit_shift = low ? LOG_TILE - bits : 0;
        group_shift = low ? 0 : bits;
        first_group = blockIdx.x << (LOG_TILE - bits);
    }
    DEVICE u32 digit(u32 x) const { return x >> digit_shift & ((1u << bits) - 1); }
    DEVICE u32 group(u32 x) const { return first_group + (x >> group_shift & ((1u << (LOG_TILE - bits)) - 1)); }
    // The bits below the digit.
    DEVICE u32 below(u32 x) const { return group(x) & ((1u << low) - 1); }
    // Tiles may be larger than the data.
    DEVICE bool has(u32 x) const { return group(x) < 1u << (log_n - bits); }
    DEVICE Fr *at(u32 x) const {
        const u32 index = ((group(x) >> low) << bits | digit(x)) << low | below(x);
        return data + index;
    }
};

// The tile in shared memory: the halves of the elements apart, and places permuted, so that eight neighbouring threads meet eight
// different banks for every stride that a level has.
extern __shared__ uint4 shared[];

static DEVICE u32 place(u32 x) { return x ^ (x >> 3 & 7); }

static DEVICE Loose fetch(u32 x) {
    const uint4 low = shared[place(x)], high = shared[TILE + place(x)];
    Fr value;
    value.limbs[0] = low.x, value.limbs[1] = low.y, value.limbs[2] = low.z, value.limbs[3] = low.w;
    value.limbs[4] = high.x, value.limbs[5] = high.y, value.limbs[6] = high.z, value.limbs[7] = high.w;
    return value;
}

static DEVICE void store(u32 x, const Loose &loose) {
    const Fr &value = loose.value;
    shared[place(x)] = make_uint4(value.limbs[0], value.limbs[1], value.limbs[2], value.limbs[3]);
    shared[TILE + place(x)] = make_uint4(value.limbs[4], value.limbs[5], value.limbs[6], value.limbs[7]);
}

// The power `turns` of the 2^(level + 1)-th root of unity, level < LOG_EACH; of its inverse if INVERSE.
template <bool INVERSE> static DEVICE Fr level_root(const Fr *__restrict__ roots, u32 level, u32 turns) {
    const u32 eighths = turns << (LOG_EACH - 1 - level);
    return roots[INVERSE ? EACH - eighths : eighths];
}

// What element q of eight turns by before or after the levels of the `bits` bits below, which are l.
template <bool INVERSE> static DEVICE Fr turn_below(const Fr *__restrict__ roots, u32 bits, u32 q, u32 l) {
    return roots[EACH + (INVERSE ? TURNS : 0) + turns_before(bits) + ((q - 1) << bits) + l];
}

// Where powers of v come from; `Twiddle` in src/backend/cuda/ntt.rs.
static const u32 FINE = 1, COARSE = 2;

// The tables of powers of v, the 2^(log_n + 1)-th root.
struct Powers {
    const Fr *__restrict__ fine;
    const Fr *__restrict__ coarse;
    u32 split;
};

// `value` times the power of v that element x turns by between passes.
template <bool INVERSE>
static DEVICE Loose turn(const Loose &value, const Tile &tile, const Powers &powers, u32 odd, u32 twiddle, u32 x) {
    u32 exponent = (2 * tile.below(x) + odd) * reverse(tile.digit(x), tile.bits) << (tile.log_n - tile.low - tile.bits);
    if (INVERSE) exponent = 0u - exponent;
    // v^n = -1
    const bool negative = exponent >> tile.log_n & 1;
    exponent &= (1u << tile.log_n) - 1;
    const Fr *fine = &powers.fine[exponent & ((1u << powers.split) - 1)], *coarse = &powers.coarse[exponent >> powers.split];
    Fr power = *(twiddle & COARSE ? coarse : fine);
    if (twiddle == (FINE | COARSE)) power = (Loose(power) * *fine).reduced();
    return (value * power).negate_if(negative);
}

// The index in the tile of element q of butterfly u, over R bits from bit p on.
template <int R> static DEVICE u32 element(u32 u, u32 p, u32 q) {
    return (u >> p) << (p + R) | q << p | (u & ((1u << p) - 1));
}

// R levels over the digit's bits from `bit` on, for one butterfly of 2^R elements: decimation in frequency if INVERSE, else in time.
// Between these levels and those of the bits below, if there are such, elements turn.
template <int R, bool INVERSE>
static DEVICE void butterfly(const Tile &tile, const Fr *__restrict__ roots, u32 bit, u32 u) {
    const u32 p = tile.digit_shift + bit;
    const u32 below = tile.digit(element<R>(u, p, 0)) & ((1u << bit) - 1);
    Loose v[1 << R];
    UNROLL
    for (u32 q = 0; q < 1 << R; q++) {
        v[q] = fetch(element<R>(u, p, q));
        if (!INVERSE && bit && q) v[q] = v[q] * turn_below<false>(roots, bit, q, below);
    }
    UNROLL
    for (int step = 0; step < R; step++) {
        const int level = INVERSE ? R - 1 - step : step, half = 1 << level;
        UNROLL
        for (int q = 0; q < 1 << R; q++) {
            if (q & half) continue;
            const int turns = q & (half - 1);
            Loose a = v[q], b = v[q + half];
            if (!INVERSE && turns) b = b * level_root<false>(roots, level, turns);
            v[q] = a + b;
            b = a - b;
            v[q + half] = INVERSE && turns ? b * level_root<true>(roots, level, turns) : b;
        }
    }
    UNROLL
    for (u32 q = 0; q < 1 << R; q++) {
        if (INVERSE && bit && q) v[q] = v[q] * turn_below<true>(roots, bit, q, below);
        store(element<R>(u, p, q), v[q]);
    }
}

// The lowest levels of the digit, `count` of them: two at a time, or one.
template <bool INVERSE> static DEVICE void lowest_levels(const Tile &tile, const Fr *__restrict__ roots, u32 count) {
    if (count == 1) {
        for (u32 u = threadIdx.x; u < TILE / 2; u += THREADS) butterfly<1, INVERSE>(tile, roots, 0, u);
        __syncthreads();
    }
    for (u32 step = 0; step < count / 2; step++) {
        const u32 bit = 2 * (INVERSE ? count / 2 - 1 - step : step);
        for (u32 u = threadIdx.x; u < TILE / 4; u += THREADS) butterfly<2, INVERSE>(tile, roots, bit, u);
        __syncthreads();
    }
}

// One pass. Levels are taken three at a time from the top down; what is left over are the lowest none, two or four, or the only one:
// with two and two less turns than with three and one.
template <bool INVERSE>
static DEVICE void pass(const Tile &tile, const Powers &powers, const Fr *__restrict__ roots, u32 odd, u32 twiddle) {
    const u32 lowest = tile.bits == 1 ? 1 : tile.bits % 3 == 1 ? 4 : tile.bits % 3;
    const u32 steps = (tile.bits - lowest) / LOG_EACH;
    UNROLL_TWICE
    for (u32 i = 0; i < EACH; i++) {
        const u32 x = threadIdx.x + i * THREADS;
        Loose value;
        if (tile.has(x)) value = *tile.at(x);
        if (!INVERSE && twiddle && tile.has(x)) value = turn<false>(value, tile, powers, odd, twiddle, x);
        store(x, value);
    }
    __syncthreads();
    if (!INVERSE) lowest_levels<false>(tile, roots, lowest);
    for (u32 step = 0; step < steps; step++) {
        const u32 bit = lowest + LOG_EACH * (INVERSE ? steps - 1 - step : step);
        butterfly<LOG_EACH, INVERSE>(tile, roots, bit, threadIdx.x);
        __syncthreads();
    }
    if (INVERSE) lowest_levels<true>(tile, roots, lowest);
    UNROLL_TWICE
    for (u32 i = 0; i < EACH; i++) {
        const u32 x = threadIdx.x + i * THREADS;
        Loose value = fetch(x);
        if (INVERSE && twiddle && tile.has(x)) value = turn<true>(value, tile, powers, odd, twiddle, x);
        if (tile.has(x)) *tile.at(x) = value.reduced();
    }
}

// One pass of the inverse transforms over the digit of `bits` bits from bit `low` on. `twiddle` is `Twiddle` of
// src/backend/cuda/ntt.rs; roots, fine, coarse and split are parts of the table.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
interpolate(Fr *data, u32 log_n, u32 low, u32 bits, u32 odd, u32 twiddle, const Fr *__restrict__ roots,
            const Fr *__restrict__ fine, const Fr *__restrict__ coarse, u32 split) {
    pass<true>(Tile(data, log_n, low, bits), Powers{fine, coarse, split}, roots, odd, twiddle);
}

// One pass of the forward transforms.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
evaluate(Fr *data, u32 log_n, u32 low, u32 bits, u32 odd, u32 twiddle, const Fr *__restrict__ roots,
         const Fr *__restrict__ fine, const Fr *__restrict__ coarse, u32 split) {
    pass<false>(Tile(data, log_n, low, bits), Powers{fine, coarse, split}, roots, odd, twiddle);
}
