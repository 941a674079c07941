// Fp2 = Fp[u]/(u^2 + 1), with the interface of Prime.
//
// On a GPU two neighbouring lanes of a warp share an element, an even lane c0 + c1 u its c0 and an odd one
// its c1: then points of G2 take no more registers than those of G1. Both lanes of a pair always take the
// same branches. On a CPU one thread has both.
#pragma once

#include "inverse.cuh"

#ifdef __CUDACC__

struct Fp2 {
    static const u32 LANES = 2;
    struct alignas(16) Stored {
        Fp c[2];
    };

    Fp own;

    static DEVICE u32 lane() { return threadIdx.x % 2; }
    static DEVICE u32 of_partner(u32 own) { return __shfl_xor_sync(3u << (threadIdx.x % 32 & ~1u), own, 1); }
    static DEVICE Fp of_partner(const Fp &own) { return own.of_neighbour(); }
    static DEVICE bool both(bool own) {
        // The partner waits for this lane's answer, so it must not depend on its own.
        u32 other = of_partner((u32)own);
        return own && other;
    }
    static DEVICE Fp select(bool first, const Fp &a, const Fp &b) {
        Fp out;
        UNROLL
        for (int i = 0; i < Fp::N; i++) out.limbs[i] = first ? a.limbs[i] : b.limbs[i];
        return out;
    }

    static DEVICE Fp2 zero() { return {Fp::zero()}; }
    static DEVICE Fp2 one() { return {select(lane() == 0, Fp::one(), Fp::zero())}; }
    static DEVICE Fp2 load(const Stored *from) { return {Fp::load(from->c + lane())}; }
    static DEVICE Fp2 reload(const Stored *from) { return {Fp::reload(from->c + lane())}; }
    DEVICE void store(Stored *to) const { own.store(to->c + lane()); }
    DEVICE bool is_zero() const { return both(own.is_zero()); }
    DEVICE bool may_be_zero() const { return both(own.may_be_zero()); }
    DEVICE bool may_equal(const Fp2 &b) const { return both(own.may_equal(b.own)); }
    friend DEVICE bool operator==(const Fp2 &a, const Fp2 &b) { return both(a.own == b.own); }
    friend DEVICE Fp2 operator+(const Fp2 &a, const Fp2 &b) { return {a.own + b.own}; }
    friend DEVICE Fp2 operator-(const Fp2 &a, const Fp2 &b) { return {a.own - b.own}; }
    DEVICE Fp2 negate() const { return {own.negate()}; }
    DEVICE Fp2 twice() const { return {own.twice()}; }

    // Two sums of two products, one reduction each: as many limb products as Karatsuba's three, and evenly shared.
    // c0 = a0 b0 + (-a1) b1, c1 = a1 b0 + a0 b1
    friend DEVICE Fp2 operator*(const Fp2 &a, const Fp2 &b) {
        Fp a_other = of_partner(a.own), b_other = of_partner(b.own);
        bool even = lane() == 0;
        return {Fp::dot(a.own, select(even, b.own, b_other), a_other.negate_if(even), select(even, b_other, b.own))};
    }

    static DEVICE Fp2 loose_product(const Fp2 &a, const Fp2 &b) { return a * b; }
    static DEVICE Fp2 loose_difference(const Fp2 &a, const Fp2 &b) { return a - b; }

    // a b + c d
    static DEVICE Fp2 dot(const Fp2 &a, const Fp2 &b, const Fp2 &c, const Fp2 &d) { return a * b + c * d; }

    // (c0 + c1)(c0 - c1) + 2 c1 c0 u
    DEVICE Fp2 square() const {
        Fp other = of_partner(own);
        bool even = lane() == 0;
        return {(own + select(even, other, own)) * select(even, own - other, other)};
    }

    DEVICE Fp norm() const {
        Fp other = of_partner(own);
        return Fp::dot(own, own, other, other);
    }
    DEVICE Fp2 conjugate() const { return {own.negate_if(lane() == 1)}; }
    DEVICE Fp2 scale(const Fp &by) const { return {own * by}; }
};

#else

struct alignas(16) Fp2 {
    static const u32 LANES = 1;
    typedef Fp2 Stored;

    Fp c0, c1;

    static Fp2 zero() { return {Fp::zero(), Fp::zero()}; }
    static Fp2 one() { return {Fp::one(), Fp::zero()}; }
    static Fp2 load(const Fp2 *from) { return *from; }
    void store(Fp2 *to) const { *to = *this; }
    bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
    bool may_be_zero() const { return c0.may_be_zero() && c1.may_be_zero(); }
    bool may_equal(const Fp2 &b) const { return c0.may_equal(b.c0) && c1.may_equal(b.c1); }
    friend bool operator==(const Fp2 &a, const Fp2 &b) { return a.c0 == b.c0 && a.c1 == b.c1; }
    friend Fp2 operator+(const Fp2 &a, const Fp2 &b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
    friend Fp2 operator-(const Fp2 &a, const Fp2 &b) { return {a.c0 - b.c0, a.c1 - b.c1}; }
    Fp2 negate() const { return {c0.negate(), c1.negate()}; }
    Fp2 twice() const { return {c0.twice(), c1.twice()}; }
    friend Fp2 operator*(const Fp2 &a, const Fp2 &b) {
        return {Fp::dot(a.c0, b.c0, a.c1.negate(), b.c1), Fp::dot(a.c1, b.c0, a.c0, b.c1)};
    }
    static Fp2 dot(const Fp2 &a, const Fp2 &b, const Fp2 &c, const Fp2 &d) { return a * b + c * d; }
    Fp2 square() const { return {(c0 + c1) * (c0 - c1), c1.twice() * c0}; }
    Fp norm() const { return Fp::dot(c0, c0, c1, c1); }
    Fp2 conjugate() const { return {c0, c1.negate()}; }
    Fp2 scale(const Fp &by) const { return {c0 * by, c1 * by}; }
};

#endif

// (c0 - c1 u) / (c0^2 + c1^2)
DEVICE Fp2 inverse(const Fp2 &x) { return x.conjugate().scale(inverse(x.norm())); }
