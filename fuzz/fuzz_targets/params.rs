//! bellman's `.params`: a file that is read is the only one of its key, and its key has the shape that the prover
//! relies on without checking it again.
#![no_main]

use forebay::backend::bit_reverse;
use forebay::curve::{G1Affine, G2Affine};
use forebay::format::bellman::{BellmanVerifyingKey, Params, write_vk};
use forebay::format::zkey::Options;
use forebay::format::{Kind, Silent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(params) = Params::open(data) else { return };
    assert_eq!(Kind::of(data).ok(), Some(Kind::Params));
    // Unchecked points reach further with the same mutations, and are what a caller may choose to let in.
    let Ok(key) = params.read(Options { check_points: false, scratch: None, progress: &Silent })
    else {
        return;
    };
    let shape = params.shape;
    assert_eq!((key.log_n, key.h.len() + 1), (shape.log_n, 1 << shape.log_n));
    assert_eq!((key.inputs, key.variables), (params.vk.vk.ic.len(), shape.inputs + shape.l));

    let vk = &params.vk;
    let mut written = write_vk(vk);
    let h: Vec<_> = (0..key.h.len()).map(|j| key.h[bit_reverse(j, key.log_n)]).collect();
    for points in [&h, &*key.l.points, &*key.a.points, &*key.b_g1.points] {
        written.extend(g1_section(vk, points));
    }
    written.extend((key.b_g2.points.len() as u32).to_be_bytes());
    for point in &*key.b_g2.points {
        written.extend(g2_point(vk, *point));
    }
    assert_eq!(written, data);
});

/// Count and points as they stand in a file: `.vk` ends with such a section.
fn g1_section(vk: &BellmanVerifyingKey, points: &[G1Affine]) -> Vec<u8> {
    let mut vk = vk.clone();
    vk.vk.ic = points.to_vec();
    write_vk(&vk).split_off(3 * 96 + 3 * 192)
}

/// A point as it stands in a file: third in a `.vk` is beta in G2.
fn g2_point(vk: &BellmanVerifyingKey, point: G2Affine) -> [u8; 192] {
    let mut vk = vk.clone();
    vk.vk.beta_g2 = point;
    write_vk(&vk)[2 * 96..][..192].try_into().expect("192 bytes")
}
