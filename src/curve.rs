//! The two groups of BLS12-381, G1 over Fp and G2 over Fp2, generic over the coordinate field.

pub(crate) mod batch;
pub(crate) mod buckets;
pub(crate) mod fixed_base;
#[cfg(target_arch = "x86_64")]
mod ifma;
pub(crate) mod subgroup;

use bytemuck::{Pod, Zeroable};

use crate::blst;
use crate::field::{Field, Fp, Fp2, Fr};

pub use self::fixed_base::FixedBase;

/// An affine point (x, y) in Montgomery coordinates; (0, 0), all bytes zero, is infinity. This is
/// the layout of snarkjs' keys (G1 = x y, G2 = x.c0 x.c1 y.c0 y.c1), of blst, and of device buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Affine<F>(pub(crate) [F; 2]);

/// A point in Jacobian coordinates: affine (X/Z^2, Y/Z^3), infinity when Z = 0.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Point<F>(pub(crate) [F; 3]);

/// A point of G1, 96 bytes.
pub type G1Affine = Affine<Fp>;
/// A point of G2, 192 bytes.
pub type G2Affine = Affine<Fp2>;

/// The coordinate field of one of the groups: Fp stands for G1, Fp2 for G2. Everything that is
/// written once for both, the MSM above all, is generic over it.
pub trait Coordinate: Field {
    /// "G1" or "G2", for messages and labels.
    const GROUP: &'static str;
    /// The field's elements of Fp: 1 or 2.
    const DEGREE: usize;
    /// a + b, complete.
    fn point_add(a: &Point<Self>, b: &Point<Self>) -> Point<Self>;
    /// a + b for affine b, complete.
    fn point_add_affine(a: &Point<Self>, b: &Affine<Self>) -> Point<Self>;
    /// 2a.
    fn point_double(a: &Point<Self>) -> Point<Self>;
    /// s a.
    fn scale(a: &Point<Self>, s: &Fr) -> Point<Self>;
    /// The affine form: one inversion.
    fn to_affine(a: &Point<Self>) -> Affine<Self>;
    /// The Jacobian form with Z = 1.
    fn from_affine(a: &Affine<Self>) -> Point<Self>;
    /// Whether the coordinates satisfy the curve equation; true for infinity.
    fn on_curve(a: &Affine<Self>) -> bool;
    /// Whether a point on the curve has order r; true for infinity.
    fn in_subgroup(a: &Affine<Self>) -> bool;
    /// The standard generator.
    fn generator() -> Affine<Self>;
    /// The coordinates as elements of Fp: x, y or x.c0, x.c1, y.c0, y.c1.
    fn coordinates(a: &Affine<Self>) -> impl Iterator<Item = Fp>;
    /// The element with these coefficients (`DEGREE` of them).
    fn from_coefficients(c: &[Fp]) -> Self;
    /// Appends the Zcash compressed form, half as long as the two coordinates.
    fn compress(a: &Affine<Self>, out: &mut Vec<u8>);
    /// The point of a compressed form; `None` if it is malformed or has no point on the curve. The subgroup is not
    /// checked.
    fn decompress(bytes: &[u8]) -> Option<Affine<Self>>;
}

macro_rules! coordinate {
    ($field:ty, $group:literal, $degree:literal, $add:ident, $add_affine:ident, $double:ident, $mul:ident, $to_affine:ident,
     $from_affine:ident, $on_curve:ident, $in_subgroup:ident, $generator:ident, $compress:ident, $decompress:ident,
     |$v:ident| $split:expr, |$c:ident| $join:expr) => {
        impl Coordinate for $field {
            const GROUP: &'static str = $group;
            const DEGREE: usize = $degree;
            fn point_add(a: &Point<Self>, b: &Point<Self>) -> Point<Self> {
                blst::$add(a, b)
            }
            fn point_add_affine(a: &Point<Self>, b: &Affine<Self>) -> Point<Self> {
                blst::$add_affine(a, b)
            }
            fn point_double(a: &Point<Self>) -> Point<Self> {
                blst::$double(a)
            }
            fn scale(a: &Point<Self>, s: &Fr) -> Point<Self> {
                blst::$mul(a, &s.to_le_bytes())
            }
            fn to_affine(a: &Point<Self>) -> Affine<Self> {
                blst::$to_affine(a)
            }
            fn from_affine(a: &Affine<Self>) -> Point<Self> {
                blst::$from_affine(a)
            }
            fn on_curve(a: &Affine<Self>) -> bool {
                a.is_infinity() || blst::$on_curve(a)
            }
            fn in_subgroup(a: &Affine<Self>) -> bool {
                a.is_infinity() || blst::$in_subgroup(a)
            }
            fn generator() -> Affine<Self> {
                blst::$generator()
            }
            fn coordinates(a: &Affine<Self>) -> impl Iterator<Item = Fp> {
                a.0.into_iter().flat_map(|$v| $split)
            }
            fn from_coefficients($c: &[Fp]) -> Self {
                $join
            }
            fn compress(a: &Affine<Self>, out: &mut Vec<u8>) {
                out.extend(blst::$compress(a));
            }
            fn decompress(bytes: &[u8]) -> Option<Affine<Self>> {
                bytes.try_into().ok().and_then(blst::$decompress)
            }
        }
    };
}
coordinate!(
    Fp,
    "G1",
    1,
    g1_add,
    g1_add_affine,
    g1_double,
    g1_mul,
    g1_to_affine,
    g1_from_affine,
    g1_on_curve,
    g1_in_subgroup,
    g1_generator,
    g1_compress,
    g1_uncompress,
    |v| [v],
    |c| c[0]
);
coordinate!(
    Fp2,
    "G2",
    2,
    g2_add,
    g2_add_affine,
    g2_double,
    g2_mul,
    g2_to_affine,
    g2_from_affine,
    g2_on_curve,
    g2_in_subgroup,
    g2_generator,
    g2_compress,
    g2_uncompress,
    |v| v.0,
    |c| Fp2::new(c[0], c[1])
);

impl<F: Coordinate> Affine<F> {
    /// The neutral element.
    pub const INFINITY: Self = Self([F::ZERO; 2]);

    /// The point (x, y); neither the curve nor the subgroup is checked.
    pub const fn from_xy_unchecked(x: F, y: F) -> Self {
        Self([x, y])
    }
    /// The x coordinate.
    pub const fn x(&self) -> F {
        self.0[0]
    }
    /// The y coordinate.
    pub const fn y(&self) -> F {
        self.0[1]
    }
    /// Whether this is the neutral element.
    #[inline(always)]
    pub fn is_infinity(&self) -> bool {
        self.0[0].is_zero() && self.0[1].is_zero()
    }
    /// The inverse, (x, -y).
    pub fn neg(&self) -> Self {
        Self([self.0[0], -self.0[1]])
    }
    /// The Jacobian form.
    pub fn to_point(&self) -> Point<F> {
        F::from_affine(self)
    }
    /// Whether every coordinate's limbs are below q, the one form that is ever computed with.
    pub fn is_canonical(&self) -> bool {
        F::coordinates(self).all(|c| Fp::from_montgomery_limbs(c.0).is_some())
    }
    /// On the curve and of order r (infinity passes). The coordinates must be canonical.
    pub fn is_valid(&self) -> bool {
        F::on_curve(self) && F::in_subgroup(self)
    }
}

impl<F: Coordinate> Point<F> {
    /// The neutral element.
    pub const INFINITY: Self = Self([F::ZERO; 3]);

    /// The affine form: one inversion.
    pub fn to_affine(&self) -> Affine<F> {
        F::to_affine(self)
    }
    /// Twice the point.
    pub fn double(&self) -> Self {
        F::point_double(self)
    }
    /// `s` times the point. Not constant in time.
    pub fn scale(&self, s: &Fr) -> Self {
        F::scale(self, s)
    }
}

impl<F: Coordinate> std::ops::Add for Point<F> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        F::point_add(&self, &other)
    }
}

impl<F: Coordinate> std::ops::Add<Affine<F>> for Point<F> {
    type Output = Self;
    fn add(self, other: Affine<F>) -> Self {
        F::point_add_affine(&self, &other)
    }
}

impl<F: Coordinate> PartialEq for Point<F> {
    fn eq(&self, other: &Self) -> bool {
        self.to_affine() == other.to_affine()
    }
}

impl G1Affine {
    /// Zcash compressed form, 48 bytes big-endian with flags.
    pub fn to_compressed(&self) -> [u8; 48] {
        blst::g1_compress(self)
    }
    /// The point of a compressed encoding; `None` if it is malformed or has no point on the curve.
    /// The subgroup is not checked.
    pub fn from_compressed(bytes: &[u8; 48]) -> Option<Self> {
        blst::g1_uncompress(bytes)
    }
}

impl G2Affine {
    /// Zcash compressed form, 96 bytes big-endian (x.c1, x.c0) with flags.
    pub fn to_compressed(&self) -> [u8; 96] {
        blst::g2_compress(self)
    }
    /// See [`G1Affine::from_compressed`].
    pub fn from_compressed(bytes: &[u8; 96]) -> Option<Self> {
        blst::g2_uncompress(bytes)
    }
}
