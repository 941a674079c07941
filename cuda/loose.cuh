// Elements of Fr modulo r that are below 2r, not r: a product then needs no last subtraction, and sums only one. 2r is just below
// 2^256, so nothing looser fits.
#pragma once

#include "field.cuh"

MODULUS_TABLE u32 FR_TWICE_TABLE[8] = FR_TWICE;

struct Loose {
    Fr value;

    DEVICE Loose() {}
    DEVICE Loose(const Fr &value) : value(value) {}

    DEVICE Fr reduced() const {
        Fr x = value;
        x.reduce();
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

    DEVICE Loose negate_if(bool negative) const {
        Loose n;
        for (int i = 0; i < 8; i++) n.value.limbs[i] = FR_TWICE_TABLE[i];
        Chain<8>::sub(n.value.limbs, value.limbs);
        // 2r - 0 is 2r, one too many; but -0 = 0
        const bool keep = !negative || value.is_zero();
        for (int i = 0; i < 8; i++) n.value.limbs[i] = keep ? value.limbs[i] : n.value.limbs[i];
        return n;
    }

    // Montgomery's product, as in field.cuh. The accumulator stays below 2r 2^32 whatever is in b, since a < r; the result is
    // below a b 2^-256 + r < 2r.
    friend DEVICE Loose operator*(const Loose &loose, const Fr &a) {
        const u32 *b = loose.value.limbs;
        u32 x[8], y[8];
        UNROLL
        for (int i = 0; i < 8; i += 2) {
            u64 even = (u64)a.limbs[i] * b[0], odd = (u64)a.limbs[i + 1] * b[0];
            x[i] = (u32)even, x[i + 1] = (u32)(even >> 32);
            y[i] = (u32)odd, y[i + 1] = (u32)(odd >> 32);
        }
        clear_limb(x, y);
        UNROLL
        for (int i = 1; i < 8; i++) {
            u32 *even = i % 2 ? y : x, *odd = i % 2 ? x : y;
            Chain<8>::shift_multiply_add(even[0], odd, a.limbs + 1, b[i]);
            multiply_add(4, even, odd[7], a.limbs, b[i]);
            clear_limb(even, odd);
        }
        Loose out;
        u32 shifted[8];
        for (int i = 0; i < 8; i++) {
            out.value.limbs[i] = x[i];
            shifted[i] = i + 1 < 8 ? y[i + 1] : 0;
        }
        Chain<8>::add(out.value.limbs, shifted);
        return out;
    }

#if defined(__CUDA_ARCH__)
    static DEVICE void add_twice_r_if(u32 *x, u32 condition) {
        const u32 *y = FR_TWICE_TABLE;
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %16, 0;\n\t"
            "@p add.cc.u32 %0, %0, %8;\n\t@p addc.cc.u32 %1, %1, %9;\n\t@p addc.cc.u32 %2, %2, %10;\n\t"
            "@p addc.cc.u32 %3, %3, %11;\n\t@p addc.cc.u32 %4, %4, %12;\n\t@p addc.cc.u32 %5, %5, %13;\n\t"
            "@p addc.cc.u32 %6, %6, %14;\n\t@p addc.u32 %7, %7, %15;\n\t}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(condition));
    }

    // Adds the multiple f r that clears the lowest limb of x + 2^32 y. r's two lowest limbs are 1 and 2^32 - 1, so f = -x[0], and
    // four of the sixteen half products are no products: f + 2^32 (2^32 - 1) f = f + 2^32 x[0] + 2^64 (f - borrow), with the
    // borrow of 0 - x[0].
    static DEVICE void clear_limb(u32 *x, u32 *y) {
        const u32 *m = FR_MODULUS_TABLE;
        u32 f, above;
        asm("sub.cc.u32 %0, 0, %2;\n\tsubc.u32 %1, %0, 0;" : "=&r"(f), "=r"(above) : "r"(x[0]));
        asm("add.cc.u32 %0, %0, %8;\n\taddc.cc.u32 %1, %1, %9;\n\t"
            "madc.lo.cc.u32 %2, %10, %13, %2;\n\tmadc.hi.cc.u32 %3, %10, %13, %3;\n\t"
            "madc.lo.cc.u32 %4, %11, %13, %4;\n\tmadc.hi.cc.u32 %5, %11, %13, %5;\n\t"
            "madc.lo.cc.u32 %6, %12, %13, %6;\n\tmadc.hi.u32 %7, %12, %13, %7;"
            : "+r"(y[0]), "+r"(y[1]), "+r"(y[2]), "+r"(y[3]), "+r"(y[4]), "+r"(y[5]), "+r"(y[6]), "+r"(y[7])
            : "r"(x[0]), "r"(above), "r"(m[3]), "r"(m[5]), "r"(m[7]), "r"(f));
        asm("add.cc.u32 %0, %0, %12;\n\taddc.cc.u32 %1, %1, 0;\n\t"
            "madc.lo.cc.u32 %2, %9, %12, %2;\n\tmadc.hi.cc.u32 %3, %9, %12, %3;\n\t"
            "madc.lo.cc.u32 %4, %10, %12, %4;\n\tmadc.hi.cc.u32 %5, %10, %12, %5;\n\t"
            "madc.lo.cc.u32 %6, %11, %12, %6;\n\tmadc.hi.cc.u32 %7, %11, %12, %7;\n\taddc.u32 %8, %8, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(y[7])
            : "r"(m[2]), "r"(m[4]), "r"(m[6]), "r"(f));
    }
#else
    static DEVICE void add_twice_r_if(u32 *x, u32 condition) {
        if (condition) Chain<8>::add(x, FR_TWICE_TABLE);
    }
    static DEVICE void clear_limb(u32 *x, u32 *y) { Fr::clear_limb(x, y); }
#endif
};
