// Transforms in place, one pass for each digit of the index; src/backend/cuda/ntt.rs says what a pass is and how the
// tables are cut.
//
// A block holds a tile in shared memory: some transforms over the digit, of elements that lie 2^low apart. A thread takes eight
// elements at a time through up to three levels, in registers. Elements stay where they are: natural order becomes
// bit-reversed in interpolation (decimation in frequency), and the reverse in evaluation (decimation in time).
//
// Products per element over 3 levels: 4/8 inside the eight, 7/8 between them and the levels below.
#include "loose.cuh"

static const u32 LOG_TILE = 10, TILE = 1 << LOG_TILE;
static const u32 LOG_EACH = 3, EACH = 1 << LOG_EACH, THREADS = TILE / EACH;

// Blocks of a multiprocessor: as many as its shared memory holds, but no more than leave a thread 96 registers.
#if __CUDA_ARCH__ == 800
static const u32 BLOCKS = 4;
#elif __CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200
static const u32 BLOCKS = 3;
#else
static const u32 BLOCKS = 5;
#endif

// The table of turns, the factors that elements turn by between three levels and the `bits` bits below them, which are l: for q from
// 1 to 7 the power l reverse(q) of the 2^(bits + 3)-th root. Each of a factor's four quads has a row of all bits and l, that of bits and l
// at place 2^bits + l: so neighbouring threads read neighbouring quads, and all of a thread lie at fixed distances. Behind
// the rows are those of the inverses.
static const u32 MAX_BELOW = LOG_TILE - LOG_EACH, ROW = 2 << MAX_BELOW, TURNS = (EACH - 1) * ROW;

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

// Fills the tables of src/backend/cuda/ntt.rs: the first threads an entry of `turns`, `coarse`, or `fine` and `fine_inverse` each.
extern "C" __global__ void __launch_bounds__(256)
table(u32 log_n, u32 split, uint4 *turns, uint4 *coarse, uint4 *fine, uint4 *fine_inverse, const __grid_constant__ Roots roots) {
    u64 entry = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 coarse_len = 1ull << (log_n - split), fine_len = 1ull << split;
    if (entry < 2 * TURNS) {
        const u32 q = entry / ROW % (EACH - 1) + 1, place = entry % ROW;
        if (place == 0) return;
        const u32 bits = 31 - __clz(place), order = bits + LOG_EACH, exponent = (place - (1u << bits)) * reverse(q, LOG_EACH);
        const bool inverse = entry >= TURNS;
        const Fr turn = power_of_root(roots, order, inverse ? (1u << order) - exponent : exponent);
        Factor::of(turn).store(turns + Factor::QUADS * (entry / ROW * ROW) + place, ROW);
        return;
    }
    entry -= 2 * TURNS;
    if (entry < coarse_len) {
        Factor::of(power_of_root(roots, log_n + 1, entry << split)).store(coarse + Factor::QUADS * entry);
        return;
    }
    entry -= coarse_len;
    if (entry < fine_len) {
        const Fr power = power_of_root(roots, log_n + 1, entry);
        Factor::of(power).store(fine + Factor::QUADS * entry);
        Factor::of(power * roots.inverse_n).store(fine_inverse + Factor::QUADS * entry);
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
    // The thread's element i, threadIdx.x + i THREADS in the tile: at equal distances in the data, since with low bits there are at
    // least three in the digit. Tiles may be larger than the data.
    DEVICE u32 index(u32 i) const {
        const u32 x = threadIdx.x, first = ((group(x) >> low) << bits | digit(x)) << low | below(x);
        return first + i * ((THREADS >> digit_shift) << low);
    }
    DEVICE Fr &operator[](u32 i) const { return data[index(i)]; }
    // Are the elements of the topmost three levels those of a thread? Only a digit of at least five bits is so.
    DEVICE bool top_is_own() const { return digit_shift + bits == LOG_TILE; }
};

// The tile in shared memory: the halves of the elements apart, and places permuted, so that eight neighbouring threads meet eight
// different banks for every stride that a level has.
extern __shared__ uint4 shared[];

// In bytes. Linear: the place of a ^ b is the places' ^.
static DEVICE u32 place(u32 x) { return (x ^ (x >> 3 & 7)) * (u32)sizeof(uint4); }

static DEVICE uint4 &half_at(u32 place, u32 half) {
    return *reinterpret_cast<uint4 *>(reinterpret_cast<char *>(shared + half * TILE) + place);
}

static DEVICE Loose fetch(u32 place) {
    const uint4 low = half_at(place, 0), high = half_at(place, 1);
    Fr value;
    value.limbs[0] = low.x, value.limbs[1] = low.y, value.limbs[2] = low.z, value.limbs[3] = low.w;
    value.limbs[4] = high.x, value.limbs[5] = high.y, value.limbs[6] = high.z, value.limbs[7] = high.w;
    return value;
}

static DEVICE void store(u32 place, const Loose &loose) {
    const Fr &value = loose.value;
    half_at(place, 0) = make_uint4(value.limbs[0], value.limbs[1], value.limbs[2], value.limbs[3]);
    half_at(place, 1) = make_uint4(value.limbs[4], value.limbs[5], value.limbs[6], value.limbs[7]);
}

// Where powers of v come from; `Twiddle` in src/backend/cuda/ntt.rs.
static const u32 FINE = 1, COARSE = 2;

// The tables of powers of v, the 2^(log_n + 1)-th root.
struct Powers {
    const uint4 *__restrict__ fine;
    const uint4 *__restrict__ coarse;
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
    const uint4 *fine = powers.fine + Factor::QUADS * (exponent & ((1u << powers.split) - 1));
    const uint4 *coarse = powers.coarse + Factor::QUADS * (exponent >> powers.split);
    const Loose turned = value * Factor::load(twiddle & COARSE ? coarse : fine).negate_if(negative);
    return twiddle == (FINE | COARSE) ? turned * Factor::load(fine) : turned;
}

// The index in the tile of the first element of butterfly u, over R bits from bit p on.
template <int R> static DEVICE u32 first_element(u32 u, u32 p) { return (u >> p) << (p + R) | (u & ((1u << p) - 1)); }

// Factors inside the eight: w^2, (w + w^3)/2 and (w - w^3)/2 for the eighth root w.
MODULUS_TABLE u32 FOURTH_ROOT[16] = FR_FOURTH_ROOT, HALF_SUM[16] = FR_HALF_SUM, HALF_DIFFERENCE[16] = FR_HALF_DIFFERENCE;

// p = w a + w^3 b, m = w^3 a + w b, in two products.
static DEVICE void eighths(const Loose &a, const Loose &b, Loose &p, Loose &m) {
    const Loose sum = (a + b) * SmallFactor(HALF_SUM), difference = (a - b) * SmallFactor(HALF_DIFFERENCE);
    p = sum + difference, m = sum - difference;
}

static DEVICE Loose quarter(const Loose &a) { return a * SmallFactor(FOURTH_ROOT); }

// A transform of two, four or eight elements: element j of the natural order becomes element reverse(j), if INVERSE, with the
// inverse roots; else element reverse(j) becomes element j.
template <bool INVERSE> static DEVICE void transform(Loose (&v)[2]) {
    const Loose a = v[0], b = v[1];
    v[0] = a + b, v[1] = a - b;
}

template <bool INVERSE> static DEVICE void transform(Loose (&v)[4]) {
    if (INVERSE) {
        const Loose a = v[0] + v[2], b = v[1] + v[3], c = v[0] - v[2], d = quarter(v[1] - v[3]);
        // The inverse of w^2 is -w^2.
        v[0] = a + b, v[1] = a - b, v[2] = c - d, v[3] = c + d;
    } else {
        const Loose a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = quarter(v[2] - v[3]);
        v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
    }
}

template <bool INVERSE> static DEVICE void transform(Loose (&v)[8]) {
    if (INVERSE) {
        Loose odd[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            odd[j] = v[j] - v[j + 4];
            v[j] = v[j] + v[j + 4];
        }
        Loose even[4] = {v[0], v[1], v[2], v[3]};
        transform<true>(even);
        Loose p, m;
        eighths(odd[1], odd[3], p, m);
        const Loose c = quarter(odd[2]), a = odd[0] - c, b = odd[0] + c;
        // w^-1 = -w^3
        for (int j = 0; j < 4; j++) v[j] = even[j];
        v[4] = a - m, v[5] = a + m, v[6] = b - p, v[7] = b + p;
    } else {
        Loose even[4] = {v[0], v[1], v[2], v[3]};
        transform<false>(even);
        const Loose a = v[4] + v[5], b = v[6] + v[7];
        Loose odd[4];
        odd[0] = a + b, odd[2] = quarter(a - b);
        eighths(v[4] - v[5], v[6] - v[7], odd[1], odd[3]);
        UNROLL
        for (int j = 0; j < 4; j++) v[j] = even[j] + odd[j], v[j + 4] = even[j] - odd[j];
    }
}

// R levels over the digit's bits from `bit` on, for one butterfly of 2^R elements: decimation in frequency if INVERSE, else in time.
// Between these levels and those of the bits below, if there are such, elements turn. If `own`, they come from the data in
// interpolation, and go there in evaluation; reduced, if `last`.
template <int R, bool INVERSE>
static DEVICE void butterfly(const Tile &tile, const uint4 *__restrict__ turns, u32 bit, u32 u, bool own, bool last) {
    const u32 p = tile.digit_shift + bit;
    const u32 start = first_element<R>(u, p), first = place(start);
    // In a loop: unrolled it takes more registers, and more room than instruction caches have.
    const auto turn_all = [&] {
        const uint4 *__restrict__ factor = turns + (1u << bit) + (tile.digit(start) & ((1u << bit) - 1));
        ROLLED
        for (u32 q = 1; q < 1 << R; q++, factor += Factor::QUADS * ROW) {
            const u32 at = first ^ place(q << p);
            store(at, fetch(at) * Factor::load(factor, ROW));
        }
    };
    const u32 bits[3] = {place(1u << p), place(2u << p), place(4u << p)};
    const auto place_of = [&](u32 first, u32 q) {
        return first ^ (q & 1 ? bits[0] : 0) ^ (q & 2 ? bits[1] : 0) ^ (q & 4 ? bits[2] : 0);
    };
    if (!INVERSE && bit) turn_all();
    Loose v[1 << R];
    if (INVERSE && own) {
        UNROLL
        for (u32 q = 0; q < 1 << R; q++) v[q] = Fr::load(&tile[q]);
    } else {
        UNROLL
        for (u32 q = 0; q < 1 << R; q++) v[q] = fetch(place_of(first, q));
    }
    transform<INVERSE>(v);
    // Places are computed anew: until now they would fill registers.
    asm volatile("" : "+r"(u));
    if (!INVERSE && own) {
        UNROLL
        for (u32 q = 0; q < 1 << R; q++) v[q].reduced_if(last).store(&tile[q]);
    } else {
        UNROLL
        for (u32 q = 0; q < 1 << R; q++) store(place_of(place(first_element<R>(u, p)), q), v[q]);
    }
    if (INVERSE && bit) turn_all();
}

// The lowest levels of the digit, `count` of them: two at a time, or one.
template <bool INVERSE> static DEVICE void lowest_levels(const Tile &tile, const uint4 *__restrict__ turns, u32 count) {
    if (count == 1) {
        for (u32 u = threadIdx.x; u < TILE / 2; u += THREADS) butterfly<1, INVERSE>(tile, turns, 0, u, false, false);
        __syncthreads();
    }
    for (u32 step = 0; step < count / 2; step++) {
        const u32 bit = 2 * (INVERSE ? count / 2 - 1 - step : step);
        for (u32 u = threadIdx.x; u < TILE / 4; u += THREADS) butterfly<2, INVERSE>(tile, turns, bit, u, false, false);
        __syncthreads();
    }
}

// One pass. Levels are taken three at a time from the top down; what is left over are the lowest none, two or four, or the only one:
// with two and two less turns than with three and one.
template <bool INVERSE>
static DEVICE void pass(const Tile &tile, const Powers &powers, const uint4 *__restrict__ turns, u32 odd, u32 twiddle) {
    const u32 lowest = tile.bits == 1 ? 1 : tile.bits % 3 == 1 ? 4 : tile.bits % 3;
    const u32 steps = (tile.bits - lowest) / LOG_EACH;
    const bool own = tile.top_is_own(), last = INVERSE ? tile.low == 0 : tile.low + tile.bits == tile.log_n;
    const u32 len = 1u << tile.log_n;
    if (INVERSE) turns += Factor::QUADS * TURNS;
    if (!INVERSE || !own) {
        // All loads are under way before the first is needed.
        Loose v[EACH];
        UNROLL
        for (u32 i = 0; i < EACH; i++) {
            if (tile.index(i) < len) v[i] = Fr::load(&tile[i]);
        }
        UNROLL
        for (u32 i = 0; i < EACH; i++) store(place(threadIdx.x + i * THREADS), v[i]);
        if (!INVERSE && twiddle) {
            ROLLED
            for (u32 i = 0; i < EACH; i++) {
                const u32 x = threadIdx.x + i * THREADS;
                store(place(x), turn<false>(fetch(place(x)), tile, powers, odd, twiddle, x));
            }
        }
        __syncthreads();
    }
    if (!INVERSE) lowest_levels<false>(tile, turns, lowest);
    for (u32 step = 0; step < steps; step++) {
        const u32 bit = lowest + LOG_EACH * (INVERSE ? steps - 1 - step : step);
        const bool straight = own && step == (INVERSE ? 0 : steps - 1);
        butterfly<LOG_EACH, INVERSE>(tile, turns, bit, threadIdx.x, straight, last);
        __syncthreads();
    }
    if (INVERSE) lowest_levels<true>(tile, turns, lowest);
    if (INVERSE || !own) {
        ROLLED
        for (u32 i = 0; i < EACH; i++) {
            const u32 x = threadIdx.x + i * THREADS;
            Loose value = fetch(place(x));
            if (INVERSE && twiddle) value = turn<true>(value, tile, powers, odd, twiddle, x);
            // In evaluation the tile is one piece of the data if it comes here.
            const u32 index = INVERSE ? tile.index(i) : blockIdx.x * TILE + x;
            if (index < len) value.reduced_if(last).store(&tile.data[index]);
        }
    }
}

// One pass of the inverse transforms over the digit of `bits` bits from bit `low` on. `twiddle` is `Twiddle` of
// src/backend/cuda/ntt.rs; turns, fine, coarse and split are parts of the table.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
interpolate(Fr *data, u32 log_n, u32 low, u32 bits, u32 odd, u32 twiddle, const uint4 *__restrict__ turns,
            const uint4 *__restrict__ fine, const uint4 *__restrict__ coarse, u32 split) {
    pass<true>(Tile(data, log_n, low, bits), Powers{fine, coarse, split}, turns, odd, twiddle);
}

// One pass of the forward transforms.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
evaluate(Fr *data, u32 log_n, u32 low, u32 bits, u32 odd, u32 twiddle, const uint4 *__restrict__ turns,
         const uint4 *__restrict__ fine, const uint4 *__restrict__ coarse, u32 split) {
    pass<false>(Tile(data, log_n, low, bits), Powers{fine, coarse, split}, turns, odd, twiddle);
}
