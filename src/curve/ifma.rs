//! Eight affine additions at once in AVX-512 registers, with the 52-bit multiply-add of AVX512-IFMA.
//!
//! A coordinate is eight limbs of 52 bits, limb i of eight elements in register i. Memory holds x R with R = 2^384, and
//! the registers' Montgomery product divides by R' = 2^416, so a product of two such values is x y R 2^-32. The
//! factors are not mended but led to cancel. With D the denominators of a lane's additions 0..n:
//!
//! - prefix products come out as P_i = D_0 .. D_i R 2^-32i;
//! - J_(n-1) = (D_0 .. D_(n-1))^-1 R 2^(48 + 32(n-1)) is, as an element in R-form, 2^48 times the inverse of P_(n-1);
//! - walking back, J_(i-1) = J_i D_i and 1/D_i = J_i P_(i-1), which is D_i^-1 R 2^48;
//! - the slope L = (y2 - y1)/D_i is then L R 2^16, its square L^2 R, exactly what x3 needs;
//! - y3 needs L (x1 - x3) R: x1 - x3 is shifted up by the missing 16 bits, for which 416 bits have room.
//!
//! Bounds: a product of a and b is below a b/2^416 + q, so below 2q for a b < 2^797. What is subtracted is always
//! reduced (it came from memory or goes there), or a product, and q or a multiple of it is added first. In Fp2, whose
//! products are below 6q, nothing exceeds 12q < 2^385, or 2^401 after the shift, and 2^401 * 2^385 < 2^797.
#![allow(
    unsafe_code,
    reason = "loads, stores and the call into code for a CPU feature that was detected"
)]

use std::arch::x86_64::*;

use super::{Affine, Coordinate};
use crate::field::{Field, Fp, batch_inverse};

/// Additions of one vector.
const LANES: usize = 8;
/// Vectors that share one inversion.
const VECTORS: usize = 48;
/// Additions that share one inversion.
pub(super) const CAPACITY: usize = LANES * VECTORS;

const MASK: u64 = (1 << 52) - 1;
/// q in 52-bit limbs.
const Q: [u64; 8] = split(&Fp::MODULUS);
/// -1/q mod 2^52, by Newton's iteration: each step doubles the right bits, from 3 to 96.
const NEGATIVE_INVERSE: u64 = {
    let q = Fp::MODULUS[0];
    let (mut inverse, mut i) = (q, 0);
    while i < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg() & MASK
};

/// 64-bit limbs to 52-bit limbs.
const fn split(w: &[u64; 6]) -> [u64; 8] {
    [
        w[0] & MASK,
        (w[0] >> 52 | w[1] << 12) & MASK,
        (w[1] >> 40 | w[2] << 24) & MASK,
        (w[2] >> 28 | w[3] << 36) & MASK,
        (w[3] >> 16 | w[4] << 48) & MASK,
        (w[4] >> 4) & MASK,
        (w[4] >> 56 | w[5] << 8) & MASK,
        w[5] >> 44,
    ]
}

/// Eight elements' 64-bit limbs, limb by limb.
type Memory = [[u64; LANES]; 6];
/// Eight elements in registers, in 52-bit limbs.
type Vector = [__m512i; 8];

/// Whether this CPU has what this file needs.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}

/// Additions that wait for one shared inversion; see [`Adder`](super::batch::Adder), which sorts out
/// infinity and equal x before.
pub(super) struct Lanes<F> {
    len: usize,
    slots: Vec<u32>,
    /// For each vector, DEGREE coefficients of each of x1, y1, x2, y2.
    operands: Vec<Memory>,
    /// Prefix products, DEGREE coefficients for each vector.
    prefixes: Vec<Vector>,
    field: std::marker::PhantomData<F>,
}

impl<F: Coordinate> Lanes<F> {
    pub(super) fn new() -> Self {
        assert!(is_available(), "Lanes are made only where the CPU has AVX512-IFMA");
        // SAFETY: every bit pattern is a value of the register type; zero is one.
        let zero: Vector = unsafe { std::mem::zeroed() };
        Self {
            len: 0,
            slots: vec![0; CAPACITY],
            operands: vec![[[0; LANES]; 6]; 4 * F::DEGREE * VECTORS],
            prefixes: vec![zero; F::DEGREE * VECTORS],
            field: std::marker::PhantomData,
        }
    }

    /// Puts a + b on the way to `out[slot]`; x1 and x2 differ. True if that filled it.
    #[inline(always)]
    pub(super) fn push(&mut self, a: &Affine<F>, b: &Affine<F>, slot: usize) -> bool {
        let (vector, lane) = (self.len / LANES, self.len % LANES);
        let operands = &mut self.operands[4 * F::DEGREE * vector..][..4 * F::DEGREE];
        for (memory, c) in operands.iter_mut().zip(F::coordinates(a).chain(F::coordinates(b))) {
            for (words, limb) in memory.iter_mut().zip(c.0) {
                words[lane] = limb;
            }
        }
        self.slots[self.len] = slot as u32;
        self.len += 1;
        self.len == CAPACITY
    }

    /// Writes all sums that wait.
    pub(super) fn flush(&mut self, out: &mut [Affine<F>]) {
        if self.len == 0 {
            return;
        }
        // Lanes without an addition divide by 1.
        while !self.len.is_multiple_of(LANES) {
            let lane = self.len % LANES;
            let operands =
                &mut self.operands[4 * F::DEGREE * (self.len / LANES)..][..4 * F::DEGREE];
            operands.iter_mut().flatten().for_each(|words| words[lane] = 0);
            for (words, limb) in operands[2 * F::DEGREE].iter_mut().zip(Fp::ONE.0) {
                words[lane] = limb;
            }
            self.slots[self.len] = u32::MAX;
            self.len += 1;
        }
        let vectors = self.len / LANES;
        // SAFETY: `new` asserted that the CPU has the features.
        unsafe {
            match F::DEGREE {
                1 => add_all::<F, 1>(self, vectors, out),
                _ => add_all::<F, 2>(self, vectors, out),
            }
        }
        self.len = 0;
    }
}

/// All waiting additions of `vectors` full vectors; D = F::DEGREE.
#[target_feature(enable = "avx512f,avx512ifma")]
fn add_all<F: Coordinate, const D: usize>(
    lanes: &mut Lanes<F>,
    vectors: usize,
    out: &mut [Affine<F>],
) {
    let operand = |vector: usize, which: usize| -> [Vector; D] {
        std::array::from_fn(|c| load(&lanes.operands[(4 * vector + which) * D + c]))
    };
    let denominator = |vector| subtract(&operand(vector, 2), &operand(vector, 0));
    let mut product = denominator(0);
    for vector in 1..vectors {
        lanes.prefixes[D * vector..][..D].copy_from_slice(&product);
        product = multiply(&product, &denominator(vector));
    }
    let mut inverse = invert::<F, D>(&product);
    for vector in (0..vectors).rev() {
        let (x1, y1, x2, y2) =
            (operand(vector, 0), operand(vector, 1), operand(vector, 2), operand(vector, 3));
        let mut of_this = inverse;
        if vector > 0 {
            let prefix = std::array::from_fn(|c| lanes.prefixes[D * vector + c]);
            of_this = multiply(&inverse, &prefix);
            inverse = multiply(&inverse, &subtract(&x2, &x1));
        }
        let slope = multiply(&subtract(&y2, &y1), &of_this);
        let x3 = subtract(&subtract(&multiply(&slope, &slope), &x1), &x2);
        let x3 = x3.map(|c| reduce(&c));
        let y3 = multiply(&slope, &subtract(&x1, &x3).map(|c| shift_16(&c)));
        let y3 = subtract(&y3, &y1).map(|c| reduce(&c));
        let (x3, y3) = (x3.map(|c| store(&c)), y3.map(|c| store(&c)));
        for lane in 0..LANES {
            if let Some(out) = out.get_mut(lanes.slots[vector * LANES + lane] as usize) {
                *out = Affine([element::<F, D>(&x3, lane), element::<F, D>(&y3, lane)]);
            }
        }
    }
}

/// 2^48 times the inverse of every lane, as elements in R-form.
#[target_feature(enable = "avx512f,avx512ifma")]
fn invert<F: Coordinate, const D: usize>(product: &[Vector; D]) -> [Vector; D] {
    let memory = product.map(|c| store(&reduce(&c)));
    let mut elements: [F; LANES] = std::array::from_fn(|lane| element::<F, D>(&memory, lane));
    batch_inverse(&mut elements);
    let scale = F::from_coefficients(&[Fp::from(1 << 48), Fp::ZERO]);
    let mut memory = [[[0; LANES]; 6]; D];
    for (lane, element) in elements.iter().enumerate() {
        let scaled = Affine([*element * scale, F::ZERO]);
        for (memory, c) in memory.iter_mut().zip(F::coordinates(&scaled)) {
            for (words, limb) in memory.iter_mut().zip(c.0) {
                words[lane] = limb;
            }
        }
    }
    std::array::from_fn(|c| load(&memory[c]))
}

fn element<F: Coordinate, const D: usize>(memory: &[Memory; D], lane: usize) -> F {
    let coefficients: [Fp; D] =
        std::array::from_fn(|c| Fp(std::array::from_fn(|i| memory[c][i][lane])));
    F::from_coefficients(&coefficients)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(memory: &Memory) -> Vector {
    // SAFETY: reads the 64 bytes of an array of eight words, with no demand on alignment.
    let w: [__m512i; 6] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(memory[i].as_ptr().cast()) });
    let mask = constant(MASK);
    [
        _mm512_and_si512(w[0], mask),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<52>(w[0]), _mm512_slli_epi64::<12>(w[1])),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<40>(w[1]), _mm512_slli_epi64::<24>(w[2])),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<28>(w[2]), _mm512_slli_epi64::<36>(w[3])),
            mask,
        ),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<16>(w[3]), _mm512_slli_epi64::<48>(w[4])),
            mask,
        ),
        _mm512_and_si512(_mm512_srli_epi64::<4>(w[4]), mask),
        _mm512_and_si512(
            _mm512_or_si512(_mm512_srli_epi64::<56>(w[4]), _mm512_slli_epi64::<8>(w[5])),
            mask,
        ),
        _mm512_srli_epi64::<44>(w[5]),
    ]
}

/// The inverse of [`load`], for reduced values.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(v: &Vector) -> Memory {
    let words = [
        _mm512_or_si512(v[0], _mm512_slli_epi64::<52>(v[1])),
        _mm512_or_si512(_mm512_srli_epi64::<12>(v[1]), _mm512_slli_epi64::<40>(v[2])),
        _mm512_or_si512(_mm512_srli_epi64::<24>(v[2]), _mm512_slli_epi64::<28>(v[3])),
        _mm512_or_si512(_mm512_srli_epi64::<36>(v[3]), _mm512_slli_epi64::<16>(v[4])),
        _mm512_or_si512(
            _mm512_srli_epi64::<48>(v[4]),
            _mm512_or_si512(_mm512_slli_epi64::<4>(v[5]), _mm512_slli_epi64::<56>(v[6])),
        ),
        _mm512_or_si512(_mm512_srli_epi64::<8>(v[6]), _mm512_slli_epi64::<44>(v[7])),
    ];
    let mut memory = [[0; LANES]; 6];
    for (memory, word) in memory.iter_mut().zip(words) {
        // SAFETY: writes the 64 bytes of an array of eight words, with no demand on alignment.
        unsafe { _mm512_storeu_si512(memory.as_mut_ptr().cast(), word) };
    }
    memory
}

#[inline]
#[target_feature(enable = "avx512f")]
fn constant(value: u64) -> __m512i {
    _mm512_set1_epi64(value as i64)
}

/// Carries from limb to limb, so that all but the last are in 0..2^52; limbs may be negative before.
#[inline]
#[target_feature(enable = "avx512f")]
fn carry(mut v: Vector) -> Vector {
    let mask = constant(MASK);
    for i in 0..7 {
        v[i + 1] = _mm512_add_epi64(v[i + 1], _mm512_srai_epi64::<52>(v[i]));
        v[i] = _mm512_and_si512(v[i], mask);
    }
    v
}

/// a - b + q, coefficient by coefficient, for reduced b.
#[inline]
#[target_feature(enable = "avx512f")]
fn subtract<const D: usize>(a: &[Vector; D], b: &[Vector; D]) -> [Vector; D] {
    std::array::from_fn(|c| {
        carry(std::array::from_fn(|i| {
            _mm512_sub_epi64(_mm512_add_epi64(a[c][i], constant(Q[i])), b[c][i])
        }))
    })
}

/// The Montgomery product in Fp (D = 1), or in Fp2 by Karatsuba's three.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply<const D: usize>(a: &[Vector; D], b: &[Vector; D]) -> [Vector; D] {
    if D == 1 {
        let product = montgomery(&a[0], &b[0]);
        return [product; D];
    }
    let real = montgomery(&a[0], &b[0]);
    let imaginary = montgomery(&a[D - 1], &b[D - 1]);
    let sum =
        |v: &[Vector; D]| carry(std::array::from_fn(|i| _mm512_add_epi64(v[0][i], v[D - 1][i])));
    let cross = montgomery(&sum(a), &sum(b));
    // real - imaginary + 2q and cross - real - imaginary + 4q
    let c0 = std::array::from_fn(|i| {
        _mm512_sub_epi64(_mm512_add_epi64(real[i], constant(2 * Q[i])), imaginary[i])
    });
    let c1 = std::array::from_fn(|i| {
        let both = _mm512_add_epi64(real[i], imaginary[i]);
        _mm512_sub_epi64(_mm512_add_epi64(cross[i], constant(4 * Q[i])), both)
    });
    let (c0, c1) = (carry(c0), carry(c1));
    std::array::from_fn(|c| if c == 0 { c0 } else { c1 })
}

/// a b / 2^416 mod q, below 2q: operand scanning, one limb of b a round. Limbs of the accumulator take at most 32
/// additions of 52 bits, so they stay below 2^58.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn montgomery(a: &Vector, b: &Vector) -> Vector {
    let zero = _mm512_setzero_si512();
    let q: Vector = std::array::from_fn(|i| constant(Q[i]));
    let negative_inverse = constant(NEGATIVE_INVERSE);
    let mut t = [zero; 9];
    for &b in b {
        for j in 0..8 {
            t[j] = _mm512_madd52lo_epu64(t[j], a[j], b);
            t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], a[j], b);
        }
        let m = _mm512_madd52lo_epu64(zero, t[0], negative_inverse);
        for j in 0..8 {
            t[j] = _mm512_madd52lo_epu64(t[j], m, q[j]);
            t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], m, q[j]);
        }
        // The lowest limb is 0 mod 2^52: what is above moves down with the rest.
        t[1] = _mm512_add_epi64(t[1], _mm512_srli_epi64::<52>(t[0]));
        t.rotate_left(1);
        t[8] = zero;
    }
    carry(std::array::from_fn(|i| t[i]))
}

/// v 2^16, limbs below 2^52 before and after.
#[inline]
#[target_feature(enable = "avx512f")]
fn shift_16(v: &Vector) -> Vector {
    let mask = constant(MASK);
    std::array::from_fn(|i| {
        let low = if i == 0 { _mm512_setzero_si512() } else { _mm512_srli_epi64::<36>(v[i - 1]) };
        _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi64::<16>(v[i]), mask), low)
    })
}

/// The canonical value of `v` below 8q.
#[inline]
#[target_feature(enable = "avx512f")]
fn reduce(v: &Vector) -> Vector {
    let mut v = *v;
    for multiple in [4, 2, 1] {
        let less =
            carry(std::array::from_fn(|i| _mm512_sub_epi64(v[i], constant(multiple * Q[i]))));
        // The last limb carries the sign.
        let negative = _mm512_cmplt_epi64_mask(less[7], _mm512_setzero_si512());
        v = std::array::from_fn(|i| _mm512_mask_blend_epi64(negative, less[i], v[i]));
    }
    v
}
