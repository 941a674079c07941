//! Circuits by name: their counts and the kinds of their values, to plan and to measure with where the circuits
//! themselves are not at hand.

pub mod synthetic;

use crate::{Error, Result};

/// The shares of a vector's values; what is left of 1 is wide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kinds {
    /// 0.
    pub zero: f64,
    /// 1.
    pub one: f64,
    /// -1.
    pub minus_one: f64,
    /// From 2 to 2^32 - 1.
    pub small: f64,
}

impl Kinds {
    /// Wide values alone.
    pub const WIDE: Self = Self { zero: 0.0, one: 0.0, minus_one: 0.0, small: 0.0 };

    /// The share of values that are none of these.
    pub fn wide(&self) -> f64 {
        1.0 - self.zero - self.one - self.minus_one - self.small
    }

    /// Bytes that a value takes in a [`Compact`](crate::compact::Compact) vector.
    pub fn bytes(&self) -> f64 {
        0.5 + 4.0 * self.small + 32.0 * self.wide()
    }

    /// The kinds of the others, where a `share` of all values are of `part`.
    fn without(&self, share: f64, part: &Self) -> Self {
        if share >= 1.0 {
            return *self;
        }
        let rest = |of: fn(&Self) -> f64| ((of(self) - share * of(part)) / (1.0 - share)).max(0.0);
        Self {
            zero: rest(|kinds| kinds.zero),
            one: rest(|kinds| kinds.one),
            minus_one: rest(|kinds| kinds.minus_one),
            small: rest(|kinds| kinds.small),
        }
    }
}

/// A circuit's counts, and the kinds of its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The domain has 2^log_n points.
    pub log_n: u32,
    /// The constant 1 and the public inputs. All of them are in A, the constant alone is in B.
    pub inputs: usize,
    /// Private variables.
    pub aux: usize,
    /// Variables in A: points of that query.
    pub a: usize,
    /// Variables in B.
    pub b: usize,
    /// Rows, one for each input among them.
    pub rows: usize,
    /// The values of the rows' two sides.
    pub sides: [Kinds; 2],
    /// The values of the private variables, and of those in B.
    pub values: [Kinds; 2],
}

/// PoRep's values: bits, but for those that hashes are packed to. SnapDeals' are taken to be the same.
const BITS_OF_POREP: ([Kinds; 2], [Kinds; 2]) = (
    [
        Kinds { zero: 0.493, one: 0.181, minus_one: 0.058, small: 0.2542 },
        Kinds { zero: 0.491, one: 0.4995, ..Kinds::WIDE },
    ],
    [
        Kinds { zero: 0.512, one: 0.4749, ..Kinds::WIDE },
        Kinds { zero: 0.481, one: 0.4818, ..Kinds::WIDE },
    ],
);

/// WinningPoSt's values: field elements of Poseidon hashes. WindowPoSt's are taken to be the same.
const ELEMENTS_OF_POST: ([Kinds; 2], [Kinds; 2]) = (
    [
        Kinds { zero: 0.0075, one: 0.0075, ..Kinds::WIDE },
        Kinds { zero: 0.025, one: 0.25, ..Kinds::WIDE },
    ],
    [Kinds { zero: 0.0053, one: 0.0035, ..Kinds::WIDE }; 2],
);

/// Filecoin's circuits, one partition each; counts are exact.
const FILECOIN: [(&str, Profile); 4] = [
    (
        "porep-32gib",
        filecoin(27, 328, 130_169_893, [129_753_620, 33_112_282, 130_278_869], BITS_OF_POREP),
    ),
    (
        "snap-32gib",
        filecoin(27, 5, 80_978_488, [80_743_586, 20_983_608, 81_049_504], BITS_OF_POREP),
    ),
    (
        "window-post-32gib",
        filecoin(27, 25_840, 126_902_376, [96_205_645, 91_925_767, 125_305_057], ELEMENTS_OF_POST),
    ),
    (
        "winning-post-32gib",
        filecoin(19, 133, 375_210, [284_329, 272_185, 370_723], ELEMENTS_OF_POST),
    ),
];

const fn filecoin(
    log_n: u32,
    inputs: usize,
    aux: usize,
    [a, b, rows]: [usize; 3],
    (sides, values): ([Kinds; 2], [Kinds; 2]),
) -> Profile {
    Profile { log_n, inputs, aux, a, b, rows, sides, values }
}

impl Profile {
    /// The names that [`Profile::named`] knows, `K` standing for the log2 of a domain. `-32gib` may be left out, and `-K`, which is then 20.
    pub const NAMES: [&str; 6] = [
        "porep-32gib",
        "snap-32gib",
        "window-post-32gib",
        "winning-post-32gib",
        "dense-K",
        "bits-K",
    ];

    /// A circuit by name: one of Filecoin's, one partition each, whose counts are exact; or `dense-20` and `bits-20`,
    /// circuits that fill a domain of 2^20 with wide values, or with bits in nine of ten places.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none of this name.
    pub fn named(name: &str) -> Result<Self> {
        let is_named = |known: &str| known == name || known.strip_suffix("-32gib") == Some(name);
        if let Some((_, profile)) = FILECOIN.iter().find(|(known, _)| is_named(known)) {
            return Ok(*profile);
        }
        let size = |prefix| match name.strip_prefix(prefix)? {
            "" => Some(20),
            sized => sized.strip_prefix('-')?.parse().ok(),
        };
        let (log_n, kinds) = match (size("dense"), size("bits")) {
            (Some(log_n), _) => (log_n, Kinds::WIDE),
            (_, Some(log_n)) => (log_n, Kinds { zero: 0.45, one: 0.45, ..Kinds::WIDE }),
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(Error::Usage(format!(
                    "no circuit is called {name}: there are {names}"
                )));
            }
        };
        if !(2..=31).contains(&log_n) {
            return Err(Error::Usage(format!("{name}: domains are from 2^2 to 2^31")));
        }
        let n = 1usize << log_n;
        Ok(Self {
            log_n,
            inputs: 2,
            aux: n - 3,
            a: n - 1,
            b: n - 2,
            rows: n,
            sides: [kinds; 2],
            values: [kinds; 2],
        })
    }

    /// The same circuit for a domain of 2^log_n: all counts in proportion.
    ///
    /// # Errors
    /// [`Error::Usage`] if `log_n` is not from 4 to 31.
    pub fn scaled(&self, log_n: u32) -> Result<Self> {
        if !(4..=31).contains(&log_n) {
            return Err(Error::Usage("circuits can be scaled to domains from 2^4 to 2^31".into()));
        }
        let scaled = |count: usize| {
            let product = (count as u128) << log_n;
            ((product + (1 << self.log_n >> 1)) >> self.log_n) as usize
        };
        // Of the few inputs two always stay: the constant, and one that proofs can be told apart by.
        let inputs = scaled(self.inputs).max(2);
        let in_a = inputs + scaled(self.a - self.inputs);
        Ok(Self {
            log_n,
            inputs,
            aux: scaled(self.aux),
            a: in_a,
            b: 1 + scaled(self.b - 1),
            rows: scaled(self.rows).max((1 << (log_n - 1)) + 1),
            ..*self
        })
    }

    /// Inputs and private variables.
    pub fn variables(&self) -> usize {
        self.inputs + self.aux
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_bytes_come_out() {
        // Bytes a row (both sides) and a value, from real witnesses.
        for (name, row, value) in
            [("porep-32gib", 2.8, 0.92), ("winning-post-32gib", 55.7, 32.2), ("bits-20", 7.4, 3.7)]
        {
            let profile = Profile::named(name).unwrap();
            let bytes: f64 = profile.sides.iter().map(Kinds::bytes).sum();
            assert!((bytes - row).abs() < 0.1, "{name}: {bytes} a row");
            let bytes = profile.values[0].bytes();
            assert!((bytes - value).abs() < 0.05, "{name}: {bytes} a value");
        }
    }

    #[test]
    fn a_scaled_circuit_keeps_its_proportions() {
        for name in
            ["porep-32gib", "snap-32gib", "window-post-32gib", "winning-post-32gib", "bits-20"]
        {
            let whole = Profile::named(name).unwrap();
            assert_eq!(whole.scaled(whole.log_n).unwrap(), whole, "{name}");
            for log_n in [4, 10, 20] {
                let small = whole.scaled(log_n).unwrap();
                assert!(
                    small.rows <= 1 << log_n && small.rows > 1 << (log_n - 1),
                    "{name} {log_n}"
                );
                assert!(
                    small.inputs <= small.a
                        && small.a <= small.variables()
                        && small.b <= 1 + small.aux
                );
                let ratio = |profile: &Profile| profile.b as f64 / profile.variables() as f64;
                assert!(
                    log_n < 20 || (ratio(&small) - ratio(&whole)).abs() < 1e-3,
                    "{name} {log_n}"
                );
            }
        }
        assert!(Profile::named("dense-20").unwrap().scaled(3).is_err());
        assert_eq!(Profile::named("snap").unwrap(), Profile::named("snap-32gib").unwrap());
        assert_eq!(Profile::named("bits").unwrap(), Profile::named("bits-20").unwrap());
        for unknown in ["porep-64gib", "", "dense-", "dense20", "bits-x"] {
            assert!(Profile::named(unknown).is_err(), "{unknown}");
        }
    }
}
