//! How a card is lost.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay::Error;
use forebay::backend::cuda::Cuda;
use forebay::backend::{Backend, Output, Packed};
use forebay::compact::Block;
use forebay::field::Fr;
use forebay::format::Progress;

/// Has a kernel read where there is no memory: a packed vector's one wide value is said to be 128 GiB behind the others.
pub fn lose(card: &Cuda) -> Error {
    let lost = || {
        let lease = card.budget().lease("a wrong index", 1 << 20)?;
        let stream = card.stream()?;
        let mut blocks = card.alloc::<Block>(&lease, "blocks", 1)?;
        let wide_at_0 = Block { planes: [0, 1, 1], small: 0, wide: u32::MAX };
        card.upload(&stream, &[wide_at_0], &mut blocks, 0)?;
        let small = card.alloc::<u32>(&lease, "small", 1)?;
        let wide = card.alloc::<Fr>(&lease, "wide", 1)?;
        let mut out = card.alloc::<Fr>(&lease, "out", 1)?;
        let packed = Packed { blocks: &blocks, small: &small, wide: &wide };
        card.expand(&stream, packed, Output::Set, &mut out)?;
        let outcome = card.download(&stream, &out, 0, &mut [Fr::default()]);
        lease.hand_over();
        outcome
    };
    lost().expect_err("nothing is there")
}

/// Loses a card when the job that it is told of begins its third stage.
pub struct LoseOnce {
    card: Cuda,
    stages: AtomicU64,
}

impl LoseOnce {
    pub fn of(card: Cuda) -> Self {
        Self { card, stages: AtomicU64::new(0) }
    }
}

impl Progress for LoseOnce {
    fn begin(&self, _what: &str, _total: u64) {}

    fn advance(&self, _steps: u64) {}

    fn stage(&self, _name: &'static str) {
        if self.stages.fetch_add(1, Ordering::SeqCst) == 2 {
            assert!(matches!(lose(&self.card), Error::DeviceLost { .. }));
        }
    }
}
