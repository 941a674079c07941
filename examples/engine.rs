//! Many proofs, one engine: `cargo run --release --example engine`.

use std::path::PathBuf;
use std::sync::Arc;

use forebay::engine::{Devices, Engine, Job, Options, Partition, Priority};
use forebay::format::{Silent, wtns};
use forebay::key::{Check, load_key};
use forebay::witness::Assignment;

fn main() -> forebay::Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/circom/perm");
    let key = Arc::new(load_key(&folder.join("perm.zkey"), &Check::Always, &Silent)?.key);
    let engine = Engine::new(Devices::cpu(), Options::default())?;

    // Ten partitions whose witnesses are made just ahead of their turn: here, read from a file.
    let path = folder.join("perm.wtns");
    let partition = || {
        let path = path.clone();
        Partition::synthesised(1 << 20, move || {
            Ok(Assignment::from_witness(&wtns::read_file(&path)?))
        })
    };
    let partitions = (0..10).map(|_| partition()).collect::<forebay::Result<Vec<_>>>()?;
    let slow = engine.submit(Job::new("ten partitions", key.clone(), partitions))?;

    // One whose witness is there already, and which goes first.
    let assignment = Arc::new(Assignment::from_witness(&wtns::read_file(&path)?));
    let urgent = Job::new("an urgent one", key, vec![Partition::new(assignment)?]);
    let urgent = engine.submit(urgent.priority(Priority::High))?;

    for (name, handle) in [("urgent", urgent), ("slow", slow)] {
        for proved in handle.wait()? {
            println!("{name}: on {} in {:.1?}, {}", proved.backend, proved.elapsed, proved.plan);
        }
    }
    println!("{:?}", engine.stats());
    Ok(())
}
