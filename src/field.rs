//! The fields of BLS12-381 on the host: Fr (scalars), Fp (G1 coordinates), Fp2 (G2 coordinates).
//!
//! Values are held in Montgomery form as little-endian 64-bit limbs, fully reduced. That is the
//! layout of snarkjs' keys, of blst and of every kernel, so that a slice of elements is also the
//! bytes that travel to a device. Multiplication and inversion are blst's; addition is inlined here.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};
use num_bigint::BigUint;
use zeroize::Zeroize;

use crate::blst;

/// What the prover, the transforms and the curve formulas ask of a field.
pub trait Field:
    Pod
    + PartialEq
    + Eq
    + Send
    + Sync
    + fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// 0.
    const ZERO: Self;
    /// 1, in Montgomery form.
    const ONE: Self;
    /// The square.
    fn square(&self) -> Self;
    /// The inverse, or 0 for 0. Not constant in time.
    fn inverse(&self) -> Self;
    /// Whether this is 0.
    fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
    /// Twice the value.
    fn double(&self) -> Self {
        *self + *self
    }
    /// `self` to the power of `exponent`, by squaring. Not constant in time.
    fn pow(&self, exponent: u64) -> Self {
        let mut power = Self::ONE;
        for i in (0..64 - exponent.leading_zeros()).rev() {
            power = power.square();
            if exponent >> i & 1 == 1 {
                power *= *self;
            }
        }
        power
    }
}

/// Inverts every element of `values` in place with one inversion (Montgomery's trick). Zeros stay.
pub fn batch_inverse<F: Field>(values: &mut [F]) {
    let mut product = F::ONE;
    let prefix: Vec<F> = values
        .iter()
        .map(|v| {
            let before = product;
            if !v.is_zero() {
                product *= *v;
            }
            before
        })
        .collect();
    let mut inverse = product.inverse();
    for (v, before) in values.iter_mut().zip(prefix).rev().filter(|(v, _)| !v.is_zero()) {
        let next = inverse * *v;
        *v = inverse * before;
        inverse = next;
    }
}

/// The parts that Fr and Fp share; they differ in the number of limbs and in blst's functions.
macro_rules! prime_field {
    (
        $(#[$doc:meta])* $name:ident, $limbs:literal, $bytes:literal,
        modulus: $modulus:expr, r: $r:expr,
        mul: $mul:path, square: $square:path, inverse: $inverse:path, to: $to:path, from: $from:path
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Eq, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub(crate) [u64; $limbs]);

        impl $name {
            /// The modulus, little-endian limbs.
            pub const MODULUS: [u64; $limbs] = $modulus;
            /// Bytes of one element, in memory and in canonical form.
            pub const BYTES: usize = $bytes;

            /// An element from Montgomery limbs as they stand in a key or on a device; `None`
            /// unless they are below the modulus.
            pub fn from_montgomery_limbs(limbs: [u64; $limbs]) -> Option<Self> {
                less_than(&limbs, &Self::MODULUS).then_some(Self(limbs))
            }

            /// An element from its canonical little-endian limbs; `None` unless below the modulus.
            pub fn from_canonical_limbs(limbs: [u64; $limbs]) -> Option<Self> {
                less_than(&limbs, &Self::MODULUS).then(|| $to(&Self(limbs)))
            }

            /// An element from canonical little-endian bytes; `None` unless below the modulus.
            pub fn from_le_bytes(bytes: &[u8; $bytes]) -> Option<Self> {
                let mut limbs = [0; $limbs];
                for (limb, chunk) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
                    *limb = u64::from_le_bytes(*chunk);
                }
                Self::from_canonical_limbs(limbs)
            }

            /// The canonical value as little-endian limbs.
            pub fn to_canonical_limbs(&self) -> [u64; $limbs] {
                $from(self).0
            }

            /// The canonical value as little-endian bytes.
            pub fn to_le_bytes(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                for (chunk, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip($from(self).0) {
                    *chunk = limb.to_le_bytes();
                }
                bytes
            }

            /// The canonical value as an integer, for decimal text.
            pub fn to_biguint(&self) -> BigUint {
                BigUint::from_bytes_le(&self.to_le_bytes())
            }

            /// An element from its canonical value; `None` unless below the modulus.
            pub fn from_biguint(value: &BigUint) -> Option<Self> {
                let mut bytes = [0; $bytes];
                let digits = value.to_bytes_le();
                bytes.get_mut(..digits.len())?.copy_from_slice(&digits);
                Self::from_le_bytes(&bytes)
            }
        }

        impl Field for $name {
            const ZERO: Self = Self([0; $limbs]);
            const ONE: Self = Self($r);
            #[inline(always)]
            fn square(&self) -> Self {
                $square(self)
            }
            fn inverse(&self) -> Self {
                $inverse(self)
            }
        }

        impl From<u64> for $name {
            fn from(value: u64) -> Self {
                let mut limbs = [0; $limbs];
                limbs[0] = value;
                $to(&Self(limbs))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // Both are below the modulus, whose top bit is clear: the sum fits the limbs.
                let mut sum = [0; $limbs];
                let mut carry = false;
                for i in 0..$limbs {
                    (sum[i], carry) = self.0[i].carrying_add(other.0[i], carry);
                }
                let mut reduced = [0; $limbs];
                let mut borrow = false;
                for i in 0..$limbs {
                    (reduced[i], borrow) = sum[i].borrowing_sub(Self::MODULUS[i], borrow);
                }
                Self(std::array::from_fn(|i| if borrow { sum[i] } else { reduced[i] }))
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                let mut difference = [0; $limbs];
                let mut borrow = false;
                for i in 0..$limbs {
                    (difference[i], borrow) = self.0[i].borrowing_sub(other.0[i], borrow);
                }
                let mut carry = false;
                for i in 0..$limbs {
                    let wrap = if borrow { Self::MODULUS[i] } else { 0 };
                    (difference[i], carry) = difference[i].carrying_add(wrap, carry);
                }
                Self(difference)
            }
        }

        impl Mul for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $mul(&self, &other)
            }
        }

        // Limb by limb: the derived comparison of arrays is a call into the C library.
        impl PartialEq for $name {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
            }
        }

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.to_biguint())
            }
        }

        impl Zeroize for $name {
            fn zeroize(&mut self) {
                self.0.zeroize();
            }
        }
    };
}

/// `Neg` and the assigning operators from `Add`, `Sub`, `Mul`.
macro_rules! derived_operators {
    ($name:ident) => {
        impl Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self::ZERO - self
            }
        }
        impl AddAssign for $name {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for $name {
            #[inline(always)]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl MulAssign for $name {
            #[inline(always)]
            fn mul_assign(&mut self, other: Self) {
                *self = *self * other;
            }
        }
    };
}

prime_field! {
    /// The scalar field, r = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001. R = 2^256.
    Fr, 4, 32,
    modulus: [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48],
    // 2^256 mod r
    r: [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f],
    mul: blst::fr_mul, square: blst::fr_square, inverse: blst::fr_inverse,
    to: blst::fr_to_montgomery, from: blst::fr_from_montgomery
}
derived_operators!(Fr);

prime_field! {
    /// The base field, q = 0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab.
    /// R = 2^384.
    Fp, 6, 48,
    modulus: [
        0xb9fe_ffff_ffff_aaab, 0x1eab_fffe_b153_ffff, 0x6730_d2a0_f6b0_f624,
        0x6477_4b84_f385_12bf, 0x4b1b_a7b6_434b_acd7, 0x1a01_11ea_397f_e69a,
    ],
    // 2^384 mod q
    r: [
        0x7609_0000_0002_fffd, 0xebf4_000b_c40c_0002, 0x5f48_9857_53c7_58ba,
        0x77ce_5853_7052_5745, 0x5c07_1a97_a256_ec6d, 0x15f6_5ec3_fa80_e493,
    ],
    mul: blst::fp_mul, square: blst::fp_square, inverse: blst::fp_inverse,
    to: blst::fp_to_montgomery, from: blst::fp_from_montgomery
}
derived_operators!(Fp);

impl Fr {
    /// r - 1 = 2^TWO_ADICITY * t with t odd.
    pub const TWO_ADICITY: u32 = 32;
    /// 7^t, a primitive 2^32-th root of unity: the root of bellman, arkworks, sppark, and here.
    pub const ROOT_OF_UNITY: Self = Self([
        0xb9b5_8d8c_5f0e_466a,
        0x5b1b_4c80_1819_d7ec,
        0x0af5_3ae3_52a3_1e64,
        0x5bf3_adda_19e9_b27b,
    ]);
    /// snarkjs' 2^32-th root of unity 5^t is `ROOT_OF_UNITY` to this power.
    pub const SNARKJS_ROOT_EXPONENT: u32 = 0xe25f_4955;

    /// A primitive 2^log_n-th root of unity, w with w^2 the one of log_n - 1.
    ///
    /// # Panics
    /// If `log_n` is above 32.
    pub fn root_of_unity(log_n: u32) -> Self {
        assert!(log_n <= Self::TWO_ADICITY, "no 2^{log_n}-th root of unity in Fr");
        (log_n..Self::TWO_ADICITY).fold(Self::ROOT_OF_UNITY, |w, _| w.square())
    }

    /// A uniform element from the operating system's random number generator, by rejection.
    pub fn random() -> Result<Self, crate::Error> {
        loop {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).map_err(|e| crate::Error::Entropy(e.to_string()))?;
            bytes[31] &= 0x7f;
            let value = Self::from_le_bytes(&bytes);
            bytes.zeroize();
            if let Some(value) = value {
                return Ok(value);
            }
        }
    }
}

/// Fp2 = Fp\[u\]/(u^2 + 1), as `[c0, c1]` = c0 + c1 u.
#[derive(Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable, Debug)]
#[repr(transparent)]
pub struct Fp2(pub(crate) [Fp; 2]);

impl Fp2 {
    /// c0 + c1 u.
    pub const fn new(c0: Fp, c1: Fp) -> Self {
        Self([c0, c1])
    }
    /// The real part.
    pub const fn c0(&self) -> Fp {
        self.0[0]
    }
    /// The coefficient of u.
    pub const fn c1(&self) -> Fp {
        self.0[1]
    }
}

impl Field for Fp2 {
    const ZERO: Self = Self([Fp::ZERO; 2]);
    const ONE: Self = Self([Fp::ONE, Fp::ZERO]);
    #[inline(always)]
    fn square(&self) -> Self {
        blst::fp2_square(self)
    }
    fn inverse(&self) -> Self {
        blst::fp2_inverse(self)
    }
}

impl Add for Fp2 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self([self.0[0] + other.0[0], self.0[1] + other.0[1]])
    }
}

impl Sub for Fp2 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self([self.0[0] - other.0[0], self.0[1] - other.0[1]])
    }
}

impl Mul for Fp2 {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        blst::fp2_mul(&self, &other)
    }
}
derived_operators!(Fp2);

/// a < b for little-endian limbs.
fn less_than<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().rev().cmp(b.iter().rev()).is_lt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(limbs: &[u64]) -> BigUint {
        limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64u32) + *limb)
    }

    /// The curve's parameter; q and r are polynomials in it (Barreto, Lynn, Scott).
    #[test]
    fn moduli_are_those_of_the_curve() {
        // x = -0xd201000000010000: r = x^4 - x^2 + 1, q = (x - 1)^2 r / 3 + x
        let x = BigUint::from(0xd201_0000_0001_0000u64);
        let r = x.pow(4) - x.pow(2) + 1u8;
        assert_eq!(integer(&Fr::MODULUS), r);
        assert_eq!(integer(&Fp::MODULUS), (&x + 1u8).pow(2) * r / 3u8 - x);
    }

    #[test]
    fn one_is_r_modulo_the_modulus() {
        let two = BigUint::from(2u8);
        assert_eq!(integer(&Fr::ONE.0), two.modpow(&256u32.into(), &integer(&Fr::MODULUS)));
        assert_eq!(integer(&Fp::ONE.0), two.modpow(&384u32.into(), &integer(&Fp::MODULUS)));
    }

    #[test]
    fn roots_of_unity_are_powers_of_7_and_5() {
        let r = integer(&Fr::MODULUS);
        let t = (&r - 1u8) >> Fr::TWO_ADICITY;
        let root = |base: u8| Fr::from_biguint(&BigUint::from(base).modpow(&t, &r)).unwrap();
        assert_eq!(Fr::ROOT_OF_UNITY, root(7));
        assert_eq!(Fr::ROOT_OF_UNITY.pow(Fr::SNARKJS_ROOT_EXPONENT.into()), root(5));
        assert_eq!(Fr::root_of_unity(1), -Fr::ONE);
        assert_eq!(Fr::root_of_unity(0), Fr::ONE);
    }

    #[test]
    fn values_not_below_the_modulus_are_refused() {
        assert_eq!(Fr::from_canonical_limbs(Fr::MODULUS), None);
        assert_eq!(Fp::from_montgomery_limbs(Fp::MODULUS), None);
        assert_eq!(Fr::from_le_bytes(&[0xff; 32]), None);
        assert_eq!(Fr::from_biguint(&(BigUint::from(1u8) << 300u32)), None);
        let mut largest = Fr::MODULUS;
        largest[0] -= 1;
        assert_eq!(Fr::from_canonical_limbs(largest), Some(-Fr::ONE));
    }

    #[test]
    fn batch_inverse_leaves_zeros() {
        let mut values = [Fr::ZERO, Fr::from(2), Fr::from(3), Fr::ZERO, -Fr::ONE];
        let expected = values.map(|value| value.inverse());
        batch_inverse(&mut values);
        assert_eq!(values, expected);
        assert_eq!(values[1].double(), Fr::ONE);
    }

    #[test]
    fn random_scalars_differ() {
        assert_ne!(Fr::random().unwrap(), Fr::random().unwrap());
    }
}
