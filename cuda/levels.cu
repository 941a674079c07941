// The affine levels of a multi-scalar multiplication over COORDINATE: sums of neighbours in a bucket, 5M + 1S
// each and a share of one inversion.
//
// A batch is a block's: LEVEL_LEN threads (pairs of lanes over Fp2), each with a run of pairs of points that
// stand LEVEL_LEN apart. `level_products` multiplies up each thread's denominators and keeps the products
// before each; `level_invert` inverts the threads' products, and `level_sums` goes back through the pairs.
// Pairs are counted through all buckets. `first` is the first pair of the range that is worked on, `len` its
// length, unless the entries end before: `*total` of them, 2^shift to a pair. The points are those of the
// sorted entries, or, if `entries` is null, the last level's sums from pair `first` on. `resident` threads
// fill the device.
#include "points.cuh"

typedef COORDINATE F;
typedef F::Stored Element;

namespace {

// Threads of a block, and elements that they work on.
const u32 LEVEL_THREADS = 128, LEVEL_LEN = LEVEL_THREADS / F::LANES;
// Blocks of a multiprocessor: 128 registers a thread over Fp, 168 over Fp2.
const u32 LEVEL_BLOCKS = F::LANES == 1 ? 4 : 3;

// How p + q is computed.
enum Kind { CHORD, TANGENT, NO_SLOPE };

DEVICE Kind kind_of(const Affine<F> &p, const Affine<F> &q) {
    if (p.is_infinity() || q.is_infinity()) return NO_SLOPE;
    if (!(p.x == q.x)) return CHORD;
    // P - P, or a point of order 2 twice
    return p.y == q.y && !p.y.is_zero() ? TANGENT : NO_SLOPE;
}

// Of p + q, from x alone where that is enough: almost always both are finite and different. `denominator` is
// the slope's, below 2m.
DEVICE Kind kind_of(Points<F>::Source p, Points<F>::Source q, F &denominator) {
    if (!p.x || !q.x) return NO_SLOPE;
    F px = F::load(p.x), qx = F::load(q.x);
    denominator = F::loose_difference(qx, px);
    if (!px.may_equal(qx) && !px.may_be_zero() && !qx.may_be_zero()) return CHORD;
    Affine<F> first = Points<F>::fetch(p);
    Kind kind = kind_of(first, Points<F>::fetch(q));
    if (kind == TANGENT) denominator = first.y.twice();
    return kind;
}

// Pairs of a thread, and products that share an inversion: many save inversions, but all threads should have as many.
const u32 MIN_RUN = 8, MAX_RUN = 32, MIN_SHARE = 4, MAX_SHARE = 32;

// What a launch works on.
struct Range {
    u32 first, end, run;

    DEVICE Range(u32 first, u32 len, const u32 *total, u32 shift, u32 resident) : first(first) {
        u32 all = *total >> shift;
        end = all < first ? first : all < first + len ? all : first + len;
        // As many runs as fill the device once, or a few times.
        u32 pairs = end - first, times = (pairs + MAX_RUN * resident - 1) / (MAX_RUN * resident);
        run = times ? (pairs + times * resident - 1) / (times * resident) : MIN_RUN;
        run = run < MIN_RUN ? MIN_RUN : run;
    }
    DEVICE u32 products() const {
        u32 batch = run * LEVEL_LEN;
        return (end - first + batch - 1) / batch * LEVEL_LEN;
    }
    DEVICE Points<F> points(const Element *xs, const Element *ys, const u32 *entries) const {
        u32 skip = entries ? 0 : 2 * first;
        return {xs - skip, ys - skip, entries};
    }
};

} // namespace

extern "C" __global__ void __launch_bounds__(LEVEL_THREADS)
    level_products(const Element *xs, const Element *ys, const u32 *entries, u32 first, u32 len, const u32 *total, u32 shift,
                   u32 resident, Element *prefixes, Element *products) {
    Range range(first, len, total, shift, resident);
    Points<F> from = range.points(xs, ys, entries);
    u32 start = blockIdx.x * range.run * LEVEL_LEN, thread = threadIdx.x / F::LANES;
    if (first + start >= range.end) return;
    F product = F::one();
    for (u32 i = 0; i < range.run; i++) {
        u32 at = start + i * LEVEL_LEN + thread, pair = first + at;
        if (pair >= range.end) break;
        auto p = from.source(2 * pair), q = from.source(2 * pair + 1);
        F d;
        if (kind_of(p, q, d) == NO_SLOPE) continue;
        product.store(prefixes + at);
        product = F::loose_product(product, d);
    }
    product.store(products + blockIdx.x * LEVEL_LEN + thread);
}

// `prefixes` has room for as many as `products`.
extern "C" __global__ void __launch_bounds__(LEVEL_THREADS)
    level_invert(u32 first, u32 len, const u32 *total, u32 shift, u32 resident, Element *products, Element *prefixes) {
    u32 count = Range(first, len, total, shift, resident).products();
    u32 share = count / resident;
    share = share < MIN_SHARE ? MIN_SHARE : share > MAX_SHARE ? MAX_SHARE : share;
    u32 stride = (count + share - 1) / share, at = blockIdx.x * LEVEL_LEN + threadIdx.x / F::LANES;
    if (at >= stride) return;
    F product = F::one();
    u32 i = at;
    for (; i < count; i += stride) {
        product.store(prefixes + i);
        product = product * F::load(products + i);
    }
    product = inverse(product);
    while (i != at) {
        i -= stride;
        F value = F::load(products + i);
        (product * F::load(prefixes + i)).store(products + i);
        product = product * value;
    }
}

// The sums go to `out_xs` and `out_ys` from their first place on.
extern "C" __global__ void __launch_bounds__(LEVEL_THREADS, LEVEL_BLOCKS)
    level_sums(const Element *xs, const Element *ys, const u32 *entries, u32 first, u32 len, const u32 *total, u32 shift,
               u32 resident, const Element *prefixes, const Element *inverses, Element *out_xs, Element *out_ys) {
    Range range(first, len, total, shift, resident);
    Points<F> from = range.points(xs, ys, entries);
    u32 start = blockIdx.x * range.run * LEVEL_LEN + threadIdx.x / F::LANES;
    if (first + start >= range.end) return;
    F inverse = F::load(inverses + blockIdx.x * LEVEL_LEN + threadIdx.x / F::LANES);
    u32 left = (range.end - first - start + LEVEL_LEN - 1) / LEVEL_LEN;
    for (u32 i = left < range.run ? left : range.run; i-- > 0;) {
        u32 at = start + i * LEVEL_LEN, pair = first + at;
        auto p = from.source(2 * pair), q = from.source(2 * pair + 1);
        F denominator;
        Kind kind = kind_of(p, q, denominator);
        if (kind == NO_SLOPE) {
            Affine<F> sum = from.fetch(p), other = from.fetch(q);
            if (sum.is_infinity()) sum = other;
            else if (!other.is_infinity()) sum = Affine<F>::infinity();
            sum.x.store(out_xs + at), sum.y.store(out_ys + at);
            continue;
        }
        // Coordinates are loaded where they are used, so that registers leave room for more threads.
        F over = F::loose_product(inverse, F::load(prefixes + at));
        inverse = F::loose_product(inverse, denominator);
        F numerator;
        if (kind == TANGENT) {
            F xx = F::reload(p.x).square();
            numerator = xx.twice() + xx;
        } else {
            numerator = F::loose_difference(from.reload_y(q), from.reload_y(p));
        }
        F lambda = F::loose_product(numerator, over);
        F x3 = lambda.square() - F::reload(p.x) - F::reload(q.x);
        x3.store(out_xs + at);
        (lambda * F::loose_difference(F::reload(p.x), x3) - from.reload_y(p)).store(out_ys + at);
    }
}
