//! The kernels: their texts, what they bind, how much they do. The only list of them.

use bytemuck::{Pod, Zeroable};

use super::ntt::{LANES as NTT_LANES, TILE};
use crate::backend::shader::{self, Core, Prime, Registers};
use crate::curve::Coordinate;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It only reads.
    Read,
    /// It writes, and may read.
    Write,
}

use Access::{Read, Write};

/// A kernel. Each is a module with one entry point, `main`: parameters, a uniform, at binding 0, storage buffers from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// Writes a submission's number.
    Mark,
    /// Products one after another, to measure how fast a core is.
    Products(Prime),
    /// A pointwise step of the quotient.
    Quotient,
    /// Elements of a compact vector.
    Expand,
    /// Sums of parts of rows.
    Matvec,
    /// The levels of a transform over one digit, within segments.
    Ntt,
    /// One level of a transform across two segments.
    NttAcross,
    /// Sums of tiles of numbers.
    ScanTiles,
    /// Sums of the tiles before each.
    ScanSums,
    /// Sums of the numbers before each.
    ScanPlace,
    /// Set bits of the words of a density.
    MsmRanks,
    /// Digits of scalars, counted by bucket.
    MsmDigits,
    /// Entries sorted by bucket.
    MsmScatter,
    /// Sums of runs of entries.
    MsmAccumulate(Curve),
    /// Sums of buckets that cross runs.
    MsmJoin(Curve),
    /// Sums of segments of buckets.
    MsmReduce(Curve),
    /// Sums of a few points.
    MsmFold(Curve),
    /// Scalars in canonical form.
    MultiplesScalars,
    /// Multiples as sums.
    MultiplesAdd(Curve),
    /// Affine forms of sums.
    MultiplesAffine(Curve),
}

/// One of the two groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// Over Fp.
    G1,
    /// Over Fp2.
    G2,
}

/// What the modules of kernels over a curve differ by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Curve {
    /// The group.
    pub group: Group,
    /// Where threads have their registers.
    pub registers: Registers,
}

impl Curve {
    /// The curve with coordinates F.
    pub(super) fn of<F: Coordinate>(registers: Registers) -> Self {
        let group = if F::DEGREE == 1 { Group::G1 } else { Group::G2 };
        Self { group, registers }
    }

    fn degree(self) -> usize {
        match self.group {
            Group::G1 => 1,
            Group::G2 => 2,
        }
    }
}

/// What a kernel is made from.
#[derive(Clone, Copy)]
struct Spec {
    name: &'static str,
    /// The field, if it computes in one.
    prime: Option<Prime>,
    /// The curve, if it computes on one.
    curve: Option<Curve>,
    texts: &'static [&'static str],
    constants: &'static [(&'static str, u32)],
    bindings: &'static [Access],
    /// Products of Fr that a workgroup takes as long as, about.
    products: u64,
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../../../shaders/", $name, ".wgsl"))
    };
}

/// Threads of a workgroup of the pointwise kernels.
pub(super) const LANES: u32 = 64;
/// Threads of a workgroup of the scans, and numbers of each.
pub(super) const SCAN_LANES: u32 = 256;
pub(super) const SCAN_RUN: u32 = 8;
/// Threads of a workgroup of the matrix-vector product.
pub(super) const ROWS: u32 = 256;
/// Products that a thread of [`Kernel::Products`] does in a turn.
pub(super) const CHAIN: u32 = 64;

impl Kernel {
    /// Those that are not over a curve.
    const PLAIN: &[Self] = &[
        Self::Mark,
        Self::Products(Prime::Fr),
        Self::Products(Prime::Fp),
        Self::Quotient,
        Self::Expand,
        Self::Matvec,
        Self::Ntt,
        Self::NttAcross,
        Self::ScanTiles,
        Self::ScanSums,
        Self::ScanPlace,
        Self::MsmRanks,
        Self::MsmDigits,
        Self::MsmScatter,
        Self::MultiplesScalars,
    ];

    /// Those over a curve, for each.
    const OVER_CURVES: [fn(Curve) -> Self; 6] = [
        Self::MsmAccumulate,
        Self::MsmJoin,
        Self::MsmReduce,
        Self::MsmFold,
        Self::MultiplesAdd,
        Self::MultiplesAffine,
    ];

    /// All kernels with registers in one place or the other.
    pub fn all(registers: Registers) -> impl Iterator<Item = Self> {
        let groups = [Group::G1, Group::G2].into_iter();
        let curves = groups.map(move |group| Curve { group, registers });
        let over = curves.flat_map(|curve| Self::OVER_CURVES.into_iter().map(move |of| of(curve)));
        Self::PLAIN.iter().copied().chain(over)
    }

    /// Those that are built when a device is opened.
    pub(super) fn of_backend(registers: Registers) -> impl Iterator<Item = Self> {
        Self::all(registers).filter(|kernel| !matches!(kernel, Self::Products(_)))
    }

    fn spec(self) -> Spec {
        let fr = Spec {
            name: "",
            prime: Some(Prime::Fr),
            curve: None,
            texts: &[],
            constants: &[("LANES", LANES)],
            bindings: &[],
            products: LANES as u64,
        };
        let scan = Spec {
            prime: None,
            constants: &[("LANES", SCAN_LANES), ("RUN", SCAN_RUN)],
            products: SCAN_LANES as u64,
            ..fr
        };
        match self {
            Self::Mark => Spec {
                name: "mark",
                prime: None,
                curve: None,
                texts: &[text!("mark")],
                constants: &[],
                bindings: &[Write],
                products: 1,
            },
            Self::Products(prime) => Spec {
                name: match prime {
                    Prime::Fr => "products of Fr",
                    Prime::Fp => "products of Fp",
                },
                prime: Some(prime),
                curve: None,
                texts: &[text!("group"), text!("products")],
                constants: &[("LANES", LANES)],
                bindings: &[Write],
                products: (LANES * CHAIN) as u64,
            },
            Self::Quotient => Spec {
                name: "quotient",
                texts: &[text!("group"), text!("fr"), text!("quotient")],
                bindings: &[Write, Read],
                ..fr
            },
            Self::Expand => Spec {
                name: "expand",
                texts: &[text!("group"), text!("fr"), text!("expand")],
                bindings: &[Read, Read, Read, Write],
                products: 2 * LANES as u64,
                ..fr
            },
            Self::Matvec => Spec {
                name: "matvec",
                texts: &[text!("group"), text!("fr"), text!("matvec")],
                constants: &[("ROWS", ROWS)],
                bindings: &[Read, Read, Read, Read, Read, Read, Write],
                products: 4 * ROWS as u64,
                ..fr
            },
            Self::Ntt => Spec {
                name: "ntt",
                texts: &[text!("group"), text!("fr"), text!("ntt")],
                constants: &[("TILE", TILE), ("LANES", NTT_LANES)],
                bindings: &[Read, Write],
                products: 6 * TILE as u64,
                ..fr
            },
            Self::NttAcross => Spec {
                name: "ntt_across",
                texts: &[text!("group"), text!("fr"), text!("ntt_across")],
                bindings: &[Read, Write, Write],
                products: 2 * LANES as u64,
                ..fr
            },
            Self::ScanTiles => Spec {
                name: "scan_tiles",
                texts: &[text!("group"), text!("scan"), text!("scan_tiles")],
                bindings: &[Write, Write],
                ..scan
            },
            Self::ScanSums => Spec {
                name: "scan_sums",
                texts: &[text!("scan"), text!("scan_sums")],
                bindings: &[Write],
                ..scan
            },
            Self::ScanPlace => Spec {
                name: "scan_place",
                texts: &[text!("group"), text!("scan"), text!("scan_place")],
                bindings: &[Write, Write],
                ..scan
            },
            Self::MsmRanks => Spec {
                name: "msm_ranks",
                prime: None,
                texts: &[text!("group"), text!("msm_ranks")],
                bindings: &[Read, Write],
                ..fr
            },
            Self::MsmDigits => Spec {
                name: "msm_digits",
                texts: &[text!("group"), text!("fr"), text!("msm_digits")],
                bindings: &[Read, Read, Write, Write, Write, Write],
                products: 8 * LANES as u64,
                ..fr
            },
            Self::MsmScatter => Spec {
                name: "msm_scatter",
                prime: None,
                texts: &[text!("group"), text!("msm_scatter")],
                bindings: &[Write, Write, Write, Write],
                ..fr
            },
            Self::MsmAccumulate(curve) => over(
                curve,
                ["msm_accumulate of G1", "msm_accumulate of G2"],
                &[text!("group"), text!("msm_accumulate")],
                &[Read, Write, Write, Write, Write, Write, Read],
                64 * 10,
            ),
            Self::MsmJoin(curve) => over(
                curve,
                ["msm_join of G1", "msm_join of G2"],
                &[text!("group"), text!("msm_join")],
                &[Write, Write, Write, Write, Write, Read],
                3 * 14,
            ),
            Self::MsmReduce(curve) => over(
                curve,
                ["msm_reduce of G1", "msm_reduce of G2"],
                &[text!("group"), text!("msm_reduce")],
                &[Write, Write, Write, Read],
                32 * 14,
            ),
            Self::MsmFold(curve) => over(
                curve,
                ["msm_fold of G1", "msm_fold of G2"],
                &[text!("group"), text!("msm_fold")],
                &[Write, Write, Write, Read],
                4 * 14,
            ),
            Self::MultiplesScalars => Spec {
                name: "multiples_scalars",
                texts: &[text!("group"), text!("fr"), text!("multiples_scalars")],
                bindings: &[Read, Write],
                ..fr
            },
            Self::MultiplesAdd(curve) => over(
                curve,
                ["multiples_add of G1", "multiples_add of G2"],
                &[text!("group"), text!("multiples_add")],
                &[Read, Write, Write, Read],
                32 * 10,
            ),
            Self::MultiplesAffine(curve) => over(
                curve,
                ["multiples_affine of G1", "multiples_affine of G2"],
                &[text!("group"), text!("multiples_affine")],
                &[Write, Write, Write, Read],
                700,
            ),
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Its storage buffers.
    pub fn bindings(self) -> &'static [Access] {
        self.spec().bindings
    }

    /// Products of Fr that a workgroup takes as long as, about.
    pub fn products(self) -> u64 {
        self.spec().products
    }

    /// Whether its module differs from core to core.
    pub fn has_core(self) -> bool {
        self.spec().prime.is_some()
    }

    /// Whether its module differs by where registers are.
    pub fn is_over_a_curve(self) -> bool {
        self.spec().curve.is_some()
    }

    /// Its module with `core`.
    pub fn module(self, core: Core) -> String {
        let Spec { prime, curve, texts, constants, .. } = self.spec();
        if let Some(curve) = curve {
            let (degree, registers) = (curve.degree(), curve.registers);
            return shader::curve_module(core, degree, registers, constants, texts);
        }
        match prime {
            Some(prime) => shader::module(core, prime, constants, texts),
            None => shader::plain_module(constants, texts),
        }
    }
}

/// A kernel over a curve, of so many products of coordinates in each thread; its names in G1 and in G2.
fn over(
    curve: Curve,
    names: [&'static str; 2],
    texts: &'static [&'static str],
    bindings: &'static [Access],
    products: u64,
) -> Spec {
    // A product of Fp is 2.4 of Fr, one of Fp2 is three of these.
    let (name, each) = match curve.group {
        Group::G1 => (names[0], 24),
        Group::G2 => (names[1], 72),
    };
    Spec {
        name,
        prime: Some(Prime::Fp),
        curve: Some(curve),
        texts,
        constants: &[],
        bindings,
        products: u64::from(curve.registers.lanes()) * products * each / 10,
    }
}

/// The parameters of [`Kernel::Products`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ProductsParameters {
    /// Turns of `chain` products.
    pub turns: u32,
    /// [`CHAIN`].
    pub chain: u32,
    pub unused: [u32; 2],
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use super::*;
    use crate::backend::wgpu::{expand, matvec, msm, multiples, ntt, quotient};

    /// The fields that are one word, by name, of parameters whose words are 0x1001, 0x1002, ...: as Rust sees them.
    fn fields<P: Pod + Debug>() -> BTreeMap<String, u32> {
        let words: Vec<u32> = (1..=size_of::<P>() as u32 / 4).map(|word| 0x1000 + word).collect();
        let text = format!("{:?}", bytemuck::pod_read_unaligned::<P>(bytemuck::cast_slice(&words)));
        let fields = text.split_once('{').expect("fields").1.trim_end_matches([' ', '}']);
        let field = |field: &str| {
            let (name, value) = field.split_once(": ")?;
            Some((name.trim().to_owned(), value.parse().ok()?))
        };
        fields.split(", ").filter_map(field).collect()
    }

    /// The same as the kernel sees them.
    fn expect<P: Pod + Debug>(kernel: Kernel) {
        let module = naga::front::wgsl::parse_str(&kernel.module(Core::Narrow)).expect("WGSL");
        let (_, uniform) = module
            .global_variables
            .iter()
            .find(|(_, variable)| variable.space == naga::AddressSpace::Uniform)
            .expect("parameters");
        let naga::TypeInner::Struct { members, span } = &module.types[uniform.ty].inner else {
            panic!("{kernel:?}: a struct");
        };
        assert_eq!(*span as usize, size_of::<P>(), "{kernel:?}: bytes");
        let is_word = |member: &&naga::StructMember| {
            let inner = &module.types[member.ty].inner;
            matches!(inner, naga::TypeInner::Scalar(_))
                && !member.name.as_ref().is_some_and(|name| name.starts_with("unused"))
        };
        let seen: BTreeMap<_, _> = members
            .iter()
            .filter(is_word)
            .map(|member| (member.name.clone().unwrap_or_default(), 0x1001 + member.offset / 4))
            .collect();
        let mut told = fields::<P>();
        told.retain(|name, _| !name.starts_with("unused"));
        assert_eq!(seen, told, "{kernel:?}");
    }

    /// Every field has a value of its own, so that two that change places are seen.
    #[test]
    fn parameters_are_what_kernels_take_them_for() {
        let curve = Curve { group: Group::G1, registers: Registers::Private };
        expect::<ProductsParameters>(Kernel::Products(Prime::Fr));
        expect::<quotient::Parameters>(Kernel::Quotient);
        expect::<expand::Parameters>(Kernel::Expand);
        expect::<matvec::Parameters>(Kernel::Matvec);
        expect::<ntt::Parameters>(Kernel::Ntt);
        expect::<ntt::AcrossParameters>(Kernel::NttAcross);
        expect::<msm::work::Scan>(Kernel::ScanTiles);
        expect::<msm::work::Scan>(Kernel::ScanPlace);
        expect::<msm::work::Ranks>(Kernel::MsmRanks);
        expect::<msm::work::Digits>(Kernel::MsmDigits);
        expect::<msm::work::Scatter>(Kernel::MsmScatter);
        expect::<msm::work::Runs>(Kernel::MsmAccumulate(curve));
        expect::<msm::work::Reduce>(Kernel::MsmReduce(curve));
        expect::<msm::work::Fold>(Kernel::MsmFold(curve));
        expect::<multiples::Scalars>(Kernel::MultiplesScalars);
        expect::<multiples::Add>(Kernel::MultiplesAdd(curve));
        expect::<multiples::Affine>(Kernel::MultiplesAffine(curve));
    }
}
