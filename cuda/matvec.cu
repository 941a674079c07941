// A sparse matrix times a vector, a row a thread; long rows are shared out among the threads of a warp.
#include "field.cuh"

static const u32 ALL_LANES = 0xffffffff;

// Above this many entries a warp takes the row together.
static const u32 LONG_ROW = 64;

// Entry e of the matrix times its element of x. Coefficients 0 and 1 of the table are 1 and -1, most of every circuit's.
static DEVICE Fr term(const u32 *__restrict__ column, const u32 *__restrict__ coefficient, const Fr *__restrict__ table,
                      const Fr *__restrict__ x, u32 e) {
    const u32 c = coefficient[e];
    const Fr value = x[column[e]];
    return c < 2 ? value.negate_if(c == 1) : value * table[c];
}

static DEVICE Fr shuffle_down(const Fr &value, u32 distance) {
    Fr other;
    for (int i = 0; i < Fr::N; i++) other.limbs[i] = __shfl_down_sync(ALL_LANES, value.limbs[i], distance);
    return other;
}

// The sum over row i, entries row_start[i] to row_start[i + 1], to out[i], or as a factor of it, for i < len; rows from `rows` on
// are empty.
extern "C" __global__ void __launch_bounds__(256)
matvec(const u32 *__restrict__ row_start, u64 rows, const u32 *__restrict__ column,
       const u32 *__restrict__ coefficient, const Fr *__restrict__ table, const Fr *__restrict__ x, u32 multiply,
       Fr *out, u64 len) {
    const u64 row = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u32 lane = threadIdx.x % 32;
    u32 start = 0, end = 0;
    if (row < rows) start = row_start[row], end = row_start[row + 1];

    Fr sum = Fr::zero();
    const bool is_long = end - start > LONG_ROW;
    if (!is_long) {
        for (u32 e = start; e < end; e++) sum = sum + term(column, coefficient, table, x, e);
    }
    for (u32 left = __ballot_sync(ALL_LANES, is_long); left; left &= left - 1) {
        const int owner = __ffs(left) - 1;
        const u32 first = __shfl_sync(ALL_LANES, start, owner), last = __shfl_sync(ALL_LANES, end, owner);
        Fr part = Fr::zero();
        // 64-bit: the last entry may be the last that 32 bits can count.
        for (u64 e = (u64)first + lane; e < last; e += 32) part = part + term(column, coefficient, table, x, e);
        for (u32 distance = 16; distance; distance /= 2) part = part + shuffle_down(part, distance);
        // Lane 0 has the whole.
        for (int i = 0; i < Fr::N; i++) {
            const u32 limb = __shfl_sync(ALL_LANES, part.limbs[i], 0);
            if (lane == owner) sum.limbs[i] = limb;
        }
    }
    if (row < len) out[row] = multiply ? out[row] * sum : sum;
}
