// Inversion by division steps (Bernstein and Yang, "Fast constant-time gcd computation and modular
// inversion", 2019; the variant with delta starting at 1/2): 30 steps at a time on the low limbs, then the
// collected 2 x 2 matrix on the whole numbers. About 20,000 instructions; x^(m - 2) would be 150,000.
#pragma once

#include "field.cuh"

// Signed numbers in limbs of 30 bits, the top limb signed: the room above the modulus holds -2m..2m.
template <typename M> struct Steps {
    static const int L = (32 * M::LIMBS + 29) / 30;
    static const u32 MASK = (1u << 30) - 1;
    typedef int i32;
    typedef long long i64;

    i32 limbs[L];

    static DEVICE Steps split(const u32 *words) {
        Steps out;
        UNROLL
        for (int i = 0; i < L; i++) {
            int word = 30 * i / 32, shift = 30 * i % 32;
            u32 bits = words[word] >> shift;
            if (shift > 2 && word + 1 < M::LIMBS) bits |= words[word + 1] << (32 - shift);
            out.limbs[i] = (i32)(bits & MASK);
        }
        return out;
    }

    DEVICE void join(u32 *words) const {
        UNROLL
        for (int i = 0; i < M::LIMBS; i++) {
            int limb = 32 * i / 30, shift = 32 * i % 30;
            u32 bits = (u32)limbs[limb] >> shift;
            if (limb + 1 < L) bits |= (u32)limbs[limb + 1] << (30 - shift);
            if (shift > 28 && limb + 2 < L) bits |= (u32)limbs[limb + 2] << (60 - shift);
            words[i] = bits;
        }
    }

    DEVICE bool is_zero() const {
        i32 bits = 0;
        UNROLL
        for (int i = 0; i < L; i++) bits |= limbs[i];
        return bits == 0;
    }

    // this = (sign ? -this : this) + (negative ? m : 0), for the old sign of this; limbs below the top one
    // back to 30 bits.
    DEVICE void normalise(const Steps &m, bool negate) {
        i32 below = limbs[L - 1] >> 31, sign = negate ? -1 : 0;
        i32 carry = 0;
        UNROLL
        for (int i = 0; i < L; i++) {
            i32 limb = limbs[i] + (m.limbs[i] & below);
            limb = ((limb ^ sign) - sign) + carry;
            limbs[i] = i + 1 < L ? (i32)((u32)limb & MASK) : limb;
            carry = limb >> 30;
        }
    }
};

// 1 / x in Montgomery form, or 0 for 0. Not constant in time.
template <typename M> DEVICE Prime<M> inverse(const Prime<M> &x) {
    typedef Steps<M> Number;
    typedef typename Number::i32 i32;
    typedef typename Number::i64 i64;
    const int L = Number::L;
    const u32 mask = Number::MASK;
    const Number m = Number::split(M::modulus());
    // 1/m mod 2^30
    const u32 m_inverse = (0u - M::inverse()) & mask;

    // f = d x and g = e x up to a common power of two, mod m
    Number f = m, g = Number::split(x.limbs), d, e;
    UNROLL
    for (int i = 0; i < L; i++) d.limbs[i] = 0, e.limbs[i] = i == 0;
    i32 zeta = -1; // -(delta + 1/2)

    ROLLED
    while (!g.is_zero()) {
        // u f + v g and q f + r g are the new f and g times 2^30.
        i32 u = 1, v = 0, q = 0, r = 1;
        u32 f0 = (u32)f.limbs[0] | (u32)f.limbs[1] << 30, g0 = (u32)g.limbs[0] | (u32)g.limbs[1] << 30;
        for (int i = 0; i < 30; i++) {
            i32 swap = zeta >> 31, odd = -(i32)(g0 & 1);
            g0 += ((f0 ^ (u32)swap) - (u32)swap) & (u32)odd;
            q += ((u ^ swap) - swap) & odd;
            r += ((v ^ swap) - swap) & odd;
            swap &= odd;
            zeta = (zeta ^ swap) - 1;
            f0 += g0 & (u32)swap;
            u += q & swap;
            v += r & swap;
            g0 >>= 1;
            u = (i32)((u32)u << 1);
            v = (i32)((u32)v << 1);
        }

        i64 cf = (i64)u * f.limbs[0] + (i64)v * g.limbs[0];
        i64 cg = (i64)q * f.limbs[0] + (i64)r * g.limbs[0];
        // d and e take the multiple of m that makes them divisible by 2^30, and stay in -2m..m.
        i32 d_below = d.limbs[L - 1] >> 31, e_below = e.limbs[L - 1] >> 31;
        i32 md = (u & d_below) + (v & e_below), me = (q & d_below) + (r & e_below);
        i64 cd = (i64)u * d.limbs[0] + (i64)v * e.limbs[0];
        i64 ce = (i64)q * d.limbs[0] + (i64)r * e.limbs[0];
        md -= (i32)((m_inverse * (u32)cd + (u32)md) & mask);
        me -= (i32)((m_inverse * (u32)ce + (u32)me) & mask);
        cd += (i64)m.limbs[0] * md;
        ce += (i64)m.limbs[0] * me;
        cf >>= 30, cg >>= 30, cd >>= 30, ce >>= 30;
        UNROLL
        for (int i = 1; i < L; i++) {
            i32 fi = f.limbs[i], gi = g.limbs[i], di = d.limbs[i], ei = e.limbs[i];
            cf += (i64)u * fi + (i64)v * gi;
            cg += (i64)q * fi + (i64)r * gi;
            cd += (i64)u * di + (i64)v * ei + (i64)m.limbs[i] * md;
            ce += (i64)q * di + (i64)r * ei + (i64)m.limbs[i] * me;
            f.limbs[i - 1] = (i32)((u32)cf & mask), g.limbs[i - 1] = (i32)((u32)cg & mask);
            d.limbs[i - 1] = (i32)((u32)cd & mask), e.limbs[i - 1] = (i32)((u32)ce & mask);
            cf >>= 30, cg >>= 30, cd >>= 30, ce >>= 30;
        }
        f.limbs[L - 1] = (i32)cf, g.limbs[L - 1] = (i32)cg, d.limbs[L - 1] = (i32)cd, e.limbs[L - 1] = (i32)ce;
    }
    // f is 1 or -1, and d is f / x.
    d.normalise(m, f.limbs[L - 1] < 0);
    d.normalise(m, false);

    // x was X R: 1/x = X^-1 R^-1, and each product by R^2 adds a factor R.
    Prime<M> out, r2;
    d.join(out.limbs);
    M::r_squared(r2.limbs);
    return out * r2 * r2;
}
