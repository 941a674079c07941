//! Vectors of field elements in few bytes: most values of real circuits are bits or small.
//!
//! Each element has a tag of three bits: 0, 1, -1, a number below 2^32, the negative of one, or "wide", with 4
//! or 32 bytes behind it where needed. 64 elements share a block of 32 bytes, which holds their tags as three bit
//! planes and says where their small and wide values start, so that any block expands on its own:
//!
//! | what | bytes an element |
//! | --- | --- |
//! | 0, 1, -1 | 1/2 |
//! | below 2^32, or the negative | 4 1/2 |
//! | any other | 32 1/2 |
//!
//! A vector of wide values takes 1/64 more than its plain form.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;
use zeroize::Zeroize;

use crate::field::{Field, Fr};

/// Elements of one block.
pub const BLOCK: usize = 64;

/// The tags of 64 elements and where their values start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    /// Bit i of plane p is bit p of element i's tag.
    pub planes: [u64; 3],
    /// The index in `small` of the block's first small value.
    pub small: u32,
    /// The index in `wide` of the block's first wide value.
    pub wide: u32,
}

/// An element's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    Zero = 0,
    One = 1,
    MinusOne = 2,
    /// A number below 2^32.
    Small = 4,
    /// r minus a number below 2^32.
    NegativeSmall = 5,
    Wide = 6,
}

/// An element as it is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// 0.
    Zero,
    /// 1.
    One,
    /// -1.
    MinusOne,
    /// A number below 2^32.
    Small(u32),
    /// The negative of one.
    NegativeSmall(u32),
    /// Any other.
    Wide(Fr),
}

impl From<Value> for Fr {
    fn from(value: Value) -> Self {
        match value {
            Value::Zero => Self::ZERO,
            Value::One => Self::ONE,
            Value::MinusOne => -Self::ONE,
            Value::Small(value) => Self::from(u64::from(value)),
            Value::NegativeSmall(value) => -Self::from(u64::from(value)),
            Value::Wide(value) => value,
        }
    }
}

impl Block {
    /// Which of the elements are 1; -1; small; negative small; wide.
    fn masks(&self) -> [u64; 5] {
        let [low, middle, high] = self.planes;
        [low & !high, middle & !high, high & !middle & !low, high & low, high & middle]
    }

    /// Writes the block's elements to `out`, the first `out.len()` of them.
    pub fn expand(&self, small: &[u32], wide: &[Fr], out: &mut [Fr]) {
        let [one, minus_one, small_mask, negative, wide_mask] = self.masks();
        let (mut small, mut wide) =
            (small[self.small as usize..].iter(), wide[self.wide as usize..].iter());
        for (i, out) in out.iter_mut().enumerate() {
            let is = |mask: u64| mask >> i & 1 == 1;
            *out = if is(one) {
                Fr::ONE
            } else if is(minus_one) {
                -Fr::ONE
            } else if is(small_mask | negative) {
                let value = Fr::from(u64::from(small.next().copied().unwrap_or_default()));
                if is(negative) { -value } else { value }
            } else if is(wide_mask) {
                wide.next().copied().unwrap_or(Fr::ZERO)
            } else {
                Fr::ZERO
            };
        }
    }
}

/// How many elements a vector has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All.
    pub len: usize,
    /// Those below 2^32 that are not bits, and their negatives.
    pub small: usize,
    /// Wide ones.
    pub wide: usize,
}

impl Counts {
    /// Bytes of such a vector.
    pub fn bytes(&self) -> u64 {
        let Self { len, small, wide } = *self;
        let blocks = len.div_ceil(BLOCK) * size_of::<Block>();
        (blocks + small * size_of::<u32>() + wide * Fr::BYTES) as u64
    }
}

/// A vector in compact form, wiped when dropped. Elements are in natural order; wide values are in Montgomery form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compact {
    len: usize,
    blocks: Vec<Block>,
    small: Vec<u32>,
    wide: Vec<Fr>,
}

impl Compact {
    /// No elements, with room for `len`.
    pub fn with_capacity(len: usize) -> Self {
        let mut compact = Self::default();
        compact.blocks.reserve_exact(len.div_ceil(BLOCK));
        compact
    }

    /// No elements, with room for so many.
    pub fn with_counts(counts: Counts) -> Self {
        let mut compact = Self::with_capacity(counts.len);
        compact.small.reserve_exact(counts.small);
        compact.wide.reserve_exact(counts.wide);
        compact
    }

    /// How many elements of each kind there are.
    pub fn counts(&self) -> Counts {
        Counts { len: self.len, small: self.small.len(), wide: self.wide.len() }
    }

    /// Gives back the room that more elements would have had.
    pub fn shrink(&mut self) {
        fn shrink<T: Pod>(vector: &mut Vec<T>) {
            if vector.len() < vector.capacity() {
                move_wiping(vector, vector.len());
            }
        }
        shrink(&mut self.blocks);
        shrink(&mut self.small);
        shrink(&mut self.wide);
    }

    /// Appends an element.
    ///
    /// # Panics
    /// At 2^32 small or wide values.
    pub fn push(&mut self, value: &Fr) {
        let place = self.len % BLOCK;
        if place == 0 {
            let index = |len: usize| u32::try_from(len).expect("fewer than 2^32 values");
            let (small, wide) = (index(self.small.len()), index(self.wide.len()));
            push_wiping(&mut self.blocks, Block { planes: [0; 3], small, wide });
        }
        let tag = self.put(value) as u64;
        if let Some(block) = self.blocks.last_mut() {
            for (p, plane) in block.planes.iter_mut().enumerate() {
                *plane |= (tag >> p & 1) << place;
            }
        }
        self.len += 1;
    }

    /// Stores what a value needs beside its tag.
    fn put(&mut self, value: &Fr) -> Tag {
        if value.is_zero() {
            return Tag::Zero;
        } else if *value == Fr::ONE {
            return Tag::One;
        } else if *value == -Fr::ONE {
            return Tag::MinusOne;
        }
        let as_small = |value: &Fr| match value.to_canonical_limbs() {
            [low, 0, 0, 0] => u32::try_from(low).ok(),
            _ => None,
        };
        if let Some(small) = as_small(value) {
            push_wiping(&mut self.small, small);
            Tag::Small
        } else if let Some(small) = as_small(&-*value) {
            push_wiping(&mut self.small, small);
            Tag::NegativeSmall
        } else {
            push_wiping(&mut self.wide, *value);
            Tag::Wide
        }
    }

    /// The element at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, index: usize) -> Value {
        assert!(index < self.len, "element {index} of {}", self.len);
        let block = &self.blocks[index / BLOCK];
        let bit = 1u64 << (index % BLOCK);
        let [one, minus_one, small, negative, wide] = block.masks();
        let rank = |mask: u64| (mask & (bit - 1)).count_ones() as usize;
        let small_value = || self.small[block.small as usize + rank(small | negative)];
        match bit {
            _ if bit & one != 0 => Value::One,
            _ if bit & minus_one != 0 => Value::MinusOne,
            _ if bit & small != 0 => Value::Small(small_value()),
            _ if bit & negative != 0 => Value::NegativeSmall(small_value()),
            _ if bit & wide != 0 => Value::Wide(self.wide[block.wide as usize + rank(wide)]),
            _ => Value::Zero,
        }
    }

    /// Appends the elements of `other`.
    ///
    /// # Panics
    /// At 2^32 small or wide values.
    pub fn append(&mut self, other: &Self) {
        let index = |len: usize| u32::try_from(len).expect("fewer than 2^32 values");
        let (small, wide) = (index(self.small.len()), index(self.wide.len()));
        index(self.small.len() + other.small.len());
        index(self.wide.len() + other.wide.len());
        let (len, shift) = (self.len + other.len, self.len % BLOCK);
        let more = len.div_ceil(BLOCK) - self.blocks.len();
        reserve_wiping(&mut self.blocks, more);
        for block in &other.blocks {
            let mut moved = Block { small: block.small + small, wide: block.wide + wide, ..*block };
            if let (Some(last), 1..) = (self.blocks.last_mut(), shift) {
                // The first elements fill up the last block; what is left begins behind their values.
                let [_, _, small, negative, wide] = block.masks();
                let filling = |mask: u64| (mask << shift).count_ones();
                last.planes.iter_mut().zip(block.planes).for_each(|(to, p)| *to |= p << shift);
                moved.small += filling(small | negative);
                moved.wide += filling(wide);
                moved.planes = block.planes.map(|plane| plane >> (BLOCK - shift));
            }
            if self.blocks.len() < len.div_ceil(BLOCK) {
                self.blocks.push(moved);
            }
        }
        reserve_wiping(&mut self.small, other.small.len());
        self.small.extend_from_slice(&other.small);
        reserve_wiping(&mut self.wide, other.wide.len());
        self.wide.extend_from_slice(&other.wide);
        self.len = len;
    }

    /// `values` in compact form, packed on all threads.
    pub fn pack(values: &[Fr]) -> Self {
        // Parts of whole blocks, so that joining them moves only indices.
        let part = (BLOCK << 6)
            .max(values.len().div_ceil(4 * rayon::current_num_threads()).next_multiple_of(BLOCK));
        let pack = |values: &[Fr]| {
            let mut part = Self::with_capacity(values.len());
            values.iter().for_each(|value| part.push(value));
            part
        };
        let parts: Vec<Self> = values.par_chunks(part).map(pack).collect();
        let mut whole = Self::with_counts(Counts {
            len: values.len(),
            small: parts.iter().map(|part| part.small.len()).sum(),
            wide: parts.iter().map(|part| part.wide.len()).sum(),
        });
        parts.iter().for_each(|part| whole.append(part));
        whole
    }

    /// The elements in plain form.
    pub fn unpack(&self) -> Vec<Fr> {
        self.first(self.len)
    }

    /// The first `len` elements in plain form; all if there are fewer.
    pub fn first(&self, len: usize) -> Vec<Fr> {
        let mut out = vec![Fr::ZERO; len.min(self.len)];
        let each = out.par_chunks_mut(BLOCK).zip(&self.blocks).with_min_len(16);
        each.for_each(|(out, block)| block.expand(&self.small, &self.wide, out));
        out
    }

    /// Where the values of a part's elements stand: in `blocks`, `small` and `wide`.
    fn places(&self, range: &Range<usize>) -> [Range<usize>; 3] {
        debug_assert!(range.start.is_multiple_of(BLOCK));
        debug_assert!(range.end.is_multiple_of(BLOCK) || range.end == self.len);
        let (first, last) = (range.start / BLOCK, range.end.div_ceil(BLOCK));
        let at = |block: usize| match self.blocks.get(block) {
            Some(block) => [block.small as usize, block.wide as usize],
            None => [self.small.len(), self.wide.len()],
        };
        let ([small, wide], [small_end, wide_end]) = (at(first), at(last));
        [first..last, small..small_end, wide..wide_end]
    }

    /// Bytes of the elements of `range`, whole blocks up to the vector's end.
    pub fn slice_bytes(&self, range: Range<usize>) -> u64 {
        let [blocks, small, wide] = self.places(&range).map(|places| places.len());
        (blocks * size_of::<Block>() + small * size_of::<u32>() + wide * Fr::BYTES) as u64
    }

    /// The elements of `range`, whole blocks up to the vector's end, copied to a vector of their own.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let [blocks, small, wide] = self.places(&range);
        let (first_small, first_wide) = (small.start as u32, wide.start as u32);
        let moved = self.blocks[blocks].iter().map(|block| Block {
            small: block.small - first_small,
            wide: block.wide - first_wide,
            ..*block
        });
        Self {
            len: range.len(),
            blocks: moved.collect(),
            small: self.small[small].to_vec(),
            wide: self.wide[wide].to_vec(),
        }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tags, small values, wide values.
    pub(crate) fn parts(&self) -> (&[Block], &[u32], &[Fr]) {
        (&self.blocks, &self.small, &self.wide)
    }

    /// Bytes of blocks and values: what is held, staged and uploaded.
    pub fn bytes(&self) -> u64 {
        self.counts().bytes()
    }
}

impl Drop for Compact {
    fn drop(&mut self) {
        bytemuck::cast_slice_mut::<Block, u8>(&mut self.blocks).zeroize();
        self.small.zeroize();
        self.wide.zeroize();
    }
}

/// One array of a shared vector, by its element's type.
pub(crate) struct Part(pub Arc<Compact>);

impl AsRef<[Block]> for Part {
    fn as_ref(&self) -> &[Block] {
        &self.0.blocks
    }
}

impl AsRef<[u32]> for Part {
    fn as_ref(&self) -> &[u32] {
        &self.0.small
    }
}

impl AsRef<[Fr]> for Part {
    fn as_ref(&self) -> &[Fr] {
        &self.0.wide
    }
}

/// Appends to a vector; if it must move, what it leaves behind is wiped.
fn push_wiping<T: Pod>(vector: &mut Vec<T>, value: T) {
    if vector.len() == vector.capacity() {
        reserve_wiping(vector, 1);
    }
    vector.push(value);
}

/// Room for `additional` elements, or twice as many as there are; if the vector must move, what it leaves behind is wiped.
fn reserve_wiping<T: Pod>(vector: &mut Vec<T>, additional: usize) {
    let need = vector.len() + additional;
    if need > vector.capacity() {
        move_wiping(vector, need.max(2 * vector.len()).max(16));
    }
}

/// Moves a vector to where there is room for `capacity` elements, and wipes what it leaves behind.
fn move_wiping<T: Pod>(vector: &mut Vec<T>, capacity: usize) {
    let mut moved = Vec::with_capacity(capacity);
    moved.extend_from_slice(vector);
    bytemuck::cast_slice_mut::<T, u8>(vector).zeroize();
    *vector = moved;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge_values() -> Vec<Fr> {
        let wide = Fr::from(3).inverse();
        let limit = Fr::from(1 << 32);
        let mut values = vec![
            Fr::ZERO,
            Fr::ONE,
            -Fr::ONE,
            Fr::from(2),
            -Fr::from(2),
            limit - Fr::ONE,
            Fr::ONE - limit,
        ];
        values.extend([limit, -limit, Fr::from(u64::MAX), wide, -wide, wide * wide]);
        values
    }

    #[test]
    fn every_kind_comes_back_at_every_length() {
        let values = edge_values();
        for len in [0, 1, 63, 64, 65, 127, 128, 1000, 5000] {
            let vector: Vec<Fr> =
                (0..len).map(|i| values[(i * i + i / 7) % values.len()]).collect();
            let packed = Compact::pack(&vector);
            assert_eq!((packed.len(), packed.unpack()), (len, vector.clone()));
            let mut pushed = Compact::default();
            vector.iter().for_each(|value| pushed.push(value));
            assert_eq!(pushed, packed, "{len} elements one by one and on all threads");
        }
    }

    #[test]
    fn a_slice_has_its_elements_and_bytes() {
        let values = edge_values();
        let vector: Vec<Fr> = (0..500).map(|i| values[(i * i + i / 7) % values.len()]).collect();
        let whole = Compact::pack(&vector);
        for (start, end) in [(0, 0), (0, 500), (64, 128), (64, 500), (448, 500)] {
            let slice = whole.slice(start..end);
            assert_eq!(slice, Compact::pack(&vector[start..end]), "{start}..{end}");
            assert_eq!(slice.bytes(), whole.slice_bytes(start..end), "{start}..{end}");
        }
    }

    #[test]
    fn elements_are_found_and_vectors_joined_at_every_place() {
        let values = edge_values();
        let vector: Vec<Fr> = (0..300).map(|i| values[(i * i + i / 7) % values.len()]).collect();
        for cut in [0, 1, 7, 63, 64, 65, 127, 128, 129, 299, 300] {
            let mut joined = Compact::pack(&vector[..cut]);
            joined.append(&Compact::pack(&vector[cut..]));
            assert_eq!(joined, Compact::pack(&vector), "joined at {cut}");
            joined.append(&Compact::pack(&vector[..70]));
            assert_eq!(joined.unpack(), [&vector[..], &vector[..70]].concat(), "twice, {cut}");
        }
        let packed = Compact::pack(&vector);
        let found: Vec<Fr> = (0..vector.len()).map(|i| packed.get(i).into()).collect();
        assert_eq!(found, vector);
    }

    #[test]
    fn bytes_are_as_the_table_says() {
        let bytes = |value: Fr| Compact::pack(&[value; 6400]).bytes() as f64 / 6400.0;
        assert_eq!(bytes(Fr::ONE), 0.5);
        assert_eq!(bytes(-Fr::from(7)), 4.5);
        assert_eq!(bytes(Fr::from(3).inverse()), 32.5);
    }
}
