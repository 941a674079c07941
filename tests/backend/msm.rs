//! Multi-scalar multiplication, in both groups.

use super::*;

/// One sum to check: bases, scalars, and which go together.
pub struct Sum<'a, F: Group> {
    pub bases: &'a Bases<F>,
    pub scalars: &'a [Scalar],
    pub range: std::ops::Range<usize>,
    pub density: Option<&'a [bool]>,
    pub raised: Option<Raised>,
}

impl<'a, F: Group> Sum<'a, F> {
    /// Base i with scalar i.
    pub fn plain(bases: &'a Bases<F>, scalars: &'a [Scalar]) -> Self {
        Self { bases, scalars, range: 0..scalars.len(), density: None, raised: None }
    }

    /// Compares with the oracle: in a lease of exactly what is needed, in scratch that holds dirt, between bases
    /// that are not meant.
    pub fn check<B: Backend>(self, backend: &B, what: impl Display) {
        let what = match self.raised {
            None => format!("{} sum of {} bases, {what}", F::GROUP, self.bases.points.len()),
            Some(raised) => format!(
                "{} sum of {} bases raised for {} bits, {what}",
                F::GROUP,
                self.bases.points.len(),
                raised.window_bits()
            ),
        };
        let density: Option<Vec<u64>> = self.density.map(|bits| {
            let word =
                |bits: &[bool]| bits.iter().rev().fold(0, |word, bit| word << 1 | *bit as u64);
            bits.chunks(64).map(word).collect()
        });
        let meant: Vec<Affine<F>> = self.bases.points.iter().map(F::base).collect();
        let others = [F::generator(), F::generator()];
        let bases = [&others[..], &meant, &others[..1]].concat();
        let scratch_bytes = match self.raised {
            None => backend.msm_scratch::<F>(self.range.len()),
            Some(raised) => backend.raised_scratch::<F>(raised, self.range.len()),
        };
        let scratch_words = scratch_bytes.div_ceil(8) as usize;
        let words = 4 * self.scalars.len() + density.iter().flatten().count() + scratch_words;
        let copies = self.raised.map_or(1, Raised::windows);
        let bytes = 8 * words + copies * size_of_val(&bases[..]);
        let session = Session::new(backend, bytes as u64);

        let mut scratch = session.put(&pattern::<u64>(&mut Random::silent(3), scratch_words));
        let bases = match self.raised {
            None => session.adopt(&bases).expect("adopt"),
            Some(raised) => {
                let mut points = session.alloc(copies * bases.len()).expect("alloc");
                backend.upload(&session.stream, &bases, &mut points, 0).expect("upload");
                backend.raise::<F>(&session.stream, raised, &mut points).expect("raise");
                points
            }
        };
        let scalars = session.adopt(&from_ark_all(self.scalars)).expect("adopt");
        let density = density.map(|words| session.adopt(&words).expect("adopt"));
        let msm = Msm {
            bases: &bases,
            base_range: others.len()..others.len() + meant.len(),
            scalars: &scalars,
            range: self.range.clone(),
            density: density.as_ref(),
            raised: self.raised,
        };
        let got = backend.msm::<F>(&session.stream, msm, &mut scratch).and_then(Pending::wait);
        let got = F::point(&got.expect("msm"));

        let scalars = oracle::selected(self.scalars, self.range, self.density);
        let want = oracle::msm_by_logarithms(self.bases, &scalars);
        if scalars.len() <= 33 {
            assert_eq!(oracle::msm_naive(self.bases, &scalars), want, "{what}: the oracles differ");
        }
        assert!(got == want, "{what}: {got}, not {want}");
    }
}

pub fn bases<F: Group>(random: &mut Random, len: usize) -> Bases<F> {
    Bases::new(random.scalar(), random.scalar(), len)
}

pub fn msm_lengths<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("msm_lengths", 0x1e_4675);
    // The largest is above the CPU's chunk of 2^14 points.
    let large = [(1 << 12) + 1, (1 << 13) + 1, (1 << 14) + 1];
    let around = |k: u32| [(1 << k) - 1, 1 << k, (1 << k) + 1];
    let all = bases::<F>(random, 1 << 13);
    for len in [0, 1, 2, 3].into_iter().chain((5..=11).flat_map(around)).chain(large) {
        let bases = all.rearranged(len, |i| (i % all.points.len(), 1));
        Sum::plain(&bases, &random.scalars(len)).check(backend, "random scalars");
    }
    let bases = all.rearranged(20_000, |i| (i % 7_000, 1 - 2 * (i / 7_000 % 2) as i8));
    Sum::plain(&bases, &mixed_scalars(random, 20_000)).check(backend, "often equal scalars");
}

pub fn msm_scalars<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("msm_scalars", 0x5c_a1a5);
    let all = bases::<F>(random, 1020);
    let below = |random: &mut Random, bound: u64, len: usize| -> Vec<Scalar> {
        (0..len).map(|_| Scalar::from(random.word() % bound)).collect()
    };
    for len in [1, 33, 700] {
        let (zero, one, any) = (Scalar::from(0u64), Scalar::from(1u64), random.scalar());
        let half = one / Scalar::from(2u64);
        let single = |at: usize| (0..len).map(|i| if i == at { any } else { zero }).collect();
        // As witnesses are: bits, and a few others.
        let mut mostly_bits = below(random, 2, len);
        mostly_bits.iter_mut().step_by(50).for_each(|x| *x = random.scalar());
        let kinds: [(&str, Vec<Scalar>); 14] = [
            ("all 0", vec![zero; len]),
            ("all 1", vec![one; len]),
            ("all r - 1", vec![-one; len]),
            ("all equal", vec![any; len]),
            ("all (r - 1)/2", vec![half - one; len]),
            ("all (r + 1)/2", vec![half; len]),
            ("below 16", below(random, 16, len)),
            ("below 2^16", below(random, 1 << 16, len)),
            ("below 2^32", below(random, 1 << 32, len)),
            ("negatives of these", below(random, 1 << 32, len).iter().map(|x| -*x).collect()),
            ("only the first not 0", single(0)),
            ("only the last not 0", single(len - 1)),
            ("mostly bits", mostly_bits),
            ("edges", mixed_scalars(random, len)),
        ];
        let bases = all.rearranged(len, |i| (i, 1));
        for (kind, scalars) in kinds {
            Sum::plain(&bases, &scalars).check(backend, kind);
        }
    }
    // Powers of two, what is one less, and both negated: carries out of any window, at any place.
    // In groups of several sizes, since the window depends on how many scalars there are.
    let one = Scalar::from(1u64);
    let around = |i| [oracle::power_of_two(i), oracle::power_of_two(i) - one];
    let powers: Vec<_> = (0..255).flat_map(around).flat_map(|x| [x, -x]).collect();
    for group in [1020, 170, 20, 4] {
        for (i, scalars) in powers.chunks(group).enumerate() {
            let bases = all.rearranged(scalars.len(), |j| (j, 1));
            let bit = i * group / 4;
            Sum::plain(&bases, scalars).check(backend, format_args!("around 2^i from bit {bit}"));
        }
    }
}

pub fn msm_bases<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("msm_bases", 0xba_5e50);
    let all = bases::<F>(random, 1000);
    for len in [1, 2, 3, 32, 257, 1000] {
        let at_infinity: Vec<bool> = (0..len).map(|_| random.below(3) == 0).collect();
        let kinds = [
            ("infinity among them", all.rearranged(len, |i| (i, !at_infinity[i] as i8))),
            (
                "infinity first and last",
                all.rearranged(len, |i| (i, (i % (len - 1).max(1) > 0) as i8)),
            ),
            ("all infinity", all.rearranged(len, |_| (0, 0))),
            ("all equal", all.rearranged(len, |_| (0, 1))),
            ("pairs of equal", all.rearranged(len, |i| (i / 2, 1))),
            ("P and -P", all.rearranged(len, |i| (0, 1 - 2 * (i % 2) as i8))),
            ("pairs of opposite", all.rearranged(len, |i| (i / 2, 1 - 2 * (i % 2) as i8))),
        ];
        let scalars = [
            ("all equal", vec![random.scalar(); len]),
            ("all 1", vec![Scalar::from(1u64); len]),
            ("random", random.scalars(len)),
        ];
        for (kind, bases) in &kinds {
            for (scalar_kind, scalars) in &scalars {
                let what = format_args!("bases {kind}, scalars {scalar_kind}");
                Sum::plain(bases, scalars).check(backend, what);
            }
        }
    }
}

pub fn msm_ranges<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("msm_ranges", 0x4a_46e5);
    let all = bases::<F>(random, 150);
    let scalars = random.scalars(150);
    for range in [0..150, 0..149, 1..150, 64..128, 63..129, 77..78, 0..0, 75..75, 150..150] {
        let bases = all.rearranged(range.len(), |i| (i, 1));
        let what = format!("range {range:?} of {}", scalars.len());
        let sum = Sum { range, ..Sum::plain(&bases, &scalars) };
        sum.check(backend, what);
    }
}

pub fn msm_densities<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("msm_densities", 0xde_4517);
    let all = bases::<F>(random, 4500);
    for len in [1, 2, 63, 64, 65, 100, 129, 1000, 4500] {
        // Places before and behind the range hold other scalars, which must not count.
        for (before, behind) in [(0, 0), (13, 5)] {
            let scalars = random.scalars(before + len + behind);
            let any: Vec<bool> = (0..len).map(|_| random.below(2) == 0).collect();
            let few: Vec<bool> = (0..len).map(|_| random.below(40) == 0).collect();
            let kinds = [
                ("half", any),
                ("few", few),
                ("empty", vec![false; len]),
                ("full", vec![true; len]),
                ("only the first", (0..len).map(|i| i == 0).collect()),
                ("only the last", (0..len).map(|i| i == len - 1).collect()),
            ];
            for (kind, density) in &kinds {
                let ones = density.iter().filter(|bit| **bit).count();
                let bases = all.rearranged(ones, |i| (i, 1));
                let range = before..before + len;
                let what = format!("density {kind}, range {range:?} of {}", scalars.len());
                let density = Some(&density[..]);
                Sum { range, density, ..Sum::plain(&bases, &scalars) }.check(backend, what);
            }
        }
    }
}
