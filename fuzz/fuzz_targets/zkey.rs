//! `.zkey`: a key that is read must have the shape that the prover relies on without checking it again, and
//! the coefficients that a second, plainer reader finds.
#![no_main]

use forebay::backend::Matrix;
use forebay::format::json::{read_verifying_key, write_verifying_key};
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{Kind, Silent};
use forebay::key::Query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(zkey) = Zkey::open(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::Zkey));
    let header = &zkey.header;
    assert!(1 << header.log_n > header.public, "no row for a public signal");
    let text = write_verifying_key(&header.vk);
    assert_eq!(read_verifying_key(&text).expect("an exported key is read"), header.vk);

    // Unchecked points reach further with the same mutations, and are what `--skip-key-checks` lets in.
    let Ok(key) = zkey.read(Options { check_points: false, scratch: None, progress: &Silent })
    else {
        return;
    };
    let n = 1 << key.log_n;
    assert_eq!((key.inputs, key.h.len()), (header.vk.ic.len(), n));
    assert!(key.inputs <= key.variables);
    assert_query(&key.a, key.variables);
    assert_query(&key.b_g1, key.variables);
    assert_query(&key.b_g2, key.variables);
    assert_query(&key.l, key.variables - key.inputs);

    let matrices = key.matrices.as_ref().expect("a zkey has matrices");
    matrices.iter().for_each(|matrix| assert_matrix(matrix, n, key.variables));
    let mut columns = [Vec::new(), Vec::new()];
    for record in section_4(data)[4..].as_chunks::<44>().0 {
        let [matrix, row, variable] = [0, 1, 2].map(|word| le_u32(&record[4 * word..]));
        assert!((row as usize) < n, "a row outside the domain");
        columns[matrix as usize].push(variable);
    }
    for (matrix, mut columns) in matrices.iter().zip(columns) {
        let mut read = matrix.column.to_vec();
        read.sort_unstable();
        columns.sort_unstable();
        assert_eq!(read, columns);
    }
});

fn assert_query<F>(query: &Query<F>, variables: usize) {
    let density = query.density.as_ref().expect("a zkey says which variables have a point");
    assert_eq!((density.len, density.ones()), (variables, query.points.len()));
}

fn assert_matrix(matrix: &Matrix, rows: usize, columns: usize) {
    let entries = matrix.column.len();
    assert_eq!((matrix.row_start.len(), matrix.coefficient.len()), (rows + 1, entries));
    assert!(matrix.row_start.is_sorted());
    assert_eq!((matrix.row_start[0], matrix.row_start[rows] as usize), (0, entries));
    assert!(matrix.column.iter().all(|column| (*column as usize) < columns));
    assert!(matrix.coefficient.iter().all(|index| (*index as usize) < matrix.table.len()));
}

/// The body of section 4 in a file that is known to be well-formed.
fn section_4(data: &[u8]) -> &[u8] {
    let mut rest = &data[12..];
    loop {
        let (id, len) = (le_u32(rest), le_u32(&rest[4..]) as usize);
        if id == 4 {
            return &rest[12..][..len];
        }
        rest = &rest[12 + len..];
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
