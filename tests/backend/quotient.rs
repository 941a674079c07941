//! The pointwise steps of the quotient.

use super::*;

pub fn quotient_matches_formulas<B: Backend>(backend: &B) {
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("quotient_matches_formulas", 0x90_7137);
    let mut edges = edge_scalars();
    edges.push(random.scalar());
    // Every edge value with every other, then lengths around powers of two.
    let pairs = edges.iter().flat_map(|a| edges.iter().map(|x| (*a, *x)));
    let mut inputs: Vec<(Vec<_>, Vec<_>)> = vec![pairs.unzip()];
    for len in [1, 2, 3, 255, 256, 257, 4095, 4096, 4097] {
        inputs.push((mixed_scalars(random, len), mixed_scalars(random, len)));
    }
    for (a, x) in &inputs {
        let operand = session.put(&from_ark_all(x));
        for step in [Quotient::Product, Quotient::Difference, Quotient::HalfDifference] {
            let mut accumulator = session.put(&from_ark_all(a));
            let done = backend.quotient(&session.stream, step, &mut accumulator, &operand);
            done.expect("quotient");
            let want = oracle::quotient(step, a, x);
            assert_scalars(
                format!("{step:?}, {} elements", a.len()),
                &session.take(&accumulator),
                &want,
            );
            assert_scalars(format!("{step:?}, operand"), &session.take(&operand), x);
        }
    }
}
