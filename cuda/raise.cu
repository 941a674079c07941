// Multiples beside bases over COORDINATE: copy k of `len` points is 2^(w k) times the first, w = `window_bits`. A thread (a pair of
// lanes over Fp2) a point.
#include "curve.cuh"

typedef COORDINATE F;

namespace {

// Threads of a block, and points that they work on.
const u32 THREADS = 128, LEN = THREADS / F::LANES;
// Copies that share an inversion, which costs as much as some 60 products; a window's doublings cost 7 each.
const u32 SHARE = 4;
// Blocks of a multiprocessor: 168 registers a thread over Fp, 255 over Fp2.
const u32 BLOCKS = F::LANES == 1 ? 3 : 2;

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    raise(Affine<F>::Stored *points, u64 len, u32 window_bits, u32 windows) {
    // Each thread's factors of Z, copy by copy: no thread reads another's.
    __shared__ F::Stored factors[SHARE][LEN];
    u32 me = threadIdx.x / F::LANES;
    u64 at = (u64)blockIdx.x * LEN + me;
    if (at >= len) return;
    Affine<F>::Stored *last = points + at;
    ROLLED
    for (u32 left = windows - 1, share; left; left -= share, last += share * len) {
        share = left < SHARE ? left : SHARE;
        Jacobian<F> point = {F::load(&last->x), F::load(&last->y), F::one()};
        ROLLED
        for (u32 i = 0; i < share; i++) {
            point.z = F::one();
            ROLLED
            for (u32 bit = 0; bit < window_bits; bit++) point.double_in_place();
            Affine<F>{point.x, point.y}.store(last + (i + 1) * len);
            point.z.store(factors[i] + me);
        }
        F z = F::load(factors[0] + me);
        ROLLED
        for (u32 i = 1; i < share; i++) z = z * F::load(factors[i] + me);
        // 0 at infinity, and then so is everything.
        z = inverse(z);
        ROLLED
        for (u32 i = share; i-- > 0;) {
            Affine<F>::Stored *place = last + (i + 1) * len;
            Jacobian<F>{F::load(&place->x), F::load(&place->y), F::one()}.over(z).store(place);
            z = z * F::load(factors[i] + me);
        }
    }
}
