//! A card is lost. A program of its own, for the driver gives the card to it no more.
#![cfg(feature = "cuda")]

mod common;

use std::sync::Arc;

use common::cuda::card;
use common::cuda_loss::{LoseOnce, lose};
use common::fixture::Fixture;
use forebay::Error;
use forebay::backend::cuda::{Cuda, Options};
use forebay::engine::{self, Devices, Engine, OnFailure};

#[test]
#[ignore = "needs an NVIDIA card: -- --include-ignored"]
fn a_lost_card_is_an_error_and_the_engine_goes_on() {
    let fixture = Fixture::circom("edge");
    let open = || Cuda::open(0, Options::default());
    assert!(fixture.prove(&card()).expect("a proof") == fixture.right());

    let mut devices = Devices::new();
    devices.add(open).expect("a card");
    let options = engine::Options { on_failure: OnFailure::Cpu, ..engine::Options::default() };
    let engine = Engine::new(devices, options).expect("an engine");
    let job = fixture.job("edge", 8).progress(Arc::new(LoseOnce::of(card())));
    let proved = engine.submit(job).expect("submitted").wait().expect("proofs");
    assert!(proved.iter().all(|proved| proved.proof == fixture.right()));
    let stats = engine.stats();
    assert_eq!((stats.proved, stats.failed), (8, 0), "{stats:?}");
    assert!(stats.retried >= 1 && stats.on_cpu >= 1, "{stats:?}");
    assert_eq!(engine.usage(), [], "a lost device has no memory");

    let is_lost = |error: &Error| matches!(error, Error::DeviceLost { backend: "cuda", .. });
    for error in [lose(&card()), fixture.prove(&card()).unwrap_err(), open().err().unwrap()] {
        assert!(is_lost(&error), "{error}");
    }
}
