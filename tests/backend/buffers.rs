//! Buffers, leases, queries and streams: what all operations stand on.

use forebay::backend::{DeviceCompact, Multiples};
use forebay::compact::Compact;
use forebay::curve::{Coordinate, FixedBase};

use super::*;

pub fn alloc_is_zeroed<B: Backend>(backend: &B) {
    fn zeroed<T: Pod + Send + Sync, B: Backend>(session: &Session<'_, B>, len: usize) {
        // Freed with something in it, so that a new buffer in the same place shows it.
        let used = session.put::<T>(&pattern(&mut Random::silent(1), len));
        drop(used);
        let buffer = session.alloc::<T>(len).expect("alloc");
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        let what = format!("new buffer of {len} elements of {} bytes", size_of::<T>());
        assert!(bytes(&session.take(&buffer)).iter().all(|byte| *byte == 0), "{what} is not zero");
        let other = session.backend.stream().expect("a stream");
        let mut data = pattern::<T>(&mut Random::silent(2), len);
        session.backend.download(&other, &buffer, 0, &mut data).expect("download");
        assert!(bytes(&data).iter().all(|byte| *byte == 0), "{what} is not zero on a new stream");
    }
    let session = Session::new(backend, LEASE_BYTES);
    for len in [0, 1, 2, 3, 63, 1000, 4097] {
        zeroed::<u32, _>(&session, len);
        zeroed::<u64, _>(&session, len);
        zeroed::<Fr, _>(&session, len);
        zeroed::<G2Affine, _>(&session, len);
    }
}

pub fn copies_stay_in_place<B: Backend>(backend: &B) {
    fn copies<T: Pod + Send + Sync, B: Backend>(session: &Session<'_, B>, random: &mut Random) {
        for len in [0, 1, 2, 7, 64, 1001] {
            let what = format!("{len} elements of {} bytes", size_of::<T>());
            let mut model = pattern::<T>(random, len);
            let mut buffer = session.put(&model);
            for _ in 0..40 {
                let at = random.below(len + 1);
                let part = random_len(random, len - at);
                let piece = pattern::<T>(random, part);
                session.backend.upload(&session.stream, &piece, &mut buffer, at).expect("upload");
                model[at..at + part].copy_from_slice(&piece);
                let same = bytes(&session.take(&buffer)) == bytes(&model);
                assert!(same, "{what}: after an upload of {part} at {at}");

                // Everything but the middle of the host's memory is a guard.
                let at = random.below(len + 1);
                let part = random_len(random, len - at);
                let mut host = pattern::<T>(random, part + 6);
                let mut want = host.clone();
                want[3..3 + part].copy_from_slice(&model[at..at + part]);
                let target = &mut host[3..3 + part];
                session.backend.download(&session.stream, &buffer, at, target).expect("download");
                assert!(bytes(&host) == bytes(&want), "{what}: download of {part} at {at}");
            }
        }
    }
    /// At most `room`; often nothing, one, or all.
    fn random_len(random: &mut Random, room: usize) -> usize {
        [0, 1, room, random.below(room + 1)][random.below(4)].min(room)
    }
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("copies_stay_in_place", 0xc0_41e5);
    copies::<u32, _>(&session, random);
    copies::<u64, _>(&session, random);
    copies::<Fr, _>(&session, random);
    copies::<G1Affine, _>(&session, random);
    copies::<G2Affine, _>(&session, random);
}

pub fn adopted_data_are_the_same<B: Backend>(backend: &B) {
    fn adopted<T: Pod + Send + Sync, B: Backend>(session: &Session<'_, B>, random: &mut Random) {
        for len in [0, 1, 2, 63, 1001] {
            let what = format!("{len} adopted elements of {} bytes", size_of::<T>());
            let data = pattern::<T>(random, len);
            let buffer = session.adopt(&data).expect("adopt");
            assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0), "{what}");
            assert!(bytes(&session.take(&buffer)) == bytes(&data), "{what}");
            let at = random.below(len + 1);
            let mut part = pattern::<T>(random, len - at);
            session.backend.download(&session.stream, &buffer, at, &mut part).expect("download");
            assert!(bytes(&part) == bytes(&data[at..]), "{what}, from {at}");
        }
    }
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("adopted_data_are_the_same", 0xad_0975);
    adopted::<u32, _>(&session, random);
    adopted::<u64, _>(&session, random);
    adopted::<Fr, _>(&session, random);
    adopted::<G2Affine, _>(&session, random);
}

/// Panics unless `result` is a refusal that says how much was asked for and how much was left.
fn assert_refused<T>(what: &str, result: Result<T>, need: u64, left: u64) {
    match result {
        Ok(_) => panic!("{what}: granted beyond the lease"),
        Err(Error::OutOfMemory { need: n, left: l, .. }) => {
            assert_eq!((n, l), (need, left), "{what}: what the refusal says")
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

pub fn leases_limit_buffers<B: Backend>(backend: &B) {
    let before = backend.budget().leased();
    let session = Session::new(backend, 1000);
    assert_eq!(backend.budget().leased(), before + 1000);
    let words = [7u64; 126];

    assert_refused("alloc of 126 words", session.alloc::<u64>(126), 1008, 1000);
    assert_refused("adoption of 126 words", session.adopt(&words), 1008, 1000);
    assert_eq!(session.lease.high_water(), 0, "a refused buffer was charged");
    let all = session.alloc::<u64>(125).expect("all of the lease, after refusals");
    assert_refused("alloc of one byte", session.alloc::<u8>(1), 1, 0);
    assert_refused("adoption of one word", session.adopt(&words[..1]), 8, 0);
    // Nothing costs nothing.
    let empty =
        (session.alloc::<u64>(0).expect("alloc"), session.adopt::<u64>(&[]).expect("adopt"));
    drop(empty);

    // A download waits for the device, so the bytes of what is dropped then, or was before, are back at once.
    session.take(&all);
    drop(all);
    let half = session.adopt(&words[..62]).expect("the bytes of a dropped buffer");
    let other_half = session.alloc::<u64>(63).expect("the other half");
    assert_refused("alloc beyond two halves", session.alloc::<u8>(1), 1, 0);
    drop(half);
    session.take(&other_half);
    let mut half = session.alloc::<u64>(62).expect("the bytes of a dropped adoption");
    for _ in 0..100 {
        backend.upload(&session.stream, &words[..62], &mut half, 0).expect("upload");
    }
    // What is queued keeps the buffer, but not beyond a download of the same stream.
    drop(half);
    session.take(&other_half);
    let half = session.alloc::<u64>(62).expect("the bytes of a buffer dropped while in use");
    assert_eq!(session.lease.high_water(), 1000);

    // The lease lives as long as a buffer of it.
    let Session { stream, lease, .. } = session;
    drop((lease, half));
    assert_eq!(backend.budget().leased(), before + 1000, "a buffer of the lease is left");
    backend.download(&stream, &other_half, 0, &mut [0; 63]).expect("download");
    drop(other_half);
    assert_leased(backend, before, "by a lease whose buffers are gone");
}

pub fn tables_cost_what_the_query_says<B: Backend>(backend: &B) {
    for log_n in 1..=13 {
        let need = backend.ntt_table_bytes(log_n);
        let session = Session::new(backend, need);
        let table = backend.ntt_table(&session.stream, &session.lease, log_n);
        let table = table.unwrap_or_else(|error| panic!("table for log_n {log_n}: {error}"));
        assert_eq!(session.lease.high_water(), need, "bytes of a table for log_n {log_n}");
        assert_refused("a byte behind the table", session.alloc::<u8>(1), 1, 0);
        // The lease ends when the device has filled it.
        session.take(&table);
        drop((table, session));

        let session = Session::new(backend, need - 1);
        let table = backend.ntt_table(&session.stream, &session.lease, log_n);
        assert!(
            matches!(table, Err(Error::OutOfMemory { .. })),
            "table for log_n {log_n} in a lease that is a byte too small"
        );
    }
}

pub fn queries_are_pure<B: Backend>(backend: &B) {
    let leased = (backend.budget().leased(), backend.budget().high_water());
    let random = &mut Random::new("queries_are_pure", 0x9e_0135);
    // Far beyond what would fit: a query is asked before anyone knows whether it does.
    let around = |k: u32| [(1 << k) - 1, 1 << k, (1 << k) + 1];
    let mut lens: Vec<usize> = (0..=512).chain((9..=28).flat_map(around)).collect();
    lens.extend((0..2000).map(|_| 1 << random.below(28) | random.below(1 << 12)));
    lens.sort();
    for pair in lens.windows(2) {
        let g1 = [pair[0], pair[1]].map(|len| backend.msm_scratch::<Fp>(len));
        let g2 = [pair[0], pair[1]].map(|len| backend.msm_scratch::<Fp2>(len));
        let falls = |bytes: [u64; 2]| bytes[0] > bytes[1];
        assert!(!falls(g1), "scratch on G1 falls from {} to {}: {g1:?}", pair[0], pair[1]);
        assert!(!falls(g2), "scratch on G2 falls from {} to {}: {g2:?}", pair[0], pair[1]);
        for raised in [10, 20].map(Raised::new) {
            let g1 = [pair[0], pair[1]].map(|len| backend.raised_scratch::<Fp>(raised, len));
            assert!(!falls(g1), "{raised:?}: scratch falls from {} to {}", pair[0], pair[1]);
        }
        let _ = backend.raised_for::<Fp2>(pair[0]);
    }
    for log_n in 1..=31 {
        let _ = backend.ntt_table_bytes(log_n);
    }
    let after = (backend.budget().leased(), backend.budget().high_water());
    assert_eq!(after, leased, "bytes leased by queries");
}

pub fn operations_lease_nothing<B: Backend>(backend: &B) {
    let len = 64;
    let scratch_words = backend.msm_scratch::<Fp>(len).div_ceil(8) as usize;
    let session = Session::new(backend, LEASE_BYTES + 8 * scratch_words as u64);
    let random = &mut Random::new("operations_lease_nothing", 0x0b_0001);
    let (stream, lease) = (&session.stream, &session.lease);
    let mut rows = vec![Row::new(); len];
    rows[1].push((2, Scalar::from(1u64)));
    let matrix =
        DeviceMatrix::adopt(backend, stream, lease, &matvec::matrix(&rows)).expect("adopt");
    let table = backend.ntt_table(stream, lease, len.ilog2()).expect("table");
    let packed = Arc::new(Compact::pack(&from_ark_all(&random.scalars(len))));
    let packed = DeviceCompact::adopt(backend, stream, lease, "packed", &packed).expect("adopt");
    let x = session.put(&from_ark_all(&random.scalars(len)));
    let mut y = session.put(&from_ark_all(&random.scalars(len)));
    let bases = Bases::<Fp>::new(random.scalar(), random.scalar(), len);
    let bases: Vec<_> = bases.points.iter().map(Fp::base).collect();
    let bases = session.put(&bases);
    let base = FixedBase::with_window(&Fp::generator(), 4);
    let multiples = session.adopt(&base.table).expect("adopt");
    let mut points = session.alloc(len).expect("alloc");
    let raised = Raised::new(20);
    let mut copies = session.alloc(raised.windows() * len).expect("alloc");
    let mut scratch = session.alloc(scratch_words).expect("scratch");

    // With the budget at its high water, whatever is leased now raises that.
    let budget = backend.budget();
    let high_water = budget.high_water();
    let _filler = budget.lease("filler", high_water - budget.leased()).expect("a lease");
    let unchanged = |operation: &str| {
        session.take(&x);
        assert_eq!(budget.high_water(), high_water, "high water after {operation}");
    };
    backend.expand(stream, packed.packed(), Output::Set, &mut y).expect("expand");
    unchanged("expand");
    backend.matvec(stream, &matrix, &x, Output::Set, &mut y).expect("matvec");
    unchanged("matvec");
    backend.ntt(stream, Transform::Evaluate, &table, &mut y).expect("ntt");
    unchanged("ntt");
    backend.quotient(stream, Quotient::Product, &mut y, &x).expect("quotient");
    unchanged("quotient");
    let msm = Msm {
        bases: &bases,
        base_range: 0..len,
        scalars: &x,
        range: 0..len,
        density: None,
        raised: None,
    };
    backend.msm::<Fp>(stream, msm, &mut scratch).and_then(Pending::wait).expect("msm");
    unchanged("msm");
    let (table, window_bits) = (&multiples, base.window_bits);
    let multiples = Multiples { table, window_bits, scalars: &x, range: 0..len };
    backend.multiples::<Fp>(stream, multiples, &mut points).expect("multiples");
    unchanged("multiples");
    backend.raise::<Fp>(stream, raised, &mut copies).expect("raise");
    unchanged("raise");
}

pub fn joined_streams_keep_order<B: Backend>(backend: &B) {
    let session = Session::new(backend, LEASE_BYTES);
    let random = &mut Random::new("joined_streams_keep_order", 0x10_1ed5);
    let log_n = 14;
    let len = 1 << log_n;
    let (first, second) = (&session.stream, &backend.stream().expect("a stream"));
    let table = backend.ntt_table(first, &session.lease, log_n).expect("table");
    let mut shared = session.alloc::<Fr>(len).expect("alloc");
    let mut result = session.alloc::<Fr>(len).expect("alloc");
    let ones = vec![Fr::ONE; len];
    backend.join(second, first).expect("join");
    for round in 0..4 {
        let [x, y, z] = [0; 3].map(|_| random.scalars(len));
        let on_host = from_ark_all(&x);
        let factor = session.put(&from_ark_all(&y));
        backend.upload(second, &from_ark_all(&z), &mut result, 0).expect("upload");
        // Work that takes time on the first stream, during which the data are something else, and
        // right behind it, before the host does anything, what needs its end on the second.
        backend.upload(first, &on_host, &mut shared, 0).expect("upload");
        for _ in 0..8 {
            backend.ntt(first, Transform::Interpolate, &table, &mut shared).expect("ntt");
            backend.ntt(first, Transform::Evaluate, &table, &mut shared).expect("ntt");
        }
        backend.quotient(first, Quotient::Product, &mut shared, &factor).expect("quotient");
        backend.join(second, first).expect("join");
        backend.quotient(second, Quotient::Difference, &mut result, &shared).expect("quotient");
        // The first stream may write again when the second has read.
        backend.join(first, second).expect("join");
        backend.upload(first, &ones, &mut shared, 0).expect("upload");
        let mut got = vec![Fr::ZERO; len];
        backend.download(second, &result, 0, &mut got).expect("download");
        let want: Vec<_> = (0..len).map(|i| z[i] - x[i] * y[i]).collect();
        assert_scalars(format_args!("joined streams, round {round}"), &got, &want);
        assert!(session.take(&shared) == ones, "what was read is not overwritten, round {round}");
    }
}
