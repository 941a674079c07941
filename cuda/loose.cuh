// Elements of Fr modulo r that are below 2r, not r, and their products with factors that are known before. 2r is just below 2^256, so
// nothing looser fits.
#pragma once

#include "field.cuh"

MODULUS_TABLE u32 FR_TWICE_TABLE[8] = FR_TWICE;

// A factor w that is known before: w 2^128 and w 2^256 mod r.
struct Factor {
    u32 low[8], high[8];

    // From w in Montgomery form.
    static DEVICE Factor of(const Fr &w) {
        Fr half = Fr::zero();
        half.limbs[4] = 1;
        const Fr low = w * half;
        Factor factor;
        for (int i = 0; i < 8; i++) factor.low[i] = low.limbs[i], factor.high[i] = w.limbs[i];
        return factor;
    }

    // -w of a w that is not 0, if `negative`.
    DEVICE Factor negate_if(bool negative) const {
        Factor factor = *this;
        subtract_from_r_if(negative, factor.low);
        subtract_from_r_if(negative, factor.high);
        return factor;
    }

#ifdef __CUDACC__
    // In memory a factor is four quads, `step` apart.
    static const u32 QUADS = 4;

    static DEVICE Factor load(const uint4 *__restrict__ from, u32 step = 1) {
        Factor factor;
        UNROLL
        for (u32 i = 0; i < QUADS; i++) {
            const uint4 quad = from[i * step];
            u32 *words = i < 2 ? factor.low + 4 * i : factor.high + 4 * i - 8;
            words[0] = quad.x, words[1] = quad.y, words[2] = quad.z, words[3] = quad.w;
        }
        return factor;
    }

    DEVICE void store(uint4 *to, u32 step = 1) const {
        UNROLL
        for (u32 i = 0; i < QUADS; i++) {
            const u32 *words = i < 2 ? low + 4 * i : high + 4 * i - 8;
            to[i * step] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
#endif

  private:
#if defined(__CUDA_ARCH__)
    static DEVICE void subtract_from_r_if(u32 condition, u32 *x) {
        const u32 *y = FR_MODULUS_TABLE;
        asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %16, 0;\n\t"
            "@p sub.cc.u32 %0, %8, %0;\n\t@p subc.cc.u32 %1, %9, %1;\n\t@p subc.cc.u32 %2, %10, %2;\n\t"
            "@p subc.cc.u32 %3, %11, %3;\n\t@p subc.cc.u32 %4, %12, %4;\n\t@p subc.cc.u32 %5, %13, %5;\n\t"
            "@p subc.cc.u32 %6, %14, %6;\n\t@p subc.cc.u32 %7, %15, %7;\n\t}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(condition));
    }
#else
    static DEVICE void subtract_from_r_if(u32 condition, u32 *x) {
        u32 y[8];
        for (int i = 0; i < 8; i++) y[i] = FR_MODULUS_TABLE[i];
        Chain<8>::sub(y, x);
        for (int i = 0; condition && i < 8; i++) x[i] = y[i];
    }
#endif
};

// A factor of which the sum low + high is small: see `Loose`. Its words are in constant memory.
struct SmallFactor {
    const u32 *low, *high;

    DEVICE explicit SmallFactor(const u32 *words) : low(words), high(words + 8) {}
};

struct Loose {
    Fr value;

    DEVICE Loose() {}
    DEVICE Loose(const Fr &value) : value(value) {}

    // Below r, if `wanted`.
    DEVICE Fr reduced_if(bool wanted) const {
        Fr x = value;
        if (wanted) x.reduce();
        return x;
    }

    friend DEVICE Loose operator+(Loose a, const Loose &b) {
        // below 4r, which may not fit: then 2r is taken away in any case
        const u32 carry = Chain<8>::add(a.value.limbs, b.value.limbs);
        Loose less = a;
        const u32 borrow = Chain<8>::sub(less.value.limbs, FR_TWICE_TABLE);
        const bool fits = borrow && !carry;
        for (int i = 0; i < 8; i++) a.value.limbs[i] = fits ? a.value.limbs[i] : less.value.limbs[i];
        return a;
    }

    friend DEVICE Loose operator-(Loose a, const Loose &b) {
        const u32 borrow = Chain<8>::sub(a.value.limbs, b.value.limbs);
        add_twice_r_if(a.value.limbs, borrow);
        return a;
    }

    // The product with w, in half as many reductions as Montgomery's: w b = w b_low + (w 2^128) b_high, both products at once, a limb of
    // each half of b at a time, and divided by 2^128. The accumulator stays below (low + high + r) 2^32 < 3r 2^32, one bit too
    // long, which is in `top`; the result is below low + high b_high 2^-128 + r < 3r before r is taken away.
    friend DEVICE Loose operator*(const Loose &b, const Factor &w) {
        Loose out;
        const u32 carry = dot(out.value.limbs, b.value.limbs, w.low, w.high);
        subtract_r_if_above(out.value.limbs, carry);
        return out;
    }

    // The same for a factor with low + high (2r 2^-256) < r and low + high < 2^256 - r: nothing is too long, and the result is
    // below 2r.
    friend DEVICE Loose operator*(const Loose &b, const SmallFactor &w) {
        Loose out;
        dot(out.value.limbs, b.value.limbs, w.low, w.high);
        return out;
    }

  private:
    // x + 2^32 y = a b
    static DEVICE void multiply(u32 *x, u32 *y, const u32 *a, u32 b) {
        UNROLL
        for (int i = 0; i < 8; i += 2) {
            wide(x[i], x[i + 1], a[i], b);
            wide(y[i], y[i + 1], a[i + 1], b);
        }
    }

    // 2^-32 (x + 2^32 y); what does not fit.
    static DEVICE u32 merge(u32 *out, const u32 *even, const u32 *odd) {
        u32 shifted[8];
        for (int i = 0; i < 8; i++) {
            out[i] = odd[i];
            shifted[i] = i + 1 < 8 ? even[i + 1] : 0;
        }
        return Chain<8>::add(out, shifted);
    }

    // out = 2^-128 (low b[0..4] + high b[4..8] + a multiple of r); what does not fit.
    static DEVICE u32 dot(u32 *out, const u32 *b, const u32 *low, const u32 *high) {
        u32 x[8], y[8], none = 0, top;
        multiply(x, y, low, b[0]);
        multiply_add(4, y, none, high + 1, b[4]);
        multiply_add(4, x, y[7], high, b[4]);
        clear_limb(x, y, top);
        UNROLL
        for (int i = 1; i < 4; i++) {
            u32 *even = i % 2 ? y : x, *odd = i % 2 ? x : y;
            Chain<8>::shift_multiply_add(even[0], odd, low + 1, b[i]);
            odd[7] += top;
            multiply_add(4, even, odd[7], low, b[i]);
            multiply_add(4, odd, none, high + 1, b[4 + i]);
            multiply_add(4, even, odd[7], high, b[4 + i]);
            clear_limb(even, odd, top);
        }
        return merge(out, y, x) + top;
    }

#if defined(__CUDA_ARCH__)
    static DEVICE void wide(u32 &low, u32 &high, u32 a, u32 b) {
        asm("{\n\t.reg .u64 w;\n\tmul.wide.u32 w, %2, %3;\n\tmov.b64 {%0, %1}, w;\n\t}" : "=r"(low), "=r"(high) : "r"(a), "r"(b));
    }
    static DEVICE void add_twice_r_if(u32 *x, u32 condition) {
        const u32 *y = FR_TWICE_TABLE;
        asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %16, 0;\n\t"
            "@p add.cc.u32 %0, %0, %8;\n\t@p addc.cc.u32 %1, %1, %9;\n\t@p addc.cc.u32 %2, %2, %10;\n\t"
            "@p addc.cc.u32 %3, %3, %11;\n\t@p addc.cc.u32 %4, %4, %12;\n\t@p addc.cc.u32 %5, %5, %13;\n\t"
            "@p addc.cc.u32 %6, %6, %14;\n\t@p addc.cc.u32 %7, %7, %15;\n\t}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(condition));
    }

    // From below 3r to below 2r, by the topmost limb alone.
    static DEVICE void subtract_r_if_above(u32 *x, u32 carry) {
        const u32 *y = FR_MODULUS_TABLE;
        asm("{\n\t.reg .pred p;\n\tsetp.gt.u32 p, %7, %15;\n\tsetp.ne.or.s32 p, %16, 0, p;\n\t"
            "@p sub.cc.u32 %0, %0, %8;\n\t@p subc.cc.u32 %1, %1, %9;\n\t@p subc.cc.u32 %2, %2, %10;\n\t"
            "@p subc.cc.u32 %3, %3, %11;\n\t@p subc.cc.u32 %4, %4, %12;\n\t@p subc.cc.u32 %5, %5, %13;\n\t"
            "@p subc.cc.u32 %6, %6, %14;\n\t@p subc.cc.u32 %7, %7, %15;\n\t}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(carry));
    }

    // Adds the multiple f r that clears the lowest limb of x + 2^32 y; `top` is what does not fit. r's two lowest limbs are 1 and 2^32 - 1,
    // so f = -x[0], and four of the sixteen half products are no products: f + 2^32 (2^32 - 1) f = f + 2^32 x[0] + 2^64 (f - borrow),
    // with the borrow of 0 - x[0].
    static DEVICE void clear_limb(u32 *x, u32 *y, u32 &top) {
        const u32 *m = FR_MODULUS_TABLE;
        const u32 lowest = x[0];
        u32 f, above;
        asm("sub.cc.u32 %0, 0, %2;\n\tsubc.u32 %1, %0, 0;" : "=&r"(f), "=r"(above) : "r"(lowest));
        asm("add.cc.u32 %0, %0, %12;\n\taddc.cc.u32 %1, %1, 0;\n\t"
            "madc.lo.cc.u32 %2, %9, %12, %2;\n\tmadc.hi.cc.u32 %3, %9, %12, %3;\n\t"
            "madc.lo.cc.u32 %4, %10, %12, %4;\n\tmadc.hi.cc.u32 %5, %10, %12, %5;\n\t"
            "madc.lo.cc.u32 %6, %11, %12, %6;\n\tmadc.hi.cc.u32 %7, %11, %12, %7;\n\taddc.u32 %8, %8, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(y[7])
            : "r"(m[2]), "r"(m[4]), "r"(m[6]), "r"(f));
        asm("add.cc.u32 %0, %0, %9;\n\taddc.cc.u32 %1, %1, %10;\n\t"
            "madc.lo.cc.u32 %2, %11, %14, %2;\n\tmadc.hi.cc.u32 %3, %11, %14, %3;\n\t"
            "madc.lo.cc.u32 %4, %12, %14, %4;\n\tmadc.hi.cc.u32 %5, %12, %14, %5;\n\t"
            "madc.lo.cc.u32 %6, %13, %14, %6;\n\tmadc.hi.cc.u32 %7, %13, %14, %7;\n\taddc.u32 %8, 0, 0;"
            : "+r"(y[0]), "+r"(y[1]), "+r"(y[2]), "+r"(y[3]), "+r"(y[4]), "+r"(y[5]), "+r"(y[6]), "+r"(y[7]), "=r"(top)
            : "r"(lowest), "r"(above), "r"(m[3]), "r"(m[5]), "r"(m[7]), "r"(f));
    }
#else
    static DEVICE void wide(u32 &low, u32 &high, u32 a, u32 b) { low = (u32)((u64)a * b), high = (u32)((u64)a * b >> 32); }
    static DEVICE void add_twice_r_if(u32 *x, u32 condition) {
        if (condition) Chain<8>::add(x, FR_TWICE_TABLE);
    }
    static DEVICE void subtract_r_if_above(u32 *x, u32 carry) {
        if (carry || x[7] > FR_MODULUS_TABLE[7]) Chain<8>::sub(x, FR_MODULUS_TABLE);
    }
    static DEVICE void clear_limb(u32 *x, u32 *y, u32 &top) {
        const u32 f = 0u - x[0];
        top = 0;
        multiply_add(4, x, y[7], FR_MODULUS_TABLE, f);
        multiply_add(4, y, top, FR_MODULUS_TABLE + 1, f);
    }
#endif
};
