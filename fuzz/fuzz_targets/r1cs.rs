//! `.r1cs`: constraints that are read must be as many as the header says, of wires that it has, and take exactly
//! the bytes of their section.
#![no_main]

use forebay::field::Fr;
use forebay::format::Kind;
use forebay::format::r1cs::R1cs;
use libfuzzer_sys::fuzz_target;

/// Systems of at most this many wires are also evaluated.
const SMALL: u32 = 1 << 12;

fuzz_target!(|data: &[u8]| {
    let Ok(r1cs) = R1cs::read(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::R1cs));
    let header = r1cs.header;
    assert!(header.public() < header.wires);
    // Setup allocates by the number of wires.
    assert!(header.wires as usize <= data.len() / 8 + 1, "wires that the file does not show");
    let (mut rows, mut bytes) = (0, 0);
    let read = r1cs.for_each(|row, sides| {
        assert_eq!(row, rows);
        rows += 1;
        for side in sides {
            assert!(side.iter().all(|term| term.wire < header.wires));
            bytes += 4 + side.len() * (4 + Fr::BYTES);
        }
        Ok(())
    });
    assert!(rows <= header.constraints as usize && bytes <= data.len());
    if read.is_err() {
        return;
    }
    assert_eq!(rows, header.constraints as usize);
    if header.wires <= SMALL {
        let values: Vec<Fr> = (0..header.wires).map(|wire| Fr::from(u64::from(wire) + 1)).collect();
        let broken = r1cs.first_unsatisfied(&values).expect("constraints that were read once");
        assert!(broken.is_none_or(|broken| broken.row < rows));
    }
});
