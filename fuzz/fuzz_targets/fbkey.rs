//! `.fbkey`: a key that is mapped must have the shape that the prover and the devices rely on, and its file is the only one of its key.
#![no_main]

use std::ops::Range;

use forebay::backend::Matrix;
use forebay::format::fbkey::{Facts, Fbkey, write};
use forebay::format::{Kind, Silent};
use forebay::key::{Basis, Query};
use libfuzzer_sys::fuzz_target;

/// Where the header has its own digest, and the program's name.
const DIGEST: Range<usize> = 16..48;
const PROGRAM: Range<usize> = 96..128;

fuzz_target!(|data: &[u8]| {
    if let Ok(file) = Fbkey::from_bytes(data) {
        assert_eq!(Kind::of(data).ok(), Some(Kind::Fbkey));
        drop(file.check_digests(&Silent));
    }
    // Nobody's mutations meet a digest: what lies behind is reached with digests that fit.
    let mut data = data.to_vec();
    if data.len() < 4096 {
        return;
    }
    reseal(&mut data);
    let Ok(file) = Fbkey::from_bytes(&data) else { return };
    file.check_digests(&Silent).expect("digests that were made to fit");
    let Ok(key) = file.key() else { return };
    drop(file.check_points(&Silent));

    let n = 1usize << key.log_n;
    let h = if key.basis == Basis::OddCoset { n } else { n - 1 };
    assert_eq!((key.inputs, key.h.len()), (key.vk.ic.len(), h));
    assert!(key.inputs <= key.variables);
    assert_query(&key.a, key.variables);
    assert_query(&key.b_g1, key.variables);
    assert_query(&key.b_g2, key.variables);
    assert_query(&key.l, key.variables - key.inputs);
    key.matrices.iter().flatten().for_each(|matrix| assert_matrix(matrix, n, key.variables));

    let facts = Facts {
        points_checked: file.header.points_checked,
        contributions: file.header.contributions,
    };
    let mut written = Vec::new();
    write(&key, facts, &Silent, &mut written).expect("a key that was read");
    for range in [DIGEST, PROGRAM] {
        written[range.clone()].copy_from_slice(&data[range]);
    }
    assert!(written == data);
});

fn assert_query<F>(query: &Query<F>, variables: usize) {
    match &query.density {
        Some(density) => {
            assert_eq!((density.len, density.ones()), (variables, query.points.len()));
            assert_eq!(density.words.len(), variables.div_ceil(64));
        }
        None => assert!(query.points.len() <= variables),
    }
}

fn assert_matrix(matrix: &Matrix, rows: usize, columns: usize) {
    let entries = matrix.column.len();
    assert!(matrix.rows() <= rows && matrix.row_start.is_sorted());
    assert_eq!(matrix.coefficient.len(), entries);
    assert_eq!(matrix.row_start.first(), Some(&0));
    assert_eq!(matrix.row_start.last().map(|end| *end as usize), Some(entries));
    assert!(matrix.column.iter().all(|column| (*column as usize) < columns));
    assert!(matrix.coefficient.iter().all(|index| (*index as usize) < matrix.table.len()));
}

/// Makes the digests fit, where there is something that they could be of.
fn reseal(data: &mut [u8]) {
    let sections = u32::from_le_bytes(data[56..60].try_into().expect("4 bytes")).min(48);
    for entry in (0..sections as usize).map(|i| 1008 + 64 * i) {
        let number = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("8 bytes"));
        let (start, len) = (number(entry + 8), number(entry + 16));
        let range = start as usize..start.saturating_add(len) as usize;
        if let Some(section) = data.get(range) {
            let digest = blake3::hash(section);
            data[entry + 32..entry + 64].copy_from_slice(digest.as_bytes());
        }
    }
    data[DIGEST].fill(0);
    let digest = blake3::hash(&data[..4096]);
    data[DIGEST].copy_from_slice(digest.as_bytes());
}
