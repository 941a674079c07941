// Multiples of one point over COORDINATE by many scalars, from a table of its multiples: window i of w bits has 1 to
// 2^(w-1) times 2^(w i) times the point, windows one behind the other.
#include "curve.cuh"

typedef COORDINATE F;

namespace {

// Threads of a block, and scalars that they work on.
const u32 THREADS = 128, LEN = THREADS / F::LANES;

} // namespace

// A thread (a pair of lanes over Fp2) a scalar: an addition a window in XYZZ coordinates, and one inversion.
extern "C" __global__ void __launch_bounds__(THREADS)
    multiples(const Affine<F>::Stored *table, u32 window_bits, const Fr *scalars, u64 len, Affine<F>::Stored *out) {
    u64 at = (u64)blockIdx.x * LEN + threadIdx.x / F::LANES;
    if (at >= len) return;
    Fr scalar = Fr::load(scalars + at).from_montgomery();
    Xyzz<F> sum = Xyzz<F>::infinity();
    // Booth's rule: the window's bits and the one below them. The windows hold 256 bits and more, so that none is left over.
    u32 below = 0;
    ROLLED
    for (u32 low = 0; low < 256; low += window_bits) {
        u32 raw = (scalar.limbs[0] & ((1u << window_bits) - 1)) << 1 | below;
        below = raw >> window_bits;
        UNROLL
        for (int i = 0; i < Fr::N; i++) {
            scalar.limbs[i] = __funnelshift_r(scalar.limbs[i], i + 1 < Fr::N ? scalar.limbs[i + 1] : 0, window_bits);
        }
        int digit = (int)((raw + 1) >> 1) - (int)(below << window_bits);
        if (digit) {
            Affine<F> multiple = Affine<F>::load(table + (digit < 0 ? -digit : digit) - 1);
            if (digit < 0) multiple.y = multiple.y.negate();
            sum.add(multiple);
        }
        table += 1u << (window_bits - 1);
    }
    // 1/Z = ZZ/ZZZ; at infinity all are 0, and so is the inverse.
    F inverse_zzz = inverse(sum.zzz), inverse_z = sum.zz * inverse_zzz;
    Affine<F>{sum.x * inverse_z.square(), sum.y * inverse_zzz}.store(out + at);
}
