//! What the tests share: an independent oracle, spoiled backends, test vectors, and numbers that
//! look random and are the same every time.
#![allow(dead_code, reason = "every test binary uses a part")]

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
pub mod cuda_loss;
pub mod faulty;
pub mod fixture;
pub mod oracle;
pub mod vectors;
#[cfg(feature = "wgpu")]
pub mod wgpu;

use forebay::backend::virtual_card::CardModel;

/// A card whose times are easy to work out: 10 bytes a nanosecond to it and 5 from it, 1 element, 2 butterflies; 10
/// nanoseconds for a point of G1 and 40 for one of G2.
pub fn card_model(memory_bytes: u64) -> CardModel {
    CardModel {
        name: "a card of round numbers".into(),
        memory_bytes,
        max_buffer_bytes: memory_bytes,
        upload_bytes_per_s: 10_000_000_000,
        download_bytes_per_s: 5_000_000_000,
        g1_points_per_s: 100_000_000,
        g2_points_per_s: 25_000_000,
        butterflies_per_s: 2_000_000_000,
        elements_per_s: 1_000_000_000,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough to choose cases, nothing to keep secrets with.
pub struct Random(u64);

impl Random {
    /// Prints the seed, which the harness shows when the test fails.
    pub fn new(what: &str, seed: u64) -> Self {
        println!("{what}: seed {seed:#x}");
        Self(seed)
    }

    /// For fillers, whose values cannot matter.
    pub fn silent(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias of the remainder is of no consequence here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    /// `len` numbers of any 64 bits.
    pub fn words(&mut self, len: usize) -> Vec<u64> {
        (0..len).map(|_| self.word()).collect()
    }

    /// Any scalar, by rejection.
    pub fn scalar(&mut self) -> oracle::Scalar {
        loop {
            let mut limbs = [0; 4].map(|_| self.word());
            limbs[3] &= u64::MAX >> 1;
            if let Some(scalar) = oracle::canonical(limbs) {
                return scalar;
            }
        }
    }

    /// `len` scalars.
    pub fn scalars(&mut self, len: usize) -> Vec<oracle::Scalar> {
        (0..len).map(|_| self.scalar()).collect()
    }
}
