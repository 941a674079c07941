//! Compact vectors to plain ones.

use forebay::backend::DeviceCompact;
use forebay::compact::Compact;

use super::*;

pub fn expand_matches_values<B: Backend>(backend: &B) {
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("expand_matches_values", 0xe8_9a4d);
    let limit = Scalar::from(1u64 << 32);
    // Around every limit of a tag's range, on both sides of zero.
    let near = [limit - Scalar::from(1u64), limit, limit + Scalar::from(1u64)];
    let mut kinds = edge_scalars();
    kinds.extend(near.iter().flat_map(|value| [*value, -*value]));
    kinds.push(random.scalar());
    for len in [0, 1, 63, 64, 65, 191, 192, 193, 5000] {
        for mix in 0..3 {
            let value = |random: &mut Random| match mix {
                0 => kinds[random.below(kinds.len())],
                1 => Scalar::from(random.below(2) as u64),
                _ => random.scalar(),
            };
            let values: Vec<Scalar> = (0..len).map(|_| value(random)).collect();
            let packed = Arc::new(Compact::pack(&from_ark_all(&values)));
            let on_device =
                DeviceCompact::adopt(backend, &session.stream, &session.lease, "packed", &packed);
            let on_device = on_device.expect("adopt");
            for out_len in [len, len + 1, len + 64, len + 200] {
                for output in [Output::Set, Output::Multiply] {
                    let old = mixed_scalars(random, out_len);
                    let mut out = session.put(&from_ark_all(&old));
                    let done =
                        backend.expand(&session.stream, on_device.packed(), output, &mut out);
                    done.expect("expand");
                    let factor = |i: usize| values.get(i).copied().unwrap_or(Scalar::from(0u64));
                    let want = old.iter().enumerate().map(|(i, old)| match output {
                        Output::Set => factor(i),
                        Output::Multiply => factor(i) * old,
                    });
                    let want: Vec<_> = want.collect();
                    let what = format!("{output:?}, mix {mix}, {len} elements to {out_len}");
                    assert_scalars(what, &session.take(&out), &want);
                }
            }
        }
    }
}
