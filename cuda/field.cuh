// Montgomery arithmetic over the prime fields of BLS12-381, a template over the modulus.
//
// An element is N little-endian 32-bit limbs of x 2^(32 N) mod m, fully reduced: the host's layout (Fr: N =
// 8, Fp: N = 12). Moduli leave the top bit of the top limb clear. The prelude has the constants: FR_MODULUS,
// FR_ONE (2^256 mod r), FR_R2 (2^512 mod r), FR_INVERSE (-r^-1 mod 2^32), and the same for FP.
//
// A product of two limbs is a mad.lo.cc, madc.hi.cc pair on a 64-bit aligned pair of accumulator limbs, which
// ptxas fuses into one IMAD.WIDE.U32.X. Pairs that overlap by one limb cannot stand in one chain, so the even
// and the odd limbs of the multiplicand have an accumulator each. Compiled as C++ for a CPU, the chains are
// plain 64-bit arithmetic.
#pragma once

#include "prelude.cuh"

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define DEVICE_CALL __device__ __noinline__
// Not const: ptxas would take limbs like 1 and 0xffffffff as immediates and replace products by longer sequences.
#define MODULUS_TABLE __constant__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#else
#define DEVICE inline
#define DEVICE_CALL inline
#define MODULUS_TABLE static const
#define UNROLL
#define ROLLED
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

// Carry chains. Each is one asm statement, so that nothing can come between its instructions.
template <int N> struct Chain;

#if defined(__CUDA_ARCH__)
#define MAD_PAIR(low, lo, hi, a, b) \
    low " %" #lo ", %" #a ", %" #b ", %" #lo ";\n\tmadc.hi.cc.u32 %" #hi ", %" #a ", %" #b ", %" #hi ";\n\t"
#define MAD(lo, hi, a, b) MAD_PAIR("mad.lo.cc.u32", lo, hi, a, b)
#define MADC(lo, hi, a, b) MAD_PAIR("madc.lo.cc.u32", lo, hi, a, b)
#define TOP(top) "addc.u32 %" #top ", %" #top ", 0;"
#define X2(i) "+r"(x[i]), "+r"(x[i + 1])

// x += a[0] b + a[2] b 2^64 + ..., `pairs` products; top += the carry. `pairs` is known when loops are unrolled.
DEVICE void multiply_add(int pairs, u32 *x, u32 &top, const u32 *a, u32 b) {
    switch (pairs) {
    case 1:
        asm(MAD(0, 1, 3, 4) TOP(2)
            : X2(0), "+r"(top)
            : "r"(a[0]), "r"(b));
        break;
    case 2:
        asm(MAD(0, 1, 5, 7) MADC(2, 3, 6, 7) TOP(4)
            : X2(0), X2(2), "+r"(top)
            : "r"(a[0]), "r"(a[2]), "r"(b));
        break;
    case 3:
        asm(MAD(0, 1, 7, 10) MADC(2, 3, 8, 10) MADC(4, 5, 9, 10) TOP(6)
            : X2(0), X2(2), X2(4), "+r"(top)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(b));
        break;
    case 4:
        asm(MAD(0, 1, 9, 13) MADC(2, 3, 10, 13) MADC(4, 5, 11, 13) MADC(6, 7, 12, 13) TOP(8)
            : X2(0), X2(2), X2(4), X2(6), "+r"(top)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(a[6]), "r"(b));
        break;
    case 5:
        asm(MAD(0, 1, 11, 16) MADC(2, 3, 12, 16) MADC(4, 5, 13, 16) MADC(6, 7, 14, 16) MADC(8, 9, 15, 16) TOP(10)
            : X2(0), X2(2), X2(4), X2(6), X2(8), "+r"(top)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(a[6]), "r"(a[8]), "r"(b));
        break;
    case 6:
        asm(MAD(0, 1, 13, 19) MADC(2, 3, 14, 19) MADC(4, 5, 15, 19) MADC(6, 7, 16, 19) MADC(8, 9, 17, 19)
            MADC(10, 11, 18, 19) TOP(12)
            : X2(0), X2(2), X2(4), X2(6), X2(8), X2(10), "+r"(top)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(a[6]), "r"(a[8]), "r"(a[10]), "r"(b));
        break;
    }
}

template <> struct Chain<12> {
    // low += x[1]; x = x 2^-64 + a[0] b + a[2] b 2^64 + ... + the carry of low. x[0] is dropped.
    static DEVICE void shift_multiply_add(u32 &low, u32 *x, const u32 *a, u32 b) {
        asm("add.cc.u32 %12, %12, %1;\n\t"
            "madc.lo.cc.u32 %0, %13, %19, %2;\n\tmadc.hi.cc.u32 %1, %13, %19, %3;\n\t"
            "madc.lo.cc.u32 %2, %14, %19, %4;\n\tmadc.hi.cc.u32 %3, %14, %19, %5;\n\t"
            "madc.lo.cc.u32 %4, %15, %19, %6;\n\tmadc.hi.cc.u32 %5, %15, %19, %7;\n\t"
            "madc.lo.cc.u32 %6, %16, %19, %8;\n\tmadc.hi.cc.u32 %7, %16, %19, %9;\n\t"
            "madc.lo.cc.u32 %8, %17, %19, %10;\n\tmadc.hi.cc.u32 %9, %17, %19, %11;\n\t"
            "madc.lo.cc.u32 %10, %18, %19, 0;\n\tmadc.hi.u32 %11, %18, %19, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(x[8]),
              "+r"(x[9]), "+r"(x[10]), "+r"(x[11]), "+r"(low)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(a[6]), "r"(a[8]), "r"(a[10]), "r"(b));
    }
    // x += y; the carry.
    static DEVICE u32 add(u32 *x, const u32 *y) {
        u32 carry;
        asm("add.cc.u32 %0, %0, %13;\n\taddc.cc.u32 %1, %1, %14;\n\taddc.cc.u32 %2, %2, %15;\n\t"
            "addc.cc.u32 %3, %3, %16;\n\taddc.cc.u32 %4, %4, %17;\n\taddc.cc.u32 %5, %5, %18;\n\t"
            "addc.cc.u32 %6, %6, %19;\n\taddc.cc.u32 %7, %7, %20;\n\taddc.cc.u32 %8, %8, %21;\n\t"
            "addc.cc.u32 %9, %9, %22;\n\taddc.cc.u32 %10, %10, %23;\n\taddc.cc.u32 %11, %11, %24;\n\t"
            "addc.u32 %12, 0, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(x[8]),
              "+r"(x[9]), "+r"(x[10]), "+r"(x[11]), "=r"(carry)
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(y[8]),
              "r"(y[9]), "r"(y[10]), "r"(y[11]));
        return carry;
    }
    // x -= y; all ones if that borrows, else 0.
    static DEVICE u32 sub(u32 *x, const u32 *y) {
        u32 borrow;
        asm("sub.cc.u32 %0, %0, %13;\n\tsubc.cc.u32 %1, %1, %14;\n\tsubc.cc.u32 %2, %2, %15;\n\t"
            "subc.cc.u32 %3, %3, %16;\n\tsubc.cc.u32 %4, %4, %17;\n\tsubc.cc.u32 %5, %5, %18;\n\t"
            "subc.cc.u32 %6, %6, %19;\n\tsubc.cc.u32 %7, %7, %20;\n\tsubc.cc.u32 %8, %8, %21;\n\t"
            "subc.cc.u32 %9, %9, %22;\n\tsubc.cc.u32 %10, %10, %23;\n\tsubc.cc.u32 %11, %11, %24;\n\t"
            "subc.u32 %12, 0, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(x[8]),
              "+r"(x[9]), "+r"(x[10]), "+r"(x[11]), "=r"(borrow)
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(y[8]),
              "r"(y[9]), "r"(y[10]), "r"(y[11]));
        return borrow;
    }
    // x += y if `condition` is not 0; the carry is dropped.
    static DEVICE void add_if(u32 condition, u32 *x, const u32 *y) {
        asm("{.reg .pred p;\n\tsetp.ne.u32 p, %24, 0;\n\t"
            "@p add.cc.u32 %0, %0, %12;\n\t" "@p addc.cc.u32 %1, %1, %13;\n\t" "@p addc.cc.u32 %2, %2, %14;\n\t"
            "@p addc.cc.u32 %3, %3, %15;\n\t" "@p addc.cc.u32 %4, %4, %16;\n\t" "@p addc.cc.u32 %5, %5, %17;\n\t"
            "@p addc.cc.u32 %6, %6, %18;\n\t" "@p addc.cc.u32 %7, %7, %19;\n\t" "@p addc.cc.u32 %8, %8, %20;\n\t"
            "@p addc.cc.u32 %9, %9, %21;\n\t" "@p addc.cc.u32 %10, %10, %22;\n\t" "@p addc.u32 %11, %11, %23;}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]),
              "+r"(x[8]), "+r"(x[9]), "+r"(x[10]), "+r"(x[11])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(y[8]),
              "r"(y[9]), "r"(y[10]), "r"(y[11]), "r"(condition));
    }
};

template <> struct Chain<8> {
    static DEVICE void shift_multiply_add(u32 &low, u32 *x, const u32 *a, u32 b) {
        asm("add.cc.u32 %8, %8, %1;\n\t"
            "madc.lo.cc.u32 %0, %9, %13, %2;\n\tmadc.hi.cc.u32 %1, %9, %13, %3;\n\t"
            "madc.lo.cc.u32 %2, %10, %13, %4;\n\tmadc.hi.cc.u32 %3, %10, %13, %5;\n\t"
            "madc.lo.cc.u32 %4, %11, %13, %6;\n\tmadc.hi.cc.u32 %5, %11, %13, %7;\n\t"
            "madc.lo.cc.u32 %6, %12, %13, 0;\n\tmadc.hi.u32 %7, %12, %13, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "+r"(low)
            : "r"(a[0]), "r"(a[2]), "r"(a[4]), "r"(a[6]), "r"(b));
    }
    static DEVICE u32 add(u32 *x, const u32 *y) {
        u32 carry;
        asm("add.cc.u32 %0, %0, %9;\n\taddc.cc.u32 %1, %1, %10;\n\taddc.cc.u32 %2, %2, %11;\n\t"
            "addc.cc.u32 %3, %3, %12;\n\taddc.cc.u32 %4, %4, %13;\n\taddc.cc.u32 %5, %5, %14;\n\t"
            "addc.cc.u32 %6, %6, %15;\n\taddc.cc.u32 %7, %7, %16;\n\taddc.u32 %8, 0, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "=r"(carry)
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
        return carry;
    }
    static DEVICE u32 sub(u32 *x, const u32 *y) {
        u32 borrow;
        asm("sub.cc.u32 %0, %0, %9;\n\tsubc.cc.u32 %1, %1, %10;\n\tsubc.cc.u32 %2, %2, %11;\n\t"
            "subc.cc.u32 %3, %3, %12;\n\tsubc.cc.u32 %4, %4, %13;\n\tsubc.cc.u32 %5, %5, %14;\n\t"
            "subc.cc.u32 %6, %6, %15;\n\tsubc.cc.u32 %7, %7, %16;\n\tsubc.u32 %8, 0, 0;"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7]), "=r"(borrow)
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
        return borrow;
    }
    static DEVICE void add_if(u32 condition, u32 *x, const u32 *y) {
        asm("{.reg .pred p;\n\tsetp.ne.u32 p, %16, 0;\n\t"
            "@p add.cc.u32 %0, %0, %8;\n\t" "@p addc.cc.u32 %1, %1, %9;\n\t" "@p addc.cc.u32 %2, %2, %10;\n\t"
            "@p addc.cc.u32 %3, %3, %11;\n\t" "@p addc.cc.u32 %4, %4, %12;\n\t" "@p addc.cc.u32 %5, %5, %13;\n\t"
            "@p addc.cc.u32 %6, %6, %14;\n\t" "@p addc.u32 %7, %7, %15;}"
            : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
            : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "r"(condition));
    }
};
#else
DEVICE void multiply_add(int pairs, u32 *x, u32 &top, const u32 *a, u32 b) {
    u64 carry = 0;
    for (int i = 0; i < 2 * pairs; i += 2) {
        u64 product = (u64)a[i] * b;
        carry += (u64)x[i] + (u32)product;
        x[i] = (u32)carry;
        carry = (carry >> 32) + x[i + 1] + (product >> 32);
        x[i + 1] = (u32)carry;
        carry >>= 32;
    }
    top += (u32)carry;
}

template <int N> struct Chain {
    static DEVICE void shift_multiply_add(u32 &low, u32 *x, const u32 *a, u32 b) {
        u64 carry = (u64)low + x[1];
        low = (u32)carry;
        carry >>= 32;
        for (int i = 0; i < N; i += 2) {
            u64 product = (u64)a[i] * b;
            carry += (u64)(i + 2 < N ? x[i + 2] : 0) + (u32)product;
            x[i] = (u32)carry;
            carry = (carry >> 32) + (i + 2 < N ? x[i + 3] : 0) + (product >> 32);
            x[i + 1] = (u32)carry;
            carry >>= 32;
        }
    }
    static DEVICE u32 add(u32 *x, const u32 *y) {
        u64 carry = 0;
        for (int i = 0; i < N; i++) {
            carry += (u64)x[i] + y[i];
            x[i] = (u32)carry;
            carry >>= 32;
        }
        return (u32)carry;
    }
    static DEVICE u32 sub(u32 *x, const u32 *y) {
        u64 borrow = 0;
        for (int i = 0; i < N; i++) {
            u64 difference = (u64)x[i] - y[i] - borrow;
            x[i] = (u32)difference;
            borrow = difference >> 63;
        }
        return (u32)-borrow;
    }
    static DEVICE void add_if(u32 condition, u32 *x, const u32 *y) {
        if (condition) add(x, y);
    }
};
#endif

// The two moduli, and -m^-1 mod 2^32.
MODULUS_TABLE u32 FR_MODULUS_TABLE[8] = FR_MODULUS;
MODULUS_TABLE u32 FP_MODULUS_TABLE[12] = FP_MODULUS;
MODULUS_TABLE u32 FR_INVERSE_TABLE = FR_INVERSE;
MODULUS_TABLE u32 FP_INVERSE_TABLE = FP_INVERSE;

struct FrModulus {
    static const int LIMBS = 8;
    static DEVICE const u32 *modulus() { return FR_MODULUS_TABLE; }
    static DEVICE u32 inverse() { return FR_INVERSE_TABLE; }
    static DEVICE void one(u32 *out) {
        const u32 one[8] = FR_ONE;
        for (int i = 0; i < 8; i++) out[i] = one[i];
    }
    static DEVICE void r_squared(u32 *out) {
        const u32 r2[8] = FR_R2;
        for (int i = 0; i < 8; i++) out[i] = r2[i];
    }
};

struct FpModulus {
    static const int LIMBS = 12;
    static DEVICE const u32 *modulus() { return FP_MODULUS_TABLE; }
    static DEVICE u32 inverse() { return FP_INVERSE_TABLE; }
    static DEVICE void one(u32 *out) {
        const u32 one[12] = FP_ONE;
        for (int i = 0; i < 12; i++) out[i] = one[i];
    }
    static DEVICE void r_squared(u32 *out) {
        const u32 r2[12] = FP_R2;
        for (int i = 0; i < 12; i++) out[i] = r2[i];
    }
};

// An element of the field of integers modulo M.
template <typename M> struct alignas(16) Prime {
    static const int N = M::LIMBS;
    // Lanes of a warp that share an element, and an element in memory: see Fp2.
    static const u32 LANES = 1;
    typedef Prime Stored;

    u32 limbs[N];

    static DEVICE Prime zero() {
        Prime z;
        for (int i = 0; i < N; i++) z.limbs[i] = 0;
        return z;
    }

    static DEVICE Prime one() {
        Prime o;
        M::one(o.limbs);
        return o;
    }

    // 16 bytes at a time: through a reference nvcc loads limb by limb.
    static DEVICE Prime load(const Prime *from) {
#ifdef __CUDACC__
        Prime x;
        UNROLL
        for (int i = 0; i < N / 4; i++) {
            uint4 quad = reinterpret_cast<const uint4 *>(from)[i];
            x.limbs[4 * i] = quad.x, x.limbs[4 * i + 1] = quad.y;
            x.limbs[4 * i + 2] = quad.z, x.limbs[4 * i + 3] = quad.w;
        }
        return x;
#else
        return *from;
#endif
    }

#ifdef __CUDACC__
    // As `load`, but never taken from an earlier load: for values that would only fill registers until they
    // are needed again.
    static DEVICE Prime reload(const Prime *from) {
        Prime x;
        UNROLL
        for (int i = 0; i < N / 4; i++) {
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.limbs[4 * i]), "=r"(x.limbs[4 * i + 1]), "=r"(x.limbs[4 * i + 2]),
                           "=r"(x.limbs[4 * i + 3])
                         : "l"(reinterpret_cast<const uint4 *>(from) + i));
        }
        return x;
    }
#endif

#ifdef __CUDACC__
    // The element of the neighbouring lane; both take the same way here.
    DEVICE Prime of_neighbour() const {
        Prime other;
        UNROLL
        for (int i = 0; i < N; i++) other.limbs[i] = __shfl_xor_sync(3u << (threadIdx.x % 32 & ~1u), limbs[i], 1);
        return other;
    }
#endif

    DEVICE void store(Prime *to) const {
#ifdef __CUDACC__
        UNROLL
        for (int i = 0; i < N / 4; i++) {
            uint4 quad = {limbs[4 * i], limbs[4 * i + 1], limbs[4 * i + 2], limbs[4 * i + 3]};
            reinterpret_cast<uint4 *>(to)[i] = quad;
        }
#else
        *to = *this;
#endif
    }

    DEVICE bool is_zero() const {
        u32 bits = 0;
        for (int i = 0; i < N; i++) bits |= limbs[i];
        return bits == 0;
    }

    // False for most elements that are not 0, and cheap.
    DEVICE bool may_be_zero() const { return limbs[0] == 0; }
    DEVICE bool may_equal(const Prime &b) const { return limbs[0] == b.limbs[0]; }

    friend DEVICE bool operator==(const Prime &a, const Prime &b) {
        u32 bits = 0;
        for (int i = 0; i < N; i++) bits |= a.limbs[i] ^ b.limbs[i];
        return bits == 0;
    }

    // x - m if that is not negative: from below 2m to below m.
    DEVICE void reduce() {
        Prime x = *this;
        u32 borrow = Chain<N>::sub(x.limbs, M::modulus());
        for (int i = 0; i < N; i++) limbs[i] = borrow ? limbs[i] : x.limbs[i];
    }

    friend DEVICE Prime operator+(Prime a, const Prime &b) {
        // below 2m < 2^(32 N), so that no carry is lost
        Chain<N>::add(a.limbs, b.limbs);
        a.reduce();
        return a;
    }

    friend DEVICE Prime operator-(Prime a, const Prime &b) {
        u32 borrow = Chain<N>::sub(a.limbs, b.limbs);
        Chain<N>::add_if(borrow, a.limbs, M::modulus());
        return a;
    }

    DEVICE Prime negate() const { return zero() - *this; }
    DEVICE Prime twice() const { return *this + *this; }
    DEVICE Prime negate_if(bool negative) const {
        Prime n = negate();
        for (int i = 0; i < N; i++) n.limbs[i] = negative ? n.limbs[i] : limbs[i];
        return n;
    }

    // x / 2: (x + m) / 2 if x is odd.
    DEVICE Prime half() const {
        u32 odd = (u32)-(int)(limbs[0] & 1);
        Prime x = *this, wrap;
        for (int i = 0; i < N; i++) wrap.limbs[i] = M::modulus()[i] & odd;
        Chain<N>::add(x.limbs, wrap.limbs);
        for (int i = 0; i + 1 < N; i++) x.limbs[i] = x.limbs[i] >> 1 | x.limbs[i + 1] << 31;
        x.limbs[N - 1] >>= 1;
        return x;
    }

    // The sum of two accumulators, x and 2^32 y, divided by 2^32: x[0] is 0.
    static DEVICE Prime merge_loosely(const u32 *x, const u32 *y) {
        Prime out, shifted;
        for (int i = 0; i < N; i++) {
            out.limbs[i] = y[i];
            shifted.limbs[i] = i + 1 < N ? x[i + 1] : 0;
        }
        Chain<N>::add(out.limbs, shifted.limbs);
        return out;
    }
    // The same, reduced from below 2m.
    static DEVICE Prime merge(const u32 *x, const u32 *y) {
        Prime out = merge_loosely(x, y);
        out.reduce();
        return out;
    }

    // Adds the multiple of m that clears the lowest limb of x + 2^32 y.
    static DEVICE void clear_limb(u32 *x, u32 *y) {
        u32 none = 0, factor = x[0] * M::inverse();
        multiply_add(N / 2, y, none, M::modulus() + 1, factor);
        multiply_add(N / 2, x, y[N - 1], M::modulus(), factor);
    }

    // Montgomery's product a b 2^(-32 N), a limb of b at a time. The accumulator stays below 2m 2^32:
    // (2m + (2^32 - 1) (a + m)) / 2^32 < 2m, for a, b < m.
    friend DEVICE Prime operator*(const Prime &a, const Prime &b) {
        Prime product = loose_product(a, b);
        product.reduce();
        return product;
    }

    // Below 2m, from operands below 2m, for moduli below 2^(32 N) / 4: (4m^2 + 2^(32 N) m) 2^(-32 N) < 2m.
    // For what is only multiplied again.
    static DEVICE Prime loose_product(const Prime &a, const Prime &b) {
        u32 x[N], y[N];
        UNROLL
        for (int i = 0; i < N; i += 2) {
            u64 even = (u64)a.limbs[i] * b.limbs[0], odd = (u64)a.limbs[i + 1] * b.limbs[0];
            x[i] = (u32)even, x[i + 1] = (u32)(even >> 32);
            y[i] = (u32)odd, y[i + 1] = (u32)(odd >> 32);
        }
        clear_limb(x, y);
        UNROLL
        for (int i = 1; i < N; i++) {
            // A shift by one limb makes the odd accumulator the even one.
            u32 *even = i % 2 ? y : x, *odd = i % 2 ? x : y;
            Chain<N>::shift_multiply_add(even[0], odd, a.limbs + 1, b.limbs[i]);
            multiply_add(N / 2, even, odd[N - 1], a.limbs, b.limbs[i]);
            clear_limb(even, odd);
        }
        return merge_loosely(y, x);
    }

    // a - b + m, below 2m: as above.
    static DEVICE Prime loose_difference(Prime a, const Prime &b) {
        Chain<N>::sub(a.limbs, b.limbs);
        Chain<N>::add(a.limbs, M::modulus());
        return a;
    }

    // a b + c d with one reduction: 3 N^2 limb products where two products and a sum take 4 N^2. The
    // accumulator stays below 3m 2^32, for moduli below 2^(32 N) / 3; the result before the last step is
    // below m + 2 m^2 2^(-32 N) < 2m.
    static DEVICE Prime dot(const Prime &a, const Prime &b, const Prime &c, const Prime &d) {
        u32 x[N], y[N], none = 0;
        UNROLL
        for (int i = 0; i < N; i += 2) {
            u64 even = (u64)a.limbs[i] * b.limbs[0], odd = (u64)a.limbs[i + 1] * b.limbs[0];
            x[i] = (u32)even, x[i + 1] = (u32)(even >> 32);
            y[i] = (u32)odd, y[i + 1] = (u32)(odd >> 32);
        }
        multiply_add(N / 2, y, none, c.limbs + 1, d.limbs[0]);
        multiply_add(N / 2, x, y[N - 1], c.limbs, d.limbs[0]);
        clear_limb(x, y);
        UNROLL
        for (int i = 1; i < N; i++) {
            u32 *even = i % 2 ? y : x, *odd = i % 2 ? x : y;
            Chain<N>::shift_multiply_add(even[0], odd, a.limbs + 1, b.limbs[i]);
            multiply_add(N / 2, even, odd[N - 1], a.limbs, b.limbs[i]);
            multiply_add(N / 2, odd, none, c.limbs + 1, d.limbs[i]);
            multiply_add(N / 2, even, odd[N - 1], c.limbs, d.limbs[i]);
            clear_limb(even, odd);
        }
        return merge(y, x);
    }

    // The same for a = b. Row i is a[i] times (a[i] + the doubled limbs above), N/2 + 1 products on average;
    // then all rows are reduced. Limbs at even places go to x, at odd places to y; at N and above nothing is
    // reduced.
    DEVICE Prime square() const {
        u32 x[2 * N], y[2 * N], row[N], none = 0;
        UNROLL
        for (int i = 0; i < 2 * N; i++) x[i] = y[i] = 0;
        UNROLL
        for (int i = N - 1; i > 0; i--) row[i] = limbs[i] << 1 | limbs[i - 1] >> 31;
        UNROLL
        for (int i = 0; i < N; i++) {
            row[i] = limbs[i];
            if (i + 1 < N) row[i + 1] = limbs[i + 1] << 1;
            // A carry comes out only where the topmost pair has been written before.
            int even = (N + 1 - i) / 2, odd = (N - i) / 2;
            multiply_add(even, x + 2 * i, i % 2 || i == 0 ? none : x[2 * (i + even)], row + i, limbs[i]);
            multiply_add(odd, y + 2 * i, i % 2 ? y[2 * (i + odd)] : none, row + i + 1, limbs[i]);
        }
        u32 low[N];
        UNROLL
        for (int i = 0; i < N; i++) low[i] = i + 1 < N ? y[i] : 0;
        clear_limb(x, low);
        UNROLL
        for (int i = 1; i < N; i++) {
            u32 *even = i % 2 ? low : x, *odd = i % 2 ? x : low;
            u32 factor = (even[0] + odd[1]) * M::inverse();
            Chain<N>::shift_multiply_add(even[0], odd, M::modulus() + 1, factor);
            multiply_add(N / 2, even, odd[N - 1], M::modulus(), factor);
        }
        Chain<N>::add(x, x + N);
        Chain<N>::add(x, y + N - 1);
        return merge(low, x);
    }

    // From canonical to Montgomery form.
    DEVICE Prime to_montgomery() const {
        Prime r2;
        M::r_squared(r2.limbs);
        return *this * r2;
    }

    // From Montgomery to canonical form.
    DEVICE Prime from_montgomery() const {
        Prime one = zero();
        one.limbs[0] = 1;
        return *this * one;
    }
};

typedef Prime<FrModulus> Fr;
typedef Prime<FpModulus> Fp;
