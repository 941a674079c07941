//! Two cards share one job. A program of its own: it fails where there is one card.
#![cfg(feature = "cuda")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::cuda_loss::LoseOnce;
use common::fixture::Fixture;
use forebay::backend::cuda::{Cuda, Options, devices};
use forebay::engine::{self, Devices, Engine};

#[test]
#[ignore = "needs two NVIDIA cards: -- --include-ignored"]
fn two_cards_share_a_job_and_one_does_it_alone() {
    let found = devices().expect("cards");
    assert!(found.len() >= 2, "there is one card alone");
    let fixture = Fixture::synthetic("porep-32gib", 14);
    let right = fixture.right();
    let mut cards = Devices::new();
    for card in &found {
        let index = card.index;
        let options = Options { vram: Some(4 << 30), record: false };
        cards.add(move || Cuda::open(index, options)).expect("a card");
    }
    let engine = Engine::new(cards, engine::Options::default()).expect("an engine");
    let proved =
        engine.submit(fixture.job("shared", 64)).expect("submitted").wait().expect("proofs");
    assert!(proved.iter().all(|proved| proved.proof == right));
    let on: BTreeSet<&str> = proved.iter().map(|proved| proved.device.as_str()).collect();
    assert_eq!(on.len(), found.len(), "{on:?}");

    // The last one is lost in the middle of the next job: the others do it.
    let last = Cuda::open(found.len() - 1, Options::default()).expect("a card");
    let job = fixture.job("one is lost", 64).progress(Arc::new(LoseOnce::of(last)));
    let proved = engine.submit(job).expect("submitted").wait().expect("proofs");
    assert!(proved.iter().all(|proved| proved.proof == right));
    let stats = engine.stats();
    assert_eq!((stats.proved, stats.failed), (128, 0), "{stats:?}");
    assert_eq!(engine.usage().len(), found.len() - 1);
}
