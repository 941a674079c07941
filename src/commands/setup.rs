//! `forebay setup`.

use std::io::BufWriter;
use std::path::Path;

use forebay::backend::Backend;
use forebay::format::{FileSource, r1cs::R1cs};
use forebay::setup::{Options, Secrets, write_zkey};
use forebay::{Error, Result};

use super::output::{Output, expect_distinct};
use super::read_with;
use crate::cli::{Setup, Work};
use crate::terminal::Terminal;

/// Writes a development key.
pub fn run(options: &Setup, terminal: &Terminal) -> Result<()> {
    if !options.insecure {
        return Err(Error::Usage(
            "a key made here is for development only, since its maker can forge proofs: say --insecure to make one".into(),
        ));
    }
    let mut inputs: Vec<&Path> = vec![&options.r1cs];
    inputs.extend(options.secrets.as_deref());
    expect_distinct(&inputs, &[&options.key])?;
    let secrets = match &options.secrets {
        Some(path) => read_with(path, Secrets::from_json)?,
        None => Secrets::random()?,
    };
    let source = FileSource::open(&options.r1cs)?;
    let r1cs = R1cs::read(&source).map_err(|error| error.in_file(&options.r1cs))?;
    options.devices.run(Key { options, r1cs, secrets, terminal }, terminal)?;
    terminal
        .say(format!("{}: INSECURE development key, no ceremony was held", options.key.display()));
    Ok(())
}

/// A key to be made.
struct Key<'a> {
    options: &'a Setup,
    r1cs: R1cs<'a, FileSource>,
    secrets: Secrets,
    terminal: &'a Terminal,
}

impl Work for Key<'_> {
    fn on<B: Backend>(self, backend: &B) -> Result<()> {
        let Self { options, r1cs, secrets, terminal } = self;
        let mut output = BufWriter::with_capacity(1 << 20, Output::create(&options.key)?);
        let shape = Options { ptau_power: options.ptau_power };
        write_zkey(backend, &r1cs, &secrets, shape, terminal, &mut output)
            .map_err(|error| error.in_file(&options.r1cs))?;
        let output =
            output.into_inner().map_err(|error| Error::io(&options.key)(error.into_error()))?;
        Output::finish([output])
    }
}
