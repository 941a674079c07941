//! Long arrays of points, read and checked block by block on all threads.

use rayon::prelude::*;

use super::{Progress, Source};
use crate::curve::{Affine, Coordinate};
use crate::field::{Fp, Fr};
use crate::{Error, Result};

/// Points in one block: 1.5 MiB of G1, enough work for many threads.
const BLOCK: usize = 1 << 14;

/// How a file writes a point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Little-endian Montgomery limbs, x y or x.c0 x.c1 y.c0 y.c1; infinity is all zero.
    Snarkjs,
    /// Zcash uncompressed: big-endian canonical x y or x.c1 x.c0 y.c1 y.c0, flags in the top three bits.
    Zcash,
}

/// What to do with the points.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub encoding: Encoding,
    /// Whether points are checked to be on the curve and of order r.
    pub check: bool,
    /// Whether infinity may stand there.
    pub infinity: bool,
    pub progress: &'a dyn Progress,
}

/// Bytes of one encoded point, the same in both encodings.
pub(crate) const fn point_bytes<F: Coordinate>() -> u64 {
    size_of::<Affine<F>>() as u64
}

/// Decodes one point and checks it; says what is wrong with it.
fn decode<F: Coordinate>(
    bytes: &[u8],
    reading: &Reading<'_>,
) -> std::result::Result<Affine<F>, &'static str> {
    let mut bytes: Vec<[u8; 48]> = bytes.as_chunks::<48>().0.to_vec();
    let point = match reading.encoding {
        Encoding::Snarkjs => {
            let coordinates: Option<Vec<Fp>> =
                bytes.iter().map(|b| Fp::from_montgomery_limbs(limbs(b))).collect();
            from_coordinates::<F>(&coordinates.ok_or("a coordinate that is not below q")?)
        }
        Encoding::Zcash => {
            let flags = bytes[0][0] & 0xe0;
            bytes[0][0] &= 0x1f;
            match flags {
                0x00 => {}
                0x40 if bytes.iter().all(|b| *b == [0; 48]) => return infinity(reading),
                0x40 => return Err("an infinity flag on a point that is not zero"),
                _ => return Err("the flags of another encoding"),
            }
            let coordinates: Option<Vec<Fp>> = bytes
                .iter_mut()
                .map(|b| {
                    b.reverse();
                    Fp::from_le_bytes(b)
                })
                .collect();
            let mut coordinates = coordinates.ok_or("a coordinate that is not below q")?;
            coordinates.chunks_mut(F::DEGREE).for_each(<[Fp]>::reverse);
            let point = from_coordinates::<F>(&coordinates);
            if point.is_infinity() {
                return Err("the point (0, 0) without an infinity flag");
            }
            point
        }
    };
    if point.is_infinity() {
        return infinity(reading);
    }
    if reading.check {
        if !F::on_curve(&point) {
            return Err("a point that is not on the curve");
        }
        if !F::in_subgroup(&point) {
            return Err("a point on the curve but outside the subgroup of order r");
        }
    }
    Ok(point)
}

fn infinity<F: Coordinate>(reading: &Reading<'_>) -> std::result::Result<Affine<F>, &'static str> {
    if reading.infinity { Ok(Affine::INFINITY) } else { Err("the point at infinity") }
}

fn from_coordinates<F: Coordinate>(c: &[Fp]) -> Affine<F> {
    let (x, y) = c.split_at(F::DEGREE);
    Affine([F::from_coefficients(x), F::from_coefficients(y)])
}

fn limbs(bytes: &[u8; 48]) -> [u64; 6] {
    let mut limbs = [0; 6];
    for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    limbs
}

/// Reads `count` points from `start`, which lie inside the source, and hands them in order to
/// `sink(index, point)`. `what` names them in errors: "section 5 (A), point 17".
pub(crate) fn for_each_point<F: Coordinate, S: Source + ?Sized>(
    source: &S,
    what: &str,
    start: u64,
    count: usize,
    reading: Reading<'_>,
    mut sink: impl FnMut(usize, Affine<F>),
) -> Result<()> {
    let bytes = point_bytes::<F>() as usize;
    let mut raw = vec![0; bytes * BLOCK.min(count)];
    for first in (0..count).step_by(BLOCK) {
        let len = BLOCK.min(count - first);
        let raw = &mut raw[..bytes * len];
        source.read_at(start + (first * bytes) as u64, raw)?;
        let points: Vec<_> =
            raw.par_chunks_exact(bytes).map(|raw| decode::<F>(raw, &reading)).collect();
        for (i, point) in points.into_iter().enumerate() {
            let index = first + i;
            let point = point.map_err(|found| {
                let place =
                    format!("{what}, offset {}, point {index}", start + (index * bytes) as u64);
                Error::invalid(place, found, format!("a point of {}", F::GROUP))
            })?;
            sink(index, point);
        }
        reading.progress.advance(len as u64);
    }
    Ok(())
}

/// Reads one point at `start`; see [`for_each_point`].
pub(crate) fn read_point<F: Coordinate, S: Source + ?Sized>(
    source: &S,
    what: &str,
    start: u64,
    reading: Reading<'_>,
) -> Result<Affine<F>> {
    let mut out = Affine::INFINITY;
    for_each_point(source, what, start, 1, reading, |_, point| out = point)?;
    Ok(out)
}

/// The bytes of a point in an encoding.
pub(crate) fn encode<F: Coordinate>(point: &Affine<F>, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Snarkjs => out.extend_from_slice(bytemuck::bytes_of(point)),
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
