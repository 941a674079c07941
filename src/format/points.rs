//! Long arrays of points, read and checked block by block on all threads.

use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use super::scratch::Filling;
use super::{Cursor, Progress, Source};
use crate::array::Array;
use crate::backend::bit_reverse;
use crate::curve::subgroup::all_in_subgroup;
use crate::curve::{Affine, Coordinate};
use crate::field::{Field, Fp, Fr};
use crate::key::{Density, Query};
use crate::{Error, Result};

/// Points in one block: 1.5 MiB of G1, enough work for many threads.
const BLOCK: usize = 1 << 14;
/// Runs of 2^7 points, 12 KiB of G1, make a tile of a bit reversal a block.
const LOG_SIDE: u32 = 7;
/// Points whose order is checked together, which takes several rounds through them: 1.5 GiB of G1.
const ORDER_BLOCK: usize = 1 << 24;

/// How a file writes a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// Little-endian Montgomery limbs, x y or x.c0 x.c1 y.c0 y.c1; infinity is all zero.
    Snarkjs,
    /// Zcash uncompressed: big-endian canonical x y or x.c1 x.c0 y.c1 y.c0, flags in the top three bits.
    Zcash,
    /// Zcash compressed: x as above without y, of which the third flag says whether it is the larger root.
    ZcashCompressed,
}

impl Encoding {
    /// Bytes of one encoded point.
    pub const fn point_bytes<F: Coordinate>(self) -> u64 {
        match self {
            Self::Snarkjs | Self::Zcash => point_bytes::<F>(),
            Self::ZcashCompressed => point_bytes::<F>() / 2,
        }
    }
}

/// What to do with the points.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub encoding: Encoding,
    /// Whether points are checked to be on the curve and of order r.
    pub check: bool,
    /// Whether infinity may stand there.
    pub infinity: bool,
    /// Where arrays are put that memory may be too small for: see [`Options::scratch`](super::zkey::Options::scratch).
    pub scratch: Option<&'a Path>,
    pub progress: &'a dyn Progress,
}

/// Bytes of one encoded point with both coordinates.
pub(crate) const fn point_bytes<F: Coordinate>() -> u64 {
    size_of::<Affine<F>>() as u64
}

/// Decodes one point, which must be on the curve if points are checked; says what is wrong with it.
fn decode<F: Coordinate>(
    bytes: &[u8],
    reading: &Reading<'_>,
) -> std::result::Result<Affine<F>, &'static str> {
    let (bytes, _) = bytes.as_chunks::<48>();
    let mut coordinates = [Fp::ZERO; 4];
    let coordinates = &mut coordinates[..bytes.len()];
    let not_below_q = "a coordinate that is not below q";
    match reading.encoding {
        Encoding::Snarkjs => {
            for (coordinate, bytes) in coordinates.iter_mut().zip(bytes) {
                *coordinate = Fp::from_montgomery_limbs(limbs(bytes)).ok_or(not_below_q)?;
            }
        }
        Encoding::Zcash => {
            match bytes[0][0] & 0xe0 {
                0x00 => {}
                0x40 if bytes[0][0] == 0x40
                    && bytes.as_flattened()[1..].iter().all(|b| *b == 0) =>
                {
                    return infinity(reading);
                }
                0x40 => return Err("an infinity flag on a point that is not zero"),
                _ => return Err("the flags of another encoding"),
            }
            for (coordinate, bytes) in coordinates.iter_mut().zip(bytes) {
                let mut little_endian = *bytes;
                little_endian.reverse();
                *coordinate = Fp::from_le_bytes(&little_endian).ok_or(not_below_q)?;
            }
            // c1 stands before c0
            coordinates.chunks_mut(F::DEGREE).for_each(<[Fp]>::reverse);
            if coordinates.iter().all(|c| c.is_zero()) {
                return Err("the point (0, 0) without an infinity flag");
            }
        }
        Encoding::ZcashCompressed => return decompress(bytes.as_flattened(), reading),
    }
    let (x, y) = coordinates.split_at(F::DEGREE);
    let point = Affine([F::from_coefficients(x), F::from_coefficients(y)]);
    if point.is_infinity() {
        return infinity(reading);
    }
    if reading.check && !F::on_curve(&point) {
        return Err("a point that is not on the curve");
    }
    Ok(point)
}

/// Decodes one compressed point, which is on the curve if it is one at all. blst refuses x = 0 with all else: there are two points
/// with it on either curve, of which none has order r.
fn decompress<F: Coordinate>(
    bytes: &[u8],
    reading: &Reading<'_>,
) -> std::result::Result<Affine<F>, &'static str> {
    if bytes[0] & 0x80 == 0 {
        return Err("the flags of another encoding");
    }
    match F::decompress(bytes) {
        None => Err("no canonical encoding of a point on the curve with an x that is not 0"),
        Some(point) if point.is_infinity() => infinity(reading),
        Some(point) => Ok(point),
    }
}

fn infinity<F: Coordinate>(reading: &Reading<'_>) -> std::result::Result<Affine<F>, &'static str> {
    if reading.infinity { Ok(Affine::INFINITY) } else { Err("the point at infinity") }
}

fn limbs(bytes: &[u8; 48]) -> [u64; 6] {
    let mut limbs = [0; 6];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    limbs
}

/// An array of points in a source, which lies inside it. `what` names it in errors: "section 5 (A)".
pub(crate) struct Points<'a, S: ?Sized> {
    pub source: &'a S,
    pub what: &'a str,
    pub start: u64,
    pub count: usize,
}

impl<S: Source + ?Sized> Points<'_, S> {
    /// Decodes the points of `runs`, one run behind the other. Here they are checked one by one to be on the curve, but not for
    /// their order.
    fn decode<F: Coordinate>(
        &self,
        reading: Reading<'_>,
        runs: &[Range<usize>],
    ) -> Result<Vec<Affine<F>>> {
        let bytes = reading.encoding.point_bytes::<F>() as usize;
        let mut raw = vec![0; bytes * runs.iter().map(Range::len).sum::<usize>()];
        let mut rest = &mut raw[..];
        for run in runs {
            let (of_run, behind) = rest.split_at_mut(bytes * run.len());
            self.source.read_at(self.start + (run.start * bytes) as u64, of_run)?;
            rest = behind;
        }
        let decoded = raw.par_chunks_exact(bytes).with_min_len(1 << 8);
        let decoded: Vec<_> = decoded.map(|raw| decode::<F>(raw, &reading)).collect();
        reading.progress.advance(decoded.len() as u64);
        let indices = runs.iter().cloned().flatten();
        let checked = decoded.into_iter().zip(indices);
        checked
            .map(|(point, index)| point.map_err(|found| self.wrong::<F>(reading, index, found)))
            .collect()
    }

    /// All points, a block at a time.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<S> {
        let count = self.count;
        (0..count).step_by(BLOCK).map(move |first| first..count.min(first + BLOCK))
    }

    fn wrong<F: Coordinate>(&self, reading: Reading<'_>, index: usize, found: &str) -> Error {
        let offset = self.start + index as u64 * reading.encoding.point_bytes::<F>();
        let place = format!("{}, offset {offset}, point {index}", self.what);
        Error::invalid(place, found, format!("a point of {}", F::GROUP))
    }

    /// Checks all points, which stand in memory as they do in the source, without a copy of them.
    pub fn check<F: Coordinate>(&self, reading: Reading<'_>, points: &[Affine<F>]) -> Result<()> {
        for block in self.blocks() {
            self.decode::<F>(reading, &[block])?;
        }
        self.check_order(reading, points)
    }

    /// Checks that `points`, the source's but perhaps for infinity and in any order, are of order r, if points are checked: all
    /// together, and one by one if that fails, to say which one is not.
    fn check_order<F: Coordinate>(&self, reading: Reading<'_>, points: &[Affine<F>]) -> Result<()> {
        let mut pieces = points.chunks(ORDER_BLOCK).map(all_in_subgroup);
        if !reading.check || pieces.try_fold(true, |all, piece| Ok::<_, Error>(all && piece?))? {
            return Ok(());
        }
        let quietly = Reading { progress: &super::Silent, ..reading };
        for block in self.blocks() {
            let points: Vec<Affine<F>> = self.decode(quietly, std::slice::from_ref(&block))?;
            if let Some(index) = points.par_iter().position_first(|point| !F::in_subgroup(point)) {
                let found = "a point on the curve but outside the subgroup of order r";
                return Err(self.wrong::<F>(reading, block.start + index, found));
            }
        }
        Err(Error::invalid(
            self.what,
            "other points than a moment ago",
            "a file that stays as it is",
        ))
    }

    /// Reads all points in order.
    pub fn read<F: Coordinate>(&self, reading: Reading<'_>) -> Result<Array<Affine<F>>> {
        let mut out = Filling::new(reading.scratch, self.count)?;
        for block in self.blocks() {
            out.append(&self.decode(reading, &[block])?)?;
        }
        self.finish(reading, out)
    }

    /// Reads point i of 2^log_n, or of one less, to place `bit_reverse(i)`.
    ///
    /// In tiles of 2^side runs that are 2^side points long, in the file and in `out`: either may be larger than the memory.
    pub fn read_bit_reversed<F: Coordinate>(
        &self,
        reading: Reading<'_>,
        log_n: u32,
    ) -> Result<Array<Affine<F>>> {
        let mut out = Filling::new(reading.scratch, self.count)?;
        let side = LOG_SIDE.min(log_n / 2);
        let (run, log_runs, log_tiles) = (1 << side, log_n - side, log_n - 2 * side);
        let mut column = Vec::with_capacity(run);
        for tile in 0..1 << log_tiles {
            let runs = (0..run).map(|high| {
                let first = (high << log_runs) + tile * run;
                first..self.count.min(first + run)
            });
            let points = self.decode(reading, &runs.collect::<Vec<_>>())?;
            for low in 0..run {
                // Only the last point of all may be missing, which is the last of the last column.
                let place = |high| points.get(bit_reverse(high, side) * run + low);
                column.clear();
                column.extend((0..run).filter_map(place));
                let high = bit_reverse(low, side) << log_runs;
                out.put(high + bit_reverse(tile, log_tiles) * run, &column)?;
            }
        }
        self.finish(reading, out)
    }

    /// Reads point i to `place(i)`; each of the places is one point's.
    pub fn read_permuted<F: Coordinate>(
        &self,
        reading: Reading<'_>,
        place: impl Fn(usize) -> usize,
    ) -> Result<Array<Affine<F>>> {
        let mut out = Filling::new(reading.scratch, self.count)?;
        for block in self.blocks() {
            let points = self.decode(reading, std::slice::from_ref(&block))?;
            for (index, point) in block.zip(points) {
                out.put(place(index), &[point])?;
            }
        }
        self.finish(reading, out)
    }

    /// Reads a point a variable; those at infinity are left out, and the density says which are not.
    pub fn read_query<F: Coordinate>(&self, reading: Reading<'_>) -> Result<Query<F>> {
        // Room for all; what infinity leaves unused is never touched, and is given back.
        let mut out = Filling::new(reading.scratch, self.count)?;
        let mut present = Vec::with_capacity(self.count);
        for block in self.blocks() {
            let mut points: Vec<Affine<F>> = self.decode(reading, &[block])?;
            present.extend(points.iter().map(|point| !point.is_infinity()));
            points.retain(|point| !point.is_infinity());
            out.append(&points)?;
        }
        let points = self.finish(reading, out)?;
        Ok(Query { points, density: Some(Density::from_bits(present)) })
    }

    fn finish<F: Coordinate>(
        &self,
        reading: Reading<'_>,
        out: Filling<Affine<F>>,
    ) -> Result<Array<Affine<F>>> {
        let points = out.finish()?;
        self.check_order(reading, &points)?;
        Ok(points)
    }
}

/// How a file writes how many points follow.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// u32, big-endian: bellman.
    U32Big,
    /// u64, little-endian: arkworks.
    U64Little,
}

/// A counted array of points, found to lie inside its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<F> {
    pub name: &'static str,
    /// Offset of the first point.
    pub start: u64,
    pub count: usize,
    encoding: Encoding,
    coordinate: PhantomData<F>,
}

impl<F: Coordinate> Section<F> {
    /// The section whose count stands at `offset`, which lies inside `source` or at its end.
    pub fn find<S: Source + ?Sized>(
        source: &S,
        name: &'static str,
        offset: u64,
        count: Count,
        encoding: Encoding,
    ) -> Result<Self> {
        let width = match count {
            Count::U32Big => 4,
            Count::U64Little => 8,
        };
        let mut cursor = Cursor::new(source, name, offset, source.len().min(offset + width));
        let count = match count {
            Count::U32Big => u32::from_be_bytes(cursor.bytes("number of points")?).into(),
            Count::U64Little => cursor.u64("number of points")?,
        };
        let (start, bytes) = (offset + width, encoding.point_bytes::<F>());
        let left = source.len() - start;
        if count > left / bytes {
            let place = format!("{name}, offset {offset}, number of points");
            let expected = format!("at most {} in the remaining {left} bytes", left / bytes);
            return Err(Error::invalid(place, count, expected));
        }
        Ok(Self { name, start, count: count as usize, encoding, coordinate: PhantomData })
    }

    /// The offset behind the last point.
    pub fn end(&self) -> u64 {
        self.start + self.count as u64 * self.encoding.point_bytes::<F>()
    }

    /// The points, to be read in the section's encoding.
    pub fn points<'c, S: Source + ?Sized>(&self, source: &'c S) -> Points<'c, S> {
        Points { source, what: self.name, start: self.start, count: self.count }
    }
}

/// Reads one point at `start`.
pub(crate) fn read_point<F: Coordinate, S: Source + ?Sized>(
    source: &S,
    what: &str,
    start: u64,
    reading: Reading<'_>,
) -> Result<Affine<F>> {
    Ok(Points { source, what, start, count: 1 }.read(reading)?[0])
}

/// The bytes of a point in an encoding.
pub(crate) fn encode<F: Coordinate>(point: &Affine<F>, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Snarkjs => out.extend_from_slice(bytemuck::bytes_of(point)),
        Encoding::ZcashCompressed => F::compress(point, out),
        Encoding::Zcash => {
            let start = out.len();
            let coordinates: Vec<Fp> = F::coordinates(point).collect();
            for coordinate in coordinates.chunks(F::DEGREE).flat_map(|c| c.iter().rev()) {
                out.extend(coordinate.to_le_bytes().iter().rev());
            }
            if point.is_infinity() {
                out[start] |= 0x40;
            }
        }
    }
}

/// The raw limbs of a little-endian 32-byte number.
pub(crate) fn fr_limbs(bytes: &[u8; 32]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    limbs
}

/// A scalar from bytes that hold v R^2 mod r, as `.zkey` writes coefficients: one reduction makes v R.
pub(crate) fn fr_from_double_montgomery(bytes: &[u8; 32]) -> Option<Fr> {
    let raw = Fr::from_montgomery_limbs(fr_limbs(bytes))?;
    Fr::from_montgomery_limbs(raw.to_canonical_limbs())
}

/// The inverse of [`fr_from_double_montgomery`].
pub(crate) fn fr_to_double_montgomery(value: &Fr) -> [u8; 32] {
    let mut bytes = [0; 32];
    if let Some(double) = Fr::from_canonical_limbs(value.0) {
        for (chunk, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(double.0) {
            *chunk = limb.to_le_bytes();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::FixedBase;
    use crate::format::Silent;

    /// Points i + 1 times the generator, as `Encoding::Snarkjs` has them.
    fn points(count: usize) -> Vec<Affine<Fp>> {
        let scalars: Vec<Fr> = (1..=count as u64).map(Fr::from).collect();
        FixedBase::with_window(&Fp::generator(), 8).multiply(&scalars)
    }

    fn reading(scratch: Option<&Path>) -> Reading<'_> {
        let encoding = Encoding::Snarkjs;
        Reading { encoding, check: false, infinity: false, scratch, progress: &Silent }
    }

    #[test]
    fn points_are_put_where_their_bits_reversed_say() {
        let scratch = tempfile::tempdir().unwrap();
        let all = points(1 << 16);
        // 2^14 is the first with a whole tile, 2^15 and 2^16 have several.
        for log_n in 1..=16 {
            for count in [(1 << log_n) - 1, 1 << log_n] {
                let source: &[u8] = bytemuck::cast_slice(&all[..count]);
                let points = Points { source, what: "H", start: 0, count };
                for scratch in [None, Some(scratch.path())] {
                    let out: Array<Affine<Fp>> =
                        points.read_bit_reversed(reading(scratch), log_n).unwrap();
                    assert_eq!(out.len(), count);
                    let is_right = |i: usize| out[bit_reverse(i, log_n)] == all[i];
                    assert!((0..count).all(is_right), "2^{log_n}, {count} points");
                }
            }
        }
    }

    #[test]
    fn a_wrong_point_of_a_tile_is_named() {
        let mut all = points(1 << 15);
        all[12_345].0[1] = Fp::ZERO;
        let source: &[u8] = bytemuck::cast_slice(&all);
        let points = Points { source, what: "H", start: 0, count: all.len() };
        let checking = Reading { check: true, ..reading(None) };
        let error = points.read_bit_reversed::<Fp>(checking, 15).unwrap_err().to_string();
        assert!(error.contains("H, offset 1185120, point 12345"), "{error}");
    }
}
