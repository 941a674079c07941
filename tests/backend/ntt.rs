//! The four transforms.

use super::*;

const TRANSFORMS: [Transform; 4] = [
    Transform::Interpolate,
    Transform::Evaluate,
    Transform::InterpolateOdd,
    Transform::EvaluateOdd,
];

/// All of what `transform` makes of `data` on the backend.
fn transformed<B: Backend>(
    session: &Session<'_, B>,
    transform: Transform,
    table: &B::Buffer<Fr>,
    data: &[Fr],
) -> Vec<Fr> {
    let mut buffer = session.put(data);
    session.backend.ntt(&session.stream, transform, table, &mut buffer).expect("ntt");
    session.take(&buffer)
}

pub fn ntt_matches_definition<B: Backend>(backend: &B) {
    let random = &mut Random::new("ntt_matches_definition", 0x0d_f700);
    for log_n in 1..=8 {
        let n = 1 << log_n;
        let session = Session::new(backend, LEASE_BYTES);
        let table = backend.ntt_table(&session.stream, &session.lease, log_n).expect("table");
        let definition = oracle::Definition::new(log_n);
        let (zero, one) = (Scalar::from(0u64), Scalar::from(1u64));
        let mut single = vec![zero; n];
        single[random.below(n)] = one;
        let inputs = [
            ("random", random.scalars(n)),
            ("zero", vec![zero; n]),
            ("all r - 1", vec![-one; n]),
            ("a single one", single),
            ("edges", mixed_scalars(random, n)),
        ];
        for (name, input) in inputs {
            for transform in TRANSFORMS {
                let got = transformed(&session, transform, &table, &from_ark_all(&input));
                let want: Vec<_> =
                    (0..n).map(|i| definition.element(transform, &input, i)).collect();
                assert_scalars(format!("{transform:?}, log_n {log_n}, {name}"), &got, &want);
            }
        }
    }
}

/// Larger than [`ntt_matches_definition`]: past the block of the CPU's transform, 2^12 elements,
/// and past what a work group of a device holds.
pub fn ntt_matches_samples<B: Backend>(backend: &B) {
    let random = &mut Random::new("ntt_matches_samples", 0x5a_3b1e);
    for log_n in 9..=15 {
        let n = 1 << log_n;
        let session = Session::new(backend, LEASE_BYTES);
        let table = backend.ntt_table(&session.stream, &session.lease, log_n).expect("table");
        let definition = oracle::Definition::new(log_n);
        let input = random.scalars(n);
        let data = from_ark_all(&input);
        for transform in TRANSFORMS {
            let got = transformed(&session, transform, &table, &data);
            for index in [0, n - 1, random.below(n), n / 2 + random.below(n / 2)] {
                let want = definition.element(transform, &input, index);
                let what = format!("{transform:?}, log_n {log_n}, element {index}");
                assert_scalars(what, &got[index..=index], &[want]);
            }
            // A transform and its inverse see every element.
            let back = match transform {
                Transform::Interpolate => Transform::Evaluate,
                Transform::Evaluate => Transform::Interpolate,
                Transform::InterpolateOdd => Transform::EvaluateOdd,
                Transform::EvaluateOdd => Transform::InterpolateOdd,
            };
            let again = transformed(&session, back, &table, &got);
            assert_scalars(format!("{transform:?} and back, log_n {log_n}"), &again, &input);
        }
    }
}

#[test]
fn bit_reverse_matches_the_oracle() {
    for log_n in 0..=12 {
        for index in 0..1 << log_n {
            assert_eq!(bit_reverse(index, log_n), oracle::bit_reverse(index, log_n));
        }
    }
}
