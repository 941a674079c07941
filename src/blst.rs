//! Every call into [blst](https://github.com/supranational/blst), each behind a safe function.
//!
//! This is the crate's only `unsafe` outside a GPU backend's launch file. All of it has one shape:
//! pointers to values whose layout equals blst's, which the constants below check at compile time.
#![allow(unsafe_code, reason = "blst is a C library; the safe wrappers are this file")]

use blst::*;

use crate::curve::{Affine, Point};
use crate::field::{Fp, Fp2, Fr};

/// Same size and alignment: what makes the pointer casts below sound, together with both sides
/// being plain arrays of 64-bit limbs in the same order, for which every bit pattern is valid.
const fn same_layout<A, B>() {
    assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>());
}
const _: () = {
    same_layout::<Fr, blst_fr>();
    same_layout::<Fp, blst_fp>();
    same_layout::<Fp2, blst_fp2>();
    same_layout::<Affine<Fp>, blst_p1_affine>();
    same_layout::<Point<Fp>, blst_p1>();
    same_layout::<Affine<Fp2>, blst_p2_affine>();
    same_layout::<Point<Fp2>, blst_p2>();
};

/// `fn name(a: &A, ..) -> R` around `c_name(&mut R, &A, ..)`.
macro_rules! wrap {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $c:ident;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name($($arg: &$ty),*) -> $ret {
            let mut out = <$ret as bytemuck::Zeroable>::zeroed();
            // SAFETY: `out` and the arguments are live, aligned and laid out as blst's own types
            // (checked above); blst reads and writes within them and keeps no pointer.
            unsafe { $c((&raw mut out).cast(), $((&raw const *$arg).cast()),*) };
            out
        }
    )*};
}

/// `fn name(a: &A) -> bool` around `c_name(&A)`.
macro_rules! wrap_test {
    ($($name:ident($ty:ty) = $c:ident;)*) => {$(
        pub(crate) fn $name(a: &$ty) -> bool {
            // SAFETY: as in `wrap!`; blst only reads.
            unsafe { $c((&raw const *a).cast()) }
        }
    )*};
}

wrap! {
    fr_mul(a: Fr, b: Fr) -> Fr = blst_fr_mul;
    fr_square(a: Fr) -> Fr = blst_fr_sqr;
    fr_inverse(a: Fr) -> Fr = blst_fr_eucl_inverse;
    fr_to_montgomery(a: Fr) -> Fr = blst_fr_to;
    fr_from_montgomery(a: Fr) -> Fr = blst_fr_from;
    fp_mul(a: Fp, b: Fp) -> Fp = blst_fp_mul;
    fp_square(a: Fp) -> Fp = blst_fp_sqr;
    fp_inverse(a: Fp) -> Fp = blst_fp_eucl_inverse;
    fp_to_montgomery(a: Fp) -> Fp = blst_fp_to;
    fp_from_montgomery(a: Fp) -> Fp = blst_fp_from;
    fp2_mul(a: Fp2, b: Fp2) -> Fp2 = blst_fp2_mul;
    fp2_square(a: Fp2) -> Fp2 = blst_fp2_sqr;
    fp2_inverse(a: Fp2) -> Fp2 = blst_fp2_eucl_inverse;
    g1_add(a: Point<Fp>, b: Point<Fp>) -> Point<Fp> = blst_p1_add_or_double;
    g1_add_affine(a: Point<Fp>, b: Affine<Fp>) -> Point<Fp> = blst_p1_add_or_double_affine;
    g1_double(a: Point<Fp>) -> Point<Fp> = blst_p1_double;
    g1_to_affine(a: Point<Fp>) -> Affine<Fp> = blst_p1_to_affine;
    g1_from_affine(a: Affine<Fp>) -> Point<Fp> = blst_p1_from_affine;
    g2_add(a: Point<Fp2>, b: Point<Fp2>) -> Point<Fp2> = blst_p2_add_or_double;
    g2_add_affine(a: Point<Fp2>, b: Affine<Fp2>) -> Point<Fp2> = blst_p2_add_or_double_affine;
    g2_double(a: Point<Fp2>) -> Point<Fp2> = blst_p2_double;
    g2_to_affine(a: Point<Fp2>) -> Affine<Fp2> = blst_p2_to_affine;
    g2_from_affine(a: Affine<Fp2>) -> Point<Fp2> = blst_p2_from_affine;
}

wrap_test! {
    g1_on_curve(Affine<Fp>) = blst_p1_affine_on_curve;
    g1_in_subgroup(Affine<Fp>) = blst_p1_affine_in_g1;
    g2_on_curve(Affine<Fp2>) = blst_p2_affine_on_curve;
    g2_in_subgroup(Affine<Fp2>) = blst_p2_affine_in_g2;
}

/// `fn name(a, scalar)`: scalar is canonical, little-endian; 255 bits are read, since all of Fr
/// fits and blst's window code is only exact below 256.
macro_rules! wrap_scalar_mul {
    ($name:ident, $ty:ty, $c:ident) => {
        pub(crate) fn $name(a: &Point<$ty>, scalar: &[u8; 32]) -> Point<$ty> {
            let mut out = <Point<$ty> as bytemuck::Zeroable>::zeroed();
            // SAFETY: as in `wrap!`; blst reads ceil(255 / 8) = 32 bytes of the scalar.
            unsafe { $c((&raw mut out).cast(), (&raw const *a).cast(), scalar.as_ptr(), 255) };
            out
        }
    };
}
wrap_scalar_mul!(g1_mul, Fp, blst_p1_mult);
wrap_scalar_mul!(g2_mul, Fp2, blst_p2_mult);

/// Zcash encodings: `to` writes, `from` returns `None` on a bad flag, a coordinate >= q or an x
/// with no point (compressed) or a point off the curve (uncompressed). No subgroup check.
macro_rules! wrap_encoding {
    ($to:ident, $from:ident, $ty:ty, $len:literal, $cto:ident, $cfrom:ident) => {
        pub(crate) fn $to(a: &Affine<$ty>) -> [u8; $len] {
            let mut out = [0; $len];
            // SAFETY: blst writes exactly the encoding's length, which is `out`'s.
            unsafe { $cto(out.as_mut_ptr(), (&raw const *a).cast()) };
            out
        }

        pub(crate) fn $from(bytes: &[u8; $len]) -> Option<Affine<$ty>> {
            let mut out = <Affine<$ty> as bytemuck::Zeroable>::zeroed();
            // SAFETY: blst reads exactly the encoding's length, which is `bytes`'s.
            let code = unsafe { $cfrom((&raw mut out).cast(), bytes.as_ptr()) };
            (code == BLST_ERROR::BLST_SUCCESS).then_some(out)
        }
    };
}
wrap_encoding!(g1_compress, g1_uncompress, Fp, 48, blst_p1_affine_compress, blst_p1_uncompress);
wrap_encoding!(g2_compress, g2_uncompress, Fp2, 96, blst_p2_affine_compress, blst_p2_uncompress);

/// The generators of the standard, blst's constants.
pub(crate) fn g1_generator() -> Affine<Fp> {
    // SAFETY: blst returns a pointer to a static constant.
    let g = unsafe { &*blst_p1_affine_generator() };
    Affine([Fp(g.x.l), Fp(g.y.l)])
}

/// See [`g1_generator`].
pub(crate) fn g2_generator() -> Affine<Fp2> {
    // SAFETY: blst returns a pointer to a static constant.
    let g = unsafe { &*blst_p2_affine_generator() };
    let fp2 = |v: &blst_fp2| Fp2([Fp(v.fp[0].l), Fp(v.fp[1].l)]);
    Affine([fp2(&g.x), fp2(&g.y)])
}

/// The product of the pairings of `pairs`, after the final exponentiation, as the coefficients
/// `[c0, c1][c0, c1, c2][c0, c1]` of Fp12 = Fp6\[w\]/(w^2 - v), Fp6 = Fp2\[v\]/(v^3 - u - 1). Pairs with a point at
/// infinity contribute 1.
pub(crate) fn pairing_product(pairs: &[(Affine<Fp>, Affine<Fp2>)]) -> [[[Fp; 2]; 3]; 2] {
    let mut product = one_fp12();
    for (p, q) in pairs.iter().filter(|(p, q)| !p.is_infinity() && !q.is_infinity()) {
        let mut line = blst_fp12::default();
        let mut next = blst_fp12::default();
        // SAFETY: all pointers are to live values of blst's types or of their layout (checked
        // above); `next` does not alias the factors.
        unsafe {
            blst_miller_loop(&mut line, (&raw const *q).cast(), (&raw const *p).cast());
            blst_fp12_mul(&mut next, &product, &line);
        }
        product = next;
    }
    let mut out = blst_fp12::default();
    // SAFETY: two live, distinct values of blst's type.
    unsafe { blst_final_exp(&mut out, &product) };
    out.fp6.map(|c| c.fp2.map(|c| c.fp.map(|c| Fp(c.l))))
}

/// The neutral element that [`pairing_product`] is compared with.
pub(crate) fn pairing_one() -> [[[Fp; 2]; 3]; 2] {
    one_fp12().fp6.map(|c| c.fp2.map(|c| c.fp.map(|c| Fp(c.l))))
}

fn one_fp12() -> blst_fp12 {
    // SAFETY: blst returns a pointer to a static constant.
    unsafe { *blst_fp12_one() }
}
