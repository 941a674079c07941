//! Multiples of one point, in both groups.

use forebay::backend::Multiples;
use forebay::curve::FixedBase;

use super::*;

/// Computes `scalars` times the point of `base`, in a lease of exactly what is needed, and compares with `want`. Before and
/// behind the scalars stand others; behind the results stands what must stay.
fn check<F: Group, B: Backend>(
    backend: &B,
    base: &FixedBase<F>,
    scalars: &[Scalar],
    want: &[Base<F>],
    what: impl Display,
) {
    let what = format!(
        "{} multiples by {} scalars, windows of {} bits, {what}",
        F::GROUP,
        scalars.len(),
        base.window_bits
    );
    let (before, behind) = (2, 3);
    let others = vec![Scalar::from(5u64); before + behind];
    let on_host = [&others[..before], scalars, &others[before..]].concat();
    let stays = vec![F::generator(); behind];
    let points = base.table.len() + want.len() + behind;
    let bytes = on_host.len() * size_of::<Fr>() + points * size_of::<Affine<F>>();
    let session = Session::new(backend, bytes as u64);
    let table = session.adopt(&base.table).expect("adopt");
    let on_device = session.adopt(&from_ark_all(&on_host)).expect("adopt");
    let mut out = session.put(&pattern::<Affine<F>>(&mut Random::silent(4), want.len() + behind));
    backend.upload(&session.stream, &stays, &mut out, want.len()).expect("upload");
    let range = before..before + scalars.len();
    let multiples =
        Multiples { table: &table, window_bits: base.window_bits, scalars: &on_device, range };
    backend.multiples::<F>(&session.stream, multiples, &mut out).expect("multiples");
    let got = session.take(&out);
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(*got == F::base(want), "{what}: multiple {i} is {got:?}, not {want}");
    }
    assert!(got[want.len()..] == stays, "{what}: what stands behind the results");
}

pub fn multiples_lengths<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("multiples_lengths", 0x13_4675);
    let [log, first, step] = [0; 3].map(|_| random.scalar());
    let (point, _) = one_base::<F>(log);
    let around = |k: u32| [(1 << k) - 1, 1 << k, (1 << k) + 1];
    for len in [0, 1, 2].into_iter().chain((5..=9).flat_map(around)).chain(around(12)) {
        // The scalars are an arithmetic progression, so the results are one too.
        let scalars: Vec<_> = (0..len as u64).map(|i| first + step * Scalar::from(i)).collect();
        let want = Bases::<F>::new(log * first, log * step, len).points;
        let base = FixedBase::new(&point, len);
        check(backend, &base, &scalars, &want, "in steps");
    }
}

pub fn multiples_scalars<F: Group, B: Backend>(backend: &B) {
    let random = &mut Random::new("multiples_scalars", 0x13_a1a5);
    let mut scalars = edge_scalars();
    scalars.extend(random.scalars(20));
    // Powers of two, what is one less, and both negated: carries out of any window, at any place.
    let one = Scalar::from(1u64);
    let around = |i| [oracle::power_of_two(i), oracle::power_of_two(i) - one];
    scalars.extend((0..255).flat_map(around).flat_map(|x| [x, -x]));
    // r is 7.2 times 2^252. Where a window starts there, this one is its multiple 7 and lower windows that are as much
    // modulo r: P + P, in the last addition.
    scalars.push(oracle::power_of_two(252) * Scalar::from(14u64));
    for log in [random.scalar(), Scalar::from(0u64)] {
        let (point, of) = one_base::<F>(log);
        let want: Vec<_> = scalars.iter().map(of).collect();
        for window_bits in [2, 3, 4, 5, 8, 9, 10, 12, 13] {
            let base = FixedBase::with_window(&point, window_bits);
            check(backend, &base, &scalars, &want, format_args!("of {log} times the generator"));
        }
    }
}

/// `log` times the generator, and the oracle's multiples of that.
fn one_base<F: Group>(log: Scalar) -> (Affine<F>, impl Fn(&Scalar) -> Base<F>) {
    let of = move |scalar: &Scalar| oracle::multiple::<F>(log * scalar);
    (F::base(&of(&Scalar::from(1u64))), of)
}
