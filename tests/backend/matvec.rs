//! Sparse matrix times vector.

use super::*;

/// The compressed rows of `rows`, with a table as a key's reader makes it.
pub fn matrix(rows: &[Row]) -> Matrix {
    let one = Scalar::from(1u64);
    let mut table = vec![one, -one];
    let (mut row_start, mut column, mut coefficient) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for (c, value) in row {
            let known = table.iter().position(|entry| entry == value);
            coefficient.push(known.unwrap_or(table.len()) as u32);
            column.push(*c);
            table.extend(known.is_none().then_some(value));
        }
        row_start.push(column.len() as u32);
    }
    Matrix {
        row_start: row_start.into(),
        column: column.into(),
        coefficient: coefficient.into(),
        table: from_ark_all(&table).into(),
    }
}

pub fn matvec_matches_rows<B: Backend>(backend: &B) {
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("matvec_matches_rows", 0x3a_7e0c);
    let check = |what: &str, rows: &[Row], matrix: &Matrix, columns: usize, out_len: usize| {
        let random = &mut Random::silent(out_len as u64);
        let matrix = DeviceMatrix::adopt(backend, &session.stream, &session.lease, matrix);
        let matrix = matrix.expect("adopt");
        let x = mixed_scalars(random, columns);
        let old = mixed_scalars(random, out_len);
        let on_device = session.put(&from_ark_all(&x));
        for output in [Output::Set, Output::Multiply] {
            let mut out = session.put(&from_ark_all(&old));
            let done = backend.matvec(&session.stream, &matrix, &on_device, output, &mut out);
            done.expect("matvec");
            let want = oracle::matvec(rows, &x, output, &old);
            let what = format!("{output:?}, {what}, {columns} columns, output of {out_len}");
            assert_scalars(what, &session.take(&out), &want);
        }
    };
    // Few distinct coefficients, as in a circuit, so that the table is shared.
    let mut coefficients = edge_scalars();
    coefficients.extend(random.scalars(5));
    let mut row = |columns: usize, len: usize| -> Row {
        let mut row = Row::new();
        for _ in 0..len {
            let again = row.last().filter(|_| random.below(4) == 0).map(|(column, _)| *column);
            let column = again.unwrap_or(random.below(columns) as u32);
            row.push((column, coefficients[random.below(coefficients.len())]));
        }
        row
    };
    for (count, columns, out_len) in [
        (0, 1, 3),
        (1, 1, 1),
        (1, 3, 8),
        (2, 2, 2),
        (31, 40, 32),
        (64, 64, 64),
        (100, 33, 128),
        (1500, 700, 2048),
    ] {
        let rows: Vec<_> = (0..count).map(|i| row(columns, [0, 1, 2, 3, 17][i * i % 5])).collect();
        check(&format!("{count} rows"), &rows, &matrix(&rows), columns, out_len);
    }
    // One long row among empty ones: a device that gives each row a thread has to cope.
    let rows = [vec![], row(500, 6000), vec![], vec![], row(500, 1), vec![]];
    check("a long row", &rows, &matrix(&rows), 500, 8);
    check("no rows at all", &[], &Matrix { row_start: Default::default(), ..matrix(&[]) }, 2, 4);
    let ends =
        [vec![(0, coefficients[0])], vec![], vec![(99, coefficients[3]), (0, coefficients[1])]];
    check("first and last column", &ends, &matrix(&ends), 100, 4);
}
