//! The points of a key: multiples of the two generators, made on a device in a thread of their own, block by block.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::backend::{Backend, Buffer, Multiples};
use crate::budget::{Lease, Request};
use crate::curve::{Affine, Coordinate, FixedBase};
use crate::field::{Fp, Fp2, Fr};
use crate::{Error, Result};

/// Points of a block: four times what an NVIDIA H200 computes at once.
const BLOCK: usize = 1 << 17;
/// Points of a block where memory is short.
const MIN_BLOCK: usize = 1 << 8;
/// Blocks that are made and wait to be written.
const QUEUE: usize = 2;

/// Points of one of the groups, affine.
pub(super) struct Points(Vec<u64>);

impl Points {
    /// As they stand in a key.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Where blocks come out, in the order in which they are made.
pub(super) struct Made(Receiver<Result<Points>>);

impl Made {
    /// The next block, or what went wrong with it.
    pub fn next(&self) -> Result<Points> {
        // Only a panic ends the other thread without a word, and that goes on when it is joined.
        self.0.recv().unwrap_or_else(|_| Err(Error::Internal("too few points were made".into())))
    }
}

/// Both ends of a queue of blocks.
pub(super) fn queue() -> (SyncSender<Result<Points>>, Made) {
    let (sender, receiver) = sync_channel(QUEUE);
    (sender, Made(receiver))
}

/// Has `backend` make what `order` asks for, of about as many points as the counts say, and sends it off. What fails is
/// sent too; if nobody receives any more, nothing more is made.
pub(super) fn make<B: Backend>(
    backend: &B,
    counts: [usize; 2],
    sender: SyncSender<Result<Points>>,
    order: impl FnOnce(&mut Maker<'_, B>) -> Result<()>,
) {
    let made = Maker::new(backend, counts, &sender).and_then(|mut maker| order(&mut maker));
    if let Err(error) = made {
        // Who does not listen has an error of his own.
        let _ = sender.send(Err(error));
    }
}

/// A device with the tables of both generators.
pub(super) struct Maker<'a, B: Backend> {
    backend: &'a B,
    stream: B::Stream,
    scalars: B::Buffer<Fr>,
    g1: Generator<B, Fp>,
    g2: Generator<B, Fp2>,
    sender: &'a SyncSender<Result<Points>>,
}

struct Generator<B: Backend, F: Coordinate> {
    window_bits: u32,
    table: B::Buffer<Affine<F>>,
    /// A block of its multiples.
    out: B::Buffer<Affine<F>>,
}

impl<'a, B: Backend> Maker<'a, B> {
    fn new(
        backend: &'a B,
        [in_g1, in_g2]: [usize; 2],
        sender: &'a SyncSender<Result<Points>>,
    ) -> Result<Self> {
        let g1 = FixedBase::new(&Fp::generator(), in_g1);
        let g2 = FixedBase::new(&Fp2::generator(), in_g2);
        let tables = size_of_val(&g1.table[..]) + size_of_val(&g2.table[..]);
        let of_block = Fr::BYTES + size_of::<Affine<Fp>>() + size_of::<Affine<Fp2>>();
        let needs = |block: usize| (tables + block * of_block) as u64;
        let capacity = backend.budget().capacity();
        let largest_buffer = backend.info().max_buffer_bytes;
        let mut block = BLOCK.min(in_g1);
        while block > MIN_BLOCK
            && (needs(block) > capacity
                || (block * size_of::<Affine<Fp2>>()) as u64 > largest_buffer)
        {
            block /= 2;
        }
        let lease =
            backend.budget().wait(Request::new("a block of a key's points", &[needs(block)]))?;
        let stream = backend.stream()?;
        let scalars = backend.alloc(&lease, "scalars", block)?;
        let g1 = Generator::new(backend, &stream, &lease, g1, block)?;
        let g2 = Generator::new(backend, &stream, &lease, g2, block)?;
        Ok(Self { backend, stream, scalars, g1, g2, sender })
    }

    /// The multiples of G1's generator by `scalars`, the next so many points.
    pub fn g1(&mut self, scalars: &[Fr]) -> Result<()> {
        let Self { backend, stream, scalars: on_device, g1, sender, .. } = self;
        g1.multiply(*backend, stream, scalars, on_device, sender)
    }

    /// The same in G2.
    pub fn g2(&mut self, scalars: &[Fr]) -> Result<()> {
        let Self { backend, stream, scalars: on_device, g2, sender, .. } = self;
        g2.multiply(*backend, stream, scalars, on_device, sender)
    }
}

impl<B: Backend, F: Coordinate> Generator<B, F> {
    fn new(
        backend: &B,
        stream: &B::Stream,
        lease: &Lease,
        base: FixedBase<F>,
        block: usize,
    ) -> Result<Self> {
        let FixedBase { window_bits, table } = base;
        let table = backend.adopt(stream, lease, "multiples of a generator", table)?;
        let out = backend.alloc(lease, "points", block)?;
        Ok(Self { window_bits, table, out })
    }

    fn multiply(
        &mut self,
        backend: &B,
        stream: &B::Stream,
        scalars: &[Fr],
        on_device: &mut B::Buffer<Fr>,
        sender: &SyncSender<Result<Points>>,
    ) -> Result<()> {
        let Self { window_bits, table, out } = self;
        for scalars in scalars.chunks(on_device.len()) {
            backend.upload(stream, scalars, on_device, 0)?;
            let range = 0..scalars.len();
            let multiples = Multiples {
                table: &*table,
                window_bits: *window_bits,
                scalars: &*on_device,
                range,
            };
            backend.multiples(stream, multiples, out)?;
            let mut points = vec![0; scalars.len() * size_of::<Affine<F>>() / size_of::<u64>()];
            backend.download(stream, out, 0, bytemuck::cast_slice_mut(&mut points))?;
            let stopped = |_| Error::Internal("nobody wants the points any more".into());
            sender.send(Ok(Points(points))).map_err(stopped)?;
        }
        Ok(())
    }
}
