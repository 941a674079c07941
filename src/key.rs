//! Proving and verifying keys in the form the prover computes with.
//!
//! Whatever file a key comes from, in memory its points are affine and Montgomery, points at
//! infinity are left out of the queries (a bitmap says which variables have a point), and its
//! domain is that of the root of unity 7^t: a snarkjs key, made with 5^t, is permuted when it is read.

mod checked;

use std::ops::Range;

use crate::array::Array;
use crate::backend::Matrix;
use crate::curve::{Affine, Coordinate, G1Affine, G2Affine};
use crate::field::{Fp, Fp2};
use crate::{Error, Result};

pub use checked::{Check, Checked, CheckedKeys, LoadedKey, load_key, load_large_key};

/// The basis of the H query, which decides the last steps of the quotient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// bellman, arkworks: `H_i` = tau^i Z(tau)/delta for n - 1 coefficients of h.
    Coefficients,
    /// snarkjs: `H_i` = L_{2i+1}(tau)/delta for the n values of A B - C on the odd 2n-th roots of unity.
    OddCoset,
}

/// What verifies a proof.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyingKey {
    /// alpha in G1.
    pub alpha_g1: G1Affine,
    /// beta in G2.
    pub beta_g2: G2Affine,
    /// gamma in G2.
    pub gamma_g2: G2Affine,
    /// delta in G2.
    pub delta_g2: G2Affine,
    /// One point for the constant 1, then one for each public input.
    pub ic: Vec<G1Affine>,
}

impl VerifyingKey {
    /// Public inputs, without the constant 1.
    pub fn public_inputs(&self) -> usize {
        self.ic.len() - 1
    }

    /// Whether gamma equals delta: no second phase was ever done, and anyone can forge proofs.
    pub fn is_insecure(&self) -> bool {
        self.gamma_g2 == self.delta_g2
    }

    /// Why anyone could forge proofs for this key, if it shows in the key.
    pub fn insecurity(&self) -> Option<&'static str> {
        self.is_insecure().then_some("gamma equals delta: the second phase was never done")
    }
}

/// A set of variables as bits, least significant first; bits beyond the length are clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Density {
    /// The bits.
    pub words: Array<u64>,
    /// Variables, set or not.
    pub len: usize,
}

impl Density {
    /// The set whose members `bits` says in order.
    pub fn from_bits(bits: impl IntoIterator<Item = bool>) -> Self {
        let (mut words, mut len) = (Vec::new(), 0);
        for bit in bits {
            if len % 64 == 0 {
                words.push(0);
            }
            if let Some(word) = words.last_mut() {
                *word |= u64::from(bit) << (len % 64);
            }
            len += 1;
        }
        Self { words: words.into(), len }
    }

    /// All of `len` variables.
    pub fn full(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(64)];
        if let (Some(last), bits @ 1..) = (words.last_mut(), len % 64) {
            *last = (1 << bits) - 1;
        }
        Self { words: words.into(), len }
    }

    /// The members of `self`, and those of `next` behind its variables.
    pub fn followed_by(&self, next: &Self) -> Self {
        let mut words = self.words.to_vec();
        let len = append_bits(&mut words, self.len, &next.words, next.len);
        Self { words: words.into(), len }
    }

    /// The bits in order.
    pub fn bits(&self) -> impl Iterator<Item = bool> + '_ {
        let words = &self.words[..];
        (0..self.len).map(move |i| words[i / 64] >> (i % 64) & 1 == 1)
    }

    /// The members of `range`, counted from its start.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let (first, shift, len) = (range.start / 64, range.start % 64, range.len());
        let word = |index: usize| self.words.get(first + index).copied().unwrap_or_default();
        let shifted = |index| match shift {
            0 => word(index),
            _ => word(index) >> shift | word(index + 1) << (64 - shift),
        };
        let mut words: Vec<u64> = (0..len.div_ceil(64)).map(shifted).collect();
        if let (Some(last), bits @ 1..) = (words.last_mut(), len % 64) {
            *last &= (1 << bits) - 1;
        }
        Self { words: words.into(), len }
    }

    /// Members.
    pub fn ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// Appends `more_len` bits to `len` in `words`, and gives the sum. Bits beyond the lengths are clear.
pub(crate) fn append_bits(
    words: &mut Vec<u64>,
    len: usize,
    more: &[u64],
    more_len: usize,
) -> usize {
    let (sum, shift) = (len + more_len, len % 64);
    words.reserve(sum.div_ceil(64) - words.len());
    for &word in more {
        match (words.last_mut(), shift) {
            (Some(last), 1..) => {
                *last |= word << shift;
                words.push(word >> (64 - shift));
            }
            _ => words.push(word),
        }
    }
    words.truncate(sum.div_ceil(64));
    sum
}

/// The points of one query that are not infinity.
#[derive(Clone, Debug)]
pub struct Query<F> {
    /// The points, in the order of their variables.
    pub points: Array<Affine<F>>,
    /// Which variables have a point; `None` where the key does not say and the assignment must
    /// (bellman).
    pub density: Option<Density>,
}

/// Everything a proof is made from but the witness.
#[derive(Clone, Debug)]
pub struct ProvingKey {
    /// The domain has 2^log_n points.
    pub log_n: u32,
    /// The constant 1 and the public inputs.
    pub inputs: usize,
    /// Inputs and private variables.
    pub variables: usize,
    /// The basis of `h`.
    pub basis: Basis,
    /// What verifies the proofs.
    pub vk: VerifyingKey,
    /// beta in G1.
    pub beta_g1: G1Affine,
    /// delta in G1.
    pub delta_g1: G1Affine,
    /// A in G1, over all variables.
    pub a: Query<Fp>,
    /// B in G1, over all variables.
    pub b_g1: Query<Fp>,
    /// B in G2, over all variables.
    pub b_g2: Query<Fp2>,
    /// L, over the private variables.
    pub l: Query<Fp>,
    /// H: with [`Basis::OddCoset`] n points in natural order, with [`Basis::Coefficients`] n - 1 points, that of
    /// coefficient j at place `bit_reverse(j)`.
    pub h: Array<G1Affine>,
    /// The matrices A and B, where the key has them; row i is the domain's point i.
    pub matrices: Option<[Matrix; 2]>,
}

impl ProvingKey {
    /// Bytes of the points and matrices: what a device holds to keep the key resident.
    pub fn bytes(&self) -> u64 {
        fn query<F: Coordinate>(query: &Query<F>) -> u64 {
            let density = query.density.as_ref().map_or(0, |d| size_of_val(&d.words[..]));
            (size_of_val(&query.points[..]) + density) as u64
        }
        let matrices = self.matrices.iter().flatten().map(Matrix::bytes).sum::<u64>();
        query(&self.a)
            + query(&self.b_g1)
            + query(&self.b_g2)
            + query(&self.l)
            + size_of_val(&self.h[..]) as u64
            + matrices
    }
}

/// Why anyone could forge proofs for a key, if that shows in it or in its ceremony's record, where there is one.
pub(crate) fn insecurity(vk: &VerifyingKey, contributions: Option<u32>) -> Option<&'static str> {
    let no_contribution = "no contribution is recorded: the key is not from a ceremony";
    vk.insecurity().or((contributions == Some(0)).then_some(no_contribution))
}

/// The log2 of a domain's size, which must be a power of two from 2 to 2^31: the odd coset needs
/// the 2n-th root of unity, and r - 1 has 2^32.
pub(crate) fn log_domain(place: &str, n: u64) -> Result<u32> {
    if n.is_power_of_two() && (2..=1 << 31).contains(&n) {
        return Ok(n.ilog2());
    }
    Err(Error::invalid(place, n, "a power of two from 2 to 2^31"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_are_cut_and_joined() {
        let bits: Vec<bool> = (0..300u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 30 == 1).collect();
        let density = Density::from_bits(bits.iter().copied());
        for start in [0, 1, 63, 64, 65, 130, 300] {
            for end in (start..=300).step_by(7).chain([300]) {
                let want = Density::from_bits(bits[start..end].iter().copied());
                assert_eq!(density.slice(start..end), want, "{start}..{end}");
                let (before, behind) = (density.slice(0..start), density.slice(start..end));
                assert_eq!(before.followed_by(&behind), density.slice(0..end), "{start}, {end}");
            }
        }
    }
}
