//! arkworks' proving keys: a file that is read is the only one of its key in its form, and its key has the shape that the
//! prover relies on without checking it again.
#![no_main]

use forebay::curve::Coordinate;
use forebay::format::arkworks::{Pk, write_pk};
use forebay::format::zkey::Options;
use forebay::format::{Kind, Silent};
use forebay::key::Query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = Pk::open(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::ArkworksPk));
    // Unchecked points reach further with the same mutations, and are what a caller may choose to let in.
    let Ok(key) = file.read(Options { check_points: false, scratch: None, progress: &Silent })
    else {
        return;
    };
    assert_eq!((key.log_n, key.h.len() + 1), (file.log_n, 1 << file.log_n));
    assert_eq!((key.inputs, key.variables), (file.vk.ic.len(), file.variables));
    assert_query(&key.a, key.variables);
    assert_query(&key.b_g1, key.variables);
    assert_query(&key.b_g2, key.variables);
    assert_query(&key.l, key.variables - key.inputs);

    let mut written = Vec::new();
    write_pk(&key, file.form(), &mut written).expect("a key that was read is written");
    assert_eq!(written, data);
});

fn assert_query<F: Coordinate>(query: &Query<F>, variables: usize) {
    let density = query.density.as_ref().expect("a density");
    assert_eq!((density.len, density.ones()), (variables, query.points.len()));
    assert!(!query.points.iter().any(|point| point.is_infinity()));
}
