//! The card of the tests that need one. These are ignored unless asked for (`cargo test -- --include-ignored`), and fail where
//! there is none.

use std::sync::OnceLock;

use forebay::backend::cuda::{Cuda, Options};

/// The first card, opened once.
pub fn card() -> Cuda {
    static CARD: OnceLock<Cuda> = OnceLock::new();
    let open = || Cuda::open(0, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    CARD.get_or_init(open).clone()
}
